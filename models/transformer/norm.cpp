// One sweep over the rows each way; nothing of the size of x is kept beside x itself.
#include "models/transformer/norm.h"

#include <algorithm>
#include <cmath>

#include "kernels/check.h"
#include "kernels/parallel.h"

namespace scaling {
namespace {

using Row = Eigen::Map<const Eigen::ArrayXf>;

Row row_of(const Mat& m, std::int64_t row) { return Row(m.data() + row * m.cols(), m.cols()); }

/// Rows whose contributions to the gradients one thread sums before the groups meet in order.
constexpr std::int64_t kGroup = 64;

/// Adds the groups' sums to a gradient; columns are shared among the threads.
void add_sums(const Mat& sums, const Parameter& p) {
  if (!p.gradient) return;
  parallel_for(p.cols, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t group = 0; group < sums.rows(); ++group) {
      const float* from = sums.data() + group * sums.cols();
      for (std::int64_t i = begin; i < end; ++i) p.gradient[i] += from[i];
    }
  });
}

}  // namespace

Norm::Norm(std::int64_t d)
    : scale(Parameter::make_vector("scale", d, {Initializer::Kind::constant, 1})),
      bias(Parameter::make_vector("bias", d, {Initializer::Kind::constant, 0})) {}

void Norm::visit_parameters(const std::string& prefix, const ParameterVisitor& visit) {
  scale.name = prefix + "scale";
  bias.name = prefix + "bias";
  visit(scale);
  visit(bias);
}

void Norm::forward(const Mat& x, Kept& kept, Mat& y) const {
  SCALING_CHECK(scale.data != nullptr && x.cols() == scale.cols);
  const std::int64_t d = x.cols();
  kept.mean.resize(std::size_t(x.rows()));
  kept.inverse.resize(std::size_t(x.rows()));
  y.resize(x.rows(), d);
  const Row s(scale.vector(), d), b(bias.vector(), d);
  parallel_for(x.rows(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      const Row from = row_of(x, t);
      const float mean = from.mean();
      const float variance = (from - mean).square().sum() / float(d);
      const float inverse = 1 / std::sqrt(variance + 1e-6f);
      Eigen::Map<Eigen::ArrayXf>(y.data() + t * d, d) = (from - mean) * inverse * s + b;
      kept.mean[std::size_t(t)] = mean;
      kept.inverse[std::size_t(t)] = inverse;
    }
  });
}

void Norm::backward(const Mat& x, Kept& kept, const Mat& dy, Mat& dx) const {
  SCALING_CHECK(std::int64_t(kept.mean.size()) == x.rows());
  SCALING_CHECK(dy.rows() == x.rows() && dx.rows() == x.rows() && dx.cols() == x.cols());
  const std::int64_t d = x.cols(), groups = (x.rows() + kGroup - 1) / kGroup;
  kept.scale_sums.resize(groups, d);
  kept.bias_sums.resize(groups, d);
  const Row s(scale.vector(), d);
  parallel_for(groups, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t group = begin; group < end; ++group) {
      Eigen::Map<Eigen::ArrayXf> dscale(kept.scale_sums.data() + group * d, d);
      Eigen::Map<Eigen::ArrayXf> dbias(kept.bias_sums.data() + group * d, d);
      dscale.setZero();
      dbias.setZero();
      const std::int64_t last = std::min(x.rows(), (group + 1) * kGroup);
      for (std::int64_t t = group * kGroup; t < last; ++t) {
        const float mean = kept.mean[std::size_t(t)], inverse = kept.inverse[std::size_t(t)];
        const Row from = row_of(x, t), g = row_of(dy, t);
        const auto centred = (from - mean) * inverse;
        dbias += g;
        dscale += g * centred;
        const float along_one = (g * s).sum() / float(d);
        const float along_x = (g * s * centred).sum() / float(d);
        Eigen::Map<Eigen::ArrayXf>(dx.data() + t * d, d) +=
            inverse * (g * s - along_one - centred * along_x);
      }
    }
  });
  add_sums(kept.scale_sums, scale);
  add_sums(kept.bias_sums, bias);
}

}  // namespace scaling
