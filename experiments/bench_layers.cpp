// The driver of the study of layers.
#include "experiments/machine/layers_study.h"

int main(int argc, char** argv) { return scaling::make_layer_study()->main(argc, argv); }
