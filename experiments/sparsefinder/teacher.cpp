// A checkpoint to a model, sequences through it, and copies of what its attentions were given.
#include "experiments/sparsefinder/teacher.h"

#include <algorithm>

#include "experiments/study/interrupt.h"
#include "kernels/check.h"
#include "kernels/gemm.h"
#include "kernels/team.h"
#include "models/layers/attention/pattern_attention.h"
#include "models/layers/catalog.h"
#include "models/tasks/catalog.h"
#include "models/training/checkpoint.h"
#include "models/training/run_state.h"
#include "models/training/trainer.h"

namespace scaling {
namespace {

/// More than any text has: which of its sequences are looked at is said later.
constexpr std::int64_t kEverySequence = 1'000'000'000;

/// Columns of one head of a layer's rows.
HeadSlice columns_of(const std::vector<Mat>& layers, std::int64_t head, std::int64_t heads,
                     std::int64_t d_head) {
  return layers[std::size_t(head / heads)].middleCols(head % heads * d_head, d_head);
}

void require_task(const TrainConfig& train, const Needs& needs) {
  if (needs.text == TextStore::Layout::windows && !needs.has_source()) return;
  throw UserError("the task " + train.task +
                  " has no windows of one text to look at; name a checkpoint of the task causal or "
                  "masked");
}

void require_sparse(const ModelConfig& model, const ThresholdNormaliser* normaliser) {
  if (!chosen_entry(model, "attention").traits.is_dense) {
    throw UserError("the attention " + model.attention +
                    " of this model does not look at every pair, so that there is nothing to "
                    "predict; name a checkpoint of attention=full");
  }
  if (!normaliser) {
    throw UserError(
        "no probability of this model's attention is ever zero (its normaliser is softmax), so "
        "that there is nothing to predict; name a checkpoint that was trained with "
        "normaliser=entmax15");
  }
}

}  // namespace

TeacherPlan::TeacherPlan(const TeacherSource& source) : checkpoint_(source.checkpoint) {
  if (checkpoint_.empty()) {
    throw UserError("no teacher was given; add --checkpoint FILE, written by perplexity");
  }
  const CheckpointInfo info = read_checkpoint_info(checkpoint_);
  model_ = info.model;
  model_.blocks = model_.decoder_layers;
  model_.weight_type = WeightType::f32;
  train_ = parse_run_state(info.training).config;
  if (!source.corpus.empty()) train_.corpus = source.corpus;
  if (!source.validation.empty()) train_.validation = source.validation;
  if (source.length > 0) train_.length = source.length;
  // The vocabulary is the checkpoint's own.
  train_.init_from = info.vocabulary.empty() ? "" : checkpoint_;
  train_.gemm = "eigen";
  train_.batch = train_.accumulate = 1;
  train_.evaluate_batches = kEverySequence;
  const Needs needs = needs_of(train_);
  require_task(train_, needs);
  causal_ = needs.causal;
  const auto knobs = model_.options<PatternKnobs>();
  normaliser_ = make_normaliser(knobs.normaliser, knobs.entmax_alpha);
  require_sparse(model_, normaliser_.get());
  if (train_.length > model_.max_length) {
    throw UserError("--length " + std::to_string(train_.length) + " exceeds max_length " +
                    std::to_string(model_.max_length) +
                    " of this model; give at most as much, or train a teacher with more");
  }
}

std::uint64_t TeacherPlan::bytes(std::int64_t sequences) const {
  return std::uint64_t(sequences) * std::uint64_t(length()) * 2 * sizeof(float) *
         std::uint64_t(heads() * d_head());
}

HeadSlice TeacherPlan::queries(const SequenceHeads& of, std::int64_t head) const {
  return columns_of(of.q, head, model_.n_heads, d_head());
}

HeadSlice TeacherPlan::keys(const SequenceHeads& of, std::int64_t head) const {
  return columns_of(of.k, head, model_.n_heads, d_head());
}

Teacher::Teacher(const TeacherPlan& plan, const std::string& cache, int threads) : plan_(plan) {
  task_ = make_task(plan.train(), plan.model().vocab_size, cache,
                    [](std::uint64_t) { check_interrupt(); });
  set_gemm_threads(threads);
  model_ = std::make_unique<Transformer>(plan.model());
  Team team(threads);
  model_->allocate_for_training(team);
  load_weights(plan.checkpoint(), model_->parameters());
}

void Teacher::require_sequences(Part part, std::int64_t sequences) const {
  const bool trains = part == Part::training;
  const TextStore& text = *task_->text();
  const std::uint64_t there = trains ? text.training_chunks() : text.validation_chunks();
  if (sequences < 1 || std::uint64_t(sequences) > there) {
    throw UserError(std::to_string(sequences) + (trains ? " training" : " held-out") +
                    " sequences of " + std::to_string(plan_.length()) +
                    " tokens were asked for, but the text has " + std::to_string(there) +
                    "; ask for 1 to as many, or name a longer text");
  }
}

/// The i-th of so many that are spread over the whole text.
void Teacher::held_out_batch(std::int64_t i, std::int64_t sequences, Batch& batch) const {
  task_->validation_batch(0, i * task_->validation_batches() / sequences, batch);
}

void Teacher::evaluate(Transformer& model, std::int64_t sequences, AttentionGraphs* graphs,
                       const std::function<void(std::int64_t)>& before,
                       const std::function<void(std::int64_t, const CrossEntropy&)>& after) const {
  require_sequences(Part::held_out, sequences);
  const auto kept = model.make_activations();
  Batch batch;
  for (std::int64_t i = 0; i < sequences; ++i) {
    check_interrupt();
    held_out_batch(i, sequences, batch);
    before(i);
    Pass pass{.gemm = gemm_of(plan_.model(), plan_.train())};
    pass.graphs = graphs;
    after(i, model.loss_of(pass, batch, *kept));
  }
}

void Teacher::losses(std::int64_t sequences, AttentionGraphs* graphs,
                     const std::function<void(std::int64_t)>& before,
                     const std::function<void(std::int64_t, const CrossEntropy&)>& after) const {
  evaluate(*model_, sequences, graphs, before, after);
}

std::vector<CrossEntropy> Teacher::losses_of(Transformer& model, std::int64_t sequences) const {
  std::vector<CrossEntropy> all;
  evaluate(
      model, sequences, nullptr, [](std::int64_t) {},
      [&all](std::int64_t, const CrossEntropy& loss) { all.push_back(loss); });
  return all;
}

std::vector<SequenceHeads> Teacher::heads(Part part, std::int64_t sequences,
                                          const std::function<void(std::int64_t)>& done) const {
  require_sequences(part, sequences);
  const bool trains = part == Part::training;
  const auto kept = model_->make_activations(/*stored=*/true);
  std::vector<SequenceHeads> all;
  Batch batch;
  for (std::int64_t i = 0; i < sequences; ++i) {
    check_interrupt();
    if (trains) {
      task_->train_batch(i, 0, 1, batch);
    } else {
      held_out_batch(i, sequences, batch);
    }
    SequenceHeads one;
    for (const AttentionView& view :
         model_->self_attentions(gemm_of(plan_.model(), plan_.train()), batch, *kept)) {
      one.q.push_back(*view.q);
      one.k.push_back(*view.k);
    }
    all.push_back(std::move(one));
    done(i + 1);
  }
  return all;
}

}  // namespace scaling
