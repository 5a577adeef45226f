// Holds backward of every implementation in the catalog to finite differences of its forward: a new
// implementation is tested by being there.
//
// The function is sum(up * out) for random up, selections and dropout masks frozen by
// pass.recomputes; every input and parameter is moved along random directions of a few elements.
// Differences of f32 outputs are summed in double, element by element, so what a direction does not
// touch cancels exactly. Steps across a ReLU's kink are recognised and left out.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "kernels/random.h"
#include "tests/layers/layer_under_test.h"

namespace scaling {
namespace {

constexpr std::int64_t kExamples = 2, kLength = 5, kMemory = 4;
/// Shares of a slope's natural size (see Slope::size): what a step's error estimate may be, and
/// the difference between slope and gradient.
constexpr double kSmooth = 2e-3, kTolerance = 5e-3;
constexpr std::int64_t kElements = 4;            // moved by one direction, at most
constexpr int kDirections = 5, kAttempts = 200;  // wanted, and tried, for each tensor
constexpr double kSteps[] = {0x1p-4, 0x1p-5, 0x1p-6, 0x1p-7, 0x1p-8, 0x1p-9};

struct Case {
  std::string label, component, name;
  ModelConfig config;
  float dropout = 0;
  bool causal = false, has_padding = false;
  /// Tensors that a straight-through selection teaches, which is no derivative; fixtures check
  /// them.
  std::set<std::string> exempt = {};

