// The driver of the study of what attention matrices are made of.
#include "experiments/attention/spectrum_study.h"

int main(int argc, char** argv) {
  return scaling::run_study(*scaling::make_spectrum_study(), argc, argv);
}
