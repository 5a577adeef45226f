// A trained model whose attention looks at every pair, and what its heads ask and offer on
// stretches of text.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "models/attention_graphs.h"
#include "models/layers/attention/normaliser.h"
#include "models/sparsefinder/gold.h"
#include "models/tasks/task.h"
#include "models/transformer/transformer.h"

namespace scaling {

/// Where a teacher and its text come from. Texts: as the checkpoint's training run had them, unless
/// they are named.
struct TeacherSource {
  std::string checkpoint, corpus, validation;
  /// Of a sequence; 0: as in training, of pairs as many tokens as targets are joined to.
  std::int64_t length = 0;
  bool must_be_sparse = true;  ///< whether some of its probabilities have to be zero
  bool is_untrained = false;   ///< its weights as they were drawn, before any training
};

/// Queries and keys of one sequence, after the projection and before any scaling: a matrix
/// (positions, d_model) a layer.
struct SequenceHeads {
  std::vector<Mat> q, k;
};

/// What is known of a teacher without its weights and texts.
class TeacherPlan {
 public:
  /// Reads the checkpoint's description. Throws UserError if there is none; for a task whose
  /// examples are neither windows of one text nor pairs; for an attention that does not look at
  /// every pair, whose normaliser is not the same everywhere, or whose probabilities are never zero
  /// where they must be; for an untrained one whose training began with other weights than drawn
  /// ones; for a length that the model has no positions for, or that targets never have.
  explicit TeacherPlan(const TeacherSource& source);

  const ModelConfig& model() const { return model_; }
  /// One sequence a batch.
  const TrainConfig& train() const { return train_; }
  bool causal() const { return causal_; }
  std::int64_t length() const { return length_; }
  /// Whether an encoder reads a source. Sequences are then the first tokens of targets that have
  /// as many: of a causal decoder what is left out behind them changes nothing.
  bool has_source() const { return has_source_; }
  std::int64_t heads() const { return model_.decoder_layers * layer_heads(); }
  std::int64_t layer_heads() const { return model_.n_heads * model_.attention_layers; }
  std::int64_t d_head() const { return model_.d_head(); }
  /// Null: softmax, of a teacher that need not be sparse.
  const ThresholdNormaliser* normaliser() const { return normaliser_.get(); }
  const std::string& checkpoint() const { return checkpoint_; }
  bool is_untrained() const { return is_untrained_; }
  /// Of queries and keys of so many sequences.
  std::uint64_t bytes(std::int64_t sequences) const;

  /// Rows of head `head` of all layers' heads, layer after layer.
  HeadSlice queries(const SequenceHeads& of, std::int64_t head) const;
  HeadSlice keys(const SequenceHeads& of, std::int64_t head) const;

 private:
  std::string checkpoint_;
  ModelConfig model_;
  TrainConfig train_;
  bool causal_ = true, has_source_ = false, is_untrained_ = false;
  std::int64_t length_ = 0;
  std::shared_ptr<const ThresholdNormaliser> normaliser_;
};

/// The teacher's weights and texts.
class Teacher {
 public:
  enum class Part { training, held_out };

  /// plan outlives this. cache: folder of tokenised text. Throws UserError as texts and checkpoints
  /// do.
  Teacher(const TeacherPlan& plan, const std::string& cache, int threads);

  /// Of the decoder's self-attentions, in evaluation mode, without dropout. The held-out sequences
  /// are spread over the whole text, the training ones are the first of its random order; a masked
  /// task's have its masks, always the same. done: after each, of so many. Throws UserError with
  /// both numbers if the text has fewer.
  std::vector<SequenceHeads> heads(Part part, std::int64_t sequences,
                                   const std::function<void(std::int64_t)>& done) const;
  /// Of as many held-out sequences, spread likewise: the loss with the pairs of `graphs` alone;
  /// null: with all. before and after each: its number.
  void losses(std::int64_t sequences, AttentionGraphs* graphs,
              const std::function<void(std::int64_t)>& before,
              const std::function<void(std::int64_t, const CrossEntropy&)>& after) const;
  /// The logits of as many, with all pairs and with those of `graphs` alone.
  void logits(
      std::int64_t sequences, AttentionGraphs& graphs,
      const std::function<void(std::int64_t, const Mat& all, const Mat& of_graphs)>& after) const;
  /// Of another model of the same text.
  std::vector<CrossEntropy> losses_of(Transformer& model, std::int64_t sequences) const;
  const Task& task() const { return *task_; }

 private:
  void evaluate(Transformer& model, std::int64_t sequences, AttentionGraphs* graphs,
                const std::function<void(std::int64_t)>& before,
                const std::function<void(std::int64_t, const CrossEntropy&)>& after) const;
  /// Sequence i of all that the part has, whatever its length.
  void read(Part part, std::int64_t i, Batch& batch) const;
  /// So many that are long enough; throws UserError with both numbers if there are fewer.
  std::vector<std::int64_t> choose(Part part, std::int64_t sequences) const;
  /// Shortened to the plan's length.
  void read_cut(Part part, std::int64_t i, Batch& batch) const;

  const TeacherPlan& plan_;
  std::unique_ptr<Task> task_;
  std::unique_ptr<Transformer> model_;
};

}  // namespace scaling