  /// Positions of an example's keys and values, or encoder output.
  /// Only what cross-attention uses, too, is asked about keys that are no queries.
  std::int64_t memory() const {
    ModelConfig chosen = config;
    set_field(chosen, component, name);
    const bool is_self =
        component == "attention" && !chosen_entry(chosen, component).traits.is_dense;
    return causal || is_self ? kLength : kMemory;
  }

  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.label; }
};

/// Small and awkward: widths are no multiples of a vector, modules are no heads.
ModelConfig awkward_config() {
  ModelConfig c = config_of_shape("tiny");
  c.d_model = 18;
  c.d_ff = 40;
  c.n_heads = 3;
  c.vocab_size = 24;
  set_field(c, "sparsity", 8);
  set_field(c, "d_lowrank", 4);
  set_field(c, "experts", 4);
  set_field(c, "modules", 6);
  set_field(c, "projection_rank", 5);
  set_field(c, "loss_modules", 4);
  set_field(c, "loss_rank", 5);
  set_field(c, "recurrence_width", 7);
  // Five positions must be several blocks.
  set_field(c, "band_width", 2);
  set_field(c, "attention_stride", 2);
  set_field(c, "fixed_summary", 1);
  set_field(c, "fixed_subblocks", 2);
  set_field(c, "bigbird_block", 1);
  set_field(c, "bigbird_random", 1);
  set_field(c, "window_width", 3);
  set_field(c, "longformer_dilation", 2);
  set_field(c, "paragraph_length", 2);
  set_field(c, "routing_clusters", 2);
  set_field(c, "sparsefinder_rank", 2);
  set_field(c, "sparsefinder_density", 0.4);
  set_field(c, "sparsefinder_clusters", 2);
  set_field(c, "sparsefinder_bins", 2);
  return c;
}

std::vector<Case> cases() {
  ModelConfig soft = awkward_config();
  set_field(soft, "hard_probability", 0);
  std::vector<Case> all;
  for (const std::string& component : component_names()) {
    for (const std::string& name : implementations_of(component)) {
      if (name == "none") continue;
      const std::string label = component + "_" + name;
      if (component == "attention") {
        const std::vector<std::string> causal = causal_implementations_of(component);
        const bool can = std::find(causal.begin(), causal.end(), name) != causal.end();
        if (can) all.push_back({label + "_causal", component, name, soft, 0, true, false});
        all.push_back({label + "_padding", component, name, soft, 0, false, true});
        all.push_back({label + "_dropout", component, name, soft, 0.25f, can, true});
        continue;
      }
      all.push_back({label, component, name, soft});
      if (component == "cross_attention") {
        all.push_back({label + "_padding", component, name, soft, 0, false, true});
        all.push_back({label + "_dropout", component, name, soft, 0.25f, false, true});
      }
      if (component != "feed_forward") continue;
      all.push_back({label + "_dropout", component, name, soft, 0.25f});
    }
  }
  // What knobs make of the catalog's names.
  ModelConfig hard = awkward_config();
  set_field(hard, "hard_probability", 1);
  const std::string ff = "feed_forward";
  all.push_back(
      {"sparse_hard", ff, "sparse", hard, 0, false, false, {"x", "c1", "c2", "controller_bias"}});
  all.push_back({"moe_block_hard", ff, "moe_block", hard, 0, false, false, {"x", "router"}});
  ModelConfig biased = soft;
  set_field(biased, "feed_forward_bias", "true");
  all.push_back({"sparse_bias", ff, "sparse", biased});
  for (const std::string selector : {"random", "hash"}) {
    ModelConfig fixed = biased;
    set_field(fixed, "selector", selector);
    all.push_back({"sparse_" + selector, ff, "sparse", fixed});
  }
  // Chunks that cross buckets and rounds and a last one that is shorter; the catalog's case has one
  // chunk for all.
  ModelConfig chunks = soft;
  set_field(chunks, "lsh_chunk", 3);
  set_field(chunks, "lsh_buckets", 4);
  all.push_back({"lsh_chunks_causal", "attention", "lsh", chunks, 0, true, false});
  all.push_back({"lsh_chunks_dropout", "attention", "lsh", chunks, 0.25f, true, true});
  set_field(chunks, "lsh_chunk", 2);
  set_field(chunks, "lsh_chunks_after", 1);
  all.push_back({"lsh_chunks_padding", "attention", "lsh", chunks, 0, false, true});
  // As in the paper: of its own bucket alone, each key once.
  set_field(chunks, "lsh_graph", "buckets");
  set_field(chunks, "lsh_count", "once");
  all.push_back({"lsh_buckets_padding", "attention", "lsh", chunks, 0, false, true});
  set_field(chunks, "lsh_buckets", 2);
  all.push_back({"lsh_buckets_causal", "attention", "lsh", chunks, 0.25f, true, false});
  ModelConfig features = soft;
  set_field(features, "performer_features", 7);  // a block of directions and part of one
  set_field(features, "performer_redraw", "never");
  all.push_back({"performer_few_causal", "attention", "performer", features, 0, true, true});
  set_field(features, "performer_directions", "independent");
  all.push_back({"performer_few", "attention", "performer", features});
  // Global rows that have padding among what they see.
  ModelConfig own = soft;
  set_field(own, "longformer_projections", "own");
  set_field(own, "longformer_global", 2);
  const std::set<std::string> no_slope = {"global_k_bias"};  // the same for all keys of a row
  all.push_back({"longformer_own_causal", "attention", "longformer", own, 0, true, true, no_slope});
  all.push_back(
      {"longformer_own_padding", "attention", "longformer", own, 0, false, true, no_slope});
  all.push_back(
      {"longformer_own_dropout", "attention", "longformer", own, 0.25f, false, false, no_slope});
  ModelConfig sums = soft;
  set_field(sums, "linformer_rank", 3);
  set_field(sums, "linformer_length", kLength);
  all.push_back({"linformer_few", "attention", "linformer", sums});
  all.push_back({"cross_linformer_few", "cross_attention", "linformer", sums, 0, false, true});
  set_field(sums, "linformer_sharing", "key_value");
  all.push_back({"linformer_shared", "attention", "linformer", sums, 0.25f, false, true});
  all.push_back({"cross_linformer_shared", "cross_attention", "linformer", sums});
  ModelConfig clusters = soft;
  set_field(clusters, "routing_clusters", 3);
  all.push_back({"routing_few_causal", "attention", "routing", clusters, 0, true, true});
  set_field(clusters, "routing_window", 4);  // most are in several clusters
  all.push_back({"routing_overlapping", "attention", "routing", clusters, 0.25f, false, true});
  ModelConfig short_kernel = soft;
  set_field(short_kernel, "kernel_size", 2);
  all.push_back({"conv_two_taps", "projection", "conv", short_kernel});
  ModelConfig long_kernel = soft;
  set_field(long_kernel, "kernel_size", 7);  // longer than the sequence
  all.push_back({"mult_conv_long", "projection", "mult_conv", long_kernel});
  return all;
}

Mat random_values(std::int64_t rows, std::int64_t cols, float most, Rng& rng) {
  Mat m(rows, cols);
  for (std::int64_t i = 0; i < m.size(); ++i) m.data()[i] = rng.uniform(-most, most);
  return m;
}

/// A few elements of a tensor and the sign each moves by.
struct Direction {
  std::vector<std::int64_t> elements;
  std::vector<float> signs;
};

struct Slope {
  double value = 0;  ///< of the function along the direction
  double size = 0;   ///< root of the sum of squares of the outputs' parts in it
  double error = 0;  ///< estimate; infinite if no step was tried
};

class GradientTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const Case& c = GetParam();
    layer_ = make_layer(c.component, c.name, c.config);
    for (const auto& [name, length] : layer_->lengths(kLength, c.memory())) {
      layer_->in[name] = random_values(kExamples * length, c.config.d_model, 1.7f, rng_);
    }
    seen_.assign(std::size_t(kExamples * c.memory()), 1);
    seen_.back() = seen_[seen_.size() - 3] = seen_[2] = 0;
    layer_->mask = {.causal = c.causal, .keys = c.has_padding ? seen_.data() : nullptr};
    for (std::int64_t i = 0; i < kExamples * kLength; ++i) {
      ids_.push_back(int(rng_.below(std::uint32_t(c.config.vocab_size))));
    }
    pass_.dropout = c.dropout;
    pass_.ids = ids_.data();
    layer_->forward(pass_);
    pass_.recomputes = true;
    base_ = layer_->out;
    for (const auto& [name, value] : base_) {
      layer_->up[name] = random_values(value.rows(), value.cols(), 1, rng_);
    }
  }

  Direction random_direction(std::int64_t count) {
    Direction d;
    for (std::int64_t i = 0; i < std::min(kElements, count); ++i) {
      const auto element = std::int64_t(rng_.below(std::uint32_t(count)));
      if (std::find(d.elements.begin(), d.elements.end(), element) != d.elements.end()) continue;
      d.elements.push_back(element);
      d.signs.push_back(rng_.below(2) == 0 ? -1.0f : 1.0f);
    }
    return d;
  }

  /// Outputs with the direction's elements of `values` moved by step times their signs.
  Mats moved(float* values, const Direction& direction, double step) {
    std::vector<float> kept;
    for (std::size_t i = 0; i < direction.elements.size(); ++i) {
      float& value = values[direction.elements[i]];
      kept.push_back(value);
      value += float(step) * direction.signs[i];
    }
    layer_->forward(pass_);
    for (std::size_t i = 0; i < kept.size(); ++i) values[direction.elements[i]] = kept[i];
    return layer_->out;
  }

  struct Differences {
    double central = 0;    ///< (f(h) - f(-h)) / 2h
    double one_sided = 0;  ///< forward minus backward difference: h f'', or a kink
    double size = 0;       ///< see Slope
  };
  Differences differences(float* values, const Direction& direction, double step) {
    const Mats plus = moved(values, direction, step), minus = moved(values, direction, -step);
    Differences all;
    double squares = 0;
    for (const auto& [name, up] : layer_->up) {
      const Mat &p = plus.at(name), &m = minus.at(name), &b = base_.at(name);
      for (std::int64_t i = 0; i < up.size(); ++i) {
        const double weight = double(up.data()[i]);
        const double high = double(p.data()[i]), low = double(m.data()[i]);
        const double part = weight * (high - low) / (2 * step);
        all.central += part;
        squares += part * part;
        all.one_sided += weight * (high + low - 2 * double(b.data()[i])) / step;
      }
    }
    all.size = std::sqrt(squares);
    return all;
  }

  /// With the largest step that crosses no kink and is short enough for the curvature. A smooth
  /// function's central differences agree at h and h / 2, and its one-sided ones halve; a kink
  /// disturbs the one or the other wherever it lies.
  Slope slope(float* values, const Direction& direction) {
    Slope best{.error = HUGE_VAL};
    for (const double step : kSteps) {
      const Differences whole = differences(values, direction, step);
      const Differences half = differences(values, direction, step / 2);
      const double error = std::max(std::abs(whole.central - half.central),
                                    std::abs(2 * half.one_sided - whole.one_sided) / 2);
      if (error < best.error) best = {half.central, half.size, error};
      if (error <= kSmooth * half.size) break;
    }
    return best;
  }

  void check(const std::string& what, float* values, const float* gradient, std::int64_t count) {
    int accepted = 0, different = 0;
    std::string report;
    for (int attempt = 0; attempt < kAttempts && accepted < kDirections; ++attempt) {
      const Direction direction = random_direction(count);
      double expected = 0;
      for (std::size_t i = 0; i < direction.elements.size(); ++i) {
        expected += double(gradient[direction.elements[i]]) * double(direction.signs[i]);
      }
      const Slope measured = slope(values, direction);
      if (measured.size == 0) {
        // Neurons that nothing selects: their gradients are exactly zero.
        EXPECT_NEAR(expected, 0, 1e-6) << what << ": a gradient where nothing depends on the value";
        continue;
      }
      if (measured.error > kSmooth * measured.size) continue;
      ++accepted;
      if (std::abs(measured.value - expected) <= kTolerance * measured.size) continue;
      ++different;
      report += "; differences " + std::to_string(measured.value) + ", gradient " +
                std::to_string(expected) + ", size " + std::to_string(measured.size);
    }
    EXPECT_EQ(accepted, kDirections) << what << ": too few directions without a kink";
    // One may have met several kinks whose effects cancel in the estimate of the error.
    EXPECT_LE(different, 1) << what << report;
  }

  Rng rng_{3, 9};
  std::unique_ptr<LayerUnderTest> layer_;
  std::vector<std::uint8_t> seen_;
  std::vector<int> ids_;
  Pass pass_ = training_pass(kExamples, /*seed=*/7);
  Mats base_;
};

