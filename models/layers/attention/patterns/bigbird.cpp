// One part a block of queries, its keys a list of blocks.
#include "models/layers/attention/patterns/bigbird.h"

#include <algorithm>
#include <string>

#include "kernels/check.h"
#include "kernels/random.h"
#include "models/config_checks.h"

namespace scaling {
namespace {

/// Streams of random blocks; passes count theirs from 0.
constexpr std::uint64_t kRandomBlocks = 0x6269672d62697264;
constexpr std::int64_t kCausally = 2;  // a stretch that no other rule has

std::int64_t rounded_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }

Range both(Range one, Range other) {
  const std::int64_t begin = std::max(one.begin, other.begin);
  return {begin, std::max(begin, std::min(one.end, other.end))};
}

}  // namespace

std::int64_t* BigBird::draw(std::int64_t head, std::int64_t row, std::int64_t stretch,
                            std::int64_t n, Range from, Range but, std::int64_t* end) const {
  from.end = std::max(from.begin, from.end);
  const Range hidden = both(from, but);
  const std::int64_t left = from.size() - hidden.size();
  n = std::min(n, left);
  std::int64_t* const first = end;
  const auto stream = kRandomBlocks + std::uint64_t(head) * 4 + std::uint64_t(stretch);
  // Floyd's: a subset of n out of `left`, each as likely, without a list of them.
  for (std::int64_t i = left - n; i < left; ++i) {
    const std::uint64_t index =
        std::uint64_t(row) * std::uint64_t(random_) + std::uint64_t(i - (left - n));
    const std::uint64_t bits = random_bits(seed_, stream, index)[0];
    auto chosen = std::int64_t((bits * std::uint64_t(i + 1)) >> 32);
    const auto block_of = [&](std::int64_t at) {
      return from.begin + at < hidden.begin ? from.begin + at : from.begin + at + hidden.size();
    };
    if (std::find(first, end, block_of(chosen)) != end) chosen = i;
    *end++ = block_of(chosen);
  }
  return end;
}

std::int64_t* BigBird::draw_random(std::int64_t head, std::int64_t row, std::int64_t blocks,
                                   std::int64_t length, std::int64_t* end) const {
  const Range near = {row - 1, row + 2}, inner = {1, blocks - 1};
  if (rule_ == RandomBlocks::uniform) return draw(head, row, 0, random_, inner, near, end);
  // Lengths that the released code was trained with.
  constexpr std::int64_t kTrained = 1024;
  if (length >= kTrained && length <= 4 * kTrained && length % kTrained == 0) {
    const Range early = {1, std::min(blocks - 1, kTrained / block_)};
    return draw(head, row, 0, random_, early, row >= blocks - 3 ? Range{} : near, end);
  }
  // Of a stretch neither its first block, if that is the sequence's, nor its last; for row 1 not
  // the one before that, and for the row of that one not block 1.
  const auto legal = [row](Range stretch) {
    Range blocks_left = {std::max<std::int64_t>(1, stretch.begin), stretch.end - 1};
    if (row == 1) --blocks_left.end;
    if (row == stretch.end - 2 && blocks_left.begin == 1) ++blocks_left.begin;
    return blocks_left;
  };
  const std::int64_t many = 2 * random_ + 5, some = random_ + 5;
  if (blocks > many) return draw(head, row, 0, random_, legal({0, many}), near, end);
  if (blocks > some) {
    end = draw(head, row, 0, random_ / 2, legal({0, some}), near, end);
    return draw(head, row, 1, random_ - random_ / 2, legal({some, blocks}), near, end);
  }
  return draw(head, row, 0, random_, legal({0, blocks}), near, end);
}

std::int64_t BigBird::seen_by(std::int64_t head, std::int64_t row, std::int64_t blocks,
                              std::int64_t length, std::int64_t* to) const {
  std::int64_t* end = to;
  for (const std::int64_t block : {std::int64_t(0), row - 1, row, row + 1, blocks - 1}) {
    *end++ = block;
  }
  end = draw_random(head, row, blocks, length, end);
  std::sort(to, end);
  return std::unique(to, end) - to;
}

