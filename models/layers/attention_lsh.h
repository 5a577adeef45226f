// Attention among positions that hash alike: Reformer's, with shared queries and keys (reference
// 4.4).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/layer.h"

namespace scaling {

/// Self-attention only. Queries and keys are one: qk = (q + k) / 2 (reference 4.5, 'model' format),
/// as a key divided by its root mean square. In each of lsh_rounds rounds positions are sorted by
/// hash bucket and cut into chunks, and a position sees what is in its own chunk, lsh_chunks_before
/// before it and lsh_chunks_after after it (in a circle over all rounds; a chunk that would come
/// round twice is seen once), of whatever bucket, except itself, padding and, under a causal mask,
/// what is later. Only a position that sees nothing else in any round sees itself; a padding
/// position that sees nothing is zero. Rounds are combined by their normalisers, so that a key met
/// twice counts twice.
///
/// The last chunk may be a shorter one, so that any length will do. Memory is linear in length.
class LshAttention : public Attention {
 public:
  explicit LshAttention(const ModelConfig& config);

  /// The buckets of one round: those of one hash, or of two together.
  struct Hashing {
    std::int64_t first = 2, second = 1;
    std::int64_t buckets() const { return first * second; }
    /// Random directions; a bucket is a direction or its opposite.
    std::int64_t columns() const { return first / 2 + second / 2; }
  };
  /// lsh_buckets, or if that is 0 two a chunk; more than 128 are made of two hashes (fewer buckets
  /// than asked for, if their number does not split).
  Hashing hashing_of(std::int64_t length) const;

  /// One thread's buffers for one example and head.
  struct Scratch {
    Mat qk, unit, dqk, dunit;                      ///< (length, d_head); unit: keys of length one
    std::vector<float> inverse_lengths, deltas;    ///< (length)
    Mat rotation;                                  ///< (d_head, rounds * columns)
    Mat rotated;                                   ///< of some positions
    std::vector<std::int64_t> starts;              ///< of buckets
    std::vector<std::int32_t> order;               ///< (rounds * length): positions as sorted
    std::vector<std::int32_t> positions;           ///< of the keys that a chunk sees
    Mat queries, outputs, dqueries;                ///< (chunk, d_head)
    Mat keys, values, dkeys, dvalues;              ///< (keys in view, d_head)
    Mat scores, gradient;                          ///< (chunk, keys in view)
    std::vector<float> normalizers, inverse_sums;  ///< (chunk)
  };
  /// What make_activations makes; a pass that replays takes `buckets` from here.
  struct Kept : Activations {
    std::uint64_t rotation_stream = 0;
    /// (examples * heads, rounds, length); padding is in a bucket of its own behind all others.
    std::vector<std::int32_t> buckets;
    /// (examples * heads, length): log of the sum of exp(logit) over all rounds; -infinity where
    /// nothing was in view.
    std::vector<float> normalizers;
    Mat o;  ///< the last result
    /// A thread uses the one at its first pair of example and head, so only a few are ever sized.
    std::vector<Scratch> scratch;
    /// Numbers in the largest buffer, and in all of them.
    std::int64_t largest_buffer() const;
    std::int64_t elements() const;
  };

  /// Of step, for each thread: keys and values of the chosen positions.
  std::int64_t workspace_floats(int tokens, int threads) const override;
  std::unique_ptr<Activations> make_activations() const override;
  /// Hashes of all positions of a decode, and the rotations that make them: those of forward in
  /// evaluation of a sequence of `capacity` positions. Positions that step has not met have random
  /// hashes, for decodes that pretend.
  std::unique_ptr<LayerState> make_memory(int tokens, std::int64_t capacity) const override;
  using Attention::forward;
  /// As many keys as queries, else throws UserError: this is no cross-attention. In training every
  /// example and head draws rotations of its own; in evaluation rotations depend on the config's
  /// seed and the head only, so that examples do not depend on their neighbours.
  void forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
               Activations& kept, Mat& o) const override;
  void backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
                Activations& kept, const Mat& do_, Mat& dq, Mat& dk, Mat& dv) const override;
  /// Attends exactly, but to slots() positions at most: the current one (which is masked if there
  /// is any other), those that share a bucket with it in any round, most recent first, then the
  /// most recent others. cache.more must be make_memory's; the cache's keys become normalised qk.
  void step(const StepContext& ctx, KeyValueCache& cache, const float* q, const float* k,
            const float* v, float* o) const override;
  /// Throws UserError: there is no cross-attention by hashes.
  void step_fixed(const StepContext& ctx, KeyValueCache& cache, std::int64_t length, const float* q,
                  float* o) const override;
  /// Automatic buckets are counted for a capacity of `length`.
  Cost step_cost(int tokens, std::int64_t length) const override;

  /// Positions that a step chooses: as many as a query sees in all rounds of forward.
  std::int64_t slots() const { return rounds_ * chunk_ * (1 + before_); }

 private:
  struct Head;
  struct Memory;

  std::int64_t chunk_of(std::int64_t length) const;
  std::int64_t keys_in_view(std::int64_t length) const;
  Head head_of(const Pass& pass, const AttentionMask& mask, const Kept& kept, std::int64_t pair,
               std::int64_t length) const;
  void size(const Head& head, bool for_backward, Scratch& s) const;
  void share_projections(const Head& head, const Mat& q, const Mat& k, Scratch& s) const;
  void draw_rotation(std::uint64_t seed, std::uint64_t stream, std::int64_t index,
                     const Hashing& hashing, float* rotation) const;
  void hash(const Head& head, std::int32_t* buckets, Scratch& s) const;
  void sort(const Head& head, const std::int32_t* buckets, Scratch& s) const;
  Range gather(const Head& head, std::int64_t chunk, const Mat& v, Scratch& s) const;
  void attend(const Head& head, const Mat& v, float* normalizers, Scratch& s, Mat& o) const;
  float own_share(const Head& head, std::int64_t entry) const;
  void softmax(const Head& head, Range entries, Scratch& s) const;
  void combine(const Head& head, Range entries, const Mat& v, float* normalizers, const Scratch& s,
               Mat& o) const;
  void softmax_backward(const Head& head, Range entries, const float* normalizers, Scratch& s,
                        const Mat& do_, Mat& dv) const;
  void attend_backward(const Head& head, const Mat& v, const float* normalizers, Scratch& s,
                       const Mat& do_, Mat& dv) const;
  void unshare_projections(const Head& head, const Scratch& s, Mat& dq, Mat& dk) const;
  void step_head(const StepContext& ctx, KeyValueCache& cache, Memory& memory, std::int64_t unit,
                 const float* q, const float* k, const float* v, float* o) const;

  std::int64_t heads_, d_head_, chunk_, rounds_, buckets_, before_, after_;
  std::uint64_t seed_;
};

}  // namespace scaling
