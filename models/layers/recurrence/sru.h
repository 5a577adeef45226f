// The simple recurrent unit beside the feed-forward (paper 6).
#pragma once

#include "models/layer.h"
#include "models/layers/parts/dense_product.h"

namespace scaling {

struct SruKnobs {
  std::int64_t recurrence_width = 32;  // n

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("recurrence_width", k.recurrence_width, "units of the sru recurrence",
          Trait{.is_size = true});
  }
};

/// u = in(x) of recurrence_width n, (r~, f~, z) = gates(u), r = sigmoid(r~), f = sigmoid(f~);
/// c = f c' + (1 - f) z, where c' is the cell one position before, 0 at first;
/// h = r c + (1 - r) sqrt(3) u; y = out(h). in, gates and out are dense products with biases.
class SruRecurrence : public Recurrence {
 public:
  using Options = SruKnobs;
  static void validate(const ModelConfig& config);
  static void shrink(ModelConfig& config) { set_field(config, "recurrence_width", 16); }
  explicit SruRecurrence(const ModelConfig& config);
  void visit_parameters(const ParameterVisitor& visit) override;
  std::int64_t workspace_floats(int tokens, int threads) const override;
  std::unique_ptr<LayerState> make_state(int tokens) const override;
  std::unique_ptr<Activations> make_activations() const override;
  using Recurrence::forward;
  void forward(Pass& pass, const Mat& x, Activations& kept, Mat& y) const override;
  void backward(Pass& pass, const Mat& x, Activations& kept, const Mat& dy, Mat& dx) const override;
  void step(const StepContext& ctx, LayerState* state, const float* x, float* y) const override;
  Cost step_cost(int tokens, WeightType type) const override;
  /// u, cell, h and the gates, each with its gradient; a cell's stays with the scan.
  double activation_floats() const override { return 11 * double(n_); }

 private:
  std::int64_t n_;
  DenseProduct in_, out_;
  Parameter gates_, gates_bias_;
};

}  // namespace scaling
