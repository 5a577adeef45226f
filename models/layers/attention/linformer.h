// Attention to a few sums over all positions instead of to the positions: Linformer's.
#pragma once

#include <cstdint>
#include <memory>

#include "models/layers/attention/linformer_sums.h"
#include "models/layers/traits.h"

namespace scaling {

/// Without a causal mask: each of linformer_rank sums is over all positions, so that nothing of it
/// could be hidden from an earlier query.
class LinformerAttention : public SelfAttention {
 public:
  using Options = LinformerKnobs;
  static constexpr Traits kTraits{.step = StepIs::none, .has_graph = false};
  static void validate(const ModelConfig& config) { LinformerSums::validate(config); }
  static void shrink(ModelConfig& config) { LinformerSums::shrink(config); }
  explicit LinformerAttention(const ModelConfig& config) : sums_(config) {}

  void visit_parameters(const ParameterVisitor& visit) override { sums_.visit_parameters(visit); }
  std::int64_t workspace_floats(int, int) const override { return 0; }
  std::unique_ptr<Activations> make_activations() const override {
    return sums_.make_activations();
  }
  using SelfAttention::forward;
  /// Throws UserError if the mask is causal, or a sequence is longer than E.
  void forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
               Activations& kept, Mat& o) const override;
  void backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
                Activations& kept, const Mat& do_, Mat& dq, Mat& dk, Mat& dv) const override {
    sums_.backward(pass, q, k, v, mask, kept, do_, dq, dk, dv);
  }
  /// Throws UserError: there is no decode.
  std::unique_ptr<AttentionCache> make_cache(int tokens, std::int64_t capacity) const override;
  std::uint64_t cache_bytes(int, std::int64_t) const override { return 0; }
  void step(const StepContext& ctx, AttentionCache& cache, const float* q, const float* k,
            const float* v, float* o) const override;
  /// Nothing: there is no step.
  Cost step_cost(int, std::int64_t) const override { return {}; }
  AttentionWork work(std::int64_t length, bool) const override {
    return sums_.work(length, length);
  }
  /// Sums are an example's: shared among as many positions as E has columns; in a shorter sequence
  /// each weighs more.
  double activation_floats() const override {
    return sums_.activation_floats(sums_.length()) / double(sums_.length());
  }
  double thread_floats(std::int64_t length) const override { return sums_.thread_floats(length); }

 private:
  LinformerSums sums_;
};

/// The source is summed before the first step, so that a token reads linformer_rank keys and values
/// of a head, however long the source.
class LinformerCrossAttention : public CrossAttention {
 public:
  using Options = LinformerKnobs;
  static constexpr Traits kTraits{.has_graph = false};
  static void validate(const ModelConfig& config) { LinformerSums::validate(config); }
  static void shrink(ModelConfig& config) { LinformerSums::shrink(config); }
  explicit LinformerCrossAttention(const ModelConfig& config) : sums_(config) {}

  void visit_parameters(const ParameterVisitor& visit) override { sums_.visit_parameters(visit); }
  std::int64_t workspace_floats(int, int) const override { return 0; }
  std::unique_ptr<Activations> make_activations() const override {
    return sums_.make_activations();
  }
  using CrossAttention::forward;
  /// Throws UserError if a source is longer than E.
  void forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
               Activations& kept, Mat& o) const override {
    sums_.forward(pass, q, k, v, mask, kept, o);
  }
  void backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
                Activations& kept, const Mat& do_, Mat& dq, Mat& dk, Mat& dv) const override {
    sums_.backward(pass, q, k, v, mask, kept, do_, dq, dk, dv);
  }
  /// Of sums. Throws UserError if E has fewer columns than `capacity`.
  std::unique_ptr<AttentionCache> make_cache(int tokens, std::int64_t capacity) const override;
  std::uint64_t cache_bytes(int tokens, std::int64_t) const override {
    return KeyValueCache::bytes(tokens, sums_.heads(), sums_.rank(), sums_.d_head());
  }
  /// Adds to the sums.
  void fill(const StepContext& ctx, AttentionCache& cache, std::int64_t first, int n,
            const float* k, const float* v) const override;
  /// Attends to the sums, however many positions they are of.
  void step(const StepContext& ctx, AttentionCache& cache, std::int64_t length, const float* q,
            float* o) const override;
  Cost step_cost(int tokens, std::int64_t length) const override;
  AttentionWork work(std::int64_t queries, std::int64_t keys) const override {
    return sums_.work(queries, keys);
  }
  double activation_floats(std::int64_t queries, std::int64_t) const override {
    return sums_.activation_floats(queries);
  }
  double thread_floats(std::int64_t queries, std::int64_t) const override {
    return sums_.thread_floats(queries);
  }

 private:
  LinformerSums sums_;
};

}  // namespace scaling
