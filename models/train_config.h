// Every knob of a training run, each named once; the model's own are in models/config.h.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "models/knobs.h"

namespace scaling {

/// sentencepiece: trained on the corpus, vocab_size pieces.
enum class TokenizerKind { bytes, sentencepiece };
constexpr std::array<const char*, 2> names_of(TokenizerKind) { return {"bytes", "sentencepiece"}; }

/// paper 9.3.
enum class OptimizerKind { adafactor, adam };
constexpr std::array<const char*, 2> names_of(OptimizerKind) { return {"adafactor", "adam"}; }

/// How the learning rate goes with the step (paper 9.4); linear and cosine end at 0.
enum class Schedule { rsqrt, warmup_rsqrt, constant, linear, cosine };
constexpr std::array<const char*, 5> names_of(Schedule) {
  return {"rsqrt", "warmup_rsqrt", "constant", "linear", "cosine"};
}

/// How the task gap_sentences chooses; the last four by ROUGE-1, see
/// models/tasks/principal_sentences.h.
enum class GapStrategy { random, lead, ind_orig, ind_uniq, seq_orig, seq_uniq };
constexpr std::array<const char*, 6> names_of(GapStrategy) {
  return {"random", "lead", "ind_orig", "ind_uniq", "seq_orig", "seq_uniq"};
}

struct TrainConfig {
  std::string task = "causal";       // of models/tasks/catalog.cpp
  std::string corpus = "generated";  // file, folder or glob; generated: the built-in generator
  std::string text_key = "text";     // of JSON lines
  std::string validation;            // likewise; empty: every 50th chunk of the corpus
  TokenizerKind tokenizer = TokenizerKind::bytes;
  std::string cache;                // folder of tokenised corpora; empty: beside the results
  std::int64_t batch = 16;          // examples in an optimiser step
  std::int64_t accumulate = 1;      // pieces a batch is computed in
  std::int64_t length = 128;        // positions of a causal example; source positions of a span one
  std::int64_t target_length = 64;  // of span_corruption, gap_sentences and pairs
  double noise_density = 0.15;      // of span_corruption: share of the tokens taken out
  // Of denoising, see Noise in models/tasks/denoising.h.
  double sentence_permutation = 1;
  double text_infilling = 0.3;
  double infilling_mean = 3;
  double token_masking = 0;
  double token_deletion = 0;
  double document_rotation = 0;
  // Of gap_sentences: the share of a text's sentences is drawn from between the first two.
  GapStrategy gap_strategy = GapStrategy::ind_orig;
  double gap_share_min = 0.3;
  double gap_share_max = 0.3;
  double gap_noise = 0;     // on scores
  double gap_unmasked = 0;  // share of the chosen that can be read all the same
  // Of pairs: the ending of the targets' files, or their key in JSON lines; so many tokens of
  // targets are put together of consecutive pairs; and positions of each paragraph of a source.
  std::string target_side;
  std::int64_t join_pairs = 0;
  std::int64_t paragraph_tokens = 0;
  std::int64_t digits_min = 1;  // of a copied number, or of both addends together
  std::int64_t digits_max = 16;
  std::int64_t eval_digits_min = 32;  // the same in evaluation
  std::int64_t eval_digits_max = 38;
  std::int64_t steps = 1000;
  OptimizerKind optimizer = OptimizerKind::adafactor;
  Schedule schedule = Schedule::rsqrt;
  double learning_rate = 1.0;  // the schedule's constant
  std::int64_t warmup_steps = 10000;
  std::int64_t decay_steps = 0;  // linear, cosine: the step at which the rate has fallen to 0
  double adam_epsilon = 1e-5;
  double selector_rate = 1;  // factor on the learning rate of what selects (Role)
  double selected_rate = 1;  // and of the rows that are selected
  std::int64_t dense_steps =
      0;  // the first ones, in which a sparse feed-forward computes all it has
  std::int64_t hard_steps = 0;  // over which the share of hard selections goes from 0 to 1; 0: off
  double weight_decay = 0;      // wd0 of Adafactor, per step
  std::int64_t weight_decay_steps = 0;  // over which it falls to 0; 0: stays
  double dropout = 0;
  double language_weight = 0;  // of telling the prompt behind a label (glue_*)
  double future_weight = 1;    // of each further token's loss, if the model predicts several
  std::int64_t position_offsets =
      0;                          // drawn from, in training; 0: positions start at 0 (paper 4.7)
  double start_from_zero = 0.05;  // share of batches, or examples, that start at 0 all the same
  std::int64_t evaluate_every = 200;
  std::int64_t evaluate_batches = 20;
  std::int64_t checkpoint_every = 200;
  std::string init_from;  // file of weights; empty: they are drawn
  std::string gemm = "auto";
  WeightType matmul_precision = WeightType::f32;  // of a step's products
  std::uint64_t data_seed = 1;  // order of the data; the weights' and noise's is ModelConfig::seed

