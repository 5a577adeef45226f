// The convolutional building block and its ring of remembered tokens.
#include "models/layers/module_convolution.h"

#include <algorithm>
#include <cmath>

#include "kernels/check.h"
#include "models/layers/counting.h"
#include "models/layers/product.h"

namespace scaling {
namespace {

constexpr int kPadding = (kModuleTaps - 1) / 2;

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

Mat ModuleConvolution::forward(const Mat& x) const {
  const Mat w = w_.matrix();
  const int half = (module_taps_ - 1) / 2;
  Mat y = Mat::Zero(x.rows(), x.cols());
  for (int a = 0; a < length_taps_; ++a) {
    const std::int64_t back = length_taps_ - 1 - a;
    const std::int64_t n = x.rows() - back;
    for (int c = 0; n > 0 && c < module_taps_; ++c) {
      const auto tap = w.middleRows((a * module_taps_ + c) * width_, width_);
      for (std::int64_t s = 0; s < modules_; ++s) {
        const std::int64_t source = s + c - half;
        if (source < 0 || source >= modules_) continue;
        y.block(back, s * width_, n, width_).noalias() +=
            x.block(0, source * width_, n, width_) * tap;
      }
    }
  }
  const Eigen::Map<const Eigen::RowVectorXf> bias(b_.vector(), width_);
  for (std::int64_t s = 0; s < modules_; ++s) y.middleCols(s * width_, width_).rowwise() += bias;
  return y;
}

Cost ModuleConvolution::step_cost(int tokens, WeightType type) const {
  const double matrix = double(w_.count());
  return {phase_of("convolution", matrix, double(b_.count()),
                   2 * matrix * double(modules_) * tokens, type)};
}

ConvolutionBank::ConvolutionBank(std::vector<ModuleConvolution> convolutions)
    : convolutions_(std::move(convolutions)), first_row_{0} {
  for (const ModuleConvolution& c : convolutions_) {
    SCALING_CHECK(c.length_taps_ == convolutions_[0].length_taps_ && c.module_taps_ <= kModuleTaps);
    first_row_.push_back(first_row_.back() + c.w_.rows);
  }
}

void ConvolutionBank::visit_parameters(const ParameterVisitor& visit) {
  for (ModuleConvolution& c : convolutions_) c.visit_parameters(visit);
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
