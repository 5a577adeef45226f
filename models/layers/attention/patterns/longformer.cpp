// Global positions come first; what is said of a window counts from behind them.
#include "models/layers/attention/patterns/longformer.h"

#include <algorithm>

#include "models/config_checks.h"

namespace scaling {

void Longformer::cut(const PatternCall& call, Parts& parts) const {
  const std::int64_t n = call.keys, g = globals(n), others = n - g;
  if (g > 0 && has_rows_) parts.all.push_back({{.n = g}, {.n = n}, Kind::rows});
  if (g > 0 && others > 0) {
    parts.all.push_back({{.n = others, .first = g}, {.n = g}, Kind::columns});
  }
  for (std::int64_t residue = 0; residue < std::min(dilation_, others); ++residue) {
    Positions positions = {.n = (others - residue + dilation_ - 1) / dilation_,
                           .first = g + residue};
    if (dilation_ > 1) {
      positions.run = 1;
      positions.step = dilation_;
    }
    parts.all.push_back({positions, positions, Kind::window});
  }
}

Range Longformer::visible(const PatternCall& call, const Part& part, std::int64_t i) const {
  switch (Kind(part.kind)) {
    case Kind::rows:
      return {0, call.causal ? i + 1 : part.keys.n};
    case Kind::columns:
      return {0, part.keys.n};
    case Kind::window:
      return {std::max<std::int64_t>(0, i - side_),
              std::min(part.keys.n, i + 1 + (call.causal ? 0 : side_))};
  }
  return {};
}

std::int64_t Longformer::ring(std::int64_t capacity) const {
  const std::int64_t others = capacity - globals(capacity);
  return std::min(side_ + 1, (others + dilation_ - 1) / dilation_);
}

std::int64_t Longformer::slots(std::int64_t capacity) const {
  const std::int64_t g = globals(capacity);
  return g + std::min(dilation_, capacity - g) * ring(capacity);
}

Pattern::Place Longformer::place(std::int64_t /*head*/, std::int64_t position,
                                 std::int64_t capacity) const {
  if (position < global_) return {.slot = position};
  const std::int64_t at = position - global_, slots_of_residue = ring(capacity);
  return {.slot = global_ + at % dilation_ * slots_of_residue + at / dilation_ % slots_of_residue};
}

void Longformer::reads(std::int64_t /*head*/, std::int64_t position, std::int64_t capacity,
                       std::vector<Range>& read) const {
  if (position < global_) {
    read.push_back({0, position + 1});
    return;
  }
  const std::int64_t at = position - global_, slots_of_residue = ring(capacity);
  const std::int64_t begin = global_ + at % dilation_ * slots_of_residue;
  const std::int64_t end = begin + std::min(at / dilation_ + 1, slots_of_residue);
  if (global_ > 0 && begin > global_) {
    read.push_back({0, global_});
    read.push_back({begin, end});
  } else {
    read.push_back({global_ > 0 ? 0 : begin, end});
  }
}

std::int64_t Longformer::most_apart(std::int64_t capacity) const {
  return global_ > 0 && dilation_ > 1 ? globals(capacity) + ring(capacity) : 0;
}

}  // namespace scaling
