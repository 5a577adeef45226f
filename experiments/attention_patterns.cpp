// The driver of the study that writes who sees whom.
#include "experiments/attention/patterns_study.h"

int main(int argc, char** argv) {
  return scaling::run_study(*scaling::make_patterns_study(), argc, argv);
}
