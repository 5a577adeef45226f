// The driver of DecodeStudy.
#include "experiments/decode/decode_study.h"

int main(int argc, char** argv) {
  scaling::DecodeStudy study;
  return scaling::run_study(study, argc, argv);
}
