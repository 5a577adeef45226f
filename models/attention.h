// Everything between projections: what an attention must offer to sit in a branch, and its caches.
// As for other layers (models/layer.h), forward in evaluation and step agree, unless the
// implementation says otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/huge_pages.h"
#include "models/layer.h"

namespace scaling {

/// What one attention remembers of earlier positions between the steps of a decode.
struct AttentionCache {
  virtual ~AttentionCache() = default;
  /// As if the first `length` positions had been decoded: draws from the stream of that name.
  /// Executed by every thread of the team.
  virtual void pretend(const StepContext& ctx, std::int64_t length, std::uint64_t seed,
                       const std::string& stream) = 0;
  /// As LayerState's.
  virtual void reorder(const StepContext& ctx, const RowMoves& moves) = 0;
};

/// Keys and values, (tokens, heads, capacity, d_head) each.
struct KeyValueCache : AttentionCache {
  KeyValueCache(int tokens, std::int64_t heads, std::int64_t capacity, std::int64_t d_head);
  static std::uint64_t bytes(int tokens, std::int64_t heads, std::int64_t capacity,
                             std::int64_t d_head);
  void pretend(const StepContext& ctx, std::int64_t length, std::uint64_t seed,
               const std::string& stream) override;
  /// Of slots that are a ring of positions: those that are in use.
  void reorder(const StepContext& ctx, const RowMoves& moves) override;
  /// The same for the first `slots` of each head.
  void move_slots(const StepContext& ctx, const RowMoves& moves, std::int64_t slots);
  /// A step of every head over its first `slots`, the heads of all tokens shared among the threads;
  /// a barrier stands behind it. q, o: (ctx.tokens, heads * d_head).
  void attend(const StepContext& ctx, std::int64_t slots, const float* q, float* o);
  static Cost attend_cost(int tokens, std::int64_t heads, std::int64_t slots, std::int64_t d_head);
  float* keys_of(int token, std::int64_t head);
  float* values_of(int token, std::int64_t head);
  float* scores_of(int token, std::int64_t head);
  int tokens;
  std::int64_t heads, capacity, d_head;
  std::vector<float, HugePages<float>> keys, values;
  std::vector<float> scores;  ///< (tokens, heads, capacity), of one step
};

/// Which keys a query may see.
struct AttentionMask {
  bool causal = false;                 ///< key position <= query position; as many keys as queries
  const std::uint8_t* keys = nullptr;  ///< (examples * key length), 0: padding; null: all are seen
  /// Of an example, one behind the other and of equal length. A query of the first sees its own; a
  /// query of a later one, of the first what the query at its place there sees, and itself.
  /// Attentions with Traits::has_streams know more than one.
  std::int64_t streams = 1;
};

/// What a forward of one sequence computes, all heads together.
struct AttentionWork {
  double pairs = 0;   ///< of a query and a key that meet: a score, and a share of the key's value
  double choice = 0;  ///< FLOP of finding out who meets; backward does not repeat them
  /// FLOP of a forward, and of its backward, that belong to no pair. Where there is no graph
  /// (Traits::has_graph) they are all there is.
  double products = 0, backward_products = 0;
  /// FLOP of a forward: two products of a pair. Of a forward and its backward: six; scores that are
  /// made again do not count.
  double forward_flops(std::int64_t d_head) const {
    return choice + products + 4 * double(d_head) * pairs;
  }
  double step_flops(std::int64_t d_head) const {
    return choice + products + backward_products + 12 * double(d_head) * pairs;
  }
};

/// Between q, k, v and o of one sequence's positions. One for each branch: it may have parameters.
class SelfAttention : public Layer {
 public:
  void visit_parameters(const ParameterVisitor&) override {}
  /// q, k, v, o: (examples * length, d_model). Drops attention probabilities in training.
  virtual void forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                       const AttentionMask& mask, Activations& kept, Mat& o) const = 0;
  virtual void backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                        const AttentionMask& mask, Activations& kept, const Mat& do_, Mat& dq,
                        Mat& dk, Mat& dv) const = 0;
  /// Evaluation of one sequence.
  Mat forward(const Mat& q, const Mat& k, const Mat& v, bool causal) const;

  /// Has these heads of the layer alone from here on: reads and writes no columns of others, but
  /// matrices and steps keep their width. Once, before anything else. For those whose traits say
  /// that they share heads.
  virtual void take_heads(Range heads);
  /// Streams of draws that a forward takes (Pass::new_stream), one right after the other.
  virtual int drawn_streams() const { return 1; }

  // Of attentions that project positions themselves, beside what the layer's projection makes.
  /// Whether it does: the next three are called all the same, and do nothing where it does not. For
  /// tests, which then look at the gradient of what it was given.
  virtual bool takes_input() const { return false; }
  /// Before forward: what the projection is given; it stays as it is until after backward.
  virtual void take_input(const Mat& /*x*/, Activations& /*kept*/) const {}
  /// After backward: adds to the gradient of that.
  virtual void add_input_gradient(const Activations& /*kept*/, Mat& /*dx*/) const {}
  /// Before step, by every thread with equal values: (tokens, d_model).
  virtual void take_input(const StepContext& /*ctx*/, AttentionCache& /*cache*/,
                          const float* /*x*/) const {}

  /// For decodes of up to `capacity` positions.
  virtual std::unique_ptr<AttentionCache> make_cache(int tokens, std::int64_t capacity) const = 0;
  virtual std::uint64_t cache_bytes(int tokens, std::int64_t capacity) const = 0;
  /// Takes k, v at ctx.position into the cache (of make_cache) and attends over positions [0,
  /// ctx.position]. q, k, v, o: (tokens, d_model).
  virtual void step(const StepContext& ctx, AttentionCache& cache, const float* q, const float* k,
                    const float* v, float* o) const = 0;
  /// length: positions up to the current one.
  virtual Cost step_cost(int tokens, std::int64_t length) const = 0;
  /// Counted after a step at the last of these positions.
  virtual Cost step_cost_of(const AttentionCache& /*cache*/, int tokens,
                            std::int64_t length) const {
    return step_cost(tokens, length);
  }

  /// Work of one sequence; an expectation where who meets depends on the values.
  virtual AttentionWork work(std::int64_t length, bool causal) const = 0;
  /// Counted after a forward of one sequence without padding.
  virtual AttentionWork work_of(const Activations& /*kept*/, std::int64_t length,
                                bool causal) const {
    return work(length, causal);
  }
  /// Floats that Activations hold for each query; linear in length for every implementation.
  virtual double activation_floats() const = 0;
  /// About what the buffers of each thread hold beside them in a training step, for an example of
  /// `length` positions; candidates for thresholds apart, whose number depends on the values.
  virtual double thread_floats(std::int64_t length) const = 0;
};

