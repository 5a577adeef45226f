// What reversible stacks save in memory and cost in time against depth and batch, and what becomes
// of gradients if their backward pass decides anew.
#include <cstdio>
#include <optional>

#include "experiments/stacks/stack_plan.h"
#include "experiments/stacks/stack_records.h"
#include "experiments/study/interrupt.h"
#include "experiments/study/progress.h"
#include "experiments/study/results_dir.h"
#include "experiments/study/run_experiment.h"
#include "kernels/check.h"
#include "models/transformer/transformer.h"

namespace scaling {
namespace {

// For estimates only: FLOP/s of a step, seconds to set a row up, steps that are not timed.
constexpr double kRate = 120e9, kSetUpSeconds = 0.5;
constexpr int kFurtherSteps = 3;

double estimated_seconds(const StackGroup& group, int repeats) {
  double seconds = 0;
  for (const Row& row : group.rows) {
    const double flops = Transformer(row.model).training_flops(row.batch, 0, row.model.max_length);
    seconds += kSetUpSeconds + flops / kRate * (repeats + kFurtherSteps);
  }
  return seconds;
}

std::string names_of(const StackGroup& group) {
  std::vector<std::string> names;
  for (const Row& row : group.rows) names.push_back(row.name);
  return joined(names);
}

std::string done_text(const std::vector<Record>& records) {
  std::string text;
  for (const Record& r : records) {
    char number[96];
    if (r.metric == "stack_bytes") {
      std::snprintf(number, sizeof number, "%s keeps %s; ", r.row.c_str(),
                    readable_bytes(r.value).c_str());
    } else if (r.metric == "step_ms") {
      std::snprintf(number, sizeof number, "%s %.4g ms; ", r.row.c_str(), r.value);
    } else if (r.metric == "gradient_error") {
      std::snprintf(number, sizeof number, "%s off by %.2g; ", r.row.c_str(), r.value);
    } else {
      continue;
    }
    text += number;
  }
  return text.substr(0, text.size() - std::string("; ").size());
}

/// Group after group, each recorded when all its rows are measured.
class Run {
 public:
  Run(const Experiment& experiment, const StackOptions& options,
      const std::vector<StackGroup>& groups)
      : experiment_(experiment),
        options_(options),
        groups_(groups),
        provenance_(read_provenance()),
        file_(prepare_results_dir(options.results, provenance_.machine), experiment.name) {}

  int run(double seconds) {
    Progress progress(seconds);
    bool failed = false;
    for (const StackGroup& group : groups_) {
      const double estimate = estimated_seconds(group, options_.repeats);
      if (!options_.force && is_finished(group)) {
        progress.done(names_of(group) + ": already measured; --force repeats", estimate);
        continue;
      }
      progress.live(names_of(group));
      try {
        const std::vector<Record> records = measurement().measure(group);
        file_.append(records);
        progress.done(done_text(records), estimate);
      } catch (const UserError& error) {
        failed = true;
        file_.append(measurement().failures(group, error.what()));
        progress.done(names_of(group) + ": failed, " + error.what(), estimate);
      } catch (const Interrupted&) {
        progress.done("interrupted: finished rows are kept in " + file_.path() +
                          "; the same command continues with the others",
                      0);
        return kExitInterrupted;
      }
    }
    std::printf("records: %s\n", file_.path().c_str());
    return failed ? kExitFailedRows : 0;
  }

 private:
  bool is_finished(const StackGroup& group) const {
    for (const Row& row : group.rows) {
      const Record base = stack_record(experiment_, row, options_, provenance_);
      if (!file_.finished(base.key, closing_metric(group.kind))) return false;
    }
    return true;
  }
  /// Libraries are compared only if there is something to measure.
  const StackMeasurement& measurement() {
    if (!measurement_) {
      measurement_.emplace(experiment_, options_, provenance_,
                           fastest_library(options_.threads, options_.quick));
    }
    return *measurement_;
  }

  const Experiment& experiment_;
  const StackOptions& options_;
  const std::vector<StackGroup>& groups_;
  const Provenance provenance_;
  RecordFile file_;
  std::optional<StackMeasurement> measurement_;
};

int reversibility(int argc, char** argv) {
  const StackOptions options = parse_stack_options(argc, argv);
  if (options.help) {
    std::fputs(stack_help().c_str(), stdout);
    return 0;
  }
  const Experiment experiment = read_experiment(options.config, options.overrides);
  const std::vector<StackGroup> groups = stack_groups(experiment, options);
  double seconds = 0;
  for (const StackGroup& group : groups) seconds += estimated_seconds(group, options.repeats);
  std::printf("%s: %s\n%zu groups of rows, about %s\n", experiment.name.c_str(),
              experiment.title.c_str(), groups.size(), readable_seconds(seconds).c_str());
  if (options.dry_run) {
    for (const StackGroup& group : groups) std::printf("  %s\n", names_of(group).c_str());
    return 0;
  }
  return Run(experiment, options, groups).run(seconds);
}

}  // namespace
}  // namespace scaling

int main(int argc, char** argv) {
  return scaling::run_experiment([&] { return scaling::reversibility(argc, argv); });
}
