// Allocate, continue or start, train, record, free.
#include "experiments/training/curve_run.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <utility>

#include "experiments/instruments/memory.h"
#include "experiments/study/interrupt.h"
#include "experiments/study/progress.h"
#include "experiments/training/decode_check.h"
#include "experiments/training/trial.h"
#include "kernels/arena.h"
#include "kernels/check.h"
#include "kernels/gemm.h"
#include "kernels/gemm_rate.h"
#include "models/tasks/catalog.h"
#include "models/tasks/unigram.h"
#include "models/training/initial_weights.h"
#include "models/training/selections.h"
#include "models/transformer/matched_sizes.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

// As in `ceilings`: large enough for a library to reach its pace. A curve of fewer operations than
// kShortCurve gets a small one, so that its yardstick does not outlast it.
constexpr std::int64_t kGemmSize = 2048, kShortGemmSize = 512;
constexpr double kShortCurve = 1e12;

double mean_square(const Initializer& init) {
  const auto scale = double(init.scale);
  switch (init.kind) {
    case Initializer::Kind::uniform:
      return scale * scale / 3;
    case Initializer::Kind::positions:
      return 0.5;  // of sines and cosines
    case Initializer::Kind::normal:
    case Initializer::Kind::constant:
      return scale * scale;
  }
  return std::nan("");
}

/// Of what the first block is given before the first step, the share that is the token's and not
/// its position's. Where positions are digits these come to nothing.
double token_share(const Transformer& model) {
  const double token = mean_square(model.embedding().init);
  const PositionVectors& positions = model.decoder().positions;
  const bool is_table = positions.encoding == PositionEncoding::table;
  return token / (token + (is_table ? mean_square(positions.weights.init) : 0));
}

std::string commit_of(const Provenance& provenance) {
  return provenance.commit + (provenance.dirty ? "-dirty" : "");
}

std::string text(const char* format, double a, double b = 0) {
  char line[160];
  std::snprintf(line, sizeof line, format, a, b);
  return line;
}

std::string evaluation_text(const std::vector<SetEvaluation>& sets) {
  const Evaluation& first = sets.front().evaluation;
  std::string line = text("log-perplexity %.4f", first.log_perplexity);
  if (first.bits_per_byte > 0) line += text(", %.4f bits a byte", first.bits_per_byte);
  line += text(", accuracy %.3f", first.accuracy);
  for (const Score& score : first.scores) {
    if (std::isfinite(score.value)) line += ", " + score.name + text(" %.3f", score.value);
  }
  if (sets.size() == 1) return line;
  line += text(", of sequences %.3f", first.sequence_accuracy);
  for (std::size_t i = 1; i < sets.size(); ++i) {
    const auto& [set, found] = sets[i];
    line += "; " + set.prefix + "accuracy" + set.suffix +
            text(" %.3f, of sequences %.3f", found.accuracy, found.sequence_accuracy);
  }
  return line;
}

/// Record::samples of a curve's last value: a line a stretch of the evaluated text.
nlohmann::ordered_json samples_of(const Evaluation& evaluation) {
  constexpr double kParts = 1e4;  // of a nat: no more digits than a record needs
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Stretch& one : evaluation.stretches) {
    const double loss = std::round(one.loss * kParts) / kParts;
    rows.push_back(nlohmann::ordered_json::array({loss, one.tokens}));
  }
  nlohmann::ordered_json samples;
  samples["columns"] = nlohmann::ordered_json::array({"loss", "tokens"});
  samples["rows"] = std::move(rows);
  return samples;
}

/// Where checkpoints are kept that others took the place of: this, and with 2, 3, ... behind.
std::string kept_aside(const std::string& checkpoints) { return checkpoints + ".before"; }

void rename_or_throw(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (!error) return;
  throw UserError("cannot move the checkpoints '" + from + "' to '" + to + "': " + error.message() +
                  "; delete or rename that folder");
}

/// `path`, or the first of path2, path3, ... that does not exist.
std::string free_name(const std::string& path) {
  std::string name = path;
  for (int number = 2; fs::exists(name); ++number) name = path + std::to_string(number);
  return name;
}

