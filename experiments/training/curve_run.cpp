// Allocate, continue or start, train, record, free.
#include "experiments/training/curve_run.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>

#include "experiments/instruments/memory.h"
#include "experiments/study/interrupt.h"
#include "experiments/study/progress.h"
#include "experiments/training/curve_csv.h"
#include "experiments/training/diagnostics.h"
#include "kernels/arena.h"
#include "kernels/check.h"
#include "kernels/gemm.h"
#include "kernels/gemm_rate.h"
#include "kernels/team.h"
#include "models/tasks/catalog.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

// As in `ceilings`: large enough for a library to reach its pace. A curve of fewer operations than
// kShortCurve gets a small one, so that its yardstick does not outlast it.
constexpr std::int64_t kGemmSize = 2048, kShortGemmSize = 512;
constexpr double kShortCurve = 1e12;

std::string commit_of(const Provenance& provenance) {
  return provenance.commit + (provenance.dirty ? "-dirty" : "");
}

std::string text(const char* format, double a, double b = 0, double c = 0) {
  char line[160];
  std::snprintf(line, sizeof line, format, a, b, c);
  return line;
}

std::string evaluation_text(const Evaluation& at, const std::vector<SetEvaluation>& further) {
  std::string line = text("log-perplexity %.4f", at.log_perplexity);
  if (at.bits_per_byte > 0) line += text(", %.4f bits a byte", at.bits_per_byte);
  line += text(", accuracy %.3f", at.accuracy);
  if (further.empty()) return line;
  line += text(", of sequences %.3f", at.sequence_accuracy);
  for (const auto& [set, found] : further) {
    line += "; " + set.prefix + "accuracy" + set.suffix +
            text(" %.3f, of sequences %.3f", found.accuracy, found.sequence_accuracy);
  }
  return line;
}

/// On the task's sets beside the first: those that are evaluated at the end only, or the others.
std::vector<SetEvaluation> evaluate_further(Trainer& trainer,
                                            const std::vector<ValidationSet>& sets,
                                            bool only_at_end) {
  std::vector<SetEvaluation> found;
  for (std::size_t i = 1; i < sets.size(); ++i) {
    if (sets[i].only_at_end == only_at_end) found.push_back({sets[i], trainer.evaluate(i)});
  }
  return found;
}

/// `path`, or the first of path2, path3, ... that does not exist.
std::string free_name(const std::string& path) {
  std::string name = path;
  for (int number = 2; fs::exists(name); ++number) name = path + std::to_string(number);
  return name;
}

double best_gemm(double curve_flops, int threads) {
  const double rate =
      best_gemm_gflops(curve_flops < kShortCurve ? kShortGemmSize : kGemmSize, threads);
  set_gemm_threads(threads);  // measuring leaves them at one
  return rate;
}

}  // namespace

std::unique_ptr<Transformer> allocate_for_training(const ModelConfig& config, int threads) {
  auto model = std::make_unique<Transformer>(config);
  Team team(threads);
  model->allocate_for_training(team);
  return model;
}

void require_memory(const PlannedCurve& planned) {
  require_memory(planned.bytes, "training " + planned.curve.name,
                 "use fewer examples at a time (--accumulate), optimizer adafactor, or a smaller "
                 "model");
}

CurveRun::CurveRun(const PlannedCurve& planned, const Point& point, Sink& sink, bool force,
                   bool resume, std::function<double(std::int64_t, double)> seconds_left)
    : planned_(planned),
      point_(point),
      sink_(sink),
      force_(force),
      resume_(resume),
      seconds_left_(std::move(seconds_left)),
      base_(sink.base(point)) {}

std::string CurveRun::name() const { return point_.row + ", seed " + std::to_string(point_.seed); }

void CurveRun::run() {
  std::optional<CurveState> begun;
  if (!force_) begun = read_curve_state(planned_.folder);
  if (!may_continue(begun, base_.key, resume_)) begun.reset();
  if (begun || force_ || !reuse()) train(begun);
}

