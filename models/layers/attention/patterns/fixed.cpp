// Blocks, and runs of summary positions, one a block.
#include "models/layers/attention/patterns/fixed.h"

#include <algorithm>
#include <string>

#include "kernels/check.h"
#include "models/config_checks.h"

namespace scaling {

std::int64_t Fixed::summaries(std::int64_t head, std::int64_t n) const {
  return n / block_ * summary_ +
         std::clamp<std::int64_t>(n % block_ - first_summary(head), 0, summary_);
}

void Fixed::cut(const PatternCall& call, Parts& parts) const {
  const Positions queries = {.n = call.queries};
  parts.all.push_back({queries, {.n = call.keys}, Kind::own_block});
  const Positions keys = {.n = summaries(call.head, call.keys),
                          .first = first_summary(call.head),
                          .run = summary_,
                          .step = block_};
  parts.all.push_back({queries, keys, Kind::earlier});
  if (!call.causal) parts.all.push_back({queries, keys, Kind::later});
}

Range Fixed::visible(const PatternCall& call, const Part& part, std::int64_t i) const {
  const std::int64_t block = i / block_;
  switch (Kind(part.kind)) {
    case Kind::own_block:
      return {block * block_, call.causal ? i + 1 : std::min(call.keys, (block + 1) * block_)};
    case Kind::earlier:
      return {0, block * summary_};
    case Kind::later:
      return {std::min(part.keys.n, (block + 1) * summary_), part.keys.n};
  }
  return {};
}

std::int64_t Fixed::slots(std::int64_t capacity) const {
  const std::int64_t all = (capacity + block_ - 1) / block_ * summary_;
  return others(capacity) + std::min(capacity, all);
}

Pattern::Place Fixed::place(std::int64_t head, std::int64_t position, std::int64_t capacity) const {
  const std::int64_t at = position % block_, before = summaries(head, position);
  if (summaries(head, position + 1) > before) return {.slot = others(capacity) + before};
  return {.slot = others(capacity) - 1 - (at < first_summary(head) ? at : at - summary_)};
}

void Fixed::reads(std::int64_t head, std::int64_t position, std::int64_t capacity,
                  std::vector<Range>& read) const {
  const std::int64_t all = summaries(head, position + 1), at = position % block_;
  const std::int64_t own = all - position / block_ * summary_;  // of the current block
  read.push_back({others(capacity) - (at + 1 - own), others(capacity) + all});
}

void FixedAttention::validate(const ModelConfig& config) {
  PatternAttention::validate(config);
  const auto knobs = config.options<FixedKnobs>();
  require_positive("attention_stride", knobs.attention_stride);
  require_positive("fixed_summary", knobs.fixed_summary);
  require_positive("fixed_subblocks", knobs.fixed_subblocks);
  if (knobs.fixed_subblocks > knobs.attention_stride / knobs.fixed_summary) {
    throw UserError("fixed_summary " + std::to_string(knobs.fixed_summary) + ", " +
                    std::to_string(knobs.fixed_subblocks) +
                    " times (fixed_subblocks), exceeds attention_stride " +
                    std::to_string(knobs.attention_stride) +
                    ", the positions of a block; choose smaller ones or a larger block");
  }
}

void FixedAttention::shrink(ModelConfig& config) {
  set_field(config, "attention_stride", 5);
  set_field(config, "fixed_summary", 2);
  set_field(config, "fixed_subblocks", 2);
}

}  // namespace scaling
