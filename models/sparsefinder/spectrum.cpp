// Scores to weights, weights to eigenvalues, these to shares.
#include "models/sparsefinder/spectrum.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <numeric>

#include "kernels/check.h"

namespace scaling {

Mat head_weights(const HeadSlice& q, const HeadSlice& k, bool causal,
                 const ThresholdNormaliser* normaliser) {
  const std::int64_t n = q.rows();
  Mat weights = Mat::Zero(n, n);
  if (normaliser) {
    const GoldGraph gold = gold_graph(q, k, causal, *normaliser);
    for (std::int64_t query = 0; query < n; ++query) {
      const auto keys = gold.keys_of(query);
      const auto p = gold.p_of(query);
      for (std::size_t i = 0; i < keys.size(); ++i) weights(query, keys[i]) = p[i];
    }
    return weights;
  }
  Mat scores;
  head_scores(q, k, scores);
  const float scale = 1 / std::sqrt(float(q.cols()));
  for (std::int64_t query = 0; query < n; ++query) {
    const std::int64_t seen = causal ? query + 1 : n;
    const auto row = scores.row(query).head(seen).array() * scale;
    auto of_query = weights.row(query).head(seen).array();
    of_query = (row - row.maxCoeff()).exp();
    of_query /= of_query.sum();
  }
  return weights;
}

std::vector<double> singular_shares(const Mat& m) {
  SCALING_CHECK(m.rows() == m.cols() && m.rows() > 0);
  const Eigen::MatrixXd wide = m.cast<double>();
  const Eigen::MatrixXd square = wide.transpose() * wide;
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(square, Eigen::EigenvaluesOnly);
  SCALING_CHECK(solver.info() == Eigen::Success);
  const Eigen::VectorXd& ascending = solver.eigenvalues();
  // Below it is what rounding made of zero.
  const double least = std::max(ascending(ascending.size() - 1), 0.0) * 1e-16;
  std::vector<double> values;
  for (std::int64_t i = ascending.size(); i-- > 0;) {
    values.push_back(ascending(i) > least ? std::sqrt(ascending(i)) : 0.0);
  }
  std::partial_sum(values.begin(), values.end(), values.begin());
  const double sum = values.back();
  SCALING_CHECK(sum > 0);
  for (double& value : values) value /= sum;
  return values;
}

std::int64_t rank_of_share(const std::vector<double>& shares, double share) {
  return std::lower_bound(shares.begin(), shares.end(), share) - shares.begin() + 1;
}

}  // namespace scaling
