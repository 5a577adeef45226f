// The driver of the study of predicted attention graphs.
#include "experiments/sparsefinder/sparsefinder_study.h"

int main(int argc, char** argv) {
  return scaling::run_study(*scaling::make_sparsefinder_study(), argc, argv);
}
