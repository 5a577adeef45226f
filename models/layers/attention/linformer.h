// Attention to a few sums over all positions instead of to the positions: Linformer's.
#pragma once

#include <array>
#include <cstdint>
#include <memory>

#include "models/attention.h"
#include "models/layers/attention/tiles.h"
#include "models/layers/traits.h"

namespace scaling {

/// What shares a matrix: the heads of a layer (one for keys and one for values), or keys and values
/// too.
enum class LinformerSharing { headwise, key_value };
constexpr std::array<const char*, 2> names_of(LinformerSharing) {
  return {"headwise", "key_value"};
}

struct LinformerKnobs {
  std::int64_t linformer_rank = 128;
  std::int64_t linformer_length = 0;
  LinformerSharing linformer_sharing = LinformerSharing::headwise;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    constexpr Trait size{.is_size = true};
    visit("linformer_rank", k.linformer_rank,
          "sums over positions that the linformer attention looks at", size);
    visit("linformer_length", k.linformer_length,
          "positions that the linformer attention has weights for; 0: max_length", size);
    visit("linformer_sharing", k.linformer_sharing,
          "matrices of the linformer attention: headwise, one for keys and one for values, or "
          "key_value, one for both");
  }
};

/// Self-attention only, and without a causal mask: each of linformer_rank sums is over all
/// positions, so that nothing of it could be hidden from an earlier query. Queries attend to E K
/// and F V, where E and F (rank, length) are parameters; a shorter sequence takes their first
/// columns. Padding is left out of the sums. Probabilities, of sums, are dropped in training.
class LinformerAttention : public SelfAttention {
 public:
  using Options = LinformerKnobs;
  static constexpr Traits kTraits{.step = StepIs::none, .has_graph = false};
  static void validate(const ModelConfig& config);
  static void shrink(ModelConfig& config);
  /// Parameters: e, and f unless keys and values share.
  explicit LinformerAttention(const ModelConfig& config);

  void visit_parameters(const ParameterVisitor& visit) override;
  std::int64_t workspace_floats(int, int) const override { return 0; }
  std::unique_ptr<Activations> make_activations() const override;
  using SelfAttention::forward;
  /// Throws UserError if the mask is causal, or a sequence is longer than E.
  void forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
               Activations& kept, Mat& o) const override;
  void backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
                Activations& kept, const Mat& do_, Mat& dq, Mat& dk, Mat& dv) const override;
  /// Throws UserError: there is no decode.
  std::unique_ptr<AttentionCache> make_cache(int tokens, std::int64_t capacity) const override;
  std::uint64_t cache_bytes(int, std::int64_t) const override { return 0; }
  void step(const StepContext& ctx, AttentionCache& cache, const float* q, const float* k,
            const float* v, float* o) const override;
  /// Nothing: there is no step.
  Cost step_cost(int, std::int64_t) const override { return {}; }
  /// No pairs: sums over positions, and queries with the sums.
  AttentionWork work(std::int64_t length, bool causal) const override;
  /// Those of attention to the sums, and an example's sums and their gradients, shared among the
  /// positions of a whole sequence; in a shorter one each weighs more. With padding one example's
  /// keys or values are held once more, whatever the number of examples.
  double activation_floats() const override {
    const double sums = 4.0 * double(rank_ * tiles_.heads * tiles_.d_head);
    return tiles_.activation_floats() + sums / double(length_);
  }
  double thread_floats(std::int64_t length) const override {
    return tiles_.thread_floats(length, rank_);
  }

 private:
  struct Kept;

  const Parameter& of_values() const { return shares_ ? e_ : f_; }
  void require_length(std::int64_t length) const;

  std::int64_t rank_, length_;
  bool shares_;
  TiledAttention tiles_;
  Parameter e_, f_;
};

}  // namespace scaling
