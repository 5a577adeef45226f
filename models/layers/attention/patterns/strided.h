// A query looks at its neighbours and at every attention_stride-th position ("Generating Long
// Sequences with Sparse Transformers", strided).
#pragma once

#include <memory>

#include "models/layers/attention/pattern_attention.h"

namespace scaling {

/// Of both patterns of the Sparse Transformer.
struct StrideKnobs : PatternKnobs {
  std::int64_t attention_stride = 128;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("attention_stride", k.attention_stride,
          "l of the strided and the fixed attention: its stride, its positions in a block",
          Trait{.is_size = true});
    PatternKnobs::fields(k, visit);
  }
};

/// With l = attention_stride: key j of query i if i - l <= j <= i, or if j <= i and i - j is a
/// multiple of l; both sets in every head. Without a causal mask, which the paper always has, the
/// same on either side.
///
/// Neighbours are one part; positions of one phase, l apart, are a part of each direction, without
/// those that are neighbours. A decode remembers the latest l + 1 positions in a ring and
/// beside it a list of each phase.
class Strided : public Pattern {
 public:
  explicit Strided(std::int64_t stride) : stride_(stride) {}
  void cut(const PatternCall& call, Parts& parts) const override;
  Range visible(const PatternCall& call, const Part& part, std::int64_t i) const override;
  bool is_ring() const override { return false; }
  std::int64_t slots(std::int64_t capacity) const override;
  Place place(std::int64_t head, std::int64_t position, std::int64_t capacity) const override;
  void reads(std::int64_t head, std::int64_t position, std::int64_t capacity,
             std::vector<Range>& read) const override;
  std::int64_t most_apart(std::int64_t capacity) const override;

 private:
  enum Kind { neighbours, earlier, later };
  std::int64_t ring(std::int64_t capacity) const { return std::min(capacity, stride_ + 1); }
  /// Entries of a phase's list: of those that some step reads beyond the ring.
  std::int64_t listed(std::int64_t capacity) const;

  std::int64_t stride_;
};

class StridedAttention : public PatternAttention {
 public:
  using Options = StrideKnobs;
  /// Throws UserError if the stride is not positive.
  static void validate(const ModelConfig& config);
  static void shrink(ModelConfig& config);
  explicit StridedAttention(const ModelConfig& config)
      : PatternAttention(
            config, std::make_unique<Strided>(config.options<StrideKnobs>().attention_stride)) {}
};

}  // namespace scaling
