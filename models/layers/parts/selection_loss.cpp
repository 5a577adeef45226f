// The loss is added up by one thread, in one order; gradients are of all, position by position.
#include "models/layers/parts/selection_loss.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/check.h"
#include "kernels/parallel.h"

namespace scaling {

void SelectionLoss::forward(Pass& pass, Blocks shape, const std::vector<std::int32_t>& chosen,
                            const Mat& p, Floats& shares) const {
  if (is_none()) return;
  SCALING_CHECK(p.cols() == shape.size() && std::int64_t(chosen.size()) == p.rows() * shape.blocks);
  shares.assign(std::size_t(shape.size()), 0.0f);
  for (std::int64_t t = 0; t < p.rows(); ++t) {
    for (std::int64_t b = 0; b < shape.blocks; ++b) {
      const std::int64_t entry = b * shape.n + chosen[std::size_t(t * shape.blocks + b)];
      shares[std::size_t(entry)] += 1 / float(p.rows());
    }
  }
  if (pass.recomputes) return;
  const double blocks = double(shape.blocks);
  double sum = 0;
  if (balance != 0) {
    const Eigen::Map<const Eigen::VectorXf> f(shares.data(), p.cols());
    const double mean = (p * f).cast<double>().sum() * double(shape.n) / blocks;
    sum += balance * mean;
  }
  if (entropy != 0) sum += entropy * double(p.rows()) * mean_entropy(shape, p, true);
  pass.extra_loss += sum;
}

float SelectionLoss::slope(Blocks shape, float p, float share) const {
  float all = float(balance * double(shape.n)) * share;
  // That of p ln p is ln p, and a constant that the softmax passes by.
  if (entropy != 0) {
    all -= float(entropy) * std::log(std::max(p, std::numeric_limits<float>::min()));
  }
  return all / float(shape.blocks);
}

void SelectionLoss::backward(const Pass& pass, Blocks shape, const Mat& p, const Floats& shares,
                             Mat& dz) const {
  if (is_none()) return;
  SCALING_CHECK(std::int64_t(shares.size()) == shape.size() && dz.cols() == p.cols());
  parallel_for(p.rows(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      for (std::int64_t first = 0; first < shape.size(); first += shape.n) {
        float sum = 0;
        for (std::int64_t j = first; j < first + shape.n; ++j) {
          const float term = p(t, j) * slope(shape, p(t, j), shares[std::size_t(j)]);
          dz(t, j) += pass.loss_scale * term;
          sum += term;
        }
        for (std::int64_t j = first; j < first + shape.n; ++j) {
          dz(t, j) -= pass.loss_scale * p(t, j) * sum;
        }
      }
    }
  });
}

}  // namespace scaling
