// One loop, from top to bottom: run (a step, now and then an evaluation and a checkpoint),
// train_step (batch, forward, loss, backward, update), evaluate; behind them what they stand on.
#include "models/training/trainer.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <numbers>
#include <numeric>
#include <optional>
#include <utility>

#include "kernels/check.h"
#include "kernels/gemm.h"
#include "kernels/random.h"
#include "models/knobs.h"
#include "models/tasks/catalog.h"
#include "models/training/agreement.h"
#include "models/training/checkpoint.h"
#include "models/training/finite.h"
#include "models/training/initial_weights.h"
#include "models/training/run_state.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

/// Seeds the draws of one piece: another one for every step and piece, and the same again whenever
/// that step is made again.
std::uint64_t seed_of(std::uint64_t model_seed, std::int64_t step, std::int64_t piece) {
  const auto bits = random_bits(model_seed, std::uint64_t(step), std::uint64_t(piece));
  return std::uint64_t(bits[0]) << 32 | bits[1];
}

double weight_of(const Batch& batch) {
  return std::accumulate(batch.weights.begin(), batch.weights.end(), 0.0);
}

/// "27.8"
std::string decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

}  // namespace

double hard_share_at(const TrainConfig& config, std::int64_t step) {
  SCALING_CHECK(step >= 1);
  if (config.hard_steps == 0) return -1;
  return std::clamp(double(step - 1 - config.dense_steps) / double(config.hard_steps), 0.0, 1.0);
}

struct Trainer::Impl {
  Impl(Transformer& model_, const Task& task_, const TrainConfig& config_,
       const std::string& folder);

  bool run(const std::function<void(const TrainReport&)>& report,
           const std::function<bool()>& stopped);
  TrainReport train_step();
  Evaluation evaluate(std::size_t set);
  std::vector<std::size_t> likeliest(const Answers& answers);
  void keep_best(const Evaluation& evaluation);
  void save_latest();
  void save(const std::string& path);
  std::int64_t resume();
  double flops_per_step() const;

  [[noreturn]] void stop_for(const std::string& what) const;
  [[noreturn]] void stop(const std::string& what, const std::string& checkpoint) const;
  void watch(double loss);

  Transformer& model;
  const Task& task;
  const TrainConfig config;
  const Gemm& gemm;
  const Gemm step_gemm;            // a training step's
  const std::string latest, best;  // files
  const std::string init;          // content of config.init_from
  const std::vector<Parameter*> parameters;
  const std::unique_ptr<Optimizer> optimizer;
  const std::unique_ptr<Transformer::Kept> kept;
  std::vector<NamedArray> arrays;
  std::vector<Batch> pieces;
  Batch validation;

  std::int64_t step = 0;  // done
  // Steps of the two checkpoints; -1: none.
  std::int64_t saved = -1, saved_best = -1;
  double seconds = 0;
  double plateau = std::numeric_limits<double>::quiet_NaN();  // a loss, nats a token
  // With a loss above it; none: some steps were not counted.
  std::optional<std::int64_t> plateau_steps;
  std::vector<double> losses;  // of this process's last steps, at most kExplosionSteps
  double best_perplexity = std::numeric_limits<double>::infinity();
};

bool Trainer::Impl::run(const std::function<void(const TrainReport&)>& report,
                        const std::function<bool()>& stopped) {
  while (step < config.steps) {
    if (stopped && stopped()) {
      save_latest();
      return false;
    }
    TrainReport done = train_step();
    const bool is_last = step == config.steps;
    Evaluation evaluation;
    if (is_last || step % config.evaluate_every == 0) {
      evaluation = evaluate(0);
      keep_best(evaluation);
      done.evaluation = &evaluation;
    }
    if (report) report(done);
    if (is_last || step % config.checkpoint_every == 0) save_latest();
  }
  return true;
}

