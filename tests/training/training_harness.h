// Standalone layers in training storage, for tests of forward and backward.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/random.h"
#include "models/initialize.h"
#include "models/layer.h"

namespace scaling {

/// A layer (or a building block with visit_parameters) whose parameters are f32 in Layout::rows
/// with their initial values, a zeroed gradient beside each that is not frozen. Vectors get
/// (-bias_range, bias_range) added to the initialiser's value, so that a forgotten bias shows.
template <class L>
class TrainedLayer {
 public:
  explicit TrainedLayer(std::unique_ptr<L> made, std::uint64_t seed = 1, float bias_range = 0.5f)
      : layer(std::move(made)) {
    layer->visit_parameters([&](Parameter& p) { parameters.push_back(&p); });
    Rng rng(seed, 77);
    for (Parameter* p : parameters) {
      p->layout = Layout::rows;
      p->type = WeightType::f32;
      auto& values = memory_.emplace_back(std::size_t(p->count()));
      draw_values(seed, p->name, p->init, 0, p->count(), values.data());
      for (float& value : values) {
        if (p->is_vector && bias_range > 0) value += rng.uniform(-bias_range, bias_range);
      }
      p->data = values.data();
      if (p->is_frozen) continue;
      auto& zeros = memory_.emplace_back(std::size_t(p->count()), 0.0f);
      p->gradient = zeros.data();
    }
  }

  Parameter& parameter(const std::string& name) const {
    for (Parameter* p : parameters) {
      if (p->name == name) return *p;
    }
    ADD_FAILURE() << "no parameter " << name;
    return *parameters.front();
  }
  /// (rows, cols), a copy.
  Mat gradient(const std::string& name) const {
    const Parameter& p = parameter(name);
    if (p.gradient == nullptr) {
      ADD_FAILURE() << name << " has no gradient";
      return Mat::Zero(p.rows, p.cols);
    }
    return Eigen::Map<const Mat>(p.gradient, p.rows, p.cols);
  }
  void zero_gradients() {
    for (Parameter* p : parameters) {
      if (p->gradient) std::fill(p->gradient, p->gradient + p->count(), 0.0f);
    }
  }

  std::unique_ptr<L> layer;
  std::vector<Parameter*> parameters;  ///< in the order of visit_parameters

 private:
  std::vector<std::vector<float>> memory_;  // moving an inner vector moves no float
};

/// A training pass (dropout 0) over `examples` sequences.
inline Pass training_pass(std::int64_t examples = 1, std::uint64_t seed = 1) {
  return Pass{.gemm = find_gemm("eigen"), .examples = examples, .training = true, .seed = seed};
}

}  // namespace scaling
