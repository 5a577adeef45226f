// A weight as f32 rows, for products of parts of it.
#pragma once

#include "models/matrix.h"
#include "models/parameter.h"

namespace scaling {

/// Row-major f32 values of a parameter: its own memory in training storage, else a copy.
class PlainWeight {
 public:
  explicit PlainWeight(const Parameter& w) {
    if (w.type == WeightType::f32 && w.layout == Layout::rows) {
      values_ = w.view().f32();
    } else {
      copy_ = w.matrix();
      values_ = copy_.data();
    }
  }
  PlainWeight(const PlainWeight&) = delete;
  PlainWeight& operator=(const PlainWeight&) = delete;
  const float* data() const { return values_; }

 private:
  Mat copy_;
  const float* values_ = nullptr;
};

}  // namespace scaling
