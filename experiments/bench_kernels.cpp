// The driver of KernelStudy.
#include "experiments/machine/kernels_study.h"

int main(int argc, char** argv) { return scaling::KernelStudy().main(argc, argv); }
