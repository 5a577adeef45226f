// LSH attention of one head of one example: hashing, and the attention of chunks to what is in
// their view (paper 4.4, steps 1 to 6). One thread's work, on contiguous copies.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "models/layers/attention/lsh_chunks.h"
#include "models/pass.h"

namespace scaling {

/// In the root mean square of a key.
inline constexpr float kLshEpsilon = 1e-6f;

/// Rows of one example and columns of one head in a matrix of all.
using HeadBlock = Eigen::Ref<const Mat, 0, Eigen::OuterStride<>>;

/// Whom a position sees of the chunks in its view: all, of whatever bucket, as the released code,
/// or those of its own bucket in the same round, as the paper.
enum class LshGraph { chunks, buckets };
constexpr std::array<const char*, 2> names_of(LshGraph) { return {"chunks", "buckets"}; }
/// What a key weighs that is met several times: so many times as much, as in the released code, or
/// once, as in the paper.
enum class LshCount { every_time, once };
constexpr std::array<const char*, 2> names_of(LshCount) { return {"every_time", "once"}; }

/// Whether scores depend on more than who is in view.
constexpr bool adjusts(LshGraph graph, LshCount count) {
  return graph != LshGraph::chunks || count != LshCount::every_time;
}

/// What forward and backward of a head must agree on.
struct LshCall {
  const Pass& pass;
  std::uint64_t stream = 0;  ///< of dropout
  std::int64_t index = 0;    ///< example * heads + head: its draws of the stream
  bool causal = false;
  const std::uint8_t* seen = nullptr;  ///< (length), 0: padding; null: there is none
  LshCut cut;
  LshHashing hashing;
  std::int32_t* buckets = nullptr;  ///< (rounds, length); padding's is behind all others
  LshGraph graph = LshGraph::chunks;
  LshCount count = LshCount::every_time;
  bool adjusts() const { return scaling::adjusts(graph, count); }
};

/// The buffers of one head after another.
class LshHead {
 public:
  /// Shared query and key (q + k) / 2, and v. All (length, d_head).
  void load(const HeadBlock& q, const HeadBlock& k, const HeadBlock& v);
  /// Fills call.buckets by `rotation()` (d_head, rounds * columns).
  void hash(const LshCall& call);
  float* rotation(const LshCall& call);
  /// o() from what was loaded. normalizers: (length), log of the sum of exp(logit) over all rounds;
  /// -infinity where nothing was in view.
  void forward(const LshCall& call, float* normalizers);
  /// dprojection() and dv() from what was loaded, o and its gradient.
  void backward(const LshCall& call, const HeadBlock& o, const HeadBlock& dout,
                const float* normalizers);

  const Mat& o() const { return o_; }
  /// Gradient of q, and as well of k.
  const Mat& dprojection() const { return dqk_; }
  const Mat& dv() const { return dv_; }
  /// Numbers in each buffer.
  std::vector<std::int64_t> sizes() const;
  /// About their sum after a forward and backward over one sequence.
  static double floats(const LshCut& cut, const LshHashing& hashing, std::int64_t d_head,
                       bool adjusts);

 private:
  /// Keys that a query sees: [0, end) of the view but for [hidden, hidden_end).
  struct Sight {
    std::int32_t hidden, hidden_end, end;
  };
  /// Queries of a chunk that go through together, and how many keys the last of them sees.
  struct Group {
    std::int64_t first, size, keys;
  };

  void size(const LshCall& call, bool for_backward);
  void sort(const LshCall& call);
  void gather(const LshCall& call, std::int64_t chunk);
  Group group_of(std::int64_t first) const;
  std::int64_t query_at(std::int64_t i) const { return query_positions_[std::size_t(i)]; }
  float own_share(const LshCall& call, std::int64_t entry) const;
  void drop_row(const LshCall& call, std::int64_t entry, std::int64_t keys, float* row) const;
  void adjust(const LshCall& call, std::int64_t i, float* scores) const;
  void clear_others(const LshCall& call, std::int64_t i, float* values) const;
  void softmax(const LshCall& call, std::int64_t first_entry, const Group& group);
  void combine(const LshCall& call, std::int64_t first_entry, float* normalizers);
  void softmax_backward(const LshCall& call, std::int64_t first_entry, const Group& group,
                        const float* normalizers);
  void group_backward(const LshCall& call, std::int64_t first_entry, const Group& group,
                      bool is_first, const float* normalizers);
  void scatter(std::int64_t keys);
  void backward_of_lengths();

  LshChunks chunks_;
  // (length, d_head); unit: keys of length one.
  Mat qk_, unit_, v_, o_, dout_, dqk_, dunit_, dv_;
  std::vector<float> inverse_lengths_, deltas_;  // (length)
  Mat rotation_, rotated_;                       // rotated: of some positions
  // The chunk at hand.
  std::span<const std::int32_t> query_positions_;
  std::vector<std::int32_t> key_positions_;
  std::vector<std::int64_t> key_codes_;  // where scores are adjusted
  std::span<const std::int64_t> query_codes_;
  std::vector<Sight> sights_;                      // of queries
  Mat queries_, outputs_, dqueries_;               // (chunk, d_head)
  Mat keys_, values_, dkeys_, dvalues_;            // (view, d_head)
  Mat scores_, gradient_;                          // (queries at once, padded view)
  std::vector<float> normalizers_, inverse_sums_;  // of queries
};

}  // namespace scaling
