// A checkpoint to a model, sequences through it, and copies of what its attentions were given.
#include "experiments/instruments/teacher.h"

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

void require_task(const TrainConfig& train, const ModelConfig& model, const Needs& needs) {
  const bool has_windows = needs.text == TextStore::Layout::windows && !needs.has_source();
  const bool has_pairs = needs.text == TextStore::Layout::pairs && model.has_cross_attention();
  if (has_windows || has_pairs) return;
  throw UserError("the task " + train.task +
                  " has neither windows of one text to look at nor pairs for a decoder with "
                  "cross-attention; name a checkpoint of the task causal, masked or pairs");
}

/// Of targets. Throws UserError.
std::int64_t target_tokens(const TrainConfig& train, std::int64_t wanted) {
  const std::int64_t length = wanted > 0 ? wanted : train.join_pairs;
  if (length < 1) {
    throw UserError(
        "targets of this teacher were not joined to any length (join_pairs 0); say by "
        "--length how many of their tokens are looked at");
  }
  if (length > train.target_length) {
    throw UserError("a length of " + std::to_string(length) + " exceeds target_length " +
                    std::to_string(train.target_length) +
                    " of this teacher's training; give at most as much by --length");
  }
  return length;
}

void require_every_pair(const ModelConfig& model) {
  const std::vector<ChosenEntry> chosen = chosen_attentions(model, /*in_encoder=*/false);
  for (const ChosenEntry& one : chosen) {
    if (!one.sets("normaliser") && !one.sets("entmax_alpha")) continue;
    throw UserError("the attention " + model.attention +
                    " of this model has layers or heads of a normaliser of their own; name a "
                    "checkpoint of one normaliser for all");
  }
  if (!std::all_of(chosen.begin(), chosen.end(),
                   [](const ChosenEntry& one) { return one.entry->traits.is_dense; })) {
    throw UserError("the attention " + model.attention +
                    " of this model does not look at every pair; name a checkpoint of "
                    "attention=full");
  }
}

}  // namespace

