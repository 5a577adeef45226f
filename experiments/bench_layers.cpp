// The driver of LayerStudy.
#include "experiments/machine/layers_study.h"

int main(int argc, char** argv) { return scaling::LayerStudy().main(argc, argv); }
