// Trains the rows of an experiment and records their log-perplexity curves: figures 1, 3, 5 and 7
// are configs of this one driver.
#include <cstdio>

#include "experiments/study/results_dir.h"
#include "experiments/study/run_experiment.h"
#include "experiments/training/training_options.h"
#include "experiments/training/training_study.h"
#include "experiments/training/curve_run.h"

namespace scaling {
namespace {

int perplexity(int argc, char** argv) {
  const TrainingOptions options = parse_training_options(argc, argv);
  if (options.help) {
    std::fputs(training_help().c_str(), stdout);
    return 0;
  }
  const Provenance provenance = read_provenance();
  if (options.where) {
    std::printf("%s\n", prepare_results_dir(options.results, provenance.machine).c_str());
    return 0;
  }
  const CurveExperiment experiment = read_curves(options.config, options.overrides);
  if (options.dry_run) {
    const TrainingPlan plan = make_training_plan(experiment, options, provenance, nullptr, "", "");
    std::fputs((plan_text(experiment, plan, options) + knobs_text(plan)).c_str(), stdout);
    return 0;
  }
  const std::string dir = prepare_results_dir(options.results, provenance.machine);
  const std::string scratch = prepare_scratch_dir(options, dir, provenance.machine);
  if (options.check) {
    const TrainingPlan plan =
        make_training_plan(experiment, options, provenance, nullptr, dir, scratch);
    std::fputs(plan_text(experiment, plan, options).c_str(), stdout);
    std::fflush(stdout);
    return check_curves(plan, options, scratch);
  }
  RecordFile file(dir, experiment.name);
  const TrainingPlan plan =
      make_training_plan(experiment, options, provenance, &file, dir, scratch);
  std::fputs(plan_text(experiment, plan, options).c_str(), stdout);
  std::fflush(stdout);
  const int status = TrainingRun(experiment, options, provenance, plan, dir, scratch, file).run();
  std::printf("records: %s\ncheckpoints: %s/checkpoints/%s\n", file.path().c_str(), scratch.c_str(),
              experiment.name.c_str());
  return status;
}

}  // namespace
}  // namespace scaling

int main(int argc, char** argv) {
  return scaling::run_experiment([&] { return scaling::perplexity(argc, argv); });
}
