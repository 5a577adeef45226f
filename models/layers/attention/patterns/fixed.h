// A query looks at its block and at the summary positions of other blocks ("Generating Long
// Sequences with Sparse Transformers", fixed).
#pragma once

#include <algorithm>
#include <memory>

#include "models/layers/attention/patterns/strided.h"

namespace scaling {

struct FixedKnobs : StrideKnobs {
  std::int64_t fixed_summary = 32, fixed_subblocks = 1;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    constexpr Trait size{.is_size = true};
    visit("fixed_summary", k.fixed_summary,
          "c of the fixed attention: positions of a block that later blocks see", size);
    visit("fixed_subblocks", k.fixed_subblocks,
          "places for these, counted from a block's end, that heads take in turn", size);
    StrideKnobs::fields(k, visit);
  }
};

/// With l = attention_stride, c = fixed_summary: key j <= i of query i if both are in the same
/// block of l, or if l - c (u + 1) <= j mod l < l - c u, u being the head modulo fixed_subblocks
/// (1: the last c of each block, for all heads); both sets in every head. Without a causal mask,
/// which the paper always has, the whole block and summaries of all.
///
/// A decode remembers summaries, and of the current block what else there is: in slots that go
/// down as positions go up, next to the summaries, so that what a step reads is one range.
class Fixed : public Pattern {
 public:
  Fixed(std::int64_t block, std::int64_t summary, std::int64_t subblocks)
      : block_(block), summary_(summary), subblocks_(subblocks) {}
  void cut(const PatternCall& call, Parts& parts) const override;
  Range visible(const PatternCall& call, const Part& part, std::int64_t i) const override;
  bool differs_by_head() const override { return subblocks_ > 1; }
  bool is_ring() const override { return false; }
  std::int64_t slots(std::int64_t capacity) const override;
  Place place(std::int64_t head, std::int64_t position, std::int64_t capacity) const override;
  void reads(std::int64_t head, std::int64_t position, std::int64_t capacity,
             std::vector<Range>& read) const override;

 private:
  enum Kind { own_block, earlier, later };
  /// A block's first summary position, from its start.
  std::int64_t first_summary(std::int64_t head) const {
    return block_ - summary_ * (head % subblocks_ + 1);
  }
  /// Slots for what is no summary, of one block.
  std::int64_t others(std::int64_t capacity) const { return std::min(block_ - summary_, capacity); }
  /// Summary positions among the first n of a sequence.
  std::int64_t summaries(std::int64_t head, std::int64_t n) const;

  std::int64_t block_, summary_, subblocks_;
};

class FixedAttention : public PatternAttention {
 public:
  using Options = FixedKnobs;
  /// Throws UserError if a number is not positive or a block has no room for the summaries.
  static void validate(const ModelConfig& config);
  static void shrink(ModelConfig& config);
  explicit FixedAttention(const ModelConfig& config)
      : FixedAttention(config, config.options<FixedKnobs>()) {}

 private:
  FixedAttention(const ModelConfig& config, const FixedKnobs& knobs)
      : PatternAttention(config,
                         std::make_unique<Fixed>(knobs.attention_stride, knobs.fixed_summary,
                                                 knobs.fixed_subblocks)) {}
};

}  // namespace scaling