TrainReport Trainer::Impl::train_step() {
  const auto start = std::chrono::steady_clock::now();
  // Batch. The weight of the whole of it first: every piece is scaled by it, so that each target
  // token counts alike whichever piece it is in (paper 9.5).
  double weight = 0;
  for (std::size_t piece = 0; piece < pieces.size(); ++piece) {
    task.train_batch(step, std::int64_t(piece), config.accumulate, pieces[piece]);
    weight += weight_of(pieces[piece]);
  }
  SCALING_CHECK(weight > 0);

  // Forward, loss and backward: gradients add up over the pieces.
  model.zero_gradients();
  double loss = 0, extra_loss = 0;
  for (std::size_t piece = 0; piece < pieces.size(); ++piece) {
    Pass pass{.gemm = step_gemm,
              .training = true,
              .dropout = float(config.dropout),
              .hard_share = hard_share_at(config, step + 1),
              .all_neurons = step < config.dense_steps,
              .seed = seed_of(model.config().seed, step, std::int64_t(piece)),
              .start_from_zero = float(config.start_from_zero),
              .position_offsets = config.position_offsets,
              .future_weight = float(config.future_weight)};
    loss += model.loss_and_gradients(pass, pieces[piece], float(1 / weight), *kept).loss;
    extra_loss += pass.extra_loss;
  }
  loss /= weight;
  const std::string name = "step " + std::to_string(step + 1);
  if (!std::isfinite(loss)) stop_for("the loss of " + name + " is not finite");
  if (!gradients_are_finite(parameters)) {
    stop_for("the loss of " + name + " is finite, its gradient is not");
  }
  watch(loss);
  if (plateau_steps && loss > plateau) ++*plateau_steps;

  // Update; clipping is the optimiser's (Adafactor clips, Adam does not).
  const double rate = learning_rate_at(config, step + 1);
  optimizer->update(step + 1, rate);
  ++step;
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  seconds += taken.count();
  return {.step = step,
          .loss = loss,
          .extra_loss = extra_loss / weight,
          .learning_rate = rate,
          .step_seconds = taken.count(),
          .tokens_per_s = weight / taken.count(),
          .seconds = seconds};
}

Evaluation Trainer::Impl::evaluate(std::size_t set) {
  CrossEntropy sum;
  double bytes = 0;
  std::vector<Stretch> stretches;
  for (std::int64_t index = 0; index < task.validation_batches(); ++index) {
    task.validation_batch(set, index, validation);
    bytes += validation.bytes;
    Pass pass{.gemm = gemm};
    const CrossEntropy one = model.loss_of(pass, validation, *kept);
    stretches.push_back({one.loss, one.weight});
    sum.loss += one.loss;
    sum.weight += one.weight;
    sum.correct += one.correct;
    sum.sequences += one.sequences;
    sum.correct_sequences += one.correct_sequences;
  }
  SCALING_CHECK(sum.weight > 0);
  Evaluation found{.log_perplexity = sum.loss / sum.weight,
                   .accuracy = sum.correct / sum.weight,
                   .sequence_accuracy = sum.correct_sequences / sum.sequences,
                   .bits_per_byte = bytes > 0 ? sum.loss / std::numbers::ln2 / bytes : 0,
                   .stretches = std::move(stretches)};
  const Answers* answers = task.answers();
  if (set != 0 || !answers) return found;
  const std::vector<std::size_t> chosen = likeliest(*answers);
  found.scores = answers->scores(chosen);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    found.right.push_back(answers->is_right(i, chosen[i]));
  }
  return found;
}

/// Of every question the answer whose tokens lose least together; of equal ones the first.
/// Questions of one length go together, and their sources are encoded once for all answers.
std::vector<std::size_t> Trainer::Impl::likeliest(const Answers& answers) {
  std::vector<std::size_t> chosen(answers.questions(), 0);
  for (const auto& group : answers.groups(std::size_t(config.batch / config.accumulate))) {
    std::vector<double> least(group.size(), std::numeric_limits<double>::infinity());
    for (std::size_t choice = 0; choice < answers.choices(); ++choice) {
      answers.ask(group, choice, validation);
      Pass pass{.gemm = gemm};
      const bool is_encoded = choice > 0 && validation.source_length > 0;
      const std::vector<double> lost = model.losses_by_example(pass, validation, *kept, is_encoded);
      for (std::size_t i = 0; i < group.size(); ++i) {
        if (!(lost[i] < least[i])) continue;
        least[i] = lost[i];
        chosen[group[i]] = choice;
      }
    }
  }
  return chosen;
}

