// The driver of the study of long sequences.
#include "experiments/attention/long_sequence_study.h"

int main(int argc, char** argv) {
  return scaling::run_study(*scaling::make_long_sequence_study(), argc, argv);
}
