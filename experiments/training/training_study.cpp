// Sizes, estimates, and one curve after another.
#include "experiments/training/training_study.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>

#include "experiments/instruments/memory.h"
#include "experiments/instruments/model_row.h"
#include "experiments/study/interrupt.h"
#include "experiments/study/progress.h"
#include "experiments/training/decode_check.h"
#include "experiments/training/trial.h"
#include "kernels/check.h"
#include "models/tasks/catalog.h"
#include "models/training/initial_weights.h"
#include "models/transformer/matched_sizes.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

/// For estimates before anything is measured: FLOP/s of a thread in small models without AVX-512,
/// so that others take less.
constexpr double kAssumedRate = 25e9;

std::string grouped(std::int64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) text += ',';
    text += digits[i];
  }
  return text;
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

/// What a curve's weights begin as: the content of its init_from, or nothing. A file that cannot be
/// read fails its curves when their turn comes, and is no other's.
std::string init_of(const Curve& curve) {
  if (curve.train.init_from.empty()) return "";
  try {
    return content_of(curve.train.init_from);
  } catch (const UserError&) {
    return "unreadable";
  }
}

/// Folder of checkpoints and tokenised corpora: `chosen`, or the folder of records, or, if that is
/// a published one, results/local/<machine>/published. Made; throws UserError if it cannot be.
std::string prepare_scratch_dir(const std::string& chosen, const std::string& results,
                                const std::string& machine) {
  if (!chosen.empty()) return prepare_results_dir(chosen, machine);
  std::error_code error;
  const std::string below =
      fs::relative(results, fs::path(source_dir()) / "results" / "published", error).string();
  const bool published = !error && !below.empty() && below.rfind("..", 0) != 0;
  // Checkpoints are large and no one's results; those of local runs are others, whose points the
  // published records would lack.
  if (!published) return results;
  const fs::path local = fs::path(source_dir()) / "results" / "local" / machine / "published";
  return prepare_results_dir(local.string(), machine);
}

std::string plan_text(const Curve& curve, const TrainingCost& cost, std::int64_t reference) {
  char off[32] = "";
  if (cost.parameters != reference) {
    std::snprintf(off, sizeof off, " (%+.2f %%)",
                  100.0 * double(cost.parameters - reference) / double(reference));
  }
  std::string text = grouped(cost.parameters) + " parameters" + off + ", " +
                     std::to_string(curve.train.steps) + " steps of " +
                     grouped(std::int64_t(tokens_per_step(curve.train))) + " tokens, " +
                     readable_bytes(double(cost.bytes));
  if (!curve.solved.empty()) {
    text += ", " + print_value(curve.solve) + " " + curve.reference_row + " (" + curve.solved + ")";
  }
  return text;
}

/// Of steps and evaluations, whose forwards are a third of a step.
double assumed_seconds(const TrainConfig& train, const TrainingCost& cost, int threads) {
  const double evaluations = std::ceil(double(train.steps) / double(train.evaluate_every));
  const double steps = double(train.steps) + evaluations * double(train.evaluate_batches) / 3;
  return steps * cost.step_flops / (kAssumedRate * threads);
}

