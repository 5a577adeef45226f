// One implementation of a component in training storage, as a function of named matrices and
// parameters, whatever its interface: for tests that hold its gradients to something.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "models/layers/catalog.h"
#include "tests/training/training_harness.h"

namespace scaling {

using Mats = std::map<std::string, Mat>;

class LayerUnderTest {
 public:
  virtual ~LayerUnderTest() = default;
  /// Names and lengths (positions of an example) that `in` must get.
  std::map<std::string, std::int64_t> lengths(std::int64_t length, std::int64_t memory) const {
    std::map<std::string, std::int64_t> all;
    for (const std::string& name : inputs) all[name] = length;
    for (const std::string& name : memory_inputs) all[name] = memory;
    return all;
  }
  /// in -> out.
  virtual void forward(Pass& pass) = 0;
  /// up, the gradient of every out -> din, which is rubbish before; adds to the parameters'.
  void backward(Pass& pass) {
    for (const auto& [name, value] : in) {
      din[name] = Mat::Constant(value.rows(), value.cols(), 1e30f);
    }
    run_backward(pass);
  }

  std::vector<Parameter*> parameters;
  std::vector<std::string> inputs, memory_inputs;
  AttentionMask mask;  ///< of attention
  Mats in, out, up, din;

 protected:
  virtual void run_backward(Pass& pass) = 0;
};

/// L: the component.
template <class L>
class HeldLayer : public LayerUnderTest {
 public:
  explicit HeldLayer(std::unique_ptr<L> made)
      : held_(std::move(made)), kept_(held_.layer->make_activations()) {
    parameters = held_.parameters;
  }

 protected:
  const L& layer() const { return *held_.layer; }
  Activations& kept() { return *kept_; }

 private:
  TrainedLayer<L> held_;
  std::unique_ptr<Activations> kept_;
};

class FeedForwardUnderTest : public HeldLayer<FeedForward> {
 public:
  explicit FeedForwardUnderTest(const ModelConfig& config)
      : HeldLayer(make_feed_forward(config.feed_forward, config)) {
    inputs = {"x"};
  }
  void forward(Pass& pass) override { layer().forward(pass, in["x"], kept(), out["y"]); }

 protected:
  void run_backward(Pass& pass) override {
    layer().backward(pass, in["x"], kept(), up["y"], din["x"]);
  }
};

class RecurrenceUnderTest : public HeldLayer<Recurrence> {
 public:
  explicit RecurrenceUnderTest(const ModelConfig& config)
      : HeldLayer(make_recurrence(config.recurrence, config)) {
    inputs = {"x"};
  }
  void forward(Pass& pass) override { layer().forward(pass, in["x"], kept(), out["y"]); }

 protected:
  void run_backward(Pass& pass) override {
    layer().backward(pass, in["x"], kept(), up["y"], din["x"]);
  }
};

class ProjectionUnderTest : public HeldLayer<Projection> {
 public:
  explicit ProjectionUnderTest(const ModelConfig& config)
      : HeldLayer(make_projection(config.projection, config)) {
    inputs = {"x"};
    if (layer().has_output()) inputs.push_back("o");
  }
  void forward(Pass& pass) override {
    layer().forward(pass, in["x"], kept(), qkv_);
    out["q"] = qkv_.q;
    out["k"] = qkv_.k;
    out["v"] = qkv_.v;
    if (layer().has_output()) layer().forward_output(pass, in["o"], kept(), out["y"]);
  }

 protected:
  void run_backward(Pass& pass) override {
    // As in a model: the output first.
    if (layer().has_output()) layer().backward_output(pass, in["o"], kept(), up["y"], din["o"]);
    layer().backward(pass, in["x"], kept(), {up["q"], up["k"], up["v"]}, din["x"]);
  }

