// Convolutions over neighbouring modules and the last tokens, and the memory of those tokens
// (paper 2.4, 2.7).
#pragma once

#include <initializer_list>
#include <string>
#include <vector>

#include "models/layer.h"
#include "models/layers/parts/module_knobs.h"
#include "models/layers/parts/partial_sums.h"

namespace scaling {

inline constexpr int kModuleTaps = 3;  // modules that a convolution of queries or keys sees

/// The last F input frames of every token, channel-major as the kernel wants them; zero before the
/// first.
class ConvolutionRing {
 public:
  ConvolutionRing(int tokens, std::int64_t modules, std::int64_t width, int taps);
  /// Writes the frame of ctx.position: the thread's share of channels of sums (tokens, modules *
  /// width) over `parts` pieces `stride` floats apart, plus bias (may be null). Needs a barrier
  /// before and after.
  void write(const StepContext& ctx, const float* sums, std::int64_t stride, int parts,
             const float* bias);
  /// pointers: room for tokens * taps.
  Frames frames(std::int64_t position, const float** pointers) const;
  /// Frames move as LayerState::reorder says.
  void reorder(const StepContext& ctx, const RowMoves& moves);

 private:
  float* slot(int token, std::int64_t position);
  std::int64_t modules_, width_, frame_floats_;
  int tokens_, taps_;
  std::vector<float> data_;
};

/// What one module of one position sees: of the last `taps` positions of its example, the oldest
/// first, `neighbours` modules around itself; zero beyond the edges and before the start.
struct ModuleWindow {
  std::int64_t length;  ///< positions of an example
  std::int64_t modules, width, taps, neighbours;
  std::int64_t half() const { return (neighbours - 1) / 2; }
  std::int64_t inputs() const { return taps * neighbours * width; }
  /// It sees itself only: what modules see is x.
  bool is_plain() const { return inputs() == width; }
};

/// One convolution: W (F * k * M, M) shared by modules, bias (M). Parameters prefix.w, prefix.bias.
class ModuleConvolution {
 public:
  /// A single module has neither neighbours nor (by definition) a length kernel.
  ModuleConvolution(const std::string& prefix, std::int64_t d, const ConvolutionKnobs& knobs,
                    int module_taps);
  void visit_parameters(const ParameterVisitor& visit);
  Cost step_cost(int tokens, WeightType type) const;

 private:
  friend class ConvolutionBank;
  /// y = bias at every position and module.
  void start(Mat& y) const;
  /// Adds what `count` positions contribute to y, which starts at the first of them. seen: (count *
  /// S, window.inputs()).
  void add(const Pass& pass, const ModuleWindow& window, const float* seen, std::int64_t count,
           float* y) const;
  /// The same backwards: from dy to W's gradient and to dseen, which is added to or, if this
  /// convolution sees all of the window, may be overwritten.
  void add_backward(const Pass& pass, const ModuleWindow& window, const float* seen,
                    std::int64_t count, const float* dy, float* dseen, bool accumulate) const;
  /// fn(first column of seen, first row of W, how many) for the products that a convolution over
  /// this window consists of.
  template <class Fn>
  void for_each_product(const ModuleWindow& window, Fn&& fn) const;
  void bias_backward(const Mat& dy) const;
  std::int64_t modules_, width_;
  int length_taps_, module_taps_;
  Parameter w_, b_;
};

/// Several convolutions of the same input: in a step of the same ring. Threads share columns of the
/// outputs if these are as many panels for each (by_columns), which needs neither partial sums nor
/// the barrier before they are added up; else weight rows, evenly as one long list.
class ConvolutionBank {
 public:
  explicit ConvolutionBank(std::vector<ModuleConvolution> convolutions);
  void visit_parameters(const ParameterVisitor& visit);
  /// What every module of some positions sees, (positions * S, ModuleWindow::inputs()), and its
  /// gradient.
  struct Kept {
    Mat seen, dseen;
  };
  /// One y a convolution, in the constructor's order; examples do not see each other.
  void forward(Pass& pass, const Mat& x, Kept& kept, std::initializer_list<Mat*> y) const;
  void backward(Pass& pass, const Mat& x, Kept& kept, std::initializer_list<const Mat*> dy,
                Mat& dx) const;
  ConvolutionRing make_ring(int tokens) const;
  std::int64_t workspace_floats(int tokens, int threads) const;
  /// The thread's weights of all convolutions.
  void reads(const StepContext& ctx, Ahead& ahead) const;
  /// Up to, and with, the barrier after which outputs can be finished.
  void sum(const StepContext& ctx, const ConvolutionRing& ring, float* workspace) const;
  /// The thread's share of output i (tokens, d), bias included; then a barrier.
  void finish(const StepContext& ctx, const ConvolutionRing& ring, float* workspace, std::size_t i,
              float* y) const;
  /// The thread's share of an output, as finish leaves it, to another of the same shape.
  void copy_share(const StepContext& ctx, const float* from, float* to) const;
  /// Whether threads share columns m of every module: {m in ctx.share(width, kPanel)}.
  bool by_columns(int threads) const;
  Cost step_cost(int tokens, WeightType type) const;

 private:
  /// Rows of convolution i within `all`, a range of the concatenated list.
  Range rows_within(std::size_t i, Range all) const;
  void finish_columns(const StepContext& ctx, const ConvolutionRing& ring, std::size_t i,
                      float* y) const;
  void finish_rows(const StepContext& ctx, float* workspace, std::size_t i, float* y) const;
  PartialSums sums(int tokens, int threads, float* workspace, std::size_t i) const;
  ModuleWindow window(std::int64_t length) const;
  /// fn(rows): pieces of the batch, in order.
  template <class Fn>
  static void for_each_piece(const ModuleWindow& w, std::int64_t rows, Fn&& fn);
  std::vector<ModuleConvolution> convolutions_;
  std::vector<std::int64_t> first_row_;  // of each in the concatenated list; one more for the end
};

}  // namespace scaling
