// Copies go run by run.
#include "models/layers/attention/head_rows.h"

#include <algorithm>

#include "kernels/copy_rows.h"

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

void HeadRows::load(const Mat& from, const HeadPart& part) {
  part_ = -1;
  is_laid_out_.assign(std::size_t((part.rows + kPanelStart - 1) / kPanelStart), 0);
  all.resize(part.rows, part.d);
  copy_rows(part.rows, part.d, from.data() + part.row * from.cols() + part.column, from.cols(),
            all.data(), part.d);
}

void HeadRows::save(Mat& to, const HeadPart& part) const {
  copy_rows(part.rows, part.d, all.data(), part.d, to.data() + part.row * to.cols() + part.column,
            to.cols());
}

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

const float* HeadRows::panels(std::int64_t part, const Positions& positions, Range which) {
  const std::int64_t first = positions.at(which.begin);
  if (positions.are_neighbours() && first % kPanelStart == 0) {
    return panels_of_all(first, which.size());
  }
  if (part == part_ && which.begin == which_.begin && which.end == which_.end) {
    return panels_.data();
  }
  const std::int64_t rows = which.size(), d = all.cols();
  const auto floats = std::size_t(tile_panel_floats(rows, d));
  if (panels_.size() < floats) panels_.resize(floats);
  transpose_to_tile_panels(rows, d, take(positions, which), d, panels_.data());
  part_ = part;
  which_ = which;
  return panels_.data();
}

const float* HeadRows::panels_of_all(std::int64_t first, std::int64_t rows) {
  const std::int64_t d = all.cols();
  const auto floats = std::size_t(tile_panel_floats(all.rows(), d));
  if (panels_of_all_.size() < floats) panels_of_all_.resize(floats);
  for (std::int64_t at = first; at < first + rows; at += kPanelStart) {
    char& is_laid_out = is_laid_out_[std::size_t(at / kPanelStart)];
    if (is_laid_out) continue;
    is_laid_out = 1;
    transpose_to_tile_panels(std::min(kPanelStart, all.rows() - at), d, all.row(at).data(), d,
                             panels_of_all_.data() + at * d);
  }
  return panels_of_all_.data() + first * d;
}

void HeadRows::add_product(Strided a, Spans inner_of_rows, const float* b, std::int64_t inner,
                           const Positions& positions, Range which) {
  const std::int64_t n = which.size(), d = all.cols();
  if (positions.are_neighbours(which)) {
    float* rows = all.row(positions.at(which.begin)).data();
    add_tile_product(n, d, inner, a, inner_of_rows, b, d, rows, d);
    return;
  }
  float* more = copies(n);
  std::fill_n(more, n * d, 0.0f);
  add_tile_product(n, d, inner, a, inner_of_rows, b, d, more, d);
  for_each_run(positions, which, [&](std::int64_t i, std::int64_t position, std::int64_t rows) {
    all.middleRows(position, rows) += Eigen::Map<const Mat>(more + i * d, rows, d);
  });
}

}  // namespace scaling