 private:
  Projection::QKV qkv_;
};

class CrossProjectionUnderTest : public HeldLayer<CrossProjection> {
 public:
  explicit CrossProjectionUnderTest(const ModelConfig& config)
      : HeldLayer(make_cross_projection(config.cross_projection, config)) {
    inputs = {"x"};
    if (layer().has_output()) inputs.push_back("o");
    memory_inputs = {"encoded"};
  }
  void forward(Pass& pass) override {
    layer().forward_memory(pass, in["encoded"], kept(), memory_);
    out["k"] = memory_.k;
    out["v"] = memory_.v;
    layer().forward_query(pass, in["x"], kept(), out["q"]);
    if (layer().has_output()) layer().forward_output(pass, in["o"], kept(), out["y"]);
  }

 protected:
  void run_backward(Pass& pass) override {
    if (layer().has_output()) layer().backward_output(pass, in["o"], kept(), up["y"], din["o"]);
    layer().backward_query(pass, in["x"], kept(), up["q"], din["x"]);
    layer().backward_memory(pass, in["encoded"], kept(), {up["k"], up["v"]}, din["encoded"]);
  }

 private:
  CrossProjection::Memory memory_;
};

class AttentionUnderTest : public HeldLayer<SelfAttention> {
 public:
  AttentionUnderTest(const std::string& name, const ModelConfig& config)
      : HeldLayer(make_attention(name, config)) {
    inputs = {"q"};
    if (layer().takes_input()) inputs.emplace_back("x");
    memory_inputs = {"k", "v"};
  }
  void forward(Pass& pass) override {
    if (layer().takes_input()) layer().take_input(in["x"], kept());
    layer().forward(pass, in["q"], in["k"], in["v"], mask, kept(), out["o"]);
  }

 protected:
  void run_backward(Pass& pass) override {
    layer().backward(pass, in["q"], in["k"], in["v"], mask, kept(), up["o"], din["q"], din["k"],
                     din["v"]);
    if (!layer().takes_input()) return;
    din["x"].setZero();
    layer().add_input_gradient(kept(), din["x"]);
  }
};

class CrossAttentionUnderTest : public HeldLayer<CrossAttention> {
 public:
  explicit CrossAttentionUnderTest(const ModelConfig& config)
      : HeldLayer(make_cross_attention(config)) {
    inputs = {"q"};
    memory_inputs = {"k", "v"};
  }
  void forward(Pass& pass) override {
    layer().forward(pass, in["q"], in["k"], in["v"], mask, kept(), out["o"]);
  }

 protected:
  void run_backward(Pass& pass) override {
    layer().backward(pass, in["q"], in["k"], in["v"], mask, kept(), up["o"], din["q"], din["k"],
                     din["v"]);
  }
};

class LossUnderTest : public HeldLayer<Loss> {
 public:
  explicit LossUnderTest(const ModelConfig& config) : HeldLayer(make_loss(config.loss, config)) {
    inputs = {"x"};
  }
  void forward(Pass& pass) override { layer().forward(pass, in["x"], kept(), out["logits"]); }
  /// The fused loss; fills din.
  CrossEntropy cross_entropy(Pass& pass, const std::vector<int>& targets,
                             const std::vector<float>& weights, float scale) {
    return layer().cross_entropy(pass, in["x"], targets.data(), weights.data(), scale, kept(),
                                 &din["x"]);
  }

 protected:
  void run_backward(Pass& pass) override {
    layer().backward(pass, in["x"], kept(), up["logits"], din["x"]);
  }
};

/// name: of the implementation, not recurrence's none; all knobs but that of the component itself
/// are the config's.
inline std::unique_ptr<LayerUnderTest> make_layer(const std::string& component,
                                                  const std::string& name, ModelConfig config) {
  if (component == "attention") return std::make_unique<AttentionUnderTest>(name, config);
  set_field(config, component, name);
  if (component == "feed_forward") return std::make_unique<FeedForwardUnderTest>(config);
  if (component == "recurrence") return std::make_unique<RecurrenceUnderTest>(config);
  if (component == "projection") return std::make_unique<ProjectionUnderTest>(config);
  if (component == "cross_projection") return std::make_unique<CrossProjectionUnderTest>(config);
  if (component == "cross_attention") return std::make_unique<CrossAttentionUnderTest>(config);
  SCALING_CHECK(component == "loss");
  return std::make_unique<LossUnderTest>(config);
}

}  // namespace scaling
