// The driver of the study of stacks.
#include "experiments/stacks/stack_study.h"

int main(int argc, char** argv) {
  return scaling::run_study(*scaling::make_stack_study(), argc, argv);
}
