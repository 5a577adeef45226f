// The convolutional building block and its ring of remembered tokens.
#include "models/layers/parts/module_convolution.h"

#include <algorithm>
#include <cmath>

#include "kernels/check.h"
#include "kernels/parallel.h"
#include "models/layers/parts/counting.h"
#include "models/layers/parts/plain_weight.h"
#include "models/layers/parts/product.h"

namespace scaling {
namespace {

constexpr int kPadding = (kModuleTaps - 1) / 2;

/// What the modules of a piece of a batch see, in floats: stays in the second cache level.
constexpr std::int64_t kFloatsAtOnce = std::int64_t(1) << 19;

/// What each module sees of some rows of x. seen never shrinks, so that pieces of two sizes share
/// it.
void gather(const ModuleWindow& w, const float* x, Range rows, Mat& seen) {
  const std::int64_t inputs = w.inputs(), run = w.neighbours * w.width, d = w.modules * w.width;
  if (seen.rows() < rows.size() * w.modules || seen.cols() != inputs) {
    seen.resize(rows.size() * w.modules, inputs);
  }
  const auto gather_module = [&](std::int64_t row, std::int64_t s, float* to) {
    const std::int64_t position = row % w.length;
    const std::int64_t before = std::max<std::int64_t>(0, w.half() - s) * w.width;
    const std::int64_t after = std::max<std::int64_t>(0, s + w.half() + 1 - w.modules) * w.width;
    for (std::int64_t back = w.taps - 1; back >= 0; --back, to += run) {
      if (back > position) {
        std::fill_n(to, run, 0.0f);
        continue;
      }
      std::fill_n(to, before, 0.0f);
      std::copy_n(x + ((row - back) * d + (s - w.half()) * w.width + before), run - before - after,
                  to + before);
      std::fill_n(to + run - after, after, 0.0f);
    }
  };
  parallel_for(rows.size(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin * w.modules; i < end * w.modules; ++i) {
      gather_module(rows.begin + i / w.modules, i % w.modules, seen.data() + i * inputs);
    }
  });
}

/// The gradient of gather. dx begins anew in these rows and is added to in those before that they
/// see; pieces come in order.
void scatter(const ModuleWindow& w, const Mat& dseen, Range rows, float* dx) {
  const std::int64_t inputs = w.inputs(), run = w.neighbours * w.width, d = w.modules * w.width;
  const auto add_seer = [&](const float* from, float* to) {
    for (std::int64_t s = 0; s < w.modules; ++s) {
      for (std::int64_t c = 0; c < w.neighbours; ++c) {
        const std::int64_t module = s + c - w.half();
        if (module < 0 || module >= w.modules) continue;
        Eigen::Map<Eigen::ArrayXf>(to + module * w.width, w.width) +=
            Eigen::Map<const Eigen::ArrayXf>(from + s * inputs + c * w.width, w.width);
      }
    }
  };
  const std::int64_t first = std::max<std::int64_t>(0, rows.begin - (w.taps - 1));
  parallel_for(rows.end - first, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = first + begin; row < first + end; ++row) {
      float* to = dx + row * d;
      if (row >= rows.begin) std::fill_n(to, d, 0.0f);
      for (std::int64_t tap = 0; tap < w.taps; ++tap) {
        const std::int64_t later = w.taps - 1 - tap, seer = row + later;
        if (row % w.length + later >= w.length || seer < rows.begin || seer >= rows.end) continue;
        add_seer(dseen.data() + (seer - rows.begin) * w.modules * inputs + tap * run, to);
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

void ConvolutionRing::reorder(const StepContext& ctx, const RowMoves& moves) {
  const std::int64_t of_token = taps_ * frame_floats_;
  moves.apply(data_.data(), of_token, ctx.share(of_token));
}

ModuleConvolution::ModuleConvolution(const std::string& prefix, std::int64_t d,
                                     const ConvolutionKnobs& knobs, int module_taps)
    : modules_(knobs.modular.modules),
      width_(d / modules_),
      length_taps_(modules_ == 1 ? 1 : int(knobs.kernel_size)),
      module_taps_(modules_ == 1 ? 1 : module_taps),
      w_(Parameter::make_matrix(
          joined_name(prefix, "w"), length_taps_ * module_taps_ * width_, width_, Layout::panels,
          {Initializer::Kind::normal,
           std::sqrt(1.0f / float(width_ * (knobs.tap_scaling ? length_taps_ * module_taps_ : 1)))},
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

template <class Fn>
void ModuleConvolution::for_each_product(const ModuleWindow& window, Fn&& fn) const {
  if (window.neighbours == module_taps_) return fn(0, 0, window.inputs());
  const std::int64_t own = module_taps_ * width_;
  const std::int64_t before = (window.half() - module_taps_ / 2) * width_;
  for (std::int64_t tap = 0; tap < length_taps_; ++tap) {
    fn(tap * window.neighbours * width_ + before, tap * own, own);
  }
}

void ModuleConvolution::add(const Pass& pass, const ModuleWindow& window, const float* seen,
                            std::int64_t count, float* y) const {
  const PlainWeight w(w_);
  for_each_product(window, [&](std::int64_t column, std::int64_t row, std::int64_t inputs) {
    pass.gemm.product(false, false, count * modules_, width_, inputs, seen + column,
                      window.inputs(), w.data() + row * width_, width_, 1, y, width_);
  });
}

void ModuleConvolution::add_backward(const Pass& pass, const ModuleWindow& window,
                                     const float* seen, std::int64_t count, const float* dy,
                                     float* dseen, bool accumulate) const {
  const PlainWeight w(w_);
  for_each_product(window, [&](std::int64_t column, std::int64_t row, std::int64_t inputs) {
    if (w_.gradient) {
      pass.gemm.product(true, false, inputs, width_, count * modules_, seen + column,
                        window.inputs(), dy, width_, 1, w_.gradient + row * width_, width_);
    }
    pass.gemm.product(false, true, count * modules_, inputs, width_, dy, width_,
                      w.data() + row * width_, width_, accumulate ? 1.0f : 0.0f, dseen + column,
                      window.inputs());
  });
}

void ModuleConvolution::bias_backward(const Mat& dy) const {
  if (!b_.gradient) return;
  add_column_sums(dy.data(), dy.rows() * modules_, width_, b_.gradient);
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

ModuleWindow ConvolutionBank::window(std::int64_t length) const {
  const ModuleConvolution& c = convolutions_[0];
  const bool sees_neighbours =
      std::any_of(convolutions_.begin(), convolutions_.end(),
                  [](const ModuleConvolution& other) { return other.module_taps_ > 1; });
  return {.length = length,
          .modules = c.modules_,
          .width = c.width_,
          .taps = c.length_taps_,
          .neighbours = sees_neighbours ? kModuleTaps : 1};
}

template <class Fn>
void ConvolutionBank::for_each_piece(const ModuleWindow& w, std::int64_t rows, Fn&& fn) {
  const std::int64_t step =
      w.is_plain() ? std::max<std::int64_t>(1, rows)
                   : std::max<std::int64_t>(1, kFloatsAtOnce / (w.modules * w.inputs()));
  for (std::int64_t first = 0; first < rows; first += step) {
    fn(Range{first, std::min(rows, first + step)});
  }
}

void ConvolutionBank::forward(Pass& pass, const Mat& x, Kept& kept,
                              std::initializer_list<Mat*> y) const {
  const ModuleWindow w = window(pass.length(x));
  const std::int64_t d = w.modules * w.width;
  SCALING_CHECK(x.cols() == d && y.size() == convolutions_.size());
  for (std::size_t i = 0; i < convolutions_.size(); ++i) {
    y.begin()[i]->resize(x.rows(), d);
    convolutions_[i].start(*y.begin()[i]);
  }
  for_each_piece(w, x.rows(), [&](Range rows) {
    if (!w.is_plain()) gather(w, x.data(), rows, kept.seen);
    const float* seen = w.is_plain() ? x.data() + rows.begin * d : kept.seen.data();
    for (std::size_t i = 0; i < convolutions_.size(); ++i) {
      convolutions_[i].add(pass, w, seen, rows.size(), y.begin()[i]->data() + rows.begin * d);
    }
  });
}

void ConvolutionBank::backward(Pass& pass, const Mat& x, Kept& kept,
                               std::initializer_list<const Mat*> dy, Mat& dx) const {
  const ModuleWindow w = window(pass.length(x));
  const std::int64_t d = w.modules * w.width;
  SCALING_CHECK(x.cols() == d && dy.size() == convolutions_.size());
  for (std::size_t i = 0; i < convolutions_.size(); ++i) {
    SCALING_CHECK(dy.begin()[i]->rows() == x.rows() && dy.begin()[i]->cols() == d);
    convolutions_[i].bias_backward(*dy.begin()[i]);
  }
  dx.resize(x.rows(), d);
  for_each_piece(w, x.rows(), [&](Range rows) {
    const float* seen = x.data() + rows.begin * d;
    float* dseen = dx.data() + rows.begin * d;
    if (!w.is_plain()) {
      gather(w, x.data(), rows, kept.seen);
      kept.dseen.resize(kept.seen.rows(), kept.seen.cols());
      seen = kept.seen.data();
      dseen = kept.dseen.data();
    }
    // First those that see all of the window, of which the first overwrites dseen.
    bool is_started = false;
    for (const bool sees_all : {true, false}) {
      for (std::size_t i = 0; i < convolutions_.size(); ++i) {
        const ModuleConvolution& c = convolutions_[i];
        if ((c.module_taps_ == w.neighbours) != sees_all) continue;
        c.add_backward(pass, w, seen, rows.size(), dy.begin()[i]->data() + rows.begin * d, dseen,
                       is_started);
        is_started = true;
      }
    }
    if (!w.is_plain()) scatter(w, kept.dseen, rows, dx.data());
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

bool ConvolutionBank::by_columns(int threads) const {
  const std::int64_t width = convolutions_[0].width_;
  return width % kPanel == 0 && width / kPanel % threads == 0;
}

void ConvolutionBank::reads(const StepContext& ctx, Ahead& ahead) const {
  const bool columns = by_columns(ctx.threads);
  const Range own = ctx.share(first_row_.back());
  for (std::size_t i = 0; i < convolutions_.size(); ++i) {
    const WeightView w = convolutions_[i].w_.view();
    const Range rows = columns ? Range{0, w.rows} : rows_within(i, own);
    const Range outputs = columns ? ctx.share(w.cols, kPanel) : Range{0, w.cols};
    ahead.add_panels(w, rows.begin, rows.end, outputs.begin, outputs.end);
  }
}

void ConvolutionBank::sum(const StepContext& ctx, const ConvolutionRing& ring,
                          float* workspace) const {
  if (by_columns(ctx.threads)) return;
  const float* pointers[kMaxTokens * kMaxKernelSize];
  const Frames frames = ring.frames(ctx.position, pointers);
  const Range own = ctx.share(first_row_.back());
  for (std::size_t i = 0; i < convolutions_.size(); ++i) {
    const Range rows = rows_within(i, own);
    if (rows.size() == 0) continue;
    const ModuleConvolution& c = convolutions_[i];
    ctx.kernels.module_convolution(c.w_.view(), frames, c.module_taps_, ctx.tokens,
                                   sums(ctx.tokens, ctx.threads, workspace, i).start(ctx.thread),
                                   rows, {0, c.width_}, &ctx.ahead);
  }
  ctx.sync();
}

void ConvolutionBank::finish(const StepContext& ctx, const ConvolutionRing& ring, float* workspace,
                             std::size_t i, float* y) const {
  if (by_columns(ctx.threads)) {
    finish_columns(ctx, ring, i, y);
  } else {
    finish_rows(ctx, workspace, i, y);
  }
}

void ConvolutionBank::copy_share(const StepContext& ctx, const float* from, float* to) const {
  const ModuleConvolution& c = convolutions_[0];
  const bool columns = by_columns(ctx.threads);
  // Runs of `length`, of each of which the thread has the same share.
  const std::int64_t length = columns ? c.width_ : c.modules_ * c.width_;
  const Range own = ctx.share(length, columns ? kPanel : 16);
  for (std::int64_t at = 0; at < ctx.tokens * c.modules_ * c.width_; at += length) {
    std::copy(from + at + own.begin, from + at + own.end, to + at + own.begin);
  }
}

void ConvolutionBank::finish_columns(const StepContext& ctx, const ConvolutionRing& ring,
                                     std::size_t i, float* y) const {
  const float* pointers[kMaxTokens * kMaxKernelSize];
  const ModuleConvolution& c = convolutions_[i];
  const Range own = ctx.share(c.width_, kPanel);
  const float* const bias = c.b_.vector();
  for (std::int64_t at = 0; at < ctx.tokens * c.modules_ * c.width_; at += c.width_) {
    std::copy(bias + own.begin, bias + own.end, y + at + own.begin);
  }
  ctx.kernels.module_convolution(c.w_.view(), ring.frames(ctx.position, pointers), c.module_taps_,
                                 ctx.tokens, y, {0, c.w_.rows}, own, &ctx.ahead);
}

void ConvolutionBank::finish_rows(const StepContext& ctx, float* workspace, std::size_t i,
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
