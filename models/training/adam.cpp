// One fused loop over gradient, moments and weights.
#include "models/training/adam.h"

#include <algorithm>
#include <cmath>

#include "kernels/arena.h"
#include "kernels/parallel.h"

namespace scaling {
namespace {

constexpr double kMeanDecay = 0.9;        // b1
constexpr double kVarianceDecay = 0.999;  // b2
/// Elements of one unit of work; fixed, so that threads change no bit.
constexpr std::int64_t kBlock = 4096;

struct Moments {
  Parameter* parameter;
  double rate_factor;
  std::vector<float> mean, variance;
};

class Adam : public Optimizer {
 public:
  Adam(const TrainConfig& config, const std::vector<Parameter*>& parameters)
      : epsilon_(float(config.adam_epsilon)) {
    std::int64_t count = 0;
    for (const Parameter* p : parameters) count += p->gradient ? p->count() : 0;
    require_memory(2 * sizeof(float) * std::uint64_t(count), "Adam's two moments of every weight",
                   "take the optimizer adafactor or a smaller model");
    for (Parameter* p : parameters) {
      if (p->gradient == nullptr) continue;
      const auto n = std::size_t(p->count());
      moments_.push_back(
          {p, rate_factor(config, *p), std::vector<float>(n, 0.0f), std::vector<float>(n, 0.0f)});
    }
  }

  void update(std::int64_t step, double learning_rate) override {
    const double t = double(step) + 1;
    const auto correction = float(1 / (1 - std::pow(kVarianceDecay, t)));
    for (Moments& m : moments_) {
      const auto rate = float(m.rate_factor * learning_rate / (1 - std::pow(kMeanDecay, t)));
      const std::int64_t n = m.parameter->count();
      parallel_for((n + kBlock - 1) / kBlock, [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t block = begin; block < end; ++block) {
          const std::int64_t at = block * kBlock;
          update_block(std::min(kBlock, n - at), m.parameter->gradient + at, m.mean.data() + at,
                       m.variance.data() + at, m.parameter->values() + at, rate, correction);
        }
      });
    }
  }

  std::vector<Slot> slots() override {
    std::vector<Slot> all;
    for (Moments& m : moments_) {
      all.push_back({m.parameter->name + ".mean", &m.mean});
      all.push_back({m.parameter->name + ".variance", &m.variance});
    }
    return all;
  }

 private:
  void update_block(std::int64_t n, const float* __restrict gradient, float* __restrict mean,
                    float* __restrict variance, float* __restrict weights, float rate,
                    float correction) const {
    const float epsilon = epsilon_;
    constexpr auto b1 = float(kMeanDecay), b2 = float(kVarianceDecay);
    constexpr auto rest1 = float(1 - kMeanDecay), rest2 = float(1 - kVarianceDecay);
    for (std::int64_t i = 0; i < n; ++i) {
      const float g = gradient[i];
      const float m = b1 * mean[i] + rest1 * g;
      const float v = b2 * variance[i] + rest2 * g * g;
      mean[i] = m;
      variance[i] = v;
      weights[i] -= rate * m / (std::sqrt(v * correction) + epsilon);
    }
  }

  const float epsilon_;
  std::vector<Moments> moments_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adam(const TrainConfig& config,
                                     const std::vector<Parameter*>& parameters) {
  return std::make_unique<Adam>(config, parameters);
}

}  // namespace scaling
