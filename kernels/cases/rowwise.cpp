// Cases of what looks at one row of activations, and of attention over a cache. They have no
// weights.
#include <algorithm>
#include <cfloat>
#include <cmath>
#include <numeric>
#include <random>

#include "kernels/cases/makers.h"

namespace scaling {
namespace {

class LayerNormProblem : public ProblemBase {
 public:
  LayerNormProblem(const ProblemOptions& options, const Setting& g, std::int64_t d, float offset)
      : ProblemBase(options, g.values),
        d_(d),
        tokens_(g.tokens),
        x_(g.tokens * d, g.misalign),
        scale_(d, g.misalign),
        bias_(d, g.misalign) {
    source_.fill(x_);
    for (std::int64_t i = 0; i < x_.size(); ++i) x_[i] += offset;
    source_.fill(scale_);
    source_.fill(bias_);
    for (int t = 0; t < g.tokens; ++t) spread_.push_back(spread_of(x_.data() + t * d));
    overwrite_outputs(g.tokens * d, g.misalign);
  }

  void run(const KernelSet& set, std::int64_t, int thread) override {
    if (thread != 0) return;
    set.layer_norm(x_.data(), scale_.data(), bias_.data(), tokens_, d_, output(0));
  }

  Phase cost() const override {
    const double n = double(x_.size());
    return {"layer_norm", 0, 4 * (n + 2 * double(d_)), 8 * n};
  }

 protected:
  double tolerance(std::int64_t i, double, double, double) const override {
    const double magnitude = std::fabs(double(scale_[i % d_])) * spread_[std::size_t(i / d_)] +
                             std::fabs(double(bias_[i % d_]));
    return FLT_EPSILON * (8 + std::sqrt(double(d_))) * magnitude + double(FLT_MIN);
  }

 private:
  /// Largest input over deviation: differences to the mean have the error of the largest input.
  double spread_of(const float* row) const {
    double mean = 0, variance = 0, largest = 0;
    for (std::int64_t c = 0; c < d_; ++c) mean += double(row[c]) / double(d_);
    for (std::int64_t c = 0; c < d_; ++c) {
      variance += (double(row[c]) - mean) * (double(row[c]) - mean) / double(d_);
      largest = std::max(largest, std::fabs(double(row[c])));
    }
    return largest / std::sqrt(variance + 1e-6);
  }

  const std::int64_t d_;
  const int tokens_;
  Guarded<float> x_, scale_, bias_;
  std::vector<double> spread_;  ///< of each token
};

class SoftmaxProblem : public ProblemBase {
 public:
  SoftmaxProblem(const ProblemOptions& options, const Setting& g, std::int64_t n, float spread)
      : ProblemBase(options, g.values), x_(std::size_t(n)) {
    for (float& v : x_) v = source_.draw() * spread;
    overwrite_outputs(n, g.misalign);
    initial_ = x_;
    largest_ = double(*std::max_element(x_.begin(), x_.end()));
    touched_ = 0;  // probabilities may well underflow to zero
  }

  /// In place, so that each call has to write its input first: two passes over a short row.
  void run(const KernelSet& set, std::int64_t, int thread) override {
    if (thread != 0) return;
    std::copy(x_.begin(), x_.end(), output(0));
    set.softmax(output(0), std::int64_t(x_.size()));
  }

  Phase cost() const override {
    const double n = double(x_.size());
    return {"softmax", 0, 4 * n, 4 * n};
  }

 protected:
  /// An input's rounding, x - max included, is a relative error of its exponential.
  double tolerance(std::int64_t i, double expected, double, double) const override {
    const double distance = largest_ - double(x_[std::size_t(i)]);
    const double relative = FLT_EPSILON * (16 + 2 * distance + std::sqrt(double(x_.size())));
    return relative * expected + double(FLT_MIN);
  }

 private:
  std::vector<float> x_;
  double largest_ = 0;
};

class ArgmaxProblem : public ProblemBase {
 public:
  ArgmaxProblem(const ProblemOptions& options, const Setting& g, std::int64_t n)
      : ProblemBase(options, g.values), x_(n, g.misalign) {
    source_.fill(x_);
  }
  void reset() override { index_ = -1; }
  void run(const KernelSet& set, std::int64_t, int thread) override {
    if (thread == 0) index_ = set.argmax(x_.data(), x_.size());
  }
  Outputs outputs() const override { return {{}, {std::int32_t(index_)}}; }
  bool guards_intact() const override { return true; }
  std::string compare(const Outputs& actual, const Outputs& expected, const Outputs&,
                      double) const override {
    if (actual.indices == expected.indices) return "";
    return "index is " + std::to_string(actual.indices[0]) + ", ref has " +
           std::to_string(expected.indices[0]);
  }
  Phase cost() const override { return {"argmax", 0, 4 * double(x_.size()), double(x_.size())}; }

