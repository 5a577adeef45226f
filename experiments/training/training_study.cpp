// Sizes, estimates, and one curve after another.
#include "experiments/training/training_study.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>

#include "experiments/instruments/memory.h"
#include "experiments/instruments/model_row.h"
#include "experiments/study/interrupt.h"
#include "experiments/study/progress.h"
#include "experiments/study/results_dir.h"
#include "experiments/study/row_text.h"
#include "experiments/study/run_experiment.h"
#include "kernels/check.h"
#include "kernels/gemm.h"
#include "models/tasks/catalog.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

/// For estimates before anything is measured, FLOP/s.
constexpr double kAssumedRate = 150e9;

std::string grouped(std::int64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
}

/// Arrays of the weights' size beside the weights: gradients, and Adam's two.
double arrays_beside(const TrainConfig& train) {
  return train.optimizer == OptimizerKind::adam ? 3 : 1;
}

/// A text that is missing fails its curves when their turn comes, not the others.
std::string data_or_nothing(const Curve& curve, const std::string& cache) {
  try {
    return data_identity(curve.train, curve.model.vocab_size, cache,
                         [](std::uint64_t) { check_interrupt(); });
  } catch (const UserError&) {
    return "";
  }
}

/// Folder of checkpoints and tokenised corpora: `chosen`, or the folder of records, or, if that is
/// the published one, results/local/<machine>/published. Made; throws UserError if it cannot be.
std::string prepare_scratch_dir(const std::string& chosen, const std::string& results,
                                const std::string& machine) {
  if (!chosen.empty()) return prepare_results_dir(chosen, machine);
  std::error_code error;
  const bool published =
      fs::equivalent(results, fs::path(source_dir()) / "results" / "published", error);
  // Checkpoints are large and no one's results; those of local runs are others, whose points the
  // published records would lack.
  if (!published) return results;
  const fs::path local = fs::path(source_dir()) / "results" / "local" / machine / "published";
  return prepare_results_dir(local.string(), machine);
}

std::vector<std::uint64_t> seeds_of(const std::vector<Curve>& curves) {
  std::vector<std::uint64_t> seeds;
  for (const Curve& curve : curves) {
    for (const std::uint64_t seed : curve.seeds) {
      if (std::find(seeds.begin(), seeds.end(), seed) == seeds.end()) seeds.push_back(seed);
    }
  }
  return seeds;
}

std::string plan_text(const PlannedCurve& planned, std::int64_t reference_parameters) {
  const Curve& curve = planned.curve;
  char off[32] = "";
  if (planned.parameters != reference_parameters) {
    std::snprintf(
        off, sizeof off, " (%+.2f %%)",
        100.0 * double(planned.parameters - reference_parameters) / double(reference_parameters));
  }
  std::string text = grouped(planned.parameters) + " parameters" + off + ", " +
                     std::to_string(curve.train.steps) + " steps of " +
                     grouped(std::int64_t(tokens_per_step(curve.train))) + " tokens, " +
                     readable_bytes(double(planned.bytes));
  if (!curve.solved.empty()) {
    text += std::string(", ") + name_of(curve.solve) + " " + curve.reference_row + " (" +
            curve.solved + ")";
  }
  return text;
}

}  // namespace

StudyInfo TrainingStudy::info() const {
  return {.name = "training",
          .program = "perplexity",
          .about = "trains one curve after another and records them",
          .folder = "training",
          .example = "training/fig1_mini.cfg",
          .rows_count = false,
          .by_seed = true,
          .timed = false};
}

PlannedCurve TrainingStudy::plan(const Curve& curve, const RunOptions& options,
                                 const std::string& experiment) const {
  PlannedCurve planned;
  planned.curve = curve;
  const std::string name = curve.name + "." + std::to_string(curve.model.seed);
  planned.folder = (fs::path(scratch_) / "checkpoints" / experiment / name).string();
  planned.csv = (fs::path(results_) / "curves" / experiment / (name + ".csv")).string();
  planned.cache =
      curve.train.cache.empty() ? (fs::path(scratch_) / "cache").string() : curve.train.cache;
  if (!options.dry_run && !flags_.check) planned.data = data_or_nothing(curve, planned.cache);
  planned.parameters = parameters_of(curve.model);
  const TrainConfig& train = curve.train;
  const Needs needs = needs_of(train);
  const Transformer model(curve.model);
  planned.step_flops =
      model.training_flops(train.batch, needs.trained.source, needs.trained.input, needs.causal);
  planned.bytes =
      std::uint64_t(double(planned.parameters) * sizeof(float) * (1 + arrays_beside(train)) +
                    model.activation_bytes(train.batch / train.accumulate, needs.longest().source,
                                           needs.longest().input));
  return planned;
}

