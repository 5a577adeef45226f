// The driver of the study of the machine's limits.
#include "experiments/machine/ceilings_study.h"

int main(int argc, char** argv) {
  return scaling::run_study(*scaling::make_ceiling_study(), argc, argv);
}
