// Several attentions that share the heads of one layer.
#pragma once

#include <memory>
#include <vector>

#include "models/attention.h"

namespace scaling {

/// Each part has taken heads of its own (SelfAttention::take_heads) and leaves the columns of
/// others alone, so that nothing is copied. Caches, work and what is kept are the sums of the
/// parts', but for what they choose, which is held twice, as theirs and as this layer's, and priced
/// once. In training each draws its own dropout, from a stream after that of the part before.
/// Parameters: those of the parts, the first one's behind "heads0." and so on.
class SplitAttention : public SelfAttention {
 public:
  /// At least one; together they have every head once.
  explicit SplitAttention(std::vector<std::unique_ptr<SelfAttention>> parts);
  void visit_parameters(const ParameterVisitor& visit) override;
  std::int64_t workspace_floats(int tokens, int threads) const override;
  std::unique_ptr<Activations> make_activations() const override;
  using SelfAttention::forward;
  void forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
               Activations& kept, Mat& o) const override;
  void backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
                Activations& kept, const Mat& do_, Mat& dq, Mat& dk, Mat& dv) const override;
  std::unique_ptr<AttentionCache> make_cache(int tokens, std::int64_t capacity) const override;
  std::uint64_t cache_bytes(int tokens, std::int64_t capacity) const override;
  /// The parts one after another, each shared among all threads: of one's heads a thread may have
  /// more to read than of another's.
  void step(const StepContext& ctx, AttentionCache& cache, const float* q, const float* k,
            const float* v, float* o) const override;
  Cost step_cost(int tokens, std::int64_t length) const override;
  AttentionWork work(std::int64_t length, bool causal) const override;
  AttentionWork work_of(const Activations& kept, std::int64_t length, bool causal) const override;
  double activation_floats() const override;
  double thread_floats(std::int64_t length) const override;

 private:
  struct Kept;
  struct Cache;
  /// What the parts chose becomes what the layer did: of each how much, and that.
  static void gather_choices(Kept& kept);
  static void hand_out_choices(Kept& kept);
  std::vector<std::unique_ptr<SelfAttention>> parts_;
};

}  // namespace scaling