bool CurveRun::reuse() {
  std::string from;
  const fs::path folder = fs::path(sink_.file().path()).parent_path();
  const std::vector<Record> records = finished_elsewhere(folder.string(), base_, &from);
  if (records.empty()) return false;
  const std::string seed = "." + std::to_string(point_.seed) + ".csv";
  std::error_code error;
  fs::create_directories(fs::path(planned_.csv).parent_path(), error);
  fs::copy_file(folder / "curves" / (from + seed), planned_.csv,
                fs::copy_options::overwrite_existing, error);
  sink_.append(records);
  sink_.settle(point_, "the same curve is there as " + from);
  return true;
}

void CurveRun::train(const std::optional<CurveState>& begun) {
  Curve curve = planned_.curve;
  require_memory(planned_);
  set_gemm_threads(point_.threads);
  reset_peak_memory();
  // The text before the folder of checkpoints: one that is missing leaves everything as it is.
  const std::unique_ptr<Task> task =
      make_task(curve.train, curve.model.vocab_size, planned_.cache, [&](std::uint64_t bytes) {
        check_interrupt();
        sink_.live(curve.name + ": reading " + curve.train.corpus + ", " +
                   readable_bytes(double(bytes)));
      });
  if (task->identity(Purpose::comparison) != planned_.data) {
    throw UserError("corpus '" + curve.train.corpus +
                    "' or its validation text has changed since this command began; repeat it");
  }
  const CurveState state = begun ? *begun : start();
  // With another library the products' last bits, and so all later weights, would differ.
  curve.train.gemm = state.gemm;

  const std::vector<ValidationSet> sets = task->validation_sets();
  const std::unique_ptr<Transformer> model = allocate_for_training(curve.model, point_.threads);
  Trainer trainer(*model, *task, curve.train, planned_.folder);
  step_ = trainer.resume();
  if (step_ > curve.train.steps) {
    throw UserError("the checkpoint in " + planned_.folder + " is of step " +
                    std::to_string(step_) + ", beyond steps " + std::to_string(curve.train.steps) +
                    "; raise --steps, or start anew with --force");
  }
  if (state.key != base_.key) take_over(state);
  sink_.say(name() + (step_ ? ": continues after step " + std::to_string(step_) + "; " : ": ") +
            task->description());

  CurveCsv csv(planned_.csv, step_);
  const std::int64_t log_every = std::max<std::int64_t>(1, curve.train.evaluate_every / 10);
  std::int64_t evaluated = -1;
  const bool finished = trainer.run(
      [&](const TrainReport& report) {
        result_.step_seconds.push_back(report.step_seconds);
        result_.tokens_per_s.push_back(report.tokens_per_s);
        result_.seconds = report.seconds;
        step_ = report.step;
        if (report.evaluation || report.step % log_every == 0) csv.append(report);
        if (report.evaluation) {
          evaluated = report.step;
          record(trainer, sets, report);
        }
        show(report);
      },
      [] { return interrupt_arrived(); });
  if (!finished) throw Interrupted{};

  if (evaluated != curve.train.steps) {
    // Ended between its last checkpoint and its records.
    const Evaluation evaluation = trainer.evaluate();
    TrainReport report;
    report.step = curve.train.steps;
    report.loss = report.tokens_per_s = std::nan("");
    report.seconds = result_.seconds = trainer.seconds();
    report.evaluation = &evaluation;
    record(trainer, sets, report);
  }
  result_.parameters = planned_.parameters;
  result_.step_flops = trainer.flops_per_step();
  result_.peak_memory_bytes = peak_memory();
  result_.gemm_gflops = best_gemm(result_.step_flops * double(curve.train.steps), point_.threads);
  result_.floor = task->floor();
  sink_.live(curve.name + ": further validation sets");
  for (SetEvaluation& at_end : evaluate_further(trainer, sets, true)) {
    result_.further.push_back(std::move(at_end));
  }
  diagnose_selections(*model, *task, curve.train, point_.threads, &result_);
  const std::vector<Metric> metrics = result_metrics(result_);
  Extra extra;
  if (state.commit != commit_of(base_.provenance)) extra.note = "begun at commit " + state.commit;
  extra.line = name() + ": " + evaluated_;
  for (const Metric& metric : metrics) {
    const double median = summarize(metric.values).median;
    if (metric.name == "tokens_per_s") extra.line += text(", %.0f tokens/s", median);
    if (metric.name == "mfu") extra.line += text(", %.0f %% of the best product", 100 * median);
  }
  sink_.close(point_, metrics, extra);
}

