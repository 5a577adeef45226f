// The convolutional building block and its ring of remembered tokens.
#include "models/layers/module_convolution.h"

#include <algorithm>
#include <cmath>

#include "kernels/check.h"
#include "kernels/parallel.h"
#include "models/layers/counting.h"
#include "models/layers/plain_weight.h"
#include "models/layers/product.h"

namespace scaling {
namespace {

constexpr int kPadding = (kModuleTaps - 1) / 2;

/// Of a piece of a batch with its neighbours: what stays in the second cache level.
constexpr std::int64_t kFloatsAtOnce = std::int64_t(1) << 19;

/// Row (position, s) of seen = modules s - 1, s, s + 1 of the position, zero beyond the edges. x:
/// (count, modules * width). The rows of seen never shrink, so that pieces of two sizes share it.
void gather(const float* x, std::int64_t count, std::int64_t modules, std::int64_t width,
            Mat& seen) {
  const std::int64_t inputs = kModuleTaps * width;
  if (seen.rows() < count * modules || seen.cols() != inputs) {
    seen.resize(count * modules, inputs);
  }
  parallel_for(count, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin * modules; row < end * modules; ++row) {
      const std::int64_t s = row % modules;
      const std::int64_t before = std::max<std::int64_t>(0, kPadding - s) * width;
      const std::int64_t after = std::max<std::int64_t>(0, s + kPadding + 1 - modules) * width;
      float* to = seen.data() + row * inputs;
      std::fill_n(to, before, 0.0f);
      std::copy_n(x + ((row - kPadding) * width + before), inputs - before - after, to + before);
      std::fill_n(to + inputs - after, after, 0.0f);
    }
  });
}

/// The gradient of gather: dx (count, modules * width) = sums over the places where a module was
/// seen.
void scatter(const Mat& dseen, std::int64_t count, std::int64_t modules, std::int64_t width,
             float* dx) {
  const std::int64_t inputs = kModuleTaps * width;
  parallel_for(count, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin * modules; row < end * modules; ++row) {
      const std::int64_t s = row % modules;
      Eigen::Map<Eigen::ArrayXf> to(dx + row * width, width);
      to = Eigen::Map<const Eigen::ArrayXf>(dseen.data() + row * inputs + kPadding * width, width);
      for (int c = 0; c < kModuleTaps; ++c) {
        const std::int64_t seer = s + kPadding - c;
        if (c == kPadding || seer < 0 || seer >= modules) continue;
        to += Eigen::Map<const Eigen::ArrayXf>(dseen.data() + (row - s + seer) * inputs + c * width,
                                               width);
      }
    }
  });
}

}  // namespace

ConvolutionRing::ConvolutionRing(int tokens, std::int64_t modules, std::int64_t width, int taps)
    : modules_(modules),
      width_(width),
      frame_floats_(padded(width * (modules + 2 * kPadding))),
      tokens_(tokens),
      taps_(taps),
      data_(std::size_t(tokens * taps * frame_floats_), 0.0f) {}

float* ConvolutionRing::slot(int token, std::int64_t position) {
  return data_.data() + (token * taps_ + position % taps_) * frame_floats_;
}

void ConvolutionRing::write(const StepContext& ctx, const float* sums, std::int64_t stride,
                            int parts, const float* bias) {
  const Range channels = ctx.share(width_);
  const std::int64_t row = modules_ + 2 * kPadding;
  for (int t = 0; t < tokens_; ++t) {
    float* frame = slot(t, ctx.position) + kPadding;
    const float* from = sums + t * modules_ * width_;
    for (std::int64_t s = 0; s < modules_; ++s) {
      for (std::int64_t i = channels.begin; i < channels.end; ++i) {
        float sum = bias ? bias[s * width_ + i] : 0.0f;
        for (int p = 0; p < parts; ++p) sum += from[p * stride + s * width_ + i];
        frame[i * row + s] = sum;
      }
    }
  }
}

