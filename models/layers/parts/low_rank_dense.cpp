// The low-rank building block.
#include "models/layers/parts/low_rank_dense.h"

#include "models/layers/parts/counting.h"
#include "models/layers/parts/partial_sums.h"
#include "models/layers/parts/product.h"

namespace scaling {

LowRankDense::LowRankDense(const std::string& prefix, std::int64_t d_in, std::int64_t rank,
                           std::int64_t d_out)
    : rank_(rank),
      a_(joined_name(prefix, "a"), joined_name(prefix, "a_bias"), d_in, rank),
      b_(joined_name(prefix, "b"), joined_name(prefix, "b_bias"), rank, d_out) {}

void LowRankDense::visit_parameters(const ParameterVisitor& visit) {
  a_.visit_parameters(visit);
  b_.visit_parameters(visit);
}

void LowRankDense::forward(Pass& pass, const Mat& x, Kept& kept, Mat& y) const {
  a_.forward(pass, x, kept.a, kept.between);
  b_.forward(pass, kept.between, kept.b, y);
}

void LowRankDense::backward(Pass& pass, const Mat& x, Kept& kept, const Mat& dy, Mat& dx,
                            bool accumulate) const {
  b_.backward(pass, kept.between, kept.b, dy, kept.dbetween);
  a_.backward(pass, x, kept.a, kept.dbetween, dx, accumulate);
}

void LowRankDense::phase(int p, const StepContext& ctx, float* workspace, const float* x,
                         float* y) const {
  if (p == 0) {
    a_.phase(0, ctx, nullptr, x, workspace);
  } else {
    b_.phase(0, ctx, nullptr, workspace, y);
  }
}

std::int64_t LowRankDense::workspace_floats(int tokens, int) const {
  return padded(tokens * rank_);
}

Cost LowRankDense::step_cost(int tokens, WeightType type) const {
  Cost cost = repeated(a_.step_cost(tokens, type), 1, "down");
  append(cost, repeated(b_.step_cost(tokens, type), 1, "up"));
  return cost;
}

}  // namespace scaling