Trainer::Impl::Impl(Transformer& model_, const Task& task_, const TrainConfig& config_,
                    const std::string& folder)
    : model(model_),
      task(task_),
      config(config_),
      gemm(find_gemm(config_.gemm)),
      step_gemm(config_.matmul_precision == WeightType::bf16 ? rounding(gemm) : gemm),
      latest((fs::path(folder) / "latest.ckpt").string()),
      best((fs::path(folder) / "best.ckpt").string()),
      init(config_.init_from.empty() ? "" : content_of(config_.init_from)),
      parameters(model_.parameters()),
      optimizer(make_optimizer(config_, parameters)),
      kept(model_.make_activations()),
      arrays(weight_arrays(parameters)),
      pieces(std::size_t(config_.accumulate)) {
  SCALING_CHECK(model.is_for_training());
  require_fit(config, needs_of(config), model.config());
  if (!config.init_from.empty()) {
    const TextStore* text = task.text();
    load_initial_weights(config.init_from, parameters, text ? &text->tokenizer() : nullptr);
  }
  for (const Optimizer::Slot& slot : optimizer->slots()) {
    arrays.push_back(
        {kOptimizerArrays + slot.name, {std::int64_t(slot.values->size())}, slot.values->data()});
  }
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw UserError("the folder '" + folder +
                    "' for checkpoints cannot be made: " + error.message() + "; name another one");
  }
}

// -- checkpoints ----------------------------------------------------------------------------------

void Trainer::Impl::keep_best(const Evaluation& evaluation) {
  if (!std::isfinite(evaluation.log_perplexity)) {
    stop_for("the validation loss after step " + std::to_string(step) + " is not finite");
  }
  if (evaluation.log_perplexity >= best_perplexity) return;
  best_perplexity = evaluation.log_perplexity;
  save(best);
  saved_best = step;
}

void Trainer::Impl::save_latest() {
  if (saved == step) return;
  save(latest);
  saved = step;
}

void Trainer::Impl::save(const std::string& path) {
  // A checkpoint that cannot be trained on must not replace one that can.
  if (!values_are_finite(parameters)) {
    stop_for("the weights after step " + std::to_string(step) + " are not finite");
  }
  RunState state;
  state.config = config;
  state.seconds = seconds;
  state.init = init;
  CheckpointInfo info;
  if (const TextStore* text = task.text()) {
    state.tokenizer_model = text->tokenizer_model();
    info.tokenizer = text->tokenizer().identity();
    info.vocabulary = text->tokenizer().model();
  }
  if (std::isfinite(best_perplexity)) state.best = best_perplexity;
  state.plateau_steps = plateau_steps;
  info.step = step;
  info.model = model.config();
  info.training = to_json(state);
  info.fingerprint = task.identity(Purpose::resuming);
  save_checkpoint(path, info, arrays);
}

std::int64_t Trainer::Impl::resume() {
  std::error_code error;
  if (!fs::exists(latest, error)) return 0;
  const CheckpointInfo info = read_checkpoint_info(latest);
  require_same_model(latest, info.model, model.config());
  const RunState state = parse_run_state(info.training);
  require_same_training(latest, state.config, config);
  const std::string identity = task.identity(Purpose::resuming);
  if (info.fingerprint != identity) {
    throw UserError("checkpoint '" + latest + "' was trained on other data (corpus '" +
                    state.config.corpus + "', fingerprint " + info.fingerprint +
                    ") than this run's (corpus '" + config.corpus + "', fingerprint " + identity +
                    "); give the same corpus, or train in another folder");
  }
  if (state.init != init) {
    const auto begun = [](const std::string& from, const std::string& content) {
      return content.empty() ? "drawn weights" : "'" + from + "' (content " + content + ")";
    };
    throw UserError("checkpoint '" + latest + "' started from " +
                    begun(state.config.init_from, state.init) + ", this run from " +
                    begun(config.init_from, init) +
                    "; give the same init_from, or train in another folder");
  }
  load_checkpoint(latest, arrays);
  step = saved = info.step;
  seconds = state.seconds;
  // Of another number of batches it would be another text's.
  const bool is_same_text = state.config.evaluate_batches == config.evaluate_batches;
  if (is_same_text && state.best) best_perplexity = *state.best;
  plateau_steps = state.plateau_steps;
  return step;
}