Frames ConvolutionRing::frames(std::int64_t position, const float** pointers) const {
  for (int t = 0; t < tokens_; ++t) {
    for (int a = 0; a < taps_; ++a) {
      // The oldest frame stands in the slot that the next position will overwrite.
      const std::int64_t slot = (position + 1 + a) % taps_;
      pointers[t * taps_ + a] = data_.data() + (t * taps_ + slot) * frame_floats_;
    }
  }
  return {pointers, taps_, modules_, width_, kPadding};
}

ModuleConvolution::ModuleConvolution(const std::string& prefix, std::int64_t d,
                                     std::int64_t modules, std::int64_t length_taps,
                                     int module_taps)
    : modules_(modules),
      width_(d / modules),
      length_taps_(modules == 1 ? 1 : int(length_taps)),
      module_taps_(modules == 1 ? 1 : module_taps),
      w_(Parameter::make_matrix(joined_name(prefix, "w"), length_taps_ * module_taps_ * width_,
                                width_, Layout::panels,
                                {Initializer::Kind::normal, std::sqrt(1.0f / float(width_))},
                                {length_taps_, module_taps_, width_, width_})),
      b_(Parameter::make_vector(joined_name(prefix, "bias"), width_, kBias)) {}

void ModuleConvolution::visit_parameters(const ParameterVisitor& visit) {
  visit(w_);
  visit(b_);
}

void ModuleConvolution::start(Mat& y) const {
  parallel_for(y.rows(), [&](std::int64_t begin, std::int64_t end) {
    for (float* at = y.data() + begin * y.cols(); at < y.data() + end * y.cols(); at += width_) {
      std::copy_n(b_.vector(), width_, at);
    }
  });
}

void ModuleConvolution::add(const Pass& pass, const float* in, std::int64_t first,
                            std::int64_t count, std::int64_t length, float* y) const {
  const PlainWeight w(w_);
  const std::int64_t d = modules_ * width_;
  for (std::int64_t back = 0; back < length_taps_; ++back) {
    const std::int64_t n = std::min(count, length - first - back);
    if (n <= 0) break;
    const float* tap = w.data() + (length_taps_ - 1 - back) * inputs() * width_;
    pass.gemm.product(false, false, n * modules_, width_, inputs(), in, inputs(), tap, width_, 1,
                      y + (first + back) * d, width_);
  }
}

void ModuleConvolution::add_backward(const Pass& pass, const float* in, std::int64_t first,
                                     std::int64_t count, std::int64_t length, const float* dy,
                                     float* din, bool accumulate) const {
  const PlainWeight w(w_);
  const std::int64_t d = modules_ * width_;
  for (std::int64_t back = 0; back < length_taps_; ++back) {
    const std::int64_t n = std::min(count, length - first - back);
    if (n <= 0) break;
    const std::int64_t offset = (length_taps_ - 1 - back) * inputs() * width_;
    const float* from = dy + (first + back) * d;
    if (w_.gradient) {
      pass.gemm.product(true, false, inputs(), width_, n * modules_, in, inputs(), from, width_, 1,
                        w_.gradient + offset, width_);
    }
    // The current token's tap reaches all of din, so it may overwrite.
    pass.gemm.product(false, true, n * modules_, inputs(), width_, from, width_, w.data() + offset,
                      width_, accumulate || back > 0 ? 1.0f : 0.0f, din, inputs());
  }
}

void ModuleConvolution::bias_backward(const Mat& dy) const {
  if (!b_.gradient) return;
  const Eigen::Map<const Mat> by_module(dy.data(), dy.rows() * modules_, width_);
  parallel_for(width_, [&](std::int64_t begin, std::int64_t end) {
    Eigen::Map<Eigen::RowVectorXf>(b_.gradient + begin, end - begin) +=
        by_module.middleCols(begin, end - begin).colwise().sum();
  });
}