  /// visitor(name, reference to the value, help), as ModelConfig::fields.
  template <class Self, class Visitor>
  static void fields(Self& c, Visitor&& visit) {
    // What a text is known by, its results say (Task::identity).
    constexpr Trait text{.in_key = InKey::content_hash}, place{.in_key = InKey::no};
    // Likewise its weights (the setting `init`).
    constexpr Trait weights{.in_key = InKey::content_hash};
    visit("task", c.task, "what is learnt; an unknown name lists the known");
    visit("corpus", c.corpus,
          "text file, folder or glob; generated: built-in text of known entropy", text);
    visit("text_key", c.text_key, "keys of the text in JSON lines, comma between (C4: text)");
    visit("validation", c.validation, "text to evaluate on; empty: every 50th chunk of the corpus",
          text);
    visit("tokenizer", c.tokenizer, "bytes or sentencepiece");
    visit("cache", c.cache, "folder of tokenised corpora; empty: cache/ beside the results", place);
    visit("batch", c.batch, "examples in an optimiser step");
    visit("accumulate", c.accumulate, "pieces that a batch is computed in");
    visit("length", c.length, "positions of an example (span_corruption: of its source)");
    visit("target_length", c.target_length,
          "target positions of span_corruption, gap_sentences and pairs");
    visit("noise_density", c.noise_density, "span_corruption: share of the tokens taken out");
    visit("sentence_permutation", c.sentence_permutation,
          "denoising: share of the sentences that change places");
    visit("text_infilling", c.text_infilling,
          "denoising: share of the words that go, in spans, each for one mask");
    visit("infilling_mean", c.infilling_mean, "denoising: words of a span, Poisson distributed");
    visit("token_masking", c.token_masking, "denoising: share of the tokens that become masks");
    visit("token_deletion", c.token_deletion, "denoising: share of the tokens that are left out");
    visit("document_rotation", c.document_rotation,
          "denoising: share of the texts that begin at any token");
    visit("gap_strategy", c.gap_strategy,
          "gap_sentences: random, lead, ind_orig, ind_uniq, seq_orig or seq_uniq");
    visit("gap_share_min", c.gap_share_min,
          "gap_sentences: share of a text's sentences that go, drawn from here ...");
    visit("gap_share_max", c.gap_share_max, "gap_sentences: ... to here");
    visit("gap_noise", c.gap_noise,
          "gap_sentences: scores are multiplied by a number from 1 - this to 1 + this");
    visit("gap_unmasked", c.gap_unmasked,
          "gap_sentences: share of the chosen sentences that are read all the same");
    visit("target_side", c.target_side,
          "pairs: the ending of the targets' file (de for train.de beside train.en), or of JSON "
          "lines their key");
    visit("join_pairs", c.join_pairs,
          "pairs: consecutive ones are joined until their targets have so many tokens, as long as "
          "both sides fit; 0: none are");
    visit("paragraph_tokens", c.paragraph_tokens,
          "pairs: positions of each paragraph of a source, which blank lines part; 0: a source is "
          "one text");
    visit("digits_min", c.digits_min, "least digits to copy, or of both addends together");
    visit("digits_max", c.digits_max, "most digits to copy, or of both addends together");
    visit("eval_digits_min", c.eval_digits_min, "digits_min in evaluation");
    visit("eval_digits_max", c.eval_digits_max, "digits_max in evaluation");
    visit("steps", c.steps, "optimiser steps");
    visit("optimizer", c.optimizer, "adafactor or adam");
    visit("schedule", c.schedule, "rsqrt, warmup_rsqrt, constant, linear or cosine");
    visit("learning_rate", c.learning_rate,
          "constant that the schedule multiplies; of linear and cosine the highest rate");
    visit("warmup_steps", c.warmup_steps, "of the schedule");
    visit("decay_steps", c.decay_steps, "schedules linear and cosine: the step of rate 0");
    visit("adam_epsilon", c.adam_epsilon, "added to the root of Adam's second moment");
    visit("selector_rate", c.selector_rate,
          "factor on the learning rate of controllers and routers of selecting feed-forwards");
    visit("selected_rate", c.selected_rate,
          "factor on the learning rate of the rows that they select: W1, its bias, W2");
    visit(
        "dense_steps", c.dense_steps,
        "the first steps, in which the sparse feed-forward computes all neurons and selects none");
    visit("hard_steps", c.hard_steps,
          "over which, after dense_steps, the share of hard selections rises from 0 to 1, whatever "
          "hard_probability; 0: hard_probability");
    visit("weight_decay", c.weight_decay, "share of a weight taken off at every step");
    visit("weight_decay_steps", c.weight_decay_steps,
          "over which weight_decay falls to 0; 0: stays");
    visit("dropout", c.dropout, "rate of every dropout");
    visit("language_weight", c.language_weight,
          "glue_*: weight, beside the label's, of telling the prompt behind it (GPT: 0.5); 0: no");
    visit("future_weight", c.future_weight,
          "with future_tokens: factor on each further token's loss against the one before");
    visit("position_offsets", c.position_offsets,
          "training batches, with position_encoding fixed_base examples, start at a position drawn "
          "from so many; 0: all at 0");
    visit("start_from_zero", c.start_from_zero,
          "with position_offsets: share of batches, or examples, that start at 0 all the same");
    visit("evaluate_every", c.evaluate_every, "steps between evaluations");
    visit("evaluate_batches", c.evaluate_batches, "batches of the fixed validation set");
    visit("checkpoint_every", c.checkpoint_every, "steps between checkpoints");
    visit(
        "init_from", c.init_from,
        "safetensors file of the weights to start from, with its vocabulary: a checkpoint or what "
        "apps/weights writes; empty: they are drawn",
        weights);
    visit("gemm", c.gemm,
          "library of the matrix products: onednn, openblas, eigen, or auto, the first of them "
          "that was built");
    visit(
        "matmul_precision", c.matmul_precision,
        "of a training step's products by that library: f32, or bf16, which rounds both sides and "
        "sums in f32; evaluations are f32's");
    visit("data_seed", c.data_seed, "order of the data");
  }

  /// Throws UserError naming value, reason and remedy. What only a task can know, needs_of checks
  /// (models/tasks/catalog.h).
  void validate() const;
};

/// Throws UserError naming knob and value if that is less.
void require_at_least(const char* name, std::int64_t value, std::int64_t least);
/// The same if it is below the least or above the most.
void require_within(const char* name, double value, double least, double most);

/// Sets one knob by name from text ("batch", "16"). Throws UserError for an unknown knob (lists the
/// known) or an unreadable value.
void set_field(TrainConfig& config, const std::string& name, const std::string& value);
/// The text set_field would read back, exactly.
std::string get_field(const TrainConfig& config, const std::string& name);
std::vector<std::string> train_field_names();

}  // namespace scaling
