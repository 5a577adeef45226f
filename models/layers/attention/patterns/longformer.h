// A query looks at a window, which may have gaps, and at the first positions, which look at all and
// are looked at by all ("Longformer: The Long-Document Transformer").
#pragma once

#include <memory>

#include "models/layers/attention/patterns/window.h"

namespace scaling {

struct LongformerKnobs : WindowKnobs {
  std::int64_t longformer_dilation = 1, longformer_global = 1;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    constexpr Trait size{.is_size = true};
    visit("longformer_dilation", k.longformer_dilation,
          "distance of neighbours in the longformer attention's window; 1: no gaps", size);
    visit("longformer_global", k.longformer_global,
          "first positions that see all and that all see; they use the projections of the others, "
          "where the paper has a second set for what they see",
          size);
    WindowKnobs::fields(k, visit);
  }
};

/// With g = longformer_global, h = (window_width - 1) / 2 and a dilation: key j of query i if
/// j - i = u dilation, |u| <= h, or if i or j is below g; under a causal mask, if j <= i. Queries,
/// keys and values of global positions are those of the others: an attention gets what one
/// projection made, where the paper's has another for the rows of global positions.
///
/// Parts: rows of global positions, their columns, and the window of the others without them; with
/// gaps, of each residue by itself. A decode remembers global positions and a ring of h + 1
/// positions for each residue.
class Longformer : public Pattern {
 public:
  Longformer(std::int64_t width, std::int64_t dilation, std::int64_t global)
      : side_((width - 1) / 2), dilation_(dilation), global_(global) {}
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
};

class LongformerAttention : public PatternAttention {
 public:
  using Options = LongformerKnobs;
  /// Throws UserError if the width is even or not positive, the dilation not positive, or the
  /// number of global positions negative.
  static void validate(const ModelConfig& config);
  static void shrink(ModelConfig& config);
  explicit LongformerAttention(const ModelConfig& config)
      : LongformerAttention(config, config.options<LongformerKnobs>()) {}

 private:
  LongformerAttention(const ModelConfig& config, const LongformerKnobs& knobs)
      : PatternAttention(config,
                         std::make_unique<Longformer>(knobs.window_width, knobs.longformer_dilation,
                                                      knobs.longformer_global)) {}
};

}  // namespace scaling