Cost ModuleConvolution::step_cost(int tokens, WeightType type) const {
  const double matrix = double(w_.count());
  return {phase_of("convolution", matrix, double(b_.count()),
                   2 * matrix * double(modules_) * tokens, type)};
}

ConvolutionBank::ConvolutionBank(std::vector<ModuleConvolution> convolutions)
    : convolutions_(std::move(convolutions)), first_row_{0} {
  for (const ModuleConvolution& c : convolutions_) {
    SCALING_CHECK(c.length_taps_ == convolutions_[0].length_taps_ &&
                  (c.module_taps_ == 1 || c.module_taps_ == kModuleTaps));
    first_row_.push_back(first_row_.back() + c.w_.rows);
  }
}

void ConvolutionBank::visit_parameters(const ParameterVisitor& visit) {
  for (ModuleConvolution& c : convolutions_) c.visit_parameters(visit);
}

bool ConvolutionBank::sees_neighbours() const {
  return std::any_of(convolutions_.begin(), convolutions_.end(),
                     [](const ModuleConvolution& c) { return c.module_taps_ > 1; });
}

template <class Fn>
void ConvolutionBank::for_each_piece(const Pass& pass, const Mat& x, Fn&& fn) const {
  const std::int64_t length = pass.length(x);
  const std::int64_t limit =
      sees_neighbours() ? std::max<std::int64_t>(1, kFloatsAtOnce / (kModuleTaps * x.cols()))
                        : length;
  for (std::int64_t example = 0; example < pass.examples; ++example) {
    for (std::int64_t first = 0; first < length; first += limit) {
      fn(example * length + first, first, std::min(limit, length - first));
    }
  }
}

void ConvolutionBank::forward(Pass& pass, const Mat& x, Kept& kept,
                              std::initializer_list<Mat*> y) const {
  const std::int64_t modules = convolutions_[0].modules_, width = convolutions_[0].width_;
  const std::int64_t d = modules * width, length = pass.length(x);
  SCALING_CHECK(x.cols() == d && y.size() == convolutions_.size());
  for (std::size_t i = 0; i < convolutions_.size(); ++i) {
    y.begin()[i]->resize(x.rows(), d);
    convolutions_[i].start(*y.begin()[i]);
  }
  for_each_piece(pass, x, [&](std::int64_t row, std::int64_t first, std::int64_t count) {
    const float* plain = x.data() + row * d;
    if (sees_neighbours()) gather(plain, count, modules, width, kept.seen);
    for (std::size_t i = 0; i < convolutions_.size(); ++i) {
      const ModuleConvolution& c = convolutions_[i];
      c.add(pass, c.module_taps_ > 1 ? kept.seen.data() : plain, first, count, length,
            y.begin()[i]->data() + (row - first) * d);
    }
  });
}

void ConvolutionBank::backward(Pass& pass, const Mat& x, Kept& kept,
                               std::initializer_list<const Mat*> dy, Mat& dx) const {
  const std::int64_t modules = convolutions_[0].modules_, width = convolutions_[0].width_;
  const std::int64_t d = modules * width, length = pass.length(x);
  SCALING_CHECK(x.cols() == d && dy.size() == convolutions_.size());
  for (std::size_t i = 0; i < convolutions_.size(); ++i) {
    SCALING_CHECK(dy.begin()[i]->rows() == x.rows() && dy.begin()[i]->cols() == d);
    convolutions_[i].bias_backward(*dy.begin()[i]);
  }
  dx.resize(x.rows(), d);
  for_each_piece(pass, x, [&](std::int64_t row, std::int64_t first, std::int64_t count) {
    const float* plain = x.data() + row * d;
    float* dplain = dx.data() + row * d;
    // First those that see neighbours, whose gradients meet in dseen; the others add to dx itself.
    bool is_started = false;
    const auto go_back = [&](bool with_neighbours, const float* in, float* din) {
      for (std::size_t i = 0; i < convolutions_.size(); ++i) {
        const ModuleConvolution& c = convolutions_[i];
        if ((c.module_taps_ > 1) != with_neighbours) continue;
        c.add_backward(pass, in, first, count, length, dy.begin()[i]->data() + (row - first) * d,
                       din, is_started);
        is_started = true;
      }
    };
    if (sees_neighbours()) {
      gather(plain, count, modules, width, kept.seen);
      kept.dseen.resize(kept.seen.rows(), kept.seen.cols());
      go_back(true, kept.seen.data(), kept.dseen.data());
      scatter(kept.dseen, count, modules, width, dplain);
    }
    go_back(false, plain, dplain);
  });
}

