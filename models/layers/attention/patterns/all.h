// Every query looks at every key.
#pragma once

#include <algorithm>

#include "models/layers/attention/pattern.h"

namespace scaling {

class AllKeys : public Pattern {
 public:
  void keys_of(Range queries, std::int64_t keys, bool causal,
               std::vector<Range>& ranges) const override {
    ranges.push_back({0, causal ? queries.end : keys});
  }
  Range visible(std::int64_t query, Range keys, bool causal) const override {
    return {keys.begin, causal ? std::clamp(query + 1, keys.begin, keys.end) : keys.end};
  }
  double pairs(std::int64_t length, bool causal) const override {
    return double(length) * (causal ? double(length + 1) / 2 : double(length));
  }
  std::int64_t remembered(std::int64_t capacity) const override { return capacity; }
};

}  // namespace scaling