 private:
  Guarded<float> x_;
  std::int64_t index_ = -1;
};

class AttendProblem : public ProblemBase {
 public:
  AttendProblem(const ProblemOptions& options, const Setting& g, std::int64_t heads,
                std::int64_t length, std::int64_t d_head, float spread, std::int64_t met)
      : ProblemBase(options, g.values),
        heads_(heads),
        length_of_cache_(length),
        d_head_(d_head),
        q_(heads * d_head, g.misalign),
        positions_(std::size_t(met)) {
    // Any of them, each at most once, in an order of their own.
    std::vector<std::int32_t> all(std::size_t(met > 0 ? length : 0));
    std::iota(all.begin(), all.end(), 0);
    std::shuffle(all.begin(), all.end(), std::mt19937(1));
    std::copy_n(all.begin(), met, positions_.begin());
    // Keys and values stand where other kernels have weights: read once a call.
    weights_ = std::make_unique<RotatedWeights>(
        options, WeightType::f32,
        std::vector<RotatedWeights::Shape>{{Layout::rows, heads * length, d_head},
                                           {Layout::rows, heads * length, d_head}},
        source_, g.misalign);
    source_.fill(q_);
    for (std::int64_t i = 0; i < q_.size(); ++i) q_[i] *= spread;
    for (int t = 0; t < options.threads; ++t) scores_.emplace_back(length, g.misalign);
    for (std::int64_t head = 0; head < heads; ++head) largest_.push_back(largest_logit(head));
    overwrite_outputs(heads * d_head, g.misalign);
  }

  void run(const KernelSet& set, std::int64_t call, int thread) override {
    const Range mine = part({0, heads_}, thread);
    for (std::int64_t head = mine.begin; head < mine.end; ++head) {
      set.attend(q_.data() + head * d_head_, memory(call, head),
                 scores_[std::size_t(thread)].data(), output(0) + head * d_head_);
    }
  }

  bool guards_intact() const override {
    for (const auto& scores : scores_) {
      if (!scores.intact()) return false;
    }
    return ProblemBase::guards_intact();
  }

  Phase cost() const override {
    const double cached = 2.0 * double(heads_ * met() * d_head_);
    return {"attend", 0, 4 * cached, 2 * cached};
  }

 protected:
  /// Errors of the logits become relative errors of the probabilities; values have at most the size
  /// of the source.
  double tolerance(std::int64_t i, double, double, double) const override {
    return (2 * logit_error(i / d_head_) + sums_error()) * largest_value() + double(FLT_MIN);
  }

 private:
  /// The largest sum of magnitudes behind a logit of one head.
  double largest_logit(std::int64_t head) const {
    const float* q = q_.data() + head * d_head_;
    const HeadMemory of_head = memory(0, head);
    double largest = 0;
    for (std::int64_t j = 0; j < of_head.length; ++j) {
      const float* key = of_head.keys + of_head.position(j) * d_head_;
      double dot = 0;
      for (std::int64_t c = 0; c < d_head_; ++c) dot += std::fabs(double(q[c]) * double(key[c]));
      largest = std::max(largest, dot / std::sqrt(double(d_head_)));
    }
    return largest;
  }

  std::vector<double> largest_;  ///< of each head

 protected:
  /// Of rounding: of a head's logits, and of sums over positions as a share of what is summed.
  double logit_error(std::int64_t head) const {
    return FLT_EPSILON * (4 + std::sqrt(double(d_head_))) * largest_[std::size_t(head)];
  }
  double sums_error() const { return FLT_EPSILON * (16 + 2 * std::sqrt(double(met()))); }
  std::int64_t met() const {
    return positions_.empty() ? length_of_cache_ : std::int64_t(positions_.size());
  }
  HeadMemory memory(std::int64_t call, std::int64_t head) const {
    const std::int64_t at = head * length_of_cache_ * d_head_;
    return {weights_->view(0, call).f32() + at, weights_->view(1, call).f32() + at, met(), d_head_,
            positions_.empty() ? nullptr : positions_.data()};
  }
  double largest_value() const { return values_ == Values::integers ? 2 : source_.scale(); }

  const std::int64_t heads_, length_of_cache_, d_head_;
  Guarded<float> q_;
  std::vector<Guarded<float>> scores_;
  std::vector<std::int32_t> positions_;  ///< of every head; none: all are met
};

class AttendEntmaxProblem : public AttendProblem {
 public:
  AttendEntmaxProblem(const ProblemOptions& options, const Setting& g, double alpha,
                      std::int64_t heads, std::int64_t length, std::int64_t d_head, float spread,
                      std::int64_t met)
      : AttendProblem(options, g, heads, length, d_head, spread, met), alpha_(alpha) {
    for (int t = 0; t < options.threads; ++t) survivors_.emplace_back(length, g.misalign);
    for (std::int64_t head = 0; head < heads; ++head) supports_.push_back(support_of(head));
  }