std::int64_t BigBird::seen_causally(std::int64_t head, std::int64_t row, std::int64_t* to) const {
  std::int64_t* end = to;
  for (const std::int64_t block : {std::int64_t(0), std::max<std::int64_t>(0, row - 1), row}) {
    *end++ = block;
  }
  end = draw(head, row, kCausally, random_, {1, row - 1}, {}, end);
  std::sort(to, end);
  return std::unique(to, end) - to;
}

void BigBird::cut(const PatternCall& call, Parts& parts) const {
  SCALING_CHECK(call.queries == call.keys);
  const std::int64_t n = call.keys, blocks = rounded_up(n, block_);
  const std::int64_t most = most_seen(blocks);
  parts.starts.resize(std::size_t(blocks * most));
  for (std::int64_t row = 0; row < blocks; ++row) {
    const std::int64_t first = row * block_, end = std::min(n, first + block_);
    const Positions queries = {.n = end - first, .first = first};
    if (!call.causal && (row == 0 || row == blocks - 1)) {
      parts.all.push_back({queries, {.n = n}, Kind::all_keys});
      continue;
    }
    std::int64_t* starts = parts.starts.data() + row * most;
    const std::int64_t seen = call.causal ? seen_causally(call.head, row, starts)
                                          : seen_by(call.head, row, blocks, n, starts);
    // Only the last block may be shorter, and it is the last of the list.
    const std::int64_t last = std::min(n, (starts[seen - 1] + 1) * block_);
    const std::int64_t keys = (seen - 1) * block_ + last - starts[seen - 1] * block_;
    for (std::int64_t i = 0; i < seen; ++i) starts[i] *= block_;
    parts.all.push_back({queries,
                         {.n = keys, .run = block_, .starts = starts},
                         call.causal ? Kind::up_to_query : Kind::all_keys});
  }
}

Range BigBird::visible(const PatternCall& /*call*/, const Part& part, std::int64_t i) const {
  switch (Kind(part.kind)) {
    case Kind::all_keys:
      return {0, part.keys.n};
    case Kind::up_to_query:
      // The list ends with the queries' own block.
      return {0, part.keys.n - part.queries.n + i + 1};
  }
  return {};
}

Pattern::Place BigBird::place(std::int64_t /*head*/, std::int64_t position,
                              std::int64_t /*capacity*/) const {
  return {.slot = position};
}

void BigBird::reads(std::int64_t head, std::int64_t position, std::int64_t /*capacity*/,
                    std::vector<Range>& read) const {
  const std::int64_t row = position / block_;
  thread_local std::vector<std::int64_t> seen;  // a step allocates nothing
  seen.resize(std::size_t(most_seen(row)));
  const std::int64_t n = seen_causally(head, row, seen.data());
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t begin = seen[std::size_t(i)] * block_;
    const std::int64_t end = std::min(begin + block_, position + 1);
    if (i > 0 && read.back().end == begin) {
      read.back().end = end;
    } else {
      read.push_back({begin, end});
    }
  }
}

std::int64_t BigBird::most_apart(std::int64_t capacity) const {
  const std::int64_t most = 3 + random_;  // blocks
  return capacity / block_ < most ? capacity : most * block_;
}

void BigBirdAttention::validate(const ModelConfig& config) {
  PatternAttention::validate(config);
  const auto knobs = config.options<BigBirdKnobs>();
  require_positive("bigbird_block", knobs.bigbird_block);
  require_not_negative("bigbird_random", knobs.bigbird_random);
  if (knobs.bigbird_block > config.max_length) {
    throw UserError("bigbird_block " + std::to_string(knobs.bigbird_block) +
                    " is longer than max_length " + std::to_string(config.max_length) +
                    ", so that one block would be all of it; give shorter blocks");
  }
}

void BigBirdAttention::shrink(ModelConfig& config) {
  set_field(config, "bigbird_block", 2);
  set_field(config, "bigbird_random", 1);
}

}  // namespace scaling
