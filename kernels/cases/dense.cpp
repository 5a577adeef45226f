// Cases of the dense products.
#include "kernels/cases/makers.h"

namespace scaling {
namespace {

class DenseProblem : public ProblemBase {
 public:
  DenseProblem(const ProblemOptions& options, const Setting& g, const DenseSizes& s)
      : ProblemBase(options, g.values),
        sizes_(s),
        tokens_(g.tokens),
        range_(whole_if_open(s.range, s.out)),
        x_(g.tokens * s.in, g.misalign),
        bias_(s.out, g.misalign) {
    weights_ = std::make_unique<RotatedWeights>(
        options, options.type,
        std::vector<RotatedWeights::Shape>{{options.dense_layout, s.out, s.in}}, source_,
        g.misalign);
    source_.fill(x_);
    source_.fill(bias_);
    overwrite_outputs(g.tokens * s.out, g.misalign);
    length_ = double(s.in);
    touched_ = double(range_.size()) / double(s.out) / s.slices;
  }

  void run(const KernelSet& set, std::int64_t call, int thread) override {
    const Range slice =
        share_of(range_.size(), int(call / copies() % sizes_.slices), sizes_.slices);
    const Range mine = part({range_.begin + slice.begin, range_.begin + slice.end}, thread, kPanel);
    set.dense(weights_->view(0, call), sizes_.bias ? bias_.data() : nullptr, x_.data(), tokens_,
              output(0), mine, sizes_.relu);
  }

  Phase cost() const override {
    const double outputs = double(range_.size()) / sizes_.slices;
    const double matrix = outputs * double(sizes_.in);
    const double bias = sizes_.bias ? outputs : 0;
    return {"dense", matrix + bias, matrix * double(bytes_of(options_.type)) + bias * 4,
            2 * matrix * tokens_};
  }

 private:
  const DenseSizes sizes_;
  const int tokens_;
  const Range range_;
  Guarded<float> x_, bias_;
};

class DenseTransposedProblem : public ProblemBase {
 public:
  DenseTransposedProblem(const ProblemOptions& options, const Setting& g, const DenseSizes& s)
      : ProblemBase(options, g.values),
        sizes_(s),
        tokens_(g.tokens),
        range_(whole_if_open(s.range, s.in)),
        h_(g.tokens * s.in, g.misalign) {
    weights_ = std::make_unique<RotatedWeights>(
        options, options.type,
        std::vector<RotatedWeights::Shape>{{options.dense_layout, s.in, s.out}}, source_,
        g.misalign);
    source_.fill(h_);
    add_outputs(g.tokens * s.out, g.misalign, 2);
    length_ = double(range_.size());
    touched_ = range_.size() > 0 ? 1 : 0;
  }

  void run(const KernelSet& set, std::int64_t call, int thread) override {
    const Range slice =
        share_of(range_.size(), int(call / copies() % sizes_.slices), sizes_.slices);
    const Range mine = part({range_.begin + slice.begin, range_.begin + slice.end}, thread);
    set.dense_transposed(weights_->view(0, call), h_.data(), tokens_, output(thread), mine);
  }

  Phase cost() const override {
    const double matrix = double(range_.size()) / sizes_.slices * double(sizes_.out);
    return {"dense_transposed", matrix, matrix * double(bytes_of(options_.type)),
            2 * matrix * tokens_};
  }

 private:
  const DenseSizes sizes_;
  const int tokens_;
  const Range range_;
  Guarded<float> h_;
};

}  // namespace

Case dense_case(const Setting& g, const DenseSizes& s) {
  return {"dense", g.shape, g.tokens, true, [=](const ProblemOptions& options) {
            return std::make_unique<DenseProblem>(options, g, s);
          }};
}

Case dense_transposed_case(const Setting& g, const DenseSizes& s) {
  return {"dense_transposed", g.shape, g.tokens, true, [=](const ProblemOptions& options) {
            return std::make_unique<DenseTransposedProblem>(options, g, s);
          }};
}

}  // namespace scaling