  void run(const KernelSet& set, std::int64_t call, int thread) override {
    const Range mine = part({0, heads_}, thread);
    for (std::int64_t head = mine.begin; head < mine.end; ++head) {
      set.attend_entmax(alpha_, q_.data() + head * d_head_, memory(call, head),
                        scores_[std::size_t(thread)].data(), survivors_[std::size_t(thread)].data(),
                        output(0) + head * d_head_);
    }
  }

  bool guards_intact() const override {
    for (const auto& survivors : survivors_) {
      if (!survivors.intact()) return false;
    }
    return AttendProblem::guards_intact();
  }

  /// All keys, and values whose probability is not zero.
  Phase cost() const override {
    double rows = double(heads_ * met());
    for (const Support& support : supports_) rows += support.count;
    return {"attend_entmax", 0, 4 * rows * double(d_head_), 2 * rows * double(d_head_)};
  }

 protected:
  /// The threshold moves no more than the logits do, and p by no more than its slope times both;
  /// where alpha exceeds 2 slopes have no bound, but the power of an error has.
  double tolerance(std::int64_t i, double, double, double) const override {
    const Support& support = supports_[std::size_t(i / d_head_)];
    const double x = 2 * (alpha_ - 1) * logit_error(i / d_head_) + 4 * FLT_EPSILON;
    const double p = alpha_ > 2 ? (support.count + 1) * std::pow(x, 1 / (alpha_ - 1))
                                : support.slopes * x / (alpha_ - 1);
    return (p + 2 * sums_error()) * largest_value() + double(FLT_MIN);
  }

 private:
  /// Of one head: how many p are not zero, and the sum of p^(2 - alpha), the slopes.
  struct Support {
    double count = 0, slopes = 0;
  };

  Support support_of(std::int64_t head) const {
    const float* q = q_.data() + head * d_head_;
    const HeadMemory of_head = memory(0, head);
    std::vector<double> x;
    for (std::int64_t j = 0; j < of_head.length; ++j) {
      const float* key = of_head.keys + of_head.position(j) * d_head_;
      double dot = 0;
      for (std::int64_t c = 0; c < d_head_; ++c) dot += double(q[c]) * double(key[c]);
      x.push_back((alpha_ - 1) * dot / std::sqrt(double(d_head_)));
    }
    const double largest = *std::max_element(x.begin(), x.end());
    std::erase_if(x, [largest](double v) { return v <= largest - 1; });
    const auto sum_above = [&](double tau, double power) {
      double sum = 0;
      for (const double v : x) sum += v > tau ? std::pow(v - tau, power) : 0;
      return sum;
    };
    double low = largest - 1, high = largest;
    for (int halving = 0; halving < 50; ++halving) {
      const double middle = (low + high) / 2;
      (sum_above(middle, 1 / (alpha_ - 1)) >= 1 ? low : high) = middle;
    }
    return {sum_above(low, 0), sum_above(low, (2 - alpha_) / (alpha_ - 1))};
  }

  const double alpha_;
  std::vector<Support> supports_;
  std::vector<Guarded<float>> survivors_;
};

}  // namespace

Case layer_norm_case(const Setting& g, std::int64_t d, float offset) {
  return {"layer_norm", g.shape, g.tokens, false, [=](const ProblemOptions& options) {
            return std::make_unique<LayerNormProblem>(options, g, d, offset);
          }};
}

Case softmax_case(const Setting& g, std::int64_t n, float spread) {
  return {"softmax", g.shape, g.tokens, false, [=](const ProblemOptions& options) {
            return std::make_unique<SoftmaxProblem>(options, g, n, spread);
          }};
}

Case argmax_case(const Setting& g, std::int64_t n) {
  return {"argmax", g.shape, g.tokens, false, [=](const ProblemOptions& options) {
            return std::make_unique<ArgmaxProblem>(options, g, n);
          }};
}

Case attend_case(const Setting& g, std::int64_t heads, std::int64_t length, std::int64_t d_head,
                 float spread, std::int64_t met) {
  return {"attend", g.shape, g.tokens, false, [=](const ProblemOptions& options) {
            return std::make_unique<AttendProblem>(options, g, heads, length, d_head, spread, met);
          }};
}

Case attend_entmax_case(const Setting& g, double alpha, std::int64_t heads, std::int64_t length,
                        std::int64_t d_head, float spread, std::int64_t met) {
  return {"attend_entmax", g.shape, g.tokens, false, [=](const ProblemOptions& options) {
            return std::make_unique<AttendEntmaxProblem>(options, g, alpha, heads, length, d_head,
                                                         spread, met);
          }};
}

}  // namespace scaling
