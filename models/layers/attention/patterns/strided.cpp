// Phases: positions that are a multiple of the stride apart.
#include "models/layers/attention/patterns/strided.h"

#include <algorithm>

#include "models/config_checks.h"

namespace scaling {

void Strided::cut(const PatternCall& call, Parts& parts) const {
  parts.all.push_back(
      {.queries = {.n = call.queries}, .keys = {.n = call.keys}, .kind = Kind::neighbours});
  for (std::int64_t phase = 0; phase < std::min(stride_, call.keys); ++phase) {
    const std::int64_t n = (call.keys - phase + stride_ - 1) / stride_;
    if (n < 3) continue;  // all are neighbours
    const Positions positions = {.n = n, .first = phase, .run = 1, .step = stride_};
    parts.all.push_back({positions, positions, Kind::earlier});
    if (!call.causal) parts.all.push_back({positions, positions, Kind::later});
  }
}

Range Strided::visible(const PatternCall& call, const Part& part, std::int64_t i) const {
  switch (Kind(part.kind)) {
    case Kind::neighbours:
      return {std::max<std::int64_t>(0, i - stride_),
              call.causal ? i + 1 : std::min(call.keys, i + stride_ + 1)};
    case Kind::earlier:
      return {0, std::max<std::int64_t>(0, i - 1)};
    case Kind::later:
      return {std::min(part.keys.n, i + 2), part.keys.n};
  }
  return {};
}

std::int64_t Strided::listed(std::int64_t capacity) const {
  return std::max<std::int64_t>(0, (capacity - 1) / stride_ - 1);
}

std::int64_t Strided::slots(std::int64_t capacity) const {
  return ring(capacity) + stride_ * listed(capacity);
}

Pattern::Place Strided::place(std::int64_t /*head*/, std::int64_t position,
                              std::int64_t capacity) const {
  const std::int64_t phase = position % stride_, i = position / stride_, n = listed(capacity);
  return {.slot = position % ring(capacity),
          .copy = i < n ? ring(capacity) + phase * n + i : std::int64_t(-1)};
}

void Strided::reads(std::int64_t /*head*/, std::int64_t position, std::int64_t capacity,
                    std::vector<Range>& read) const {
  const std::int64_t beyond = position / stride_ - 1;  // of the phase's earlier positions
  read.push_back({0, std::min(position + 1, ring(capacity))});
  if (beyond <= 0) return;
  const std::int64_t list = ring(capacity) + position % stride_ * listed(capacity);
  read.push_back({list, list + beyond});
}

std::int64_t Strided::most_apart(std::int64_t capacity) const {
  const std::int64_t beyond = listed(capacity);
  return beyond > 0 ? ring(capacity) + beyond : 0;
}

void StridedAttention::validate(const ModelConfig& config) {
  PatternAttention::validate(config);
  require_positive("attention_stride", config.options<StrideKnobs>().attention_stride);
}

void StridedAttention::shrink(ModelConfig& config) { set_field(config, "attention_stride", 3); }

}  // namespace scaling
