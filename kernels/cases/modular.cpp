// Cases of the multiplicative layer and of the convolution over modules and remembered tokens.
#include <algorithm>

#include "kernels/cases/makers.h"

namespace scaling {
namespace {

class MultiplicativeProblem : public ProblemBase {
 public:
  MultiplicativeProblem(const ProblemOptions& options, const Setting& g,
                        const MultiplicativeSizes& s)
      : ProblemBase(options, g.values),
        sizes_(s),
        tokens_(g.tokens),
        inputs_(whole_if_open(s.inputs, s.in)),
        columns_(whole_if_open(s.columns, s.width)),
        x_(g.tokens * s.in, g.misalign) {
    weights_ = std::make_unique<RotatedWeights>(
        options, options.type,
        std::vector<RotatedWeights::Shape>{{Layout::rows, s.in, s.modules},
                                           {Layout::panels, s.in, s.width}},
        source_, g.misalign);
    source_.fill(x_);
    add_outputs(g.tokens * s.modules * s.width, g.misalign, 3);
    length_ = double(inputs_.size());
    touched_ = inputs_.size() > 0 ? double(columns_.size()) / double(s.width) : 0;
  }

  void run(const KernelSet& set, std::int64_t call, int thread) override {
    set.multiplicative(weights_->view(0, call), weights_->view(1, call), x_.data(), tokens_,
                       output(thread), part(inputs_, thread), columns_, nullptr);
  }

  Phase cost() const override {
    const double in = double(inputs_.size()), modules = double(sizes_.modules);
    const double columns = double(columns_.size());
    const double read = in * (modules + columns);
    return {"multiplicative", read, read * double(bytes_of(options_.type)),
            (2 * in * modules * columns + in * modules) * tokens_};
  }

 private:
  const MultiplicativeSizes sizes_;
  const int tokens_;
  const Range inputs_, columns_;
  Guarded<float> x_;
};

class ConvolutionProblem : public ProblemBase {
 public:
  ConvolutionProblem(const ProblemOptions& options, const Setting& g, const ConvolutionSizes& s)
      : ProblemBase(options, g.values),
        sizes_(s),
        tokens_(g.tokens),
        tap_rows_(whole_if_open(s.tap_rows, s.taps * s.module_taps * s.width)),
        columns_(whole_if_open(s.columns, s.width_out)) {
    weights_ = std::make_unique<RotatedWeights>(
        options, options.type,
        std::vector<RotatedWeights::Shape>{
            {Layout::panels, s.taps * s.module_taps * s.width, s.width_out}},
        source_, g.misalign);
    const std::int64_t stride = s.modules + 2 * s.padding;
    for (int f = 0; f < g.tokens * s.taps; ++f) {
      Guarded<float>& frame = frames_.emplace_back(s.width * stride, g.misalign);
      std::fill_n(frame.data(), frame.size(), 0.0f);
      for (std::int64_t i = 0; i < s.width; ++i) {
        for (std::int64_t m = 0; m < s.modules; ++m) {
          frame[i * stride + s.padding + m] = source_.draw();
        }
      }
    }
    for (const auto& frame : frames_) pointers_.push_back(frame.data());
    add_outputs(g.tokens * s.modules * s.width_out, g.misalign, 2);
    length_ = double(tap_rows_.size());
    touched_ = tap_rows_.size() > 0 ? double(columns_.size()) / double(s.width_out) : 0;
  }

  void run(const KernelSet& set, std::int64_t call, int thread) override {
    const Frames frames = {pointers_.data(), sizes_.taps, sizes_.modules, sizes_.width,
                           sizes_.padding};
    set.module_convolution(weights_->view(0, call), frames, sizes_.module_taps, tokens_,
                           output(thread), part(tap_rows_, thread), columns_, nullptr);
  }

  Phase cost() const override {
    const double matrix = double(tap_rows_.size() * columns_.size());
    return {"module_convolution", matrix, matrix * double(bytes_of(options_.type)),
            2 * matrix * double(sizes_.modules) * tokens_};
  }

 private:
  const ConvolutionSizes sizes_;
  const int tokens_;
  const Range tap_rows_, columns_;
  std::vector<Guarded<float>> frames_;
  std::vector<const float*> pointers_;
};

}  // namespace

Case multiplicative_case(const Setting& g, const MultiplicativeSizes& s) {
  return {"multiplicative", g.shape, g.tokens, true, [=](const ProblemOptions& options) {
            return std::make_unique<MultiplicativeProblem>(options, g, s);
          }};
}

Case convolution_case(const Setting& g, const ConvolutionSizes& s) {
  return {"module_convolution", g.shape, g.tokens, true, [=](const ProblemOptions& options) {
            return std::make_unique<ConvolutionProblem>(options, g, s);
          }};
}

}  // namespace scaling
