// One token at a time through a Transformer: owner of caches and layer states, and of the clock
// readings.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kernels/arena.h"
#include "models/transformer/sampler.h"
#include "models/transformer/transformer.h"

namespace scaling {

struct StepTiming {
  double token_seconds = 0;  ///< from embedding to sampled id
  double block_seconds =
      0;  ///< mean over the distinct decoder blocks, entry to exit, by thread 0's clock
};

class Decoder {
 public:
  /// tokens: sequences decoded together. capacity: cached positions. source_length: ignored if the
  /// model is decoder-only. The model (not allocated for training) and the team outlive this.
  /// Throws UserError if tokens is not in [1, kMaxTokens], or the caches do not fit in memory.
  Decoder(const Transformer& model, const KernelSet& kernels, Team& team, int tokens,
          std::int64_t capacity, std::int64_t source_length);
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  /// Forgets everything and takes in the encoder's output for `source` (source_length ids, the same
  /// for all sequences; ignored if decoder-only), padding dropped: into the cross-attention caches,
  /// or, of a concatenated model, through the decoder's blocks, position by position.
  void begin(const std::vector<int>& source);
  /// As begin(), from encoder output (source_length, ModelConfig::encoded_width()) computed
  /// before; no rows if decoder-only.
  void begin(const Mat& encoded);
  /// Pretends that `length` positions were decoded: caches get random keys and values. For context
  /// sweeps.
  void pretend_position(std::int64_t length);

  /// Consumes one id per sequence at the current position, writes the next ids.
  StepTiming step(const std::vector<int>& ids, std::vector<int>& next, Sampling how = {});
  /// Between two steps: sequence i goes on from what sequence source[i] was, one of [0, tokens());
  /// several may go on from one. What the last step left, logits() and touched_rows(), stays.
  void reorder(std::span<const int> source);
  /// From now on samples are drawn with this seed instead of the model's.
  void set_sampling_seed(std::uint64_t seed);
  /// From now on steps also note thread 0's time in each part of a block, at a clock reading each.
  void profile(bool on);
  /// Seconds of the last profiled step in each part, mean over the held blocks. They add up to its
  /// block_seconds.
  const PerPart<double>& part_seconds() const { return part_seconds_; }
  /// Barriers between threads that it passed there, mean over the held blocks.
  const PerPart<double>& part_barriers() const { return part_barriers_; }
  int tokens() const { return tokens_; }
  std::int64_t position() const { return position_; }
  /// The last step's: (tokens, vocab_size).
  const std::vector<float>& logits() const { return logits_; }
  /// Selections of the last step in each held block (FeedForward::touched_rows).
  std::vector<std::vector<std::int32_t>> touched_rows() const;
  /// Of each held block's feed-forward, as the next two: FeedForward::choices, chosen and replay.
  std::vector<Choices> choices() const;
  std::vector<std::vector<std::int32_t>> chosen() const;
  /// By block; empty: the block takes its own again.
  void replay(std::vector<std::vector<std::int32_t>> chosen);

 private:
  /// A thread's own streams, (tokens, d_model) each: branches read x and add to acc. A plain stack
  /// has both in one place.
  struct ThreadBuffers {
    float* x;
    float* acc;
    StepBuffers step;
  };

  void begin(const Mat& encoded, const std::vector<int>& ids);
  void step_of_thread(int thread);
  void embed(const std::vector<int>& ids, float* x) const;
  void start_streams(const ThreadBuffers& mine) const;
  void run_blocks(const StepContext& ctx, ThreadBuffers& mine);
  void mean_of_streams(const ThreadBuffers& mine) const;
  void prefill(const Mat& rows, const std::vector<int>& row_ids);
  std::int64_t prefix_length() const { return model_.config().is_concatenated() ? encoded_ : 0; }
  StepContext context(int thread, std::int64_t at, const int* ids);

  const Transformer& model_;
  const Stack& stack_;
  const KernelSet& kernels_;
  Team& team_;
  const int tokens_;
  const std::int64_t d_, capacity_, source_length_;
  std::vector<std::vector<std::unique_ptr<BranchState>>> states_;  // of each block's branches
  std::vector<std::vector<std::int32_t>> replayed_;  // by block, where its states find them
  std::unique_ptr<LayerState> loss_state_;
  Sampler sampler_;
  Arena arena_;
  float* workspace_ = nullptr;  // shared by the team
  std::vector<ThreadBuffers> threads_;
  const std::function<void(int)> job_;  // made once: no allocation in a step

  std::int64_t encoded_ = 0;  // positions of the encoder's output
  bool has_begun_ = false, is_profiling_ = false;
  std::int64_t position_ = 0;
  std::vector<float> logits_;
  PartClock clock_;  // thread 0's
  PerPart<double> part_seconds_{}, part_barriers_{};

  // The step that runs.
  const std::vector<int>* ids_ = nullptr;
  std::vector<int> next_;
  Sampling sampling_;
  StepTiming timing_;
};

/// Sums over one example, teacher-forced through the decode path: begins at `source`, feeds a 0 and
/// then the target's ids one by one. decoder: of one sequence, with room for the target. weights:
/// one a target id.
CrossEntropy decode_cross_entropy(Decoder& decoder, const std::vector<int>& source,
                                  const std::vector<int>& target,
                                  const std::vector<float>& weights);
/// Its mean: nats per weighted target token.
double decode_log_perplexity(Decoder& decoder, const std::vector<int>& source,
                             const std::vector<int>& target, const std::vector<float>& weights);

}  // namespace scaling