ConvolutionRing ConvolutionBank::make_ring(int tokens) const {
  const ModuleConvolution& c = convolutions_[0];
  return ConvolutionRing(tokens, c.modules_, c.width_, c.length_taps_);
}

Range ConvolutionBank::rows_within(std::size_t i, Range all) const {
  const std::int64_t first = first_row_[i], rows = first_row_[i + 1] - first;
  return {std::clamp<std::int64_t>(all.begin - first, 0, rows),
          std::clamp<std::int64_t>(all.end - first, 0, rows)};
}

PartialSums ConvolutionBank::sums(int tokens, int threads, float* workspace, std::size_t i) const {
  const std::int64_t d = convolutions_[0].modules_ * convolutions_[0].width_;
  return {workspace + std::int64_t(i) * PartialSums::floats(d, tokens, threads), d, tokens};
}

std::int64_t ConvolutionBank::workspace_floats(int tokens, int threads) const {
  const std::int64_t d = convolutions_[0].modules_ * convolutions_[0].width_;
  return std::int64_t(convolutions_.size()) * PartialSums::floats(d, tokens, threads);
}

void ConvolutionBank::sum(const StepContext& ctx, const ConvolutionRing& ring,
                          float* workspace) const {
  const float* pointers[kMaxTokens * kMaxKernelSize];
  const Frames frames = ring.frames(ctx.position, pointers);
  const Range own = ctx.share(first_row_.back());
  for (std::size_t i = 0; i < convolutions_.size(); ++i) {
    const Range rows = rows_within(i, own);
    if (rows.size() == 0) continue;
    const ModuleConvolution& c = convolutions_[i];
    ctx.kernels.module_convolution(c.w_.view(), frames, c.module_taps_, ctx.tokens,
                                   sums(ctx.tokens, ctx.threads, workspace, i).start(ctx.thread),
                                   rows);
  }
}

void ConvolutionBank::finish(const StepContext& ctx, float* workspace, std::size_t i,
                             float* y) const {
  // Only the threads whose rows reach into this convolution started a sum of it.
  Range parts{ctx.threads, 0};
  for (int thread = 0; thread < ctx.threads; ++thread) {
    if (rows_within(i, share_of(first_row_.back(), thread, ctx.threads)).size() == 0) continue;
    parts.begin = std::min<std::int64_t>(parts.begin, thread);
    parts.end = thread + 1;
  }
  const ModuleConvolution& c = convolutions_[i];
  sums(ctx.tokens, ctx.threads, workspace, i).reduce(ctx, parts, nullptr, y);
  const Range own = ctx.share(c.modules_ * c.width_, 16);
  for (int t = 0; t < ctx.tokens; ++t) {
    float* to = y + t * c.modules_ * c.width_;
    std::int64_t channel = own.begin % c.width_;
    for (std::int64_t at = own.begin; at < own.end; ++at) {
      to[at] += c.b_.vector()[channel];
      if (++channel == c.width_) channel = 0;
    }
  }
}

Cost ConvolutionBank::step_cost(int tokens, WeightType type) const {
  Phase all{"convolution"};
  for (const ModuleConvolution& c : convolutions_) {
    const Phase one = total(c.step_cost(tokens, type));
    all.weights += one.weights;
    all.bytes += one.bytes;
    all.flops += one.flops;
  }
  return {all};
}

}  // namespace scaling
