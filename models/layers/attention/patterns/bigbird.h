// A query's block looks at the first and the last block, at its neighbours and at random blocks
// ("Big Bird: Transformers for Longer Sequences", global tokens among the sequence's own).
#pragma once

#include <array>
#include <memory>

#include "models/layers/attention/pattern_attention.h"

namespace scaling {

enum class RandomBlocks { uniform, plan };
constexpr std::array<const char*, 2> names_of(RandomBlocks) { return {"uniform", "plan"}; }

struct BigBirdKnobs : PatternKnobs {
  std::int64_t bigbird_block = 64, bigbird_random = 3;
  RandomBlocks bigbird_blocks = RandomBlocks::uniform;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    constexpr Trait size{.is_size = true};
    visit("bigbird_block", k.bigbird_block, "positions in a block of the bigbird attention", size);
    visit("bigbird_random", k.bigbird_random, "random blocks that a block sees", size);
    visit("bigbird_blocks", k.bigbird_blocks,
          "where random blocks are without a causal mask: uniform, the paper's intent, or plan, "
          "where the released code has them, mostly near the start");
    PatternKnobs::fields(k, visit);
  }
};

/// Blocks of bigbird_block positions, the last maybe shorter. The first and the last see all.
/// Every other sees the first, the last, itself, the block before, the block after and
/// bigbird_random others, or all others if there are no more: drawn for each head from the seed,
/// by the uniform rule or the plan's (see `draw_random`). A key that is chosen twice counts once.
///
/// The paper knows no causal mask. With one the pattern is ours: a block sees the first, the one
/// before, itself and bigbird_random of those between, drawn uniformly whatever the sequence's
/// length, so that a decode step sees what forward does. A decode remembers every position, since
/// any may be drawn later.
class BigBird : public Pattern {
 public:
  BigBird(std::int64_t block, std::int64_t random, RandomBlocks rule, std::uint64_t seed)
      : block_(block), random_(random), rule_(rule), seed_(seed) {}
  void cut(const PatternCall& call, Parts& parts) const override;
  Range visible(const PatternCall& call, const Part& part, std::int64_t i) const override;
  bool differs_by_head() const override { return random_ > 0; }
  bool is_ring() const override { return false; }
  std::int64_t slots(std::int64_t capacity) const override { return capacity; }
  Place place(std::int64_t head, std::int64_t position, std::int64_t capacity) const override;
  void reads(std::int64_t head, std::int64_t position, std::int64_t capacity,
             std::vector<Range>& read) const override;
  std::int64_t most_apart(std::int64_t capacity) const override;

 private:
  enum Kind { all_keys, up_to_query };
  /// Blocks that block `row`, neither the first nor the last of a sequence of `length`, sees:
  /// ascending, each once, to `to`, which has room for most_seen. Returns how many.
  std::int64_t seen_by(std::int64_t head, std::int64_t row, std::int64_t blocks,
                       std::int64_t length, std::int64_t* to) const;
  /// The same of any block under a causal mask.
  std::int64_t seen_causally(std::int64_t head, std::int64_t row, std::int64_t* to) const;
  /// Room for what a block sees that neither is the first nor the last.
  std::int64_t most_seen(std::int64_t blocks) const { return 5 + std::min(random_, blocks); }
  /// Writes up to n different blocks of `from`, none of those in `but`, to `end`; returns the new
  /// end. stretch: tells draws of one row apart.
  std::int64_t* draw(std::int64_t head, std::int64_t row, std::int64_t stretch, std::int64_t n,
                     Range from, Range but, std::int64_t* end) const;
  /// Without a causal mask, by the rule. The plan's, of the released code: of sequences of 1024,
  /// 2048, 3072 and 4096 positions all are among the first 1024, and the last two rows but one may
  /// draw neighbours; of others all are in the first 2 r + 5 blocks (r: bigbird_random), or where
  /// there are no more, half are in the first r + 5 and the others beyond, or where there are no
  /// more than that, anywhere. Of such a stretch of blocks the last is never drawn, by row 1
  /// neither the one before it, and by the row of that one not block 1; so a row may draw fewer
  /// than r.
  std::int64_t* draw_random(std::int64_t head, std::int64_t row, std::int64_t blocks,
                            std::int64_t length, std::int64_t* end) const;

  std::int64_t block_, random_;
  RandomBlocks rule_;
  std::uint64_t seed_;
};

class BigBirdAttention : public PatternAttention {
 public:
  using Options = BigBirdKnobs;
  /// Throws UserError if a block has no position or the number of random blocks is negative.
  static void validate(const ModelConfig& config);
  static void shrink(ModelConfig& config);
  explicit BigBirdAttention(const ModelConfig& config)
      : BigBirdAttention(config, config.options<BigBirdKnobs>()) {}

 private:
  BigBirdAttention(const ModelConfig& config, const BigBirdKnobs& knobs)
      : PatternAttention(config,
                         std::make_unique<BigBird>(knobs.bigbird_block, knobs.bigbird_random,
                                                   knobs.bigbird_blocks, config.seed)) {}
};

}  // namespace scaling
