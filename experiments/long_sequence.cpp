// The driver of LongSequenceStudy.
#include "experiments/attention/long_sequence_study.h"

int main(int argc, char** argv) {
  scaling::LongSequenceStudy study;
  return scaling::run_study(study, argc, argv);
}
