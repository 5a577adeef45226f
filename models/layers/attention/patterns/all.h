// Every query looks at every key of its sequence's first stream, and at itself.
#pragma once

#include "models/layers/attention/pattern.h"

namespace scaling {

class AllKeys : public Pattern {
 public:
  void cut(const PatternCall& call, Parts& parts) const override {
    const std::int64_t keys = call.keys / call.streams, length = call.queries / call.streams;
    for (std::int64_t stream = 0; stream < call.streams; ++stream) {
      const Positions own = {.n = length, .first = stream * length};
      parts.all.push_back({.queries = own, .keys = {.n = keys}});
      if (stream > 0) parts.all.push_back({.queries = own, .keys = own, .kind = kItself});
    }
  }
  Range visible(const PatternCall& call, const Part& part, std::int64_t i) const override {
    if (part.kind == kItself) return {i, i + 1};
    return {0, call.causal ? i + 1 : part.keys.n};
  }
  std::int64_t slots(std::int64_t capacity) const override { return capacity; }

 private:
  static constexpr int kItself = 1;  // kind of a part in which a query sees its own key alone
};

}  // namespace scaling
