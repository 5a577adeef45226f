// The driver of TrainingStudy.
#include "experiments/training/training_study.h"

int main(int argc, char** argv) {
  scaling::TrainingStudy study;
  return scaling::run_study(study, argc, argv);
}
