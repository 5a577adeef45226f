// One decode step of every layer of every component, over more weights than the last cache level
// holds; names are component:layer/weight type/t<threads>.
#pragma once

#include <string>

#include "experiments/machine/stopwatch.h"

namespace scaling {

struct LayerKnobs {
  std::string shape = "800m", kernels = "simd";

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("shape", k.shape, "named sizes of the layers");
    visit("kernels", k.kernels, "kernel set");
  }
};

class LayerStudy : public StopwatchStudy {
 public:
  StudyInfo info() const override;
  void flags(Knobs& knobs) override { knobs.add(knobs_); }

 protected:
  void add_all(const RunOptions& options) override;
  Settings settings() const override {
    return {{"shape", knobs_.shape}, {"kernels", knobs_.kernels}};
  }

 private:
  LayerKnobs knobs_;
};

}  // namespace scaling