TeacherPlan::TeacherPlan(const TeacherSource& source) : checkpoint_(source.checkpoint) {
  if (checkpoint_.empty()) {
    throw UserError("no teacher was given; add --checkpoint FILE, written by perplexity");
  }
  require_at_least("length", source.length, 0);
  const CheckpointInfo info = read_checkpoint_info(checkpoint_);
  is_untrained_ = source.is_untrained;
  model_ = info.model;
  model_.blocks = model_.decoder_layers;
  model_.weight_type = WeightType::f32;
  const RunState run = parse_run_state(info.training);
  if (is_untrained_ && !run.init.empty()) {
    throw UserError("the training of '" + checkpoint_ +
                    "' began with another checkpoint's weights (init_from), not with drawn ones; "
                    "leave out --untrained and name that checkpoint");
  }
  train_ = run.config;
  if (!source.corpus.empty()) train_.corpus = source.corpus;
  if (!source.validation.empty()) train_.validation = source.validation;
  // The vocabulary is the checkpoint's own.
  train_.init_from = info.vocabulary.empty() ? "" : checkpoint_;
  train_.gemm = "eigen";
  train_.batch = train_.accumulate = 1;
  train_.evaluate_batches = kEverySequence;
  const Needs needs = needs_of(train_);
  require_task(train_, model_, needs);
  causal_ = needs.causal;
  has_source_ = needs.has_source();
  if (has_source_) {
    length_ = target_tokens(train_, source.length);
  } else {
    if (source.length > 0) train_.length = source.length;
    needs_of(train_);  // refuses lengths that no sequence can have
    length_ = train_.length;
  }
  const auto knobs = model_.options<PatternKnobs>();
  normaliser_ = make_normaliser(knobs.normaliser, knobs.entmax_alpha);
  require_every_pair(model_);
  if (source.must_be_sparse && !normaliser_) {
    throw UserError(
        "no probability of this model's attention is ever zero (its normaliser is softmax), so "
        "that there is nothing to predict; name a checkpoint that was trained with "
        "normaliser=entmax15");
  }
  if (length_ > model_.max_length) {
    throw UserError("--length " + std::to_string(length_) + " exceeds max_length " +
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
  if (!plan.is_untrained()) load_weights(plan.checkpoint(), model_->parameters());
}

void Teacher::read(Part part, std::int64_t i, Batch& batch) const {
  if (part == Part::training) {
    task_->train_batch(i, 0, 1, batch);
  } else {
    task_->validation_batch(0, i, batch);
  }
}

void Teacher::read_cut(Part part, std::int64_t i, Batch& batch) const {
  read(part, i, batch);
  const auto length = std::size_t(plan_.length());
  SCALING_CHECK(batch.examples == 1 && batch.input.size() >= length);
  batch.input_length = plan_.length();
  batch.input.resize(length);
  batch.target.resize(length);
  batch.weights.resize(length);
}

std::vector<std::int64_t> Teacher::choose(Part part, std::int64_t sequences) const {
  const bool trains = part == Part::training;
  const std::int64_t all =
      trains ? std::int64_t(task_->text()->training_chunks()) : task_->validation_batches();
  std::vector<std::int64_t> there;
  Batch batch;
  for (std::int64_t i = 0; i < all; ++i) {
    if (trains && std::int64_t(there.size()) == sequences) break;
    if (plan_.has_source()) {
      read(part, i, batch);
      const auto tokens = std::count(batch.weights.begin(), batch.weights.end(), 1.0f);
      if (tokens < plan_.length()) continue;
    }
    there.push_back(i);
  }
  const auto found = std::int64_t(there.size());
  if (sequences < 1 || sequences > found) {
    throw UserError(std::to_string(sequences) + (trains ? " training" : " held-out") +
                    " sequences of " + std::to_string(plan_.length()) +
                    " tokens were asked for, but the text has " + std::to_string(found) +
                    "; ask for 1 to as many, or name a longer text" +
                    (plan_.has_source() ? ", or a smaller --length" : ""));
  }
  if (trains) return there;
  std::vector<std::int64_t> spread;
  for (std::int64_t i = 0; i < sequences; ++i) {
    spread.push_back(there[std::size_t(i * found / sequences)]);
  }
  return spread;
}

void Teacher::evaluate(Transformer& model, std::int64_t sequences, AttentionGraphs* graphs,
                       const std::function<void(std::int64_t)>& before,
                       const std::function<void(std::int64_t, const CrossEntropy&)>& after) const {
  const std::vector<std::int64_t> chosen = choose(Part::held_out, sequences);
  const auto kept = model.make_activations();
  Batch batch;
  for (std::int64_t i = 0; i < sequences; ++i) {
    check_interrupt();
    read_cut(Part::held_out, chosen[std::size_t(i)], batch);
    before(i);
    Pass pass{.gemm = find_gemm(plan_.train().gemm)};
    pass.graphs = graphs;
    after(i, model.loss_of(pass, batch, *kept));
  }
}

void Teacher::losses(std::int64_t sequences, AttentionGraphs* graphs,
                     const std::function<void(std::int64_t)>& before,
                     const std::function<void(std::int64_t, const CrossEntropy&)>& after) const {
  evaluate(*model_, sequences, graphs, before, after);
}

void Teacher::logits(
    std::int64_t sequences, AttentionGraphs& graphs,
    const std::function<void(std::int64_t, const Mat& all, const Mat& of_graphs)>& after) const {
  const std::vector<std::int64_t> chosen = choose(Part::held_out, sequences);
  const auto kept = model_->make_activations();
  Batch batch;
  Mat all, of_graphs;
  for (std::int64_t i = 0; i < sequences; ++i) {
    check_interrupt();
    read_cut(Part::held_out, chosen[std::size_t(i)], batch);
    Pass with_all{.gemm = find_gemm(plan_.train().gemm)};
    model_->logits_of(with_all, batch, *kept, all);
    Pass with_graphs{.gemm = with_all.gemm};
    with_graphs.graphs = &graphs;
    model_->logits_of(with_graphs, batch, *kept, of_graphs);
    after(i, all, of_graphs);
  }
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
  const std::vector<std::int64_t> chosen = choose(part, sequences);
  const auto kept = model_->make_activations(/*stored=*/true);
  std::vector<SequenceHeads> all;
  Batch batch;
  for (const std::int64_t i : chosen) {
    check_interrupt();
    read_cut(part, i, batch);
    SequenceHeads one;
    for (const AttentionView& view :
         model_->self_attentions(find_gemm(plan_.train().gemm), batch, *kept)) {
      one.q.push_back(*view.q);
      one.k.push_back(*view.k);
    }
    all.push_back(std::move(one));
    done(std::int64_t(all.size()));
  }
  return all;
}

}  // namespace scaling
