// The driver of CeilingStudy.
#include "experiments/machine/ceilings_study.h"

int main(int argc, char** argv) {
  scaling::CeilingStudy study;
  return scaling::run_study(study, argc, argv);
}
