// A query looks at its neighbours only: Longformer's sliding window, GPT-3's local band.
#pragma once

#include <memory>

#include "models/layers/attention/pattern_attention.h"

namespace scaling {

struct WindowKnobs : PatternKnobs {
  std::int64_t window_width = 257;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit(
        "window_width", k.window_width,
        "positions in the window of window and longformer, an odd number: half before, half after",
        Trait{.is_size = true});
    PatternKnobs::fields(k, visit);
  }
};

/// Key j of query i if |i - j| <= (window_width - 1) / 2: itself and as many on either side, of
/// which a causal mask leaves those before. A decode remembers no more.
class Window : public Pattern {
 public:
  explicit Window(std::int64_t width) : side_((width - 1) / 2) {}
  void cut(const PatternCall& call, Parts& parts) const override;
  Range visible(const PatternCall& call, const Part& part, std::int64_t i) const override;
  std::int64_t slots(std::int64_t capacity) const override;

 private:
  std::int64_t side_;
};

class WindowAttention : public PatternAttention {
 public:
  using Options = WindowKnobs;
  /// Throws UserError if the width is even or not positive.
  static void validate(const ModelConfig& config);
  static void shrink(ModelConfig& config);
  explicit WindowAttention(const ModelConfig& config)
      : PatternAttention(config,
                         std::make_unique<Window>(config.options<WindowKnobs>().window_width)) {}
};

}  // namespace scaling
