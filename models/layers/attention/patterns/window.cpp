// Ranges that move along with the query.
#include "models/layers/attention/patterns/window.h"

#include <algorithm>
#include <string>

#include "kernels/check.h"

namespace scaling {

void Window::cut(const PatternCall& call, Parts& parts) const {
  parts.all.push_back({.queries = {.n = call.queries}, .keys = {.n = call.keys}});
}

Range Window::visible(const PatternCall& call, const Part& /*part*/, std::int64_t i) const {
  return {std::max<std::int64_t>(0, i - side_),
          std::min(call.keys, i + 1 + (call.causal ? 0 : side_))};
}

std::int64_t Window::slots(std::int64_t capacity) const { return std::min(capacity, side_ + 1); }

void WindowAttention::validate(const ModelConfig& config) {
  PatternAttention::validate(config);
  const std::int64_t width = config.options<WindowKnobs>().window_width;
  if (width < 1 || width % 2 == 0) {
    throw UserError(
        "window_width " + std::to_string(width) +
        " is not an odd number of at least 1, and a window reaches equally far before "
        "and after its query; give " +
        (width < 1 ? "1" : std::to_string(width - 1) + " or " + std::to_string(width + 1)));
  }
}

void WindowAttention::shrink(ModelConfig& config) { set_field(config, "window_width", 7); }

}  // namespace scaling
