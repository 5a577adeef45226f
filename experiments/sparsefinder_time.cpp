// The driver of the study of what predicted attention graphs save in time.
#include "experiments/sparsefinder/time_study.h"

int main(int argc, char** argv) {
  return scaling::run_study(*scaling::make_sparsefinder_time_study(), argc, argv);
}
