// The driver of the study of kernels.
#include "experiments/machine/kernels_study.h"

int main(int argc, char** argv) { return scaling::make_kernel_study()->main(argc, argv); }
