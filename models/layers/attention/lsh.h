// Attention among positions that hash alike: Reformer's, with shared queries and keys (paper
// 4.4).
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "models/attention.h"
#include "models/layers/attention/lsh_head.h"
#include "models/layers/parts/partial_sums.h"
#include "models/layers/traits.h"

namespace scaling {

struct LshKnobs {
  std::int64_t lsh_chunk = 128;  // positions of a chunk (paper 4.4)
  std::int64_t lsh_rounds = 2;
  std::int64_t lsh_buckets = 0;        // of a round, even; 0: two a chunk
  std::int64_t lsh_chunks_before = 1;  // that a chunk sees beside itself
  std::int64_t lsh_chunks_after = 0;
  LshGraph lsh_graph = LshGraph::chunks;
  LshCount lsh_count = LshCount::every_time;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    constexpr Trait size{.is_size = true};
    visit("lsh_chunk", k.lsh_chunk, "positions in a chunk of the lsh attention", size);
    visit("lsh_rounds", k.lsh_rounds, "rounds of hashing of the lsh attention", size);
    visit("lsh_buckets", k.lsh_buckets, "buckets of a round, an even number; 0: two a chunk", size);
    visit("lsh_chunks_before", k.lsh_chunks_before, "chunks that a chunk sees before itself", size);
    visit("lsh_chunks_after", k.lsh_chunks_after, "chunks that a chunk sees after itself", size);
    visit("lsh_graph", k.lsh_graph,
          "whom a position sees in these: chunks, all of them, or buckets, its own bucket's");
    visit("lsh_count", k.lsh_count,
          "what a key weighs that several rounds bring: every_time, as often, or once");
  }
};

/// Self-attention only. Queries and keys are one: qk = (q + k) / 2 (paper 4.5, 'model' format),
/// as a key divided by its root mean square. In each of lsh_rounds rounds positions are sorted by
/// hash bucket and cut into chunks, and a position sees what is in its own chunk, lsh_chunks_before
/// before it and lsh_chunks_after after it (in a circle over all rounds; a chunk that would come
/// round twice is seen once), of whatever bucket, except itself, padding and, under a causal mask,
/// what is later. Only a position that sees nothing else in any round sees itself; a padding
/// position that sees nothing is zero. Rounds are combined by their normalisers, so that a key met
/// twice counts twice. lsh_graph=buckets leaves of these what is in its bucket in the same round;
/// lsh_count=once takes log N off the score of a key that a position meets N times: both are the
/// paper's, for which all scores of the chunks are computed all the same.
///
/// Who is in view depends on the hashes of all positions, under a causal mask of later ones too;
/// their keys and values do not enter.
///
/// The last chunk may be a shorter one, so that any length will do. Memory is linear in length.
class LshAttention : public SelfAttention {
 public:
  using Options = LshKnobs;
  /// A step chooses among all that went before, forward among neighbours in a sorted list.
  static constexpr Traits kTraits{.step = StepIs::approximate, .shares_heads = true};
  static void validate(const ModelConfig& config);
  explicit LshAttention(const ModelConfig& config);

  /// The buckets of one round: lsh_buckets, or if that is 0 two a chunk.
  LshHashing hashing_of(std::int64_t length) const;
  void take_heads(Range heads) override;
  int drawn_streams() const override { return 2; }

  /// What make_activations makes. chosen: buckets, (examples * heads, rounds, length); padding is
  /// in one of its own behind all others.
  struct Kept : Activations {
    /// The stream after that of the dropout.
    std::uint64_t rotation_stream() const { return stream + 1; }
    /// (examples * heads, length): log of the sum of exp(logit) over all rounds; -infinity where
    /// nothing was in view.
    std::vector<float> normalizers;
    Mat o;  ///< the last result
    /// A thread uses the one at its first pair of example and head, so only a few are ever sized.
    std::vector<LshHead> scratch;
    /// Numbers in the largest buffer, and in all of them.
    std::int64_t largest_buffer() const;
    std::int64_t elements() const;
  };

