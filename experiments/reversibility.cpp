// The driver of StackStudy.
#include "experiments/stacks/stack_study.h"

int main(int argc, char** argv) {
  scaling::StackStudy study;
  return scaling::run_study(study, argc, argv);
}