std::vector<Point> TrainingStudy::points(const RowFile& file, const RunOptions& options) {
  force_ = options.force;
  if (force_ && flags_.resume) {
    throw UserError("--force starts anew and --resume goes on; give one of them");
  }
  const std::vector<Curve> curves = curves_of(file);
  std::vector<std::string> names;
  for (const Curve& curve : curves) names.push_back(curve.name);
  require_known_rows(options.rows, names, file.experiment);
  if (!options.dry_run) {
    const std::string machine = read_provenance().machine;
    results_ = prepare_results_dir(options.results, machine);
    scratch_ = prepare_scratch_dir(flags_.scratch, results_, machine);
  }
  const std::int64_t reference_parameters = parameters_of(curves.front().model);
  std::vector<Point> points;
  for (const std::uint64_t seed : seeds_of(curves)) {
    for (const Curve& curve : curves) {
      if (!is_wanted(options.rows, curve.name) ||
          std::count(curve.seeds.begin(), curve.seeds.end(), seed) == 0) {
        continue;
      }
      PlannedCurve planned = plan(with_seed(curve, seed), options, file.experiment);
      Point point;
      point.row = curve.name;
      point.against = curves.front().name;
      point.threads = options.threads.front();
      point.seed = seed;
      for (const auto& [name, value] : settings_of(planned.curve)) {
        point.settings.emplace_back(name, portable_value(name, value));
      }
      point.settings.emplace_back("data", planned.data);
      point.flags = {{"rows", curve.name}, {"seeds", std::to_string(seed)}};
      point.seconds = planned.step_flops * double(curve.train.steps) / kAssumedRate;
      point.plan = plan_text(planned, reference_parameters);
      point.note = curve.solved;
      points.push_back(std::move(point));
      planned_[{curve.name, seed}] = std::move(planned);
    }
  }
  return points;
}

std::string TrainingStudy::details(std::span<const Point> points) const {
  std::string text;
  std::set<std::string> shown;
  for (const Point& point : points) {
    if (!shown.insert(point.row).second) continue;
    const PlannedCurve& planned = planned_of(point);
    text += point.row + "\n ";
    for (const auto& [name, value] : settings_of(planned.curve)) text += " " + name + "=" + value;
    char flops[64];
    std::snprintf(flops, sizeof flops, "\n  %.3f GFLOP a step\n", planned.step_flops / 1e9);
    text += flops;
  }
  return text;
}

std::optional<int> TrainingStudy::instead(std::span<const Point> points) {
  if (!flags_.check) return std::nullopt;
  const std::string folder = (fs::path(scratch_) / "check").string();
  int status = 0;
  std::set<std::string> checked;
  for (const Point& point : points) {
    check_interrupt();
    if (!checked.insert(point.row).second) continue;
    const PlannedCurve& planned = planned_of(point);
    Curve curve = planned.curve;
    curve.train.steps = 1;
    curve.train.evaluate_batches = 1;
    try {
      set_gemm_threads(point.threads);
      curve.train.gemm = find_gemm(curve.train.gemm).name;
      reset_peak_memory();
      fs::remove_all(folder);
      require_memory(planned);
      const auto task = make_task(curve.train, curve.model.vocab_size, planned.cache,
                                  [](std::uint64_t) { check_interrupt(); });
      const auto model = allocate_for_training(curve.model, point.threads);
      Trainer trainer(*model, *task, curve.train, folder);
      TrainReport last;
      if (!trainer.run([&last](const TrainReport& report) { last = report; },
                       [] { return interrupt_arrived(); })) {
        throw Interrupted{};
      }
      std::printf("%s: step 1 has loss %.4f nats/token, %.0f tokens/s, %s at most in memory\n",
                  curve.name.c_str(), last.loss, last.tokens_per_s,
                  readable_bytes(peak_memory()).c_str());
    } catch (const UserError& error) {
      std::printf("%s: failed, %s\n", curve.name.c_str(), error.what());
      status = kExitFailedRows;
    }
    std::fflush(stdout);
    std::error_code error;
    fs::remove_all(folder, error);
  }
  return status;
}

std::vector<std::vector<std::size_t>> TrainingStudy::groups(
    std::span<const Point* const> points) const {
  for (const Point* point : points) queue_.push_back(&planned_of(*point));
  return Study::groups(points);
}

void TrainingStudy::measure(std::span<const Point* const> group, Sink& sink) {
  const Point& point = *group.front();
  const PlannedCurve& planned = planned_of(point);
  current_ = &point;
  step_ = 0;
  was_finished_ = sink.is_finished(point);
  const CurveLock lock(planned.folder);
  if (!lock.held()) {
    sink.leave(point, "left out, since another process trains it now into " + planned.folder +
                          "; repeat the command when that one has ended");
  } else if (!force_ && sink.is_finished(point)) {
    sink.settle(point, "trained by another process meanwhile");
  } else {
    CurveRun run(planned, point, sink, force_, flags_.resume,
                 [&](std::int64_t step, double flops_per_second) {
                   step_ = step;
                   double flops = -planned.step_flops * double(step);
                   const auto first = std::find(queue_.begin(), queue_.end(), &planned);
                   for (auto at = first; at != queue_.end(); ++at) {
                     flops += (*at)->step_flops * double((*at)->curve.train.steps);
                   }
                   return flops / flops_per_second;
                 });
    run.run();
  }
  current_ = nullptr;
}

Metric TrainingStudy::closing(const Point&) const { return {kClosingCurveMetric, "nats/token"}; }

bool TrainingStudy::counts(const std::string& setting, const Settings& all) const {
  return is_relevant(setting, all);
}

std::string TrainingStudy::portable(const std::string& knob, const std::string& value) const {
  return knob == "scratch" ? portable_path(value) : portable_value(knob, value);
}

std::string TrainingStudy::interrupted() const {
  std::string text = "interrupted";
  if (current_) {
    text += " in " + current_->row + ", seed " + std::to_string(current_->seed);
    if (step_ > 0) {
      text += ", after step " + std::to_string(step_) + ": its checkpoint is in " +
              planned_of(*current_).folder;
    }
  }
  if (!force_) return text + "; the same command continues";
  if (current_ && was_finished_) {
    return text + "; --force would start it anew, and without --force its earlier result stands";
  }
  return text + "; --force would start anew: drop it to continue";
}

}  // namespace scaling
