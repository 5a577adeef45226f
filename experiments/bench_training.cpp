// Times the training steps of one row of an experiment.
#include "experiments/study/study.h"
#include "experiments/training/step_timing.h"

int main(int argc, char** argv) {
  return scaling::run_experiment([&] { return scaling::run_step_timing(argc, argv); });
}
