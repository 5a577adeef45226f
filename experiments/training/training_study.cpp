// Sizes, estimates and their texts.
#include "experiments/training/training_study.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>

#include "experiments/study/interrupt.h"
#include "experiments/study/progress.h"
#include "experiments/training/cache_folder.h"
#include "experiments/training/metrics.h"
#include "experiments/training/curve_state.h"
#include "kernels/check.h"
#include "models/tasks/catalog.h"
#include "models/transformer/transformer.h"

namespace scaling {
namespace {

std::string grouped(std::int64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

std::string seeds_text(const std::vector<std::uint64_t>& seeds) {
  std::string text;
  for (const std::uint64_t seed : seeds) {
    if (!text.empty()) text += ',';
    text += std::to_string(seed);
  }
  return text;
}

/// Arrays of the weights' size beside the weights: gradients, and Adam's two.
double arrays_beside(const TrainConfig& train) { return train.optimizer == "adam" ? 3 : 1; }

/// A text that is missing fails its curves when their turn comes, not the others.
std::string data_or_nothing(const Curve& curve, const std::string& scratch) {
  try {
    return data_identity(curve.train, curve.model.vocab_size, cache_folder(curve.train, scratch),
                         [](std::uint64_t) { check_interrupt(); });
  } catch (const UserError&) {
    return "";
  }
}

/// Curves are known by their settings, so two rows with the same ones would be one.
void require_different(const std::vector<Curve>& curves) {
  std::map<Settings, std::string> names;
  for (const Curve& curve : curves) {
    const auto [at, is_new] = names.try_emplace(settings_of(curve), curve.name);
    if (is_new) continue;
    throw UserError("rows '" + at->second + "' and '" + curve.name +
                    "' have the same settings and would be one curve; drop one of them (--rows) or "
                    "change a knob of one");
  }
}

}  // namespace

void find_progress(PlannedCurve& planned, const TrainingOptions& options, const RecordFile& file) {
  if (options.force) return;
  planned.finished = file.finished(planned.key, kClosingCurveMetric);
  planned.begun = !planned.finished &&
                  may_continue(read_training_state(planned.folder), planned.key, options.resume);
}

double tokens_per_step(const TrainConfig& train) {
  return double(train.batch) * double(needs_of(train).trained.input);
}

TrainingPlan make_training_plan(const CurveExperiment& experiment, const TrainingOptions& options,
                                const Provenance& provenance, const RecordFile* file,
                                const std::string& results, const std::string& scratch) {
  namespace fs = std::filesystem;
  std::map<std::string, std::int64_t> parameters;
  for (const Curve& curve : experiment.curves) parameters[curve.name] = parameters_of(curve.model);
  TrainingPlan plan;
  const std::vector<std::uint64_t>& seeds =
      options.seeds.empty() ? experiment.seeds : options.seeds;
  const std::vector<Curve> curves = select_curves(experiment, options.rows);
  require_different(curves);
  for (const std::uint64_t seed : seeds) {
    for (const Curve& curve : curves) {
      PlannedCurve planned;
      planned.curve = with_seed(curve, seed);
      const std::string name = curve.name + "." + std::to_string(seed);
      planned.folder = (fs::path(scratch) / "checkpoints" / experiment.name / name).string();
      planned.csv = (fs::path(results) / "curves" / experiment.name / (name + ".csv")).string();
      if (file) {
        planned.data = data_or_nothing(planned.curve, scratch);
        planned.key = curve_key(planned.curve, planned.data, options.threads, provenance);
        find_progress(planned, options, *file);
      }
      planned.parameters = parameters[curve.name];
      planned.reference_parameters = parameters[experiment.curves.front().name];
      const TrainConfig& train = curve.train;
      const Needs needs = needs_of(train);
      const Lengths lengths = needs.trained, longest = needs.longest();
      const Transformer model(curve.model);
      planned.step_flops =
          model.training_flops(train.batch, lengths.source, lengths.input, needs.causal);
      planned.bytes = std::uint64_t(
          double(planned.parameters) * sizeof(float) * (1 + arrays_beside(train)) +
          model.activation_bytes(train.batch / train.accumulate, longest.source, longest.input));
      plan.push_back(std::move(planned));
    }
  }
  return plan;
}

double estimated_seconds(const TrainingPlan& plan, double flops_per_second) {
  double flops = 0;
  for (const PlannedCurve& planned : plan) {
    if (!planned.finished) flops += planned.step_flops * double(planned.curve.train.steps);
  }
  return flops / flops_per_second;
}

std::string plan_text(const CurveExperiment& experiment, const TrainingPlan& plan,
                      const TrainingOptions& options) {
  std::ostringstream text;
  text << experiment.name << (experiment.title.empty() ? "" : ": ") << experiment.title << "\n"
       << options.threads << (options.threads == 1 ? " thread" : " threads") << "; about "
       << readable_seconds(estimated_seconds(plan, kAssumedRate)) << " at "
       << int(kAssumedRate / 1e9) << " GFLOP/s\n";
  std::set<std::string> shown;
  for (const PlannedCurve& planned : plan) {
    const Curve& curve = planned.curve;
    if (!shown.insert(curve.name).second) continue;
    std::vector<std::uint64_t> fresh, begun, finished;
    for (const PlannedCurve& other : plan) {
      if (other.curve.name != curve.name) continue;
      auto& list = other.finished ? finished : other.begun ? begun : fresh;
      list.push_back(other.curve.model.seed);
    }
    char off[32] = "";
    if (planned.parameters != planned.reference_parameters) {
      std::snprintf(off, sizeof off, " (%+.2f %%)",
                    100.0 * double(planned.parameters - planned.reference_parameters) /
                        double(planned.reference_parameters));
    }
    text << "  " << curve.name << ": " << grouped(planned.parameters) << " parameters" << off
         << ", " << curve.train.steps << " steps of "
         << grouped(std::int64_t(tokens_per_step(curve.train))) << " tokens, "
         << readable_bytes(double(planned.bytes));
    if (!fresh.empty()) text << "; seeds " << seeds_text(fresh);
    if (!begun.empty()) text << "; continues seeds " << seeds_text(begun);
    if (!finished.empty()) {
      text << "; seeds " << seeds_text(finished) << " already trained, --force repeats";
    }
    text << "\n";
    if (!curve.solved.empty()) {
      text << "    " << name_of(curve.solve) << " " << curve.reference_row << ": " << curve.solved
           << "\n";
    }
  }
  return text.str();
}

std::string knobs_text(const TrainingPlan& plan) {
  std::ostringstream text;
  std::set<std::string> shown;
  for (const PlannedCurve& planned : plan) {
    if (!shown.insert(planned.curve.name).second) continue;
    text << planned.curve.name << "\n ";
    for (const auto& [name, value] : settings_of(planned.curve))
      text << " " << name << "=" << value;
    char flops[64];
    std::snprintf(flops, sizeof flops, "\n  %.3f GFLOP a step\n", planned.step_flops / 1e9);
    text << flops;
  }
  return text.str();
}

}  // namespace scaling