/// Between q of one sequence and k, v of another. One for each branch.
class CrossAttention : public Layer {
 public:
  void visit_parameters(const ParameterVisitor&) override {}
  /// q, o: (examples * query length, d_model); k, v: (examples * key length, d_model); mask: not
  /// causal. Drops attention probabilities in training.
  virtual void forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                       const AttentionMask& mask, Activations& kept, Mat& o) const = 0;
  virtual void backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                        const AttentionMask& mask, Activations& kept, const Mat& do_, Mat& dq,
                        Mat& dk, Mat& dv) const = 0;
  /// Evaluation of one sequence.
  Mat forward(const Mat& q, const Mat& k, const Mat& v) const;

  /// For up to `capacity` keys.
  virtual std::unique_ptr<AttentionCache> make_cache(int tokens, std::int64_t capacity) const = 0;
  virtual std::uint64_t cache_bytes(int tokens, std::int64_t capacity) const = 0;
  /// k, v (n, d_model) become every sequence's positions from `first` on: all of a source from 0,
  /// once and in order; with 0 another source begins. Executed by every thread of the team; a
  /// barrier before the next step is the caller's.
  virtual void fill(const StepContext& ctx, AttentionCache& cache, std::int64_t first, int n,
                    const float* k, const float* v) const = 0;
  /// Attends to the `length` positions that were filled in. q, o: (tokens, d_model).
  virtual void step(const StepContext& ctx, AttentionCache& cache, std::int64_t length,
                    const float* q, float* o) const = 0;
  virtual Cost step_cost(int tokens, std::int64_t length) const = 0;

  virtual AttentionWork work(std::int64_t queries, std::int64_t keys) const = 0;
  /// Floats that Activations hold for an example.
  virtual double activation_floats(std::int64_t queries, std::int64_t keys) const = 0;
  /// As SelfAttention's.
  virtual double thread_floats(std::int64_t queries, std::int64_t keys) const = 0;
};

}  // namespace scaling
