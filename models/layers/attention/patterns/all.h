// Every query looks at every key.
#pragma once

#include "models/layers/attention/pattern.h"

namespace scaling {

class AllKeys : public Pattern {
 public:
  void cut(const PatternCall& call, Parts& parts) const override {
    parts.all.push_back({.queries = {.n = call.queries}, .keys = {.n = call.keys}});
  }
  Range visible(const PatternCall& call, const Part& /*part*/, std::int64_t i) const override {
    return {0, call.causal ? i + 1 : call.keys};
  }
  std::int64_t slots(std::int64_t capacity) const override { return capacity; }
};

}  // namespace scaling
