// The definition itself, and runs of a layer to hold against it.
#include "tests/layers/attention_definition.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

namespace scaling {

void expect_same(const AttentionResult& ours, const AttentionResult& expected) {
  expect_close(ours.o, expected.o, "o");
  expect_close(ours.dq, expected.dq, "dq");
  expect_close(ours.dk, expected.dk, "dk");
  expect_close(ours.dv, expected.dv, "dv");
}

void expect_last_heads(const SelfAttention& part, const SelfAttention& whole, std::int64_t others,
                       const Pass& pass, const AttentionInput& in, const AttentionMask& mask) {
  const AttentionResult expected = run_attention(whole, pass, in, mask);
  AttentionResult r;
  for (Mat* m : {&r.o, &r.dq, &r.dk, &r.dv}) m->setConstant(in.q.rows(), in.q.cols(), 7);
  const auto kept = part.make_activations();
  Pass again = pass;
  part.forward(again, in.q, in.k, in.v, mask, *kept, r.o);
  part.backward(again, in.q, in.k, in.v, mask, *kept, in.dout, r.dq, r.dk, r.dv);
  const std::int64_t own = in.q.cols() - others;
  for (const auto& [ours, theirs] :
       {std::pair(&r.o, &expected.o), std::pair(&r.dq, &expected.dq),
        std::pair(&r.dk, &expected.dk), std::pair(&r.dv, &expected.dv)}) {
    EXPECT_TRUE(ours->rightCols(own) == theirs->rightCols(own));
    EXPECT_TRUE((ours->leftCols(others).array() == 7).all());
  }
}

Eigen::VectorXd normalised(const Eigen::VectorXd& logits, double alpha) {
  const Eigen::ArrayXd z = logits.array() - logits.maxCoeff();
  if (alpha == 1) return z.exp() / z.exp().sum();
  const auto at = [&](double tau) -> Eigen::ArrayXd {
    Eigen::ArrayXd above = ((alpha - 1) * z - tau).max(0);
    if (alpha == 2) return above;
    if (alpha == 1.5) return above.square();
    return above.unaryExpr([&](double u) { return u > 0 ? std::pow(u, 1 / (alpha - 1)) : 0.0; });
  };
  double low = -1, high = 0;
  for (int i = 0; i < 45; ++i) (at((low + high) / 2).sum() >= 1 ? low : high) = (low + high) / 2;
  return at((low + high) / 2);
}

Mat slopes_along(Double& elements, const std::function<double()>& loss) {
  constexpr double kStep = 1e-5;
  Mat all(elements.rows(), elements.cols());
  for (std::int64_t i = 0; i < elements.size(); ++i) {
    double& x = elements.data()[i];
    const double before = x;
    x = before + kStep;
    const double above = loss();
    x = before - kStep;
    all.data()[i] = float((above - loss()) / (2 * kStep));
    x = before;
  }
  return all;
}

void expect_slopes(
    const AttentionResult& defined, const AttentionInput& in,
    const std::function<Double(const Double& q, const Double& k, const Double& v)>& o) {
  Double q = in.q.cast<double>(), k = in.k.cast<double>(), v = in.v.cast<double>();
  const Double dout = in.dout.cast<double>();
  expect_close(defined.o, o(q, k, v).cast<float>(), "o");
  const auto loss = [&] { return o(q, k, v).cwiseProduct(dout).sum(); };
  expect_close(defined.dq, slopes_along(q, loss), "dq");
  expect_close(defined.dk, slopes_along(k, loss), "dk");
  expect_close(defined.dv, slopes_along(v, loss), "dv");
}

Double attention_weights(const Double& q, const Double& k, const AttentionMask& mask, double alpha,
                         const std::function<bool(std::int64_t, std::int64_t)>& is_allowed) {
  Double weights = q * k.transpose() / std::sqrt(double(q.cols()));
  for (std::int64_t t = 0; t < q.rows(); ++t) {
    for (std::int64_t j = 0; j < k.rows(); ++j) {
      if (mask.keys && !mask.keys[j]) weights(t, j) = -1e9;
      if ((mask.causal && j > t) || (is_allowed && !is_allowed(t, j))) weights(t, j) = -HUGE_VAL;
    }
    weights.row(t) = normalised(weights.row(t), alpha);
  }
  return weights;
}

AttentionResult define_attention(
    const AttentionInput& in, std::int64_t heads, const AttentionMask& mask, double alpha,
    const std::function<bool(std::int64_t, std::int64_t)>& is_allowed) {
  const std::int64_t d = in.q.cols() / heads, queries = in.q.rows(), keys = in.k.rows();
  AttentionResult r{Mat(queries, in.q.cols()), Mat(queries, in.q.cols()), Mat(keys, in.k.cols()),
                    Mat(keys, in.k.cols())};
  for (std::int64_t head = 0; head < heads; ++head) {
    const auto of = [&](const Mat& m) -> Double {
      return m.middleCols(head * d, d).cast<double>();
    };
    const Double q = of(in.q), k = of(in.k), v = of(in.v), dout = of(in.dout);
    const double scale = 1 / std::sqrt(double(d));
    const Double a = attention_weights(q, k, mask, alpha, is_allowed);
    const Double da = dout * v.transpose();
    Double ds(queries, keys);
    for (std::int64_t t = 0; t < queries; ++t) {
      const Eigen::VectorXd p = a.row(t);
      const Eigen::VectorXd s =
          p.unaryExpr([alpha](double x) { return x > 0 ? std::pow(x, 2 - alpha) : 0.0; });
      ds.row(t) = s.cwiseProduct(da.row(t).transpose()) - s * s.dot(da.row(t)) / s.sum();
    }
    ds *= scale;
    for (std::int64_t j = 0; mask.keys && j < keys; ++j) {
      if (!mask.keys[j]) ds.col(j).setZero();
    }
    r.o.middleCols(head * d, d) = (a * v).cast<float>();
    r.dq.middleCols(head * d, d) = (ds * k).cast<float>();
    r.dk.middleCols(head * d, d) = (ds.transpose() * q).cast<float>();
    r.dv.middleCols(head * d, d) = (a.transpose() * dout).cast<float>();
  }
  return r;
}

Mat decode_attention(const SelfAttention& layer, const AttentionInput& in) {
  Mat o(in.q.rows(), in.q.cols());
  const auto cache = layer.make_cache(1, in.q.rows());
  Barrier barrier(1);
  std::vector<float> workspace(std::size_t(layer.workspace_floats(1, 1)));
  for (std::int64_t t = 0; t < in.q.rows(); ++t) {
    const StepContext ctx{find_kernel_set("simd"), barrier, 0, 1, 1, t, workspace.data()};
    layer.step(ctx, *cache, in.q.row(t).data(), in.k.row(t).data(), in.v.row(t).data(),
               o.row(t).data());
  }
  return o;
}

}  // namespace scaling
