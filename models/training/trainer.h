// The training loop: batches in, weights, checkpoints and reports out.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/tasks/task.h"
#include "models/training/optimizer.h"
#include "models/transformer/transformer.h"

namespace scaling {

/// What a stretch of the validation text lost: of one of its batches, which follow it in its order.
struct Stretch {
  double loss = 0;    ///< nats, summed over its target tokens
  double tokens = 0;  ///< their weight
};

/// Over the fixed validation set, in evaluation mode (hard selections).
struct Evaluation {
  double log_perplexity = 0;  ///< nats per target token (paper 9.5)
  double accuracy = 0;        ///< teacher-forced
  /// Share of examples whose weighted tokens are all correct, teacher-forced: where the rest is
  /// given, as in the tasks on numbers, that is greedy decoding's exact match (paper 10.3).
  double sequence_accuracy = 0;
  double bits_per_byte = 0;
  /// Where a task has answers to choose from, what the likeliest of them say; of its first set.
  std::vector<Score> scores = {};
  /// All of the set, so that the error of having evaluated on this text and no other can be told.
  std::vector<Stretch> stretches = {};
  std::vector<bool> right = {};  ///< and of each question whether the likeliest is the truth
};

struct TrainReport {
  std::int64_t step = 0;  ///< done
  double loss = 0;        ///< of the step's batch, nats per token
  /// What layers add to it while they train (Pass::extra_loss), likewise.
  double extra_loss = 0;
  double learning_rate = 0;
  double step_seconds = 0;                 ///< of this step, evaluation and checkpoints left out
  double tokens_per_s = 0;                 ///< weighted target tokens of this step, likewise
  double seconds = 0;                      ///< trained so far, over all resumptions
  const Evaluation* evaluation = nullptr;  ///< if this step was followed by one
};

/// A run has exploded if its loss over so many steps is in the mean above so many times
/// ln(vocab_size), what a model that knows nothing reaches. A schedule's ramp does not count, nor
/// does the step behind it.
inline constexpr std::int64_t kExplosionSteps = 20;
inline constexpr double kExplosionFactor = 5;

/// Share of selecting layers' calls that are hard in a step (1, 2, ...): 0 in the first, linearly
/// to 1 after hard_steps of them. Negative, each layer's own, if hard_steps is 0.
double hard_share_at(const TrainConfig& config, std::int64_t step);

class Trainer {
 public:
  /// model: allocated for training; model and task outlive this. Its weights become those of
  /// config.init_from, if that is given. config: the task's. folder: of the checkpoints, made if
  /// missing: latest.ckpt, and best.ckpt of the lowest validation log-perplexity. Throws UserError
  /// if config and model do not fit together, if init_from does not fit the model, and if the
  /// folder cannot be made.
  Trainer(Transformer& model, const Task& task, const TrainConfig& config,
          const std::string& folder);
  ~Trainer();

  /// Continues from the folder's latest checkpoint if it has one; returns its step (0: none).
  /// Throws UserError naming the file if it is damaged, and the knob with both values if it is of
  /// another model, data or setting. Only steps, evaluate_*, checkpoint_every, gemm and where files
  /// lie may change; with another gemm or number of threads the last bits do.
  std::int64_t resume();
  /// Trains up to config.steps; report is called after every step, before that step's checkpoint.
  /// Every step draws as if no run had ended before it, so that a resumed run equals an
  /// uninterrupted one bit for bit. Returns false if `stopped` turned true: a checkpoint has been
  /// written then. Throws UserError for a loss or weight that is not finite (with step, layer and
  /// last good checkpoint), for a loss that has exploded, and for a full disk.
  bool run(const std::function<void(const TrainReport&)>& report,
           const std::function<bool()>& stopped);
  /// Steps from now on count as on the plateau if their loss, nats a token, is above this (paper
  /// 9.5; models/tasks/unigram.h has the value). To be called before resume() and run().
  void set_plateau(double loss);
  /// Share of all steps so far, those before a resume too, whose loss was above the plateau; not a
  /// number without steps, or if some of them were not counted.
  double plateau_share() const;
  /// Over a whole set of Task::validation_sets.
  Evaluation evaluate(std::size_t set = 0);
  std::int64_t step() const;
  /// Seconds of training so far, those before a resume too.
  double seconds() const;
  /// content_of config.init_from, when it was read; empty if that is.
  const std::string& init() const;
  /// Floating-point operations of the matrix products of one optimiser step, forward and backward;
  /// in the mean of the first steps, since batches of a task may differ in length.
  double flops_per_step() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace scaling