/// A row's points, once each.
std::vector<const Point*> one_a_row(std::span<const Point> points) {
  std::vector<const Point*> found;
  std::set<std::string> rows;
  for (const Point& point : points) {
    if (rows.insert(point.row).second) found.push_back(&point);
  }
  return found;
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

Curve TrainingStudy::curve_of(const Point& point) const {
  return with_seed(curve_of_row(curves_, point.row, experiment_), point.seed);
}

std::string TrainingStudy::cache_of(const Curve& curve) const {
  return curve.train.cache.empty() ? (fs::path(scratch_) / "cache").string() : curve.train.cache;
}

std::string TrainingStudy::checkpoints_of(const Point& point) const {
  const std::string name = point.row + "." + std::to_string(point.seed);
  return (fs::path(scratch_) / "checkpoints" / experiment_ / name).string();
}

std::vector<Point> TrainingStudy::points(const RowFile& file, const RunOptions& options) {
  force_ = options.force;
  if (force_ && flags_.resume) {
    throw UserError("--force starts anew and --resume goes on; give one of them");
  }
  require_at_least("decode_tokens", flags_.decode_tokens, 0);
  experiment_ = file.experiment;
  curves_ = curves_of(file);
  for (const std::string& row : options.rows) curve_of_row(curves_, row, experiment_);
  if (!options.dry_run) {
    const std::string machine = read_provenance().machine;
    const std::string results = prepare_results_dir(options.results, machine);
    scratch_ = prepare_scratch_dir(flags_.scratch, results, machine);
  }
  const std::int64_t reference_parameters = parameters_of(curves_.front().model);
  const std::string plan = planned(curves_);
  std::map<std::string, std::string> inits;  // by init_from: all rows may have the same
  std::vector<Point> points;
  bool more = true;
  for (std::size_t i = 0; more; ++i) {
    more = false;
    for (const Curve& row : curves_) {
      if (i >= row.seeds.size() || !is_wanted(options.rows, row.name)) continue;
      more = true;
      const Curve curve = with_seed(row, row.seeds[i]);
      if (flags_.decode_check) require_decodable(curve);
      const TrainingCost cost = training_cost(curve);
      Point point;
      point.row = curve.name;
      point.against = curves_.front().name;
      point.threads = options.threads.front();
      point.seed = curve.model.seed;
      for (const auto& [name, value] : settings_of(curve)) {
        point.settings.emplace_back(name, portable(name, value));
      }
      point.settings.emplace_back(kPlannedSetting, plan);
      const std::string& from = curve.train.init_from;
      if (!inits.count(from)) inits.emplace(from, init_of(curve));
      if (!from.empty()) point.settings.emplace_back("init", inits.at(from));
      const bool reads = !options.dry_run && !flags_.check;
      point.settings.emplace_back("data", reads ? data_or_nothing(curve, cache_of(curve)) : "");
      point.flags = {{"rows", curve.name}, {"seeds", std::to_string(point.seed)}};
      point.seconds = assumed_seconds(curve.train, cost, point.threads);
      point.plan = plan_text(curve, cost, reference_parameters);
      point.note = curve.solved;
      points.push_back(std::move(point));
    }
  }
  return points;
}

std::string TrainingStudy::details(std::span<const Point> points) const {
  std::string text;
  for (const Point* point : one_a_row(points)) {
    const Curve curve = curve_of(*point);
    text += point->row + "\n ";
    for (const auto& [name, value] : settings_of(curve)) text += " " + name + "=" + value;
    char flops[64];
    std::snprintf(flops, sizeof flops, "\n  %.3f GFLOP a step\n",
                  training_cost(curve).step_flops / 1e9);
    text += flops;
  }
  return text;
}

std::optional<int> TrainingStudy::instead(std::span<const Point> points) {
  if (!flags_.check) return std::nullopt;
  int status = 0;
  for (const Point* point : one_a_row(points)) {
    check_interrupt();
    const Curve curve = curve_of(*point);
    TrainReport last;
    try {
      reset_peak_memory();
      require_memory(curve);
      try_steps(curve, 1, point->threads, cache_of(curve),
                (fs::path(scratch_) / ("check." + std::to_string(getpid()))).string(),
                [&last](const TrainReport& report) { last = report; });
      std::printf("%s: step 1 has loss %.4f nats/token, %.0f tokens/s, %s at most in memory\n",
                  curve.name.c_str(), last.loss, last.tokens_per_s,
                  readable_bytes(peak_memory()).c_str());
    } catch (const UserError& error) {
      std::printf("%s: failed, %s\n", curve.name.c_str(), error.what());
      status = kExitFailedRows;
    }
    std::fflush(stdout);
  }
  return status;
}

std::vector<std::vector<std::size_t>> TrainingStudy::groups(
    std::span<const Point* const> points) const {
  queue_.assign(points.begin(), points.end());
  return Study::groups(points);
}

void TrainingStudy::measure(std::span<const Point* const> group, Sink& sink) {
  const Point& point = *group.front();
  const std::string checkpoints = checkpoints_of(point);
  run_.reset();
  const CurveLock lock(checkpoints);
  if (!lock.held()) {
    sink.leave(point, "left out, since another process trains it now into " + checkpoints +
                          "; repeat the command when that one has ended");
    return;
  }
  was_finished_ = sink.is_finished(point);
  if (was_finished_ && !force_) {
    sink.settle(point, "trained by another process meanwhile");
    return;
  }
  const Curve curve = curve_of(point);
  SCALING_CHECK(point.settings.back().first == "data");
  const std::string* init = find_setting(point.settings, "init");
  double later_seconds = 0;
  for (auto at = std::find(queue_.begin(), queue_.end(), &point) + 1; at != queue_.end(); ++at) {
    later_seconds += (*at)->seconds;
  }
  CurvePlan plan{.curve = curve,
                 .data = point.settings.back().second,
                 .init = init ? *init : "",
                 .checkpoints = checkpoints,
                 .cache = cache_of(curve),
                 .later = later_seconds / point.seconds,
                 .force = force_,
                 .resume = flags_.resume};
  if (flags_.decode_check) plan.decode_tokens = flags_.decode_tokens;
  run_ = std::make_unique<CurveRun>(std::move(plan), point, sink);
  run_->run();
  run_.reset();
}

Metric TrainingStudy::closing(const Point&) const { return {kClosingCurveMetric, "nats/token"}; }

std::vector<std::string> TrainingStudy::needed(const Point&) const {
  return flags_.decode_check ? std::vector<std::string>{kDecodedMetric}
                             : std::vector<std::string>{};
}

bool TrainingStudy::counts(const std::string& setting, const Settings& all) const {
  // What else was planned changes no curve.
  return setting != kPlannedSetting && is_relevant(setting, all);
}

std::string TrainingStudy::portable(const std::string& knob, const std::string& value) const {
  const std::set<std::string> places = {"corpus", "validation", "cache", "scratch", "init_from"};
  return places.count(knob) && !value.empty() ? portable_path(value) : value;
}

std::string TrainingStudy::interrupted() const {
  const std::string text = "interrupted" + (run_ ? " " + run_->progress() : "");
  if (!force_) return text + "; the same command continues";
  if (run_ && was_finished_) {
    return text + "; --force would start it anew, and without --force its earlier result stands";
  }
  return text + "; --force would start anew: drop it to continue";
}

}  // namespace scaling
