// Ranges that move along with the query.
#include "models/layers/attention/patterns/window.h"

#include <algorithm>
#include <string>

#include "kernels/check.h"

namespace scaling {

void Window::keys_of(Range queries, std::int64_t keys, bool causal,
                     std::vector<Range>& ranges) const {
  ranges.push_back({std::max<std::int64_t>(0, queries.begin - side_),
                    std::min(keys, causal ? queries.end : queries.end + side_)});
}

Range Window::visible(std::int64_t query, Range keys, bool causal) const {
  const std::int64_t begin = std::clamp(query - side_, keys.begin, keys.end);
  return {begin, std::clamp(query + 1 + (causal ? 0 : side_), begin, keys.end)};
}

double Window::pairs(std::int64_t length, bool causal) const {
  // Itself, and on one side or on both as many as there are.
  const double side = double(std::min(side_, length - 1)), n = double(length);
  const double of_side = n * side - side * (side + 1) / 2;
  return n + (causal ? 1 : 2) * of_side;
}

std::int64_t Window::remembered(std::int64_t capacity) const {
  return std::min(capacity, side_ + 1);
}

void WindowAttention::validate(const ModelConfig& config) {
  const std::int64_t width = config.options<WindowKnobs>().window_width;
  if (width < 1 || width % 2 == 0) {
    throw UserError("window_width " + std::to_string(width) +
                    " is not an odd number of at least 1, and a window reaches equally far before "
                    "and after its query; give one");
  }
}

void WindowAttention::shrink(ModelConfig& config) { set_field(config, "window_width", 7); }

}  // namespace scaling