  std::int64_t workspace_floats(int, int) const override { return 0; }
  std::unique_ptr<Activations> make_activations() const override;
  using SelfAttention::forward;
  /// As many keys as queries. In training every
  /// example and head draws rotations of its own; in evaluation rotations depend on the config's
  /// seed and the head only, so that examples do not depend on their neighbours.
  void forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
               Activations& kept, Mat& o) const override;
  void backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
                Activations& kept, const Mat& do_, Mat& dq, Mat& dk, Mat& dv) const override;
  /// Keys and values; hashes of all positions, lists of each bucket's, and the rotations that make
  /// them: those of forward in evaluation of a sequence of `capacity` positions. Positions that
  /// step has not met have random hashes, for decodes that pretend.
  std::unique_ptr<AttentionCache> make_cache(int tokens, std::int64_t capacity) const override;
  std::uint64_t cache_bytes(int tokens, std::int64_t capacity) const override;
  /// Attends exactly, but to slots() positions at most, each once: the current one (which is masked
  /// if there is any other), those that share a bucket with it in any round, most recent first,
  /// then, unless lsh_graph is buckets, the most recent others. The cache's keys become normalised
  /// qk.
  void step(const StepContext& ctx, AttentionCache& cache, const float* q, const float* k,
            const float* v, float* o) const override;
  /// Automatic buckets are counted for a capacity of `length`; with lsh_graph=buckets, which are
  /// taken to be equally full, an expectation.
  Cost step_cost(int tokens, std::int64_t length) const override;
  /// Every key in view, in each round, of whatever bucket; of causal calls half, since what hashes
  /// alike is spread over the whole sequence.
  AttentionWork work(std::int64_t length, bool causal) const override;
  AttentionWork work_of(const Activations& kept, std::int64_t length, bool causal) const override;
  double activation_floats() const override { return double(heads_ * (d_head_ + rounds_ + 1)); }
  double thread_floats(std::int64_t length) const override;

  /// Positions that a step chooses: as many as a query sees in all rounds of forward.
  std::int64_t slots() const { return rounds_ * chunk_ * (1 + before_); }

  /// Positions of a chunk's queries and of the keys in its view, both ascending.
  using ViewVisitor = std::function<void(std::span<const std::int32_t> queries,
                                         std::span<const std::int32_t> keys)>;
  /// Who saw whom in the last forward of pair = example * heads + head, chunk by chunk through all
  /// rounds: before causal masks and before positions are hidden from themselves, but without
  /// padding keys (`seen` of the example; null: all are seen).
  void visit_views(const Kept& kept, std::int64_t pair, std::int64_t length,
                   const std::uint8_t* seen, const ViewVisitor& visit) const;

 private:
  struct Cache;

  LshAttention(const ModelConfig& config, const LshKnobs& knobs);
  /// Stream of rotations in evaluation; passes count theirs from 0.
  static constexpr std::uint64_t kFixedRotations = 0x6c73682d726f7461;

  double hashing_flops(std::int64_t length) const;
  LshCut cut_of(std::int64_t length) const;
  LshCall call_of(const Pass& pass, const AttentionMask& mask, Kept& kept, std::int64_t pair,
                  std::int64_t length) const;
  void hash(const LshCall& call, std::uint64_t rotation_stream, LshHead& head) const;
  std::int64_t alike(Cache& cache, std::int64_t unit, std::int64_t most,
                     std::int32_t* chosen) const;
  void step_head(const StepContext& ctx, Cache& cache, std::int64_t unit, const float* q,
                 const float* k, const float* v, float* o) const;

  std::int64_t first_ = 0, heads_, all_heads_;  // of the layer's heads, the first of its own
  std::int64_t d_head_, chunk_, rounds_, buckets_, before_, after_;
  LshGraph graph_;
  LshCount count_;
  std::uint64_t seed_;
};

}  // namespace scaling
