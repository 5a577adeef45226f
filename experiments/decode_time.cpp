// Decode times of an experiment's rows: tables, sweeps and peers are configs of this one driver.
#include <cstdio>

#include "experiments/decode/decode_run.h"
#include "experiments/decode/options.h"
#include "experiments/decode/plan.h"
#include "experiments/study/results_dir.h"
#include "experiments/study/run_experiment.h"

namespace scaling {
namespace {

int decode_time(int argc, char** argv) {
  const Options options = parse_options(argc, argv);
  if (options.help) {
    std::fputs(help_text().c_str(), stdout);
    return 0;
  }
  if (options.where) {
    const std::string machine = read_provenance().machine;
    std::printf("%s\n", prepare_results_dir(options.results, machine).c_str());
    return 0;
  }
  const Experiment experiment = read_experiment(options.config, options.overrides);
  const std::vector<Row> rows = select_rows(experiment, options.rows);
  const Provenance provenance = read_provenance();
  if (options.dry_run) {
    const Plan plan = make_plan(experiment, rows, options, provenance, nullptr);
    std::fputs((plan_text(experiment, plan, options) + cost_text(plan)).c_str(), stdout);
    return 0;
  }
  const std::string dir = prepare_results_dir(options.results, provenance.machine);
  RecordFile file(dir, experiment.name);
  Plan plan = make_plan(experiment, rows, options, provenance, &file);
  std::fputs(plan_text(experiment, plan, options).c_str(), stdout);
  std::fflush(stdout);
  const int status = DecodeRun(experiment, options, provenance, plan, file).run();
  std::printf("records: %s\n", file.path().c_str());
  return status;
}

}  // namespace
}  // namespace scaling

int main(int argc, char** argv) {
  return scaling::run_experiment([&] { return scaling::decode_time(argc, argv); });
}
