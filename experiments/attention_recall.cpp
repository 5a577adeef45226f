// The driver of RecallStudy.
#include "experiments/attention/recall_study.h"

int main(int argc, char** argv) {
  scaling::RecallStudy study;
  return scaling::run_study(study, argc, argv);
}
