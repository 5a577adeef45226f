// What all implementations of a component share: evaluation of one sequence, and the loss in
// pieces.
#include "models/layer.h"

#include <algorithm>
#include <cmath>

#include "kernels/check.h"
#include "kernels/parallel.h"

namespace scaling {
namespace {

constexpr std::int64_t kRowsAtOnce = 512;

/// Rows whose logits exist together: at most kRowsAtOnce, and if possible as many in every piece,
/// since matrices that change their size are allocated anew.
std::int64_t rows_of_piece(std::int64_t rows) {
  const std::int64_t least = (rows + kRowsAtOnce - 1) / kRowsAtOnce;
  for (std::int64_t pieces = std::max<std::int64_t>(least, 1); pieces <= 4 * least; ++pieces) {
    if (rows % pieces == 0) return rows / pieces;
  }
  return kRowsAtOnce;
}

/// Turns logits into scale * weight * (softmax - onehot(target)) and returns the row's sums.
CrossEntropy row_loss(float* logits, std::int64_t n, int target, float weight, float scale) {
  Eigen::Map<Eigen::ArrayXf> row(logits, n);
  const float largest = row.maxCoeff(), target_logit = logits[target];
  // Among several that are largest the first is taken.
  const bool is_correct =
      target_logit == largest && std::find(logits, logits + target, largest) == logits + target;
  row = (row - largest).exp();
  const float sum = row.sum();
  row *= scale * weight / sum;
  logits[target] -= scale * weight;
  const double loss = std::log(double(sum)) + double(largest) - double(target_logit);
  return {double(weight) * loss, double(weight), is_correct ? double(weight) : 0.0};
}

}  // namespace

Mat FeedForward::forward(const Mat& x) const {
  Pass pass = evaluation_pass();
  Mat y;
  forward(pass, x, *make_activations(), y);
  return y;
}

Mat Recurrence::forward(const Mat& x) const {
  Pass pass = evaluation_pass();
  Mat y;
  forward(pass, x, *make_activations(), y);
  return y;
}

Projection::QKV Projection::forward(const Mat& x) const {
  Pass pass = evaluation_pass();
  QKV y;
  forward(pass, x, *make_activations(), y);
  return y;
}

Mat Projection::forward_output(const Mat& o) const {
  if (!has_output()) return o;
  Pass pass = evaluation_pass();
  Mat y;
  forward_output(pass, o, *make_activations(), y);
  return y;
}

CrossProjection::Memory CrossProjection::forward_memory(const Mat& encoded) const {
  Pass pass = evaluation_pass();
  Memory y;
  forward_memory(pass, encoded, *make_activations(), y);
  return y;
}

Mat CrossProjection::forward_query(const Mat& x) const {
  Pass pass = evaluation_pass();
  Mat q;
  forward_query(pass, x, *make_activations(), q);
  return q;
}

Mat CrossProjection::forward_output(const Mat& o) const {
  if (!has_output()) return o;
  Pass pass = evaluation_pass();
  Mat y;
  forward_output(pass, o, *make_activations(), y);
  return y;
}

Mat Loss::forward(const Mat& x) const {
  Pass pass = evaluation_pass();
  Mat logits;
  forward(pass, x, *make_activations(), logits);
  return logits;
}

CrossEntropy Loss::cross_entropy(Pass& pass, const Mat& x, const int* targets, const float* weights,
                                 float scale, Activations& kept, Mat* dx,
                                 std::vector<double>* by_example) const {
  auto& pieces = static_cast<LossActivations&>(kept);
  if (by_example) by_example->clear();
  if (dx) dx->resize(x.rows(), x.cols());
  CrossEntropy all, example;
  std::int64_t left = 0;  // positions of the example that are still to come
  const std::int64_t step = rows_of_piece(x.rows());
  for (std::int64_t first = 0; first < x.rows(); first += step) {
    const std::int64_t n = std::min(step, x.rows() - first);
    pieces.x = x.middleRows(first, n);
    forward(pass, pieces.x, kept, pieces.logits);
    pieces.rows.resize(std::size_t(n));
    parallel_for(n, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        SCALING_CHECK(targets[first + i] >= 0 && targets[first + i] < pieces.logits.cols());
        pieces.rows[std::size_t(i)] = row_loss(pieces.logits.row(i).data(), pieces.logits.cols(),
                                               targets[first + i], weights[first + i], scale);
      }
    });
    for (const CrossEntropy& row : pieces.rows) {
      all.loss += row.loss;
      all.weight += row.weight;
      all.correct += row.correct;
      if (left == 0) {
        left = pass.length(x);
        example = {};
      }
      example.loss += row.loss;
      example.weight += row.weight;
      example.correct += row.correct;
      if (--left > 0) continue;
      if (by_example) by_example->push_back(example.loss);
      if (example.weight == 0) continue;
      // Equal terms were summed in the same order.
      all.sequences += 1;
      all.correct_sequences += example.correct == example.weight ? 1 : 0;
    }
    if (!dx) continue;
    backward(pass, pieces.x, kept, pieces.logits, pieces.dx);
    dx->middleRows(first, n) = pieces.dx;
  }
  return all;
}

}  // namespace scaling