/// Records of the same curve, finished if it has `last`, in another experiment's file of the
/// folder; empty if there is none.
std::vector<Record> finished_elsewhere(const fs::path& folder, const Point& point, const Sink& sink,
                                       const std::string& own, const std::string& last) {
  const std::string seed = "\"seed\":" + std::to_string(point.seed) + ",";
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    if (entry.path().extension() != ".jsonl" || entry.path().stem() == own) continue;
    std::ifstream in(entry.path());
    std::vector<Record> found;
    std::string row, key;
    for (std::string line; std::getline(in, line);) {
      if (line.find(seed) == std::string::npos) continue;
      try {
        Record r = from_line(line);
        // Points on the way have no settings of their own.
        const bool may_be_its = r.metric == kEvaluationMetric || sink.holds(r, point);
        if (std::isnan(r.value) || !may_be_its) continue;
        if (r.metric == last) row = r.row, key = r.key;
        found.push_back(std::move(r));
      } catch (const UserError&) {
        // Another program's file, or a damaged line: nothing to take from it.
      }
    }
    // Of several, trained by several commits or under several names, the last.
    std::erase_if(found, [&](const Record& r) { return r.row != row || r.key != key; });
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace

TrainingCost training_cost(const Curve& curve) {
  const TrainConfig& train = curve.train;
  const Needs needs = needs_of(train);
  const Transformer model(curve.model);
  // Arrays of the weights' size: they, their gradients, and Adam's two.
  const double arrays = train.optimizer == OptimizerKind::adam ? 4 : 2;
  TrainingCost cost;
  cost.parameters = parameters_of(curve.model);
  cost.step_flops =
      model.training_flops(train.batch, needs.trained.source, needs.trained.input, needs.causal);
  cost.bytes = std::uint64_t(double(cost.parameters) * sizeof(float) * arrays +
                             model.activation_bytes(train.batch / train.accumulate,
                                                    needs.longest().source, needs.longest().input));
  return cost;
}

void require_memory(const Curve& curve) {
  require_memory(training_cost(curve).bytes, "training " + curve.name,
                 "use fewer examples at a time (--accumulate), optimizer adafactor, or a smaller "
                 "model");
}

CurveRun::CurveRun(CurvePlan plan, const Point& point, Sink& sink)
    : plan_(std::move(plan)),
      point_(point),
      sink_(sink),
      base_(sink.base(point)),
      name_(point.row + ", seed " + std::to_string(point.seed)),
      cost_(training_cost(plan_.curve)) {}

std::string CurveRun::progress() const {
  if (step_ == 0) return "in " + name_;
  return "in " + name_ + ", after step " + std::to_string(step_) + ": its checkpoint is in " +
         plan_.checkpoints;
}

void CurveRun::run() {
  std::optional<CurveState> begun;
  if (!plan_.force) begun = read_curve_state(plan_.checkpoints);
  if (begun && begun->key != base_.key && !plan_.resume) begun = take_back();
  if (begun || plan_.force || !reuse()) train(begun);
}

std::string CurveRun::beside_records(const char* kind, const std::string& row,
                                     const char* ending) const {
  const fs::path folder = fs::path(sink_.file().path()).parent_path() / kind;
  return (folder / (row + "." + std::to_string(point_.seed) + ending)).string();
}

std::string CurveRun::csv_path(const std::string& row) const {
  return beside_records("curves", row, ".csv");
}

bool CurveRun::reuse() {
  std::vector<Record> records = finished_elsewhere(
      fs::path(sink_.file().path()).parent_path(), point_, sink_, base_.experiment,
      plan_.decode_tokens ? kDecodedMetric : kClosingCurveMetric);
  if (records.empty()) return false;
  std::string from;
  for (Record& r : records) {
    from = r.experiment + "/" + r.row;
    r.experiment = base_.experiment;
    r.row = base_.row;
    r.against = base_.against;
    r.study = base_.study;
    r.section = base_.section;
    r.title = base_.title;
    r.id = base_.id;
    // What names other rows belongs to the experiment, not to the curve.
    for (const char* knob : {"solve", "reference_row", "twin", "equal_reads", kPlannedSetting}) {
      if (r.config.contains(knob) && base_.config.contains(knob))
        r.config[knob] = base_.config[knob];
    }
    if (r.metric != kEvaluationMetric) add_note(r.note, "trained as " + from);
  }
  const std::string own = base_.experiment + "/" + base_.row;
  for (const auto& [kind, ending] : {std::pair{"curves", ".csv"}, std::pair{"traces", ".npy"}}) {
    const fs::path to = beside_records(kind, own, ending),
                   source = beside_records(kind, from, ending);
    if (!fs::exists(source)) continue;  // a row that chooses nothing leaves no trace
    std::error_code error;
    fs::create_directories(to.parent_path(), error);
    if (!error) fs::copy_file(source, to, fs::copy_options::overwrite_existing, error);
    if (error) {
      throw UserError("cannot copy '" + source.string() + "' to '" + to.string() +
                      "': " + error.message() + "; make room or allow it, and repeat");
    }
  }
  sink_.append(records);
  sink_.settle(point_, "the same curve is there as " + from);
  return true;
}

void CurveRun::train(const std::optional<CurveState>& begun) {
  Curve curve = plan_.curve;
  require_memory(curve);
  set_gemm_threads(point_.threads);
  reset_peak_memory();
  // The text before the folder of checkpoints: one that is missing leaves everything as it is.
  task_ = make_task(curve.train, curve.model.vocab_size, plan_.cache, [&](std::uint64_t bytes) {
    check_interrupt();
    sink_.live(curve.name + ": reading " + curve.train.corpus + ", " +
               readable_bytes(double(bytes)));
  });
  if (task_->identity(Purpose::comparison) != plan_.data) {
    throw UserError("corpus '" + curve.train.corpus +
                    "' or its validation text has changed since this command began; repeat it");
  }
  const std::unique_ptr<Transformer> model = allocate_for_training(curve.model, point_.threads);
  if (!begun && !curve.train.init_from.empty()) {
    // Nothing is moved aside for weights that are none of this model's.
    const TextStore* text = task_->text();
    load_initial_weights(curve.train.init_from, model->parameters(),
                         text ? &text->tokenizer() : nullptr);
  }
  const CurveState state = begun ? *begun : start();
  // With another library, of another build, the products' last bits, and so all later weights,
  // would differ.
  curve.train.gemm = products_ = state.gemm;

  Trainer trainer(*model, *task_, curve.train, plan_.checkpoints);
  if (trainer.init() != plan_.init) {
    throw UserError("init_from '" + curve.train.init_from +
                    "' has changed since this command began; repeat it");
  }
  unigram_entropy_ = unigram_entropy(*task_, curve.model.vocab_size);
  trainer.set_plateau(unigram_entropy_);
  step_ = trainer.resume();
  if (step_ > curve.train.steps) {
    throw UserError("the checkpoint in " + plan_.checkpoints + " is of step " +
                    std::to_string(step_) + ", beyond steps " + std::to_string(curve.train.steps) +
                    "; raise --steps, or start anew with --force");
  }
  if (state.key != base_.key) take_over(state);
  sink_.say(name_ + (step_ ? ": continues after step " + std::to_string(step_) + "; " : ": ") +
            task_->description());

  CurveCsv csv(csv_path(base_.experiment + "/" + base_.row), step_);
  const std::int64_t log_every = std::max<std::int64_t>(1, curve.train.evaluate_every / 10);
  begun_ = Clock::now();
  const bool finished = trainer.run(
      [&](const TrainReport& report) {
        step_seconds_.push_back(report.step_seconds);
        tokens_per_s_.push_back(report.tokens_per_s);
        step_ = report.step;
        if (report.evaluation || report.step % log_every == 0) csv.append(report);
        if (report.evaluation) record(trainer, report);
        show(report);
      },
      [] { return interrupt_arrived(); });
  if (!finished) throw Interrupted{};

  if (evaluations_.empty()) {
    // Ended between its last checkpoint and its records.
    const Evaluation evaluation = trainer.evaluate();
    TrainReport report;
    report.step = curve.train.steps;
    report.loss = report.tokens_per_s = std::nan("");
    report.seconds = trainer.seconds();
    report.evaluation = &evaluation;
    record(trainer, report);
  }
  Extra extra;
  if (state.commit != commit_of(base_.provenance)) extra.note = "begun at commit " + state.commit;
  extra.line = name_ + ": " + evaluation_text(evaluations_);
  extra.samples = samples_of(evaluations_.front().evaluation);
  const auto say = [&extra](const std::vector<Metric>& metrics) {
    for (const Metric& metric : metrics) {
      const double median = summarize(metric.values).median;
      if (metric.name == "tokens_per_s") extra.line += text(", %.0f tokens/s", median);
      if (metric.name == kDecodedMetric) extra.line += text(", decoded %.4f", median);
      if (metric.name == "mfu") extra.line += text(", %.0f %% of the best product", 100 * median);
    }
  };
  // Only the process that trains knows them, and what follows may be cut off.
  const std::vector<Metric> steps = of_steps(trainer);
  sink_.add(point_, steps);
  say(steps);
  std::string unchecked;
  const std::vector<Metric> metrics = results(trainer, *model, find_gemm(state.gemm), unchecked);
  say(metrics);
  sink_.close(point_, metrics, extra);
  if (!unchecked.empty()) sink_.leave(point_, "decode path not checked: " + unchecked);
}

std::vector<Metric> CurveRun::of_steps(const Trainer& trainer) const {
  if (step_seconds_.empty()) return {};
  const double peak = peak_memory(), flops = trainer.flops_per_step();
  const bool is_short = flops * double(plan_.curve.train.steps) < kShortCurve;
  const double best = best_gemm_gflops(is_short ? kShortGemmSize : kGemmSize, point_.threads);
  set_gemm_threads(point_.threads);  // measuring leaves them at one
  std::vector<double> shares;
  for (const double seconds : step_seconds_) shares.push_back(flops / seconds / (1e9 * best));
  std::vector<Metric> metrics = {{"tokens_per_s", "tokens/s", tokens_per_s_},
                                 {"gemm_gflops", "GFLOP/s", {best}},
                                 {"peak_memory_bytes", "B", {peak}}};
  // The share of hard calls, which compute less, is counted as if it stood still.
  const TrainConfig& train = plan_.curve.train;
  if (train.hard_steps == 0 && train.dense_steps == 0) metrics.push_back({"mfu", "1", shares});
  return metrics;
}

std::vector<Metric> CurveRun::results(Trainer& trainer, Transformer& model, const Gemm& gemm,
                                      std::string& unchecked) {
  std::vector<Metric> metrics;
  // What is unknown is not finite and left out.
  const auto add = [&metrics](const std::string& name, const char* unit, double value) {
    if (std::isfinite(value)) metrics.push_back({name, unit, {value}});
  };
  add("params", "weights", double(cost_.parameters));
  add("train_seconds", "s", trainer.seconds());
  add("floor", "nats/token", task_->floor().value_or(std::nan("")));
  add("unigram_entropy", "nats/token", unigram_entropy_);
  add("plateau_share", "1", trainer.plateau_share());
  add("token_share", "1", plan_.curve.train.init_from.empty() ? token_share(model) : std::nan(""));
  sink_.live(plan_.curve.name + ": further validation sets");
  evaluate_further(trainer, true);
  const SelectionNumbers selections = diagnose_selections(model, *task_, gemm, point_.threads);
  add("hard_soft_gap", "nats/token", selections.hard_soft_gap);
  add("selection_entropy", "nats", selections.entropy);
  for (const auto& [set, evaluation] : evaluations_) {
    add(set.prefix + "accuracy" + set.suffix, "1", evaluation.accuracy);
    add(set.prefix + "sequence_accuracy" + set.suffix, "1", evaluation.sequence_accuracy);
    for (const Score& score : evaluation.scores) {
      add(set.prefix + score.name + set.suffix, "1", score.value);
    }
  }
  if (plan_.decode_tokens) {
    sink_.live(plan_.curve.name + ": the decode path");
    try {
      DecodeCheck found = check_decode(model, *task_, gemm, point_.threads, *plan_.decode_tokens);
      if (found.trace.examples > 0) {
        write_trace(beside_records("traces", base_.experiment + "/" + base_.row, ".npy"),
                    found.trace);
        const std::vector<Metric> counted = count_selections(found.trace);
        found.metrics.insert(found.metrics.end(), counted.begin(), counted.end());
      }
      metrics.insert(metrics.end(), found.metrics.begin(), found.metrics.end());
    } catch (const UserError& error) {  // of memory or disk: the curve itself is trained
      unchecked = error.what();
    }
  }
  const Evaluation& first = evaluations_.front().evaluation;
  // 0 where no text stands behind the targets.
  if (first.bits_per_byte > 0) add("bits_per_byte", "bits/byte", first.bits_per_byte);
  metrics.push_back({kClosingCurveMetric, "nats/token", {first.log_perplexity}});
  return metrics;
}

std::optional<CurveState> CurveRun::take_back() {
  const std::string& folder = plan_.checkpoints;
  const std::string first = kept_aside(folder);
  std::string kept = first;
  for (int number = 2; fs::exists(kept); ++number) {
    std::optional<CurveState> state = read_curve_state(kept);
    if (state && state->key == base_.key) {
      const std::string aside = free_name(first);
      rename_or_throw(folder, aside);
      rename_or_throw(kept, folder);
      sink_.say(name_ + ": goes on from its checkpoints in " + kept +
                ", which others had taken the place of; these are kept in " + aside);
      return state;
    }
    kept = first + std::to_string(number);
  }
  return std::nullopt;
}

CurveState CurveRun::start() {
  const std::string& folder = plan_.checkpoints;
  if (fs::exists(folder)) {
    const std::string kept = free_name(kept_aside(folder));
    rename_or_throw(folder, kept);
    const std::string reason =
        plan_.force ? ""
                    : ", since its checkpoints are of other settings, another text or another "
                      "program (--resume goes on with those of another program)";
    sink_.say(name_ + ": starts anew" + reason + "; earlier checkpoints are kept in " + kept);
  }
  const Curve& curve = plan_.curve;
  CurveState state{base_.key, commit_of(base_.provenance), find_gemm(curve.train.gemm).name};
  write_curve_state(folder, state);
  return state;
}

void CurveRun::take_over(CurveState state) {
  std::vector<Record> points;
  for (const Record& r : sink_.file().records()) {
    if (r.metric != kEvaluationMetric || r.key != state.key) continue;
    const std::int64_t at = r.config.value("step", 0ll);
    if (at > step_ || has_evaluation(at)) continue;
    points.push_back(r);
    points.back().key = base_.key;
    points.back().config["data"] = plan_.data;
  }
  if (!points.empty()) sink_.append(points);
  state.key = base_.key;
  write_curve_state(plan_.checkpoints, state);
}

bool CurveRun::has_evaluation(std::int64_t step) const {
  const std::vector<Record>& records = sink_.file().records();
  return std::any_of(records.begin(), records.end(), [&](const Record& r) {
    return r.metric == kEvaluationMetric && r.key == base_.key &&
           r.config.value("step", 0ll) == step;
  });
}

void CurveRun::evaluate_further(Trainer& trainer, bool only_at_end) {
  const std::vector<ValidationSet> sets = task_->validation_sets();
  for (std::size_t i = 1; i < sets.size(); ++i) {
    if (sets[i].only_at_end == only_at_end) evaluations_.push_back({sets[i], trainer.evaluate(i)});
  }
}

void CurveRun::record(Trainer& trainer, const TrainReport& report) {
  ++evaluated_;
  evaluations_ = {{{}, *report.evaluation}};
  evaluate_further(trainer, false);
  // Anew by force it may differ from what is there.
  if (!plan_.force && has_evaluation(report.step)) return;
  Extra extra;
  extra.config = evaluation_config(plan_.data, report, evaluations_);
  extra.config["products"] = products_;
  extra.config_alone = true;
  sink_.add(point_, {{kEvaluationMetric, "nats/token", {report.evaluation->log_perplexity}}},
            extra);
}

double CurveRun::seconds_left(std::int64_t step) const {
  const TrainConfig& train = plan_.curve.train;
  const double stepped = std::accumulate(step_seconds_.begin(), step_seconds_.end(), 0.0);
  const double of_step = stepped / double(step_seconds_.size());
  // Until there is one: a forward is a third of a step.
  const double of_evaluation = evaluated_ > 0 ? (seconds_since(begun_) - stepped) / evaluated_
                                              : of_step / 3 * double(train.evaluate_batches);
  const auto seconds_of = [&](std::int64_t steps) {
    const std::int64_t evaluations = (steps + train.evaluate_every - 1) / train.evaluate_every;
    return double(steps) * of_step + double(evaluations) * of_evaluation;
  };
  return seconds_of(train.steps - step) + plan_.later * seconds_of(train.steps);
}

void CurveRun::show(const TrainReport& report) {
  const std::int64_t steps = plan_.curve.train.steps;
  sink_.expect(seconds_left(report.step));
  const std::string line = point_.row + "." + std::to_string(point_.seed) +
                           text(" step %.0f/%.0f", double(report.step), double(steps)) +
                           text(", loss %.3f", report.loss);
  const std::string speed = text(", %.0f tokens/s", report.tokens_per_s);
  if (sink_.on_terminal()) {
    // Short: the line is cut where the terminal ends.
    std::string last;
    if (!evaluations_.empty()) {
      last = text(", log-perplexity %.3f", evaluations_.front().evaluation.log_perplexity);
    }
    sink_.live(line + last + speed);
  } else if (report.evaluation) {
    sink_.say(line + ", " + evaluation_text(evaluations_) + speed);
  }
}

}  // namespace scaling