CurveState CurveRun::start() {
  set_aside();
  const CurveState state{base_.key, commit_of(base_.provenance),
                         find_gemm(planned_.curve.train.gemm).name};
  write_curve_state(planned_.folder, state);
  return state;
}

void CurveRun::set_aside() {
  if (!fs::exists(planned_.folder)) return;
  const std::string kept = free_name(planned_.folder + ".before");
  std::error_code error;
  fs::rename(planned_.folder, kept, error);
  if (error) {
    throw UserError("cannot move the checkpoints '" + planned_.folder +
                    "' aside: " + error.message() + "; delete or rename that folder");
  }
  const std::string reason =
      force_ ? ""
             : ", since its checkpoints are of other settings, another text or another program "
               "(--resume goes on with those of another program)";
  sink_.say(name() + ": starts anew" + reason + "; earlier checkpoints are kept in " + kept);
}

void CurveRun::take_over(CurveState state) {
  std::vector<Record> points;
  for (const Record& r : sink_.file().records()) {
    if (r.metric != kEvaluationMetric || r.key != state.key) continue;
    const std::int64_t at = r.config.value("step", 0ll);
    if (at > step_ || has_evaluation(at)) continue;
    points.push_back(r);
    points.back().key = base_.key;
    points.back().config["data"] = planned_.data;
  }
  if (!points.empty()) sink_.append(points);
  state.key = base_.key;
  write_curve_state(planned_.folder, state);
}

bool CurveRun::has_evaluation(std::int64_t step) const {
  const std::vector<Record>& records = sink_.file().records();
  return std::any_of(records.begin(), records.end(), [&](const Record& r) {
    return r.metric == kEvaluationMetric && r.key == base_.key &&
           r.config.value("step", 0ll) == step;
  });
}

void CurveRun::record(Trainer& trainer, const std::vector<ValidationSet>& sets,
                      const TrainReport& report) {
  result_.evaluation = *report.evaluation;
  result_.further = evaluate_further(trainer, sets, false);
  evaluated_ = evaluation_text(result_.evaluation, result_.further);
  // Anew by force it may differ from what is there.
  if (!force_ && has_evaluation(report.step)) return;
  Extra extra;
  extra.config = evaluation_config(planned_.data, report, result_.further);
  extra.config_alone = true;
  sink_.add(point_, {{kEvaluationMetric, "nats/token", {result_.evaluation.log_perplexity}}},
            extra);
}

void CurveRun::show(const TrainReport& report) {
  sink_.expect(seconds_left_(report.step, planned_.step_flops / report.step_seconds));
  const std::string line = point_.row + "." + std::to_string(point_.seed) +
                           text(" step %.0f/%.0f, loss %.3f", double(report.step),
                                double(planned_.curve.train.steps), report.loss);
  const std::string speed = text(", %.0f tokens/s", report.tokens_per_s);
  if (sink_.on_terminal()) {
    // Short: the line is cut where the terminal ends.
    const double last = result_.evaluation.log_perplexity;
    sink_.live(line + (evaluated_.empty() ? "" : text(", log-perplexity %.3f", last)) + speed);
  } else if (report.evaluation) {
    sink_.say(line + ", " + evaluated_ + speed);
  }
}

}  // namespace scaling
