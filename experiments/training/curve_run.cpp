// Curve after curve: allocate, continue or start, train, record, free.
#include "experiments/training/curve_run.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include "experiments/instruments/memory.h"
#include "experiments/study/interrupt.h"
#include "experiments/study/run_experiment.h"
#include "experiments/training/curve_csv.h"
#include "experiments/training/cache_folder.h"
#include "experiments/training/diagnostics.h"
#include "kernels/arena.h"
#include "kernels/check.h"
#include "kernels/gemm.h"
#include "kernels/gemm_rate.h"
#include "kernels/team.h"
#include "models/tasks/catalog.h"
#include "models/training/trainer.h"

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

std::string title_of(const PlannedCurve& planned) {
  return planned.curve.name + ", seed " + std::to_string(planned.curve.model.seed);
}

std::string text(const char* format, double a, double b = 0, double c = 0) {
  char line[160];
  std::snprintf(line, sizeof line, format, a, b, c);
  return line;
}

/// A model ready for training; its threads are gone again when this returns, since OpenMP's follow.
std::unique_ptr<Transformer> allocated(const ModelConfig& config, int threads) {
  auto model = std::make_unique<Transformer>(config);
  Team team(threads);
  model->allocate_for_training(team);
  return model;
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

TrainingRun::TrainingRun(const CurveExperiment& experiment, const TrainingOptions& options,
                         const Provenance& provenance, const TrainingPlan& plan,
                         const std::string& results, const std::string& scratch, RecordFile& file)
    : experiment_(experiment),
      options_(options),
      provenance_(provenance),
      plan_(plan),
      results_(results),
      scratch_(scratch),
      file_(file),
      progress_(estimated_seconds(plan, kAssumedRate)) {}

int TrainingRun::run() {
  const PlannedCurve* current = nullptr;
  try {
    for (const PlannedCurve& planned : plan_) {
      if (planned.finished) continue;
      check_interrupt();
      current = &planned;
      last_step_ = 0;
      const FolderLock lock(planned.folder);
      if (!lock.held()) {
        leave_to_other(planned);
        continue;
      }
      file_.read_again();  // another process may have trained it since the plan was made
      try {
        train_unless_there(planned);
      } catch (const UserError& error) {
        give_up(planned, error.what());
      }
      current = nullptr;
    }
  } catch (const Interrupted&) {
    progress_.done(
        "interrupted" + (current ? place_of(*current) : "") + "; " + how_to_go_on(current), 0);
    return kExitInterrupted;
  }
  return failed_ ? kExitFailedRows : 0;
}

std::string TrainingRun::place_of(const PlannedCurve& current) const {
  std::string place = " in " + title_of(current);
  if (last_step_ > 0) {
    place +=
        ", after step " + std::to_string(last_step_) + ": its checkpoint is in " + current.folder;
  }
  return place;
}

std::string TrainingRun::how_to_go_on(const PlannedCurve* current) const {
  if (!options_.force) return "the same command continues";
  if (current && file_.finished(current->key, kClosingCurveMetric)) {
    return "--force would start it anew, and without --force its earlier result stands";
  }
  return "--force would start anew: drop it to continue";
}

void TrainingRun::leave_to_other(const PlannedCurve& planned) {
  failed_ = true;
  progress_.done(title_of(planned) + ": left out, since another process trains it now into " +
                     planned.folder + "; repeat the command when that one has ended",
                 0);
}

void TrainingRun::train_unless_there(PlannedCurve planned) {
  find_progress(planned, options_, file_);
  if (planned.finished) {
    progress_.done(title_of(planned) + ": trained by another process meanwhile", 0);
  } else if (planned.begun || options_.force || !reuse(planned)) {
    train(planned);
  }
}

void TrainingRun::train(const PlannedCurve& planned) {
  Curve curve = planned.curve;
  require_memory(planned.bytes, "training " + curve.name,
                 "use fewer examples at a time (--accumulate), optimizer adafactor, or a smaller "
                 "model");
  set_gemm_threads(options_.threads);
  reset_peak_memory();
  // The text before the folder of checkpoints: one that is missing leaves everything as it is.
  const auto watch = [&](std::uint64_t bytes) {
    check_interrupt();
    progress_.live(curve.name + ": reading " + curve.train.corpus + ", " +
                   readable_bytes(double(bytes)));
  };
  const std::string cache = cache_folder(curve.train, scratch_);
  const std::unique_ptr<Task> task = make_task(curve.train, curve.model.vocab_size, cache, watch);
  if (task->identity(Purpose::comparison) != planned.data) {
    throw UserError("corpus '" + curve.train.corpus +
                    "' or its validation text has changed since this command began; repeat it");
  }
  const TrainingState state = begin(planned);
  curve.train.gemm = state.gemm;

  CurveResult result;
  const std::vector<ValidationSet> sets = task->validation_sets();
  const std::unique_ptr<Transformer> model = allocated(curve.model, options_.threads);
  Trainer trainer(*model, *task, curve.train, planned.folder);
  last_step_ = trainer.resume();
  if (last_step_ > curve.train.steps) {
    throw UserError("the checkpoint in " + planned.folder + " is of step " +
                    std::to_string(last_step_) + ", beyond steps " +
                    std::to_string(curve.train.steps) +
                    "; raise --steps, or start anew with --force");
  }
  last_evaluation_.clear();
  last_perplexity_.reset();
  if (state.key != planned.key) take_over(planned, state);
  progress_.done(
      curve.name + ", seed " + std::to_string(curve.model.seed) +
          (last_step_ ? ": continues after step " + std::to_string(last_step_) + "; " : ": ") +
          task->description(),
      0);

  Record base = curve_record(experiment_, planned, options_, provenance_);
  if (state.commit != commit_of(provenance_)) {
    base.note += (base.note.empty() ? "begun at commit " : "; begun at commit ") + state.commit;
  }
  TrainingCsv csv(planned.csv, last_step_);
  const std::int64_t log_every = std::max<std::int64_t>(1, curve.train.evaluate_every / 10);
  std::int64_t evaluated = -1;
  const auto record = [&](const TrainReport& report) {
    evaluated = report.step;
    result.evaluation = *report.evaluation;
    result.further = evaluate_further(trainer, sets, false);
    last_perplexity_ = result.evaluation.log_perplexity;
    last_evaluation_ = evaluation_text(result.evaluation, result.further);
    // Anew by force it may differ from what is there.
    if (!options_.force && has_evaluation(file_, planned.key, report.step)) return;
    file_.append({evaluation_record(base, report, result.further)});
  };
  const bool finished = trainer.run(
      [&](const TrainReport& report) {
        result.step_seconds.push_back(report.step_seconds);
        result.tokens_per_s.push_back(report.tokens_per_s);
        result.seconds = report.seconds;
        last_step_ = report.step;
        if (report.evaluation || report.step % log_every == 0) csv.append(report);
        if (report.evaluation) record(report);
        show(planned, report);
      },
      [] { return interrupt_arrived(); });
  if (!finished) throw Interrupted{};

  if (evaluated != curve.train.steps) {
    // Ended between its last checkpoint and its records.
    const Evaluation evaluation = trainer.evaluate();
    TrainReport report;
    report.step = curve.train.steps;
    report.loss = report.tokens_per_s = std::nan("");
    report.seconds = result.seconds = trainer.seconds();
    report.evaluation = &evaluation;
    record(report);
  }
  result.parameters = planned.parameters;
  result.step_flops = trainer.flops_per_step();
  result.peak_memory_bytes = peak_memory();
  result.gemm_gflops = best_gemm(result.step_flops * double(curve.train.steps), options_.threads);
  result.floor = task->floor();
  progress_.live(curve.name + ": further validation sets");
  for (SetEvaluation& at_end : evaluate_further(trainer, sets, true)) {
    result.further.push_back(std::move(at_end));
  }
  diagnose_selections(*model, *task, curve.train, options_.threads, &result);
  const std::vector<Record> records = result_records(base, result);
  file_.append(records);
  std::string line =
      curve.name + ", seed " + std::to_string(curve.model.seed) + ": " + last_evaluation_;
  for (const Record& r : records) {
    if (r.metric == "tokens_per_s") line += text(", %.0f tokens/s", r.value);
    if (r.metric == "mfu") line += text(", %.0f %% of the best product", 100 * r.value);
  }
  progress_.done(line, 0);
}

TrainingState TrainingRun::begin(const PlannedCurve& planned) {
  if (planned.begun) {
    // With another library the products' last bits, and so all later weights, would differ.
    if (const auto before = read_training_state(planned.folder)) return *before;
  }
  set_aside(planned);
  const TrainingState state{planned.key, commit_of(provenance_),
                            find_gemm(planned.curve.train.gemm).name};
  write_training_state(planned.folder, state);
  return state;
}

void TrainingRun::set_aside(const PlannedCurve& planned) {
  if (!fs::exists(planned.folder)) return;
  const std::string kept = free_name(planned.folder + ".before");
  std::error_code error;
  fs::rename(planned.folder, kept, error);
  if (error) {
    throw UserError("cannot move the checkpoints '" + planned.folder +
                    "' aside: " + error.message() + "; delete or rename that folder");
  }
  const std::string reason =
      options_.force ? ""
                     : ", since its checkpoints are of other settings, another text or another "
                       "commit (--resume goes on with those of another commit)";
  progress_.done(
      title_of(planned) + ": starts anew" + reason + "; earlier checkpoints are kept in " + kept,
      0);
}

void TrainingRun::take_over(const PlannedCurve& planned, TrainingState state) {
  const std::vector<Record> points = evaluations_of(file_, state.key, planned, last_step_);
  if (!points.empty()) file_.append(points);
  state.key = planned.key;
  write_training_state(planned.folder, state);
}

bool TrainingRun::reuse(const PlannedCurve& planned) {
  const Record base = curve_record(experiment_, planned, options_, provenance_);
  std::string from;
  const std::vector<Record> records = finished_elsewhere(results_, base, &from);
  if (records.empty()) return false;
  const std::string seed = "." + std::to_string(planned.curve.model.seed) + ".csv";
  std::error_code error;
  fs::create_directories(fs::path(planned.csv).parent_path(), error);
  fs::copy_file(fs::path(results_) / "curves" / (from + seed), planned.csv,
                fs::copy_options::overwrite_existing, error);
  file_.append(records);
  progress_.done(title_of(planned) + ": the same curve is there as " + from, 0);
  return true;
}

double TrainingRun::remaining_seconds(const PlannedCurve& planned, std::int64_t step,
                                      double flops_per_s) const {
  double flops = planned.step_flops * double(planned.curve.train.steps - step);
  bool later = false;
  for (const PlannedCurve& other : plan_) {
    if (later && !other.finished) flops += other.step_flops * double(other.curve.train.steps);
    later = later || other.folder == planned.folder;
  }
  return flops / flops_per_s;
}

void TrainingRun::show(const PlannedCurve& planned, const TrainReport& report) {
  const TrainConfig& train = planned.curve.train;
  const double rate = planned.step_flops / report.step_seconds;
  progress_.expect(remaining_seconds(planned, report.step, rate));
  const std::string line =
      planned.curve.name + "." + std::to_string(planned.curve.model.seed) +
      text(" step %.0f/%.0f, loss %.3f", double(report.step), double(train.steps), report.loss);
  const std::string speed = text(", %.0f tokens/s", report.tokens_per_s);
  if (progress_.on_terminal()) {
    // Short: the line is cut where the terminal ends.
    progress_.live(
        line + (last_perplexity_ ? text(", log-perplexity %.3f", *last_perplexity_) : "") + speed);
  } else if (report.evaluation) {
    progress_.done(line + ", " + last_evaluation_ + speed, 0);
  }
}

void TrainingRun::give_up(const PlannedCurve& planned, const std::string& why) {
  failed_ = true;
  // Said before it is written: a disk that is full for one is full for the other.
  progress_.done(title_of(planned) + ": failed, " + why, 0);
  file_.append(
      {failed_curve_record(curve_record(experiment_, planned, options_, provenance_), why)});
}

int check_curves(const TrainingPlan& plan, const TrainingOptions& options,
                 const std::string& scratch) {
  const std::string folder = (fs::path(scratch) / "check").string();
  int status = 0;
  std::string before;
  for (const PlannedCurve& planned : plan) {
    check_interrupt();
    if (planned.curve.name == before) continue;
    before = planned.curve.name;
    Curve curve = planned.curve;
    curve.train.steps = 1;
    curve.train.evaluate_batches = 1;
    try {
      set_gemm_threads(options.threads);
      curve.train.gemm = find_gemm(curve.train.gemm).name;
      reset_peak_memory();
      fs::remove_all(folder);
      require_memory(planned.bytes, "training " + curve.name,
                     "use fewer examples at a time (--accumulate), optimizer adafactor, or a "
                     "smaller model");
      const std::unique_ptr<Task> task =
          make_task(curve.train, curve.model.vocab_size, cache_folder(curve.train, scratch),
                    [](std::uint64_t) { check_interrupt(); });
      const std::unique_ptr<Transformer> model = allocated(curve.model, options.threads);
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

}  // namespace scaling
