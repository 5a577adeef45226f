// Copies go run by run.
#include "models/layers/attention/head_rows.h"

#include <algorithm>

namespace scaling {
namespace {

/// visit(index in `which`, position, how many) for each run of neighbours.
template <class Visit>
void for_each_run(const Positions& positions, Range which, Visit&& visit) {
  for (std::int64_t i = which.begin, n = 0; i < which.end; i += n) {
    n = std::min(positions.neighbours(i), which.end - i);
    visit(i - which.begin, positions.at(i), n);
  }
}

}  // namespace

float* HeadRows::copies(std::int64_t rows) {
  const auto floats = std::size_t(rows * all.cols());
  if (copies_.size() < floats) copies_.resize(floats);
  return copies_.data();
}

const float* HeadRows::take(const Positions& positions, Range which) {
  if (positions.are_neighbours(which)) return all.row(positions.at(which.begin)).data();
  const std::int64_t d = all.cols();
  float* to = copies(which.size());
  for_each_run(positions, which, [&](std::int64_t i, std::int64_t position, std::int64_t n) {
    std::copy_n(all.row(position).data(), n * d, to + i * d);
  });
  return to;
}

void HeadRows::add_product(const Gemm& gemm, bool transpose_a, const float* a, std::int64_t lda,
                           const float* b, std::int64_t inner, const Positions& positions,
                           Range which) {
  const std::int64_t n = which.size(), d = all.cols();
  if (positions.are_neighbours(which)) {
    gemm.product(transpose_a, false, n, d, inner, a, lda, b, d, 1,
                 all.row(positions.at(which.begin)).data(), d);
    return;
  }
  float* more = copies(n);
  gemm.product(transpose_a, false, n, d, inner, a, lda, b, d, 0, more, d);
  for_each_run(positions, which, [&](std::int64_t i, std::int64_t position, std::int64_t rows) {
    all.middleRows(position, rows) += Eigen::Map<const Mat>(more + i * d, rows, d);
  });
}

}  // namespace scaling