// -- what stops a run -----------------------------------------------------------------------------

void Trainer::Impl::stop_for(const std::string& what) const {
  std::string found = what_is_not_finite(parameters);
  // Where values overflow on their way forward, every gradient does.
  const bool searches = values_are_finite(parameters);
  for (const Batch& piece : pieces) {
    if (!searches || piece.target.empty()) break;
    const std::string branch = model.first_not_finite(gemm, piece);
    if (branch.empty()) continue;
    found = "the result of " + branch + " is not finite";
    break;
  }
  stop(what + (found.empty() ? "" : ": " + found),
       saved < 0 && saved_best < 0
           ? "no checkpoint was written before"
           : "the last good checkpoint is '" + (saved < saved_best ? best : latest) + "' of step " +
                 std::to_string(std::max(saved, saved_best)));
}

void Trainer::Impl::stop(const std::string& what, const std::string& checkpoint) const {
  throw UserError(what + "; " + checkpoint + ". Lower learning_rate " +
                  print_value(config.learning_rate) + " or raise warmup_steps, and train again");
}

/// Throws for a loss of the step at hand that is finite, but out of hand with those before.
void Trainer::Impl::watch(double loss) {
  if (is_warming_up(config, step)) return;
  if (std::int64_t(losses.size()) == kExplosionSteps) losses.erase(losses.begin());
  losses.push_back(loss);
  if (std::int64_t(losses.size()) < kExplosionSteps) return;
  const double mean = std::accumulate(losses.begin(), losses.end(), 0.0) / double(kExplosionSteps);
  const double most = kExplosionFactor * std::log(double(model.config().vocab_size));
  if (mean <= most) return;
  stop("the loss has exploded: in the mean of steps " + std::to_string(step + 2 - kExplosionSteps) +
           " to " + std::to_string(step + 1) + " it is " + decimal(mean) +
           " nats a token, more than " + decimal(kExplosionFactor) +
           " ln(vocab_size) = " + decimal(most),
       std::isfinite(best_perplexity)
           ? "the best checkpoint is '" + best + "', of log-perplexity " + decimal(best_perplexity)
           : "no checkpoint was evaluated before");
}

double Trainer::Impl::flops_per_step() const {
  constexpr std::int64_t kLookedAt = 64;
  double flops = 0;
  Batch batch;
  for (std::int64_t at = 0; at < kLookedAt; ++at) {
    for (std::int64_t piece = 0; piece < config.accumulate; ++piece) {
      task.train_batch(at, piece, config.accumulate, batch);
      flops += model.training_flops(batch.examples, batch.source_length, batch.input_length,
                                    batch.causal);
    }
  }
  return flops / double(kLookedAt);
}

Trainer::Trainer(Transformer& model, const Task& task, const TrainConfig& config,
                 const std::string& folder)
    : impl_(std::make_unique<Impl>(model, task, config, folder)) {}

Trainer::~Trainer() = default;

std::int64_t Trainer::resume() { return impl_->resume(); }

bool Trainer::run(const std::function<void(const TrainReport&)>& report,
                  const std::function<bool()>& stopped) {
  return impl_->run(report, stopped);
}

void Trainer::set_plateau(double loss) {
  SCALING_CHECK(impl_->step == 0);
  impl_->plateau = loss;
  impl_->plateau_steps = 0;
}

double Trainer::plateau_share() const {
  const auto& steps = impl_->plateau_steps;
  if (!steps || impl_->step == 0) return std::numeric_limits<double>::quiet_NaN();
  return double(*steps) / double(impl_->step);
}

Evaluation Trainer::evaluate(std::size_t set) { return impl_->evaluate(set); }

std::int64_t Trainer::step() const { return impl_->step; }

const std::string& Trainer::init() const { return impl_->init; }

double Trainer::seconds() const { return impl_->seconds; }

double Trainer::flops_per_step() const { return impl_->flops_per_step(); }

}  // namespace scaling
