// A query looks at a window, which may have gaps, and at the first positions, which look at all and
// are looked at by all ("Longformer: The Long-Document Transformer").
#pragma once

#include <array>
#include <memory>

#include "models/layers/attention/patterns/window.h"
#include "models/layers/parts/dense_product.h"

namespace scaling {

/// What projects the queries of global positions, and the keys and values that these look at.
enum class GlobalProjections { shared, own };
constexpr std::array<const char*, 2> names_of(GlobalProjections) { return {"shared", "own"}; }

struct LongformerKnobs : WindowKnobs {
  std::int64_t longformer_dilation = 1, longformer_global = 1;
  GlobalProjections longformer_projections = GlobalProjections::shared;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    constexpr Trait size{.is_size = true};
    visit("longformer_dilation", k.longformer_dilation,
          "distance of neighbours in the longformer attention's window; 1: no gaps", size);
    visit("longformer_global", k.longformer_global, "first positions that see all and that all see",
          size);
    visit("longformer_projections", k.longformer_projections,
          "of what global positions see: shared with the others, or own, the paper's second set");
    WindowKnobs::fields(k, visit);
  }
};

/// With g = longformer_global, h = (window_width - 1) / 2 and a dilation: key j of query i if
/// j - i = u dilation, |u| <= h, or if i or j is below g; under a causal mask, if j <= i. What
/// projects them is the attention's affair, which may leave rows of global positions out here.
///
/// Parts: rows of global positions, their columns, and the window of the others without them; with
/// gaps, of each residue by itself. A decode remembers global positions and a ring of h + 1
/// positions for each residue.
class Longformer : public Pattern {
 public:
  /// has_rows: false leaves out what global positions see.
  Longformer(std::int64_t width, std::int64_t dilation, std::int64_t global, bool has_rows = true)
      : side_((width - 1) / 2), dilation_(dilation), global_(global), has_rows_(has_rows) {}
  void cut(const PatternCall& call, Parts& parts) const override;
  Range visible(const PatternCall& call, const Part& part, std::int64_t i) const override;
  bool is_ring() const override { return global_ == 0 && dilation_ == 1; }
  std::int64_t slots(std::int64_t capacity) const override;
  Place place(std::int64_t head, std::int64_t position, std::int64_t capacity) const override;
  void reads(std::int64_t head, std::int64_t position, std::int64_t capacity,
             std::vector<Range>& read) const override;
  std::int64_t most_apart(std::int64_t capacity) const override;

 private:
  enum Kind { rows, columns, window };
  std::int64_t globals(std::int64_t n) const { return std::min(n, global_); }
  /// Slots of a residue.
  std::int64_t ring(std::int64_t capacity) const;

  std::int64_t side_, dilation_, global_;
  bool has_rows_;
};

/// With longformer_projections own, rows of global positions have queries, keys and values of their
/// own, dense products of what the layer's projection is given; the local ones serve all other
/// rows, whose global columns have the ordinary keys. Own ones start as the local ones do where
/// the layer's projection is dense, which has matrices of that shape; beside others they are drawn
/// like dense ones. Under a causal mask global rows see what is before them, thus global positions,
/// so that keys and values are projected for these alone.
class LongformerAttention : public PatternAttention {
 public:
  using Options = LongformerKnobs;
  /// Throws UserError if the width is even or not positive, the dilation not positive, or the
  /// number of global positions negative, or 0 where they have projections of their own.
  static void validate(const ModelConfig& config);
  static void shrink(ModelConfig& config);
  explicit LongformerAttention(const ModelConfig& config)
      : LongformerAttention(config, config.options<LongformerKnobs>()) {}
  ~LongformerAttention() override;

  /// Own projections: global_q, global_q_bias and those of k and v.
  void visit_parameters(const ParameterVisitor& visit) override;
  /// Throws UserError where projections are own: they are of all heads.
  void take_heads(Range heads) override;
  bool takes_input() const override { return rows_ != nullptr; }
  void take_input(const Mat& x, Activations& kept) const override;
  void take_input(const StepContext& ctx, AttentionCache& cache, const float* x) const override;
  void add_input_gradient(const Activations& kept, Mat& dx) const override;
  std::unique_ptr<Activations> make_activations() const override;
  using SelfAttention::forward;
  void forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
               Activations& kept, Mat& o) const override;
  void backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v, const AttentionMask& mask,
                Activations& kept, const Mat& do_, Mat& dq, Mat& dk, Mat& dv) const override;
  std::unique_ptr<AttentionCache> make_cache(int tokens, std::int64_t capacity) const override;
  std::uint64_t cache_bytes(int tokens, std::int64_t capacity) const override;
  void step(const StepContext& ctx, AttentionCache& cache, const float* q, const float* k,
            const float* v, float* o) const override;
  /// Own projections and their keys and values count while the current position is a global one.
  Cost step_cost(int tokens, std::int64_t length) const override;
  AttentionWork work(std::int64_t length, bool causal) const override;
  /// With own projections those of a call without a causal mask, in which all positions have keys
  /// and values for global rows.
  double activation_floats() const override;
  double thread_floats(std::int64_t length) const override;

 private:
  struct Rows;
  struct Kept;
  struct Cache;
  LongformerAttention(const ModelConfig& config, const LongformerKnobs& knobs);

  std::unique_ptr<Rows> rows_;  // null: projections are shared
};

}  // namespace scaling