TEST_P(GradientTest, EqualsFiniteDifferences) {
  const Case& c = GetParam();
  layer_->backward(pass_);
  const Mats din = layer_->din;
  for (auto& [name, value] : layer_->in) {
    ASSERT_EQ(din.at(name).rows(), value.rows()) << c.label << " d" << name;
    ASSERT_EQ(din.at(name).cols(), value.cols()) << c.label << " d" << name;
    ASSERT_TRUE(din.at(name).allFinite()) << c.label << " d" << name;
    if (c.exempt.count(name)) continue;
    check(c.label + " d" + name, value.data(), din.at(name).data(), value.size());
  }
  for (Parameter* p : layer_->parameters) {
    if (p->gradient == nullptr || p->mean_decay != 0 || c.exempt.count(p->name)) continue;
    check(c.label + " " + p->name, p->values(), p->gradient, p->count());
  }
}

/// backward adds to the gradients of parameters and overwrites inputs'; a replayed pass repeats
/// itself.
TEST_P(GradientTest, AddsToParametersAndOverwritesInputs) {
  const Case& c = GetParam();
  layer_->backward(pass_);
  const Mats first = layer_->din;
  std::vector<std::vector<float>> once;
  for (const Parameter* p : layer_->parameters) {
    once.emplace_back(p->gradient, p->gradient + (p->gradient ? p->count() : 0));
  }
  layer_->forward(pass_);
  for (const auto& [name, value] : base_) {
    EXPECT_EQ(layer_->out.at(name), value) << c.label << ": a replayed " << name;
  }
  layer_->backward(pass_);
  for (const auto& [name, value] : first) {
    EXPECT_EQ(layer_->din.at(name), value) << c.label << " d" << name;
  }
  for (std::size_t i = 0; i < once.size(); ++i) {
    const Parameter& p = *layer_->parameters[i];
    float largest = 0;
    for (const float g : once[i]) largest = std::max(largest, std::abs(g));
    for (std::size_t j = 0; j < once[i].size(); ++j) {
      ASSERT_NEAR(p.gradient[j], 2 * once[i][j], 1e-5 * double(largest))
          << c.label << " " << p.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Catalog, GradientTest, testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.label; });

class CrossEntropyTest : public testing::TestWithParam<std::string> {};

/// The fused loss, in pieces, is softmax and logarithm over all logits, and its gradients are those
/// of the layer's backward from (softmax - one-hot) * weight * scale.
TEST_P(CrossEntropyTest, EqualsLogitsAndSoftmax) {
  ModelConfig config = awkward_config();
  const std::int64_t examples = 3,
                     length = 201;  // rows of more than one piece, the last one partial
  config.loss = GetParam();
  LossUnderTest fused(config), plain(config);
  Rng rng(8, 1);
  fused.in["x"] = plain.in["x"] = random_values(examples * length, config.d_model, 1.7f, rng);
  std::vector<int> targets;
  std::vector<float> weights;
  for (std::int64_t i = 0; i < examples * length; ++i) {
    targets.push_back(int(rng.below(std::uint32_t(config.vocab_size))));
    weights.push_back(float(rng.below(3)) / 2);
  }
  const float scale = 0.3f;
  Pass pass = training_pass(examples);
  const CrossEntropy sums = fused.cross_entropy(pass, targets, weights, scale);

  plain.forward(pass);
  const Mat& logits = plain.out["logits"];
  Mat& up = plain.up["logits"];
  up.resize(logits.rows(), logits.cols());
  CrossEntropy expected;
  for (std::int64_t i = 0; i < logits.rows(); ++i) {
    const Eigen::ArrayXd z = logits.row(i).transpose().cast<double>().array();
    const Eigen::ArrayXd p = (z - z.maxCoeff()).exp() / (z - z.maxCoeff()).exp().sum();
    const int target = targets[std::size_t(i)];
    const double weight = double(weights[std::size_t(i)]);
    Eigen::Index best = 0;
    z.maxCoeff(&best);
    expected.loss -= weight * std::log(p(target));
    expected.weight += weight;
    expected.correct += best == target ? weight : 0;
    for (std::int64_t j = 0; j < logits.cols(); ++j) {
      up(i, j) = float(double(scale) * weight * (p(j) - (j == target ? 1 : 0)));
    }
  }
  plain.backward(pass);

  EXPECT_NEAR(sums.loss, expected.loss, 1e-6 * expected.loss);
  EXPECT_DOUBLE_EQ(sums.weight, expected.weight);
  EXPECT_DOUBLE_EQ(sums.correct, expected.correct);
  EXPECT_GT(sums.correct, 0);
  const Mat& dx = plain.din["x"];
  EXPECT_LE((fused.din["x"] - dx).cwiseAbs().maxCoeff(), 1e-5f * dx.cwiseAbs().maxCoeff());
  for (std::size_t i = 0; i < plain.parameters.size(); ++i) {
    const Parameter &a = *fused.parameters[i], &b = *plain.parameters[i];
    const Eigen::Map<const Eigen::ArrayXf> ours(a.gradient, a.count()),
        other(b.gradient, b.count());
    EXPECT_LE((ours - other).abs().maxCoeff(), 1e-5f * other.abs().maxCoeff()) << b.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Catalog, CrossEntropyTest, testing::ValuesIn(implementations_of("loss")),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace scaling
