// Copies go run by run; rows come and go by blocks that panels can begin at.
#include "models/layers/attention/head_rows.h"

#include <algorithm>

#include "kernels/check.h"
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

void HeadRows::begin(const HeadPart& part, std::int64_t stride) {
  part_ = -1;
  positions_ = held_ = part.rows;
  d_ = part.d;
  stride_ = stride;
  first_ = 0;
  const auto blocks = std::size_t((part.rows + kPanelStart - 1) / kPanelStart);
  for (std::vector<char>* of_blocks : {&is_here_, &is_saved_, &is_laid_out_}) {
    of_blocks->assign(blocks, 0);
  }
}

void HeadRows::load(const Mat& from, const HeadPart& part) {
  begin(part, from.cols());
  from_ = from.data() + part.row * from.cols() + part.column;
  to_ = nullptr;
}

void HeadRows::sum_into(Mat& to, const HeadPart& part) {
  begin(part, to.cols());
  from_ = to_ = to.data() + part.row * to.cols() + part.column;
}

void HeadRows::hold(std::int64_t rows) {
  SCALING_CHECK(rows % kPanelStart == 0 || rows >= positions_);
  const bool is_begun = std::find(is_here_.begin(), is_here_.end(), 1) != is_here_.end();
  if (!is_begun) held_ = std::min(rows, positions_);
}

/// visit(rows) for each run of blocks of these rows of which is(block) holds.
template <class Is, class Visit>
void HeadRows::for_blocks(Range rows, Is&& is, Visit&& visit) {
  const std::int64_t end = (rows.end + kPanelStart - 1) / kPanelStart;
  for (std::int64_t first = rows.begin / kPanelStart, last = first; first < end; first = last) {
    last = first + 1;
    if (!is(std::size_t(first))) continue;
    while (last < end && is(std::size_t(last))) ++last;
    visit(Range{first * kPanelStart, std::min(last * kPanelStart, positions_)});
  }
}

void HeadRows::set(std::vector<char>& of_blocks, Range rows, char to) {
  const auto first = of_blocks.begin() + rows.begin / kPanelStart;
  std::fill(first, of_blocks.begin() + (rows.end + kPanelStart - 1) / kPanelStart, to);
}

/// Sums that are here and that `to` lacks.
void HeadRows::save(Range rows) {
  const auto is_new = [&](std::size_t block) { return is_here_[block] && !is_saved_[block]; };
  for_blocks(rows, is_new, [&](Range run) {
    copy_rows(run.size(), d_, here(run.begin), d_, to_ + run.begin * stride_, stride_);
    set(is_saved_, run, 1);
  });
}

void HeadRows::finish() { finish({0, positions_}); }

void HeadRows::finish(Range rows) {
  SCALING_CHECK(to_ && rows.begin % kPanelStart == 0);
  SCALING_CHECK(rows.end % kPanelStart == 0 || rows.end == positions_);
  save(rows);
  const auto is_unknown = [&](std::size_t block) { return !is_saved_[block]; };
  for_blocks(rows, is_unknown, [&](Range run) {
    for (std::int64_t i = run.begin; i < run.end; ++i) std::fill_n(to_ + i * stride_, d_, 0.0f);
    set(is_saved_, run, 1);
  });
}

/// Nothing is here any more.
void HeadRows::leave() {
  const Range held = {first_, std::min(first_ + held_, positions_)};
  if (to_) save(held);
  set(is_here_, held, 0);
  set(is_laid_out_, held, 0);
}

/// Where neighbours are.
float* HeadRows::bring(Range rows, bool to_change) {
  if (rows.begin < first_ || rows.end > first_ + held_) {
    leave();
    first_ = rows.begin / kPanelStart * kPanelStart;
    SCALING_CHECK(rows.end <= first_ + held_);
  }
  if (rows_.rows() < held_ || rows_.cols() != d_) rows_.resize(held_, d_);
  const auto begins_at_zero = [&](std::size_t block) {
    return !is_here_[block] && to_ && !is_saved_[block];
  };
  for_blocks(rows, begins_at_zero, [&](Range run) {
    std::fill_n(here(run.begin), run.size() * d_, 0.0f);
    set(is_here_, run, 1);
  });
  const auto is_away = [&](std::size_t block) { return !is_here_[block]; };
  for_blocks(rows, is_away, [&](Range run) {
    copy_rows(run.size(), d_, from_ + run.begin * stride_, stride_, here(run.begin), d_);
    set(is_here_, run, 1);
  });
  if (to_change) set(is_saved_, rows, 0);
  return here(rows.begin);
}

const Mat& HeadRows::all() {
  if (held_ < positions_) {
    leave();
    first_ = 0;
    held_ = positions_;
  }
  if (rows_.rows() != positions_) {
    leave();
    rows_.resize(positions_, d_);
  }
  bring({0, positions_}, false);
  return rows_;
}

/// Without a call where it is here already, as it mostly is.
inline float* HeadRows::bring_row(std::int64_t position) {
  const bool is_here = is_here_[std::size_t(position / kPanelStart)] != 0;
  return is_here ? here(position) : bring({position, position + 1}, false);
}

const float* HeadRows::row(std::int64_t position) { return bring_row(position); }

float* HeadRows::row_to_change(std::int64_t position) {
  float* const row = bring_row(position);
  is_saved_[std::size_t(position / kPanelStart)] = 0;
  return row;
}

/// Of those that a tile takes at once, so that tiles of other sizes need no more later.
float* HeadRows::copies(std::int64_t rows) {
  const auto floats = std::size_t(std::max(rows, std::min(positions_, at_once_)) * d_);
  if (copies_.size() < floats) copies_.resize(floats);
  return copies_.data();
}

const float* HeadRows::take(const Positions& positions, Range which) {
  if (positions.are_neighbours(which)) {
    const std::int64_t first = positions.at(which.begin);
    return bring({first, first + which.size()}, false);
  }
  float* to = copies(which.size());
  for_each_run(positions, which, [&](std::int64_t i, std::int64_t position, std::int64_t n) {
    std::copy_n(bring({position, position + n}, false), n * d_, to + i * d_);
  });
  return to;
}

const float* HeadRows::panels(std::int64_t part, const Positions& positions, Range which) {
  const std::int64_t first = positions.at(which.begin);
  if (positions.are_neighbours() && first % kPanelStart == 0) {
    return panels_of_held(first, which.size());
  }
  if (part == part_ && which.begin == which_.begin && which.end == which_.end) {
    return panels_.data();
  }
  const std::int64_t rows = which.size();
  const std::int64_t most = std::max(rows, std::min(positions_, at_once_));
  const auto floats = std::size_t(tile_panel_floats(most, d_));
  if (panels_.size() < floats) panels_.resize(floats);
  transpose_to_tile_panels(rows, d_, take(positions, which), d_, panels_.data());
  part_ = part;
  which_ = which;
  return panels_.data();
}

const float* HeadRows::panels_of_held(std::int64_t first, std::int64_t rows) {
  bring({first, first + rows}, false);
  const auto floats = std::size_t(tile_panel_floats(held_, d_));
  if (panels_of_held_.size() < floats) panels_of_held_.resize(floats);
  for (std::int64_t at = first; at < first + rows; at += kPanelStart) {
    char& is_laid_out = is_laid_out_[std::size_t(at / kPanelStart)];
    if (is_laid_out) continue;
    is_laid_out = 1;
    const std::int64_t n = std::min(kPanelStart, positions_ - at);
    transpose_to_tile_panels(n, d_, bring({at, at + n}, false), d_,
                             panels_of_held_.data() + (at - first_) * d_);
  }
  return panels_of_held_.data() + (first - first_) * d_;
}

void HeadRows::add_product(Strided a, Spans inner_of_rows, const float* b, std::int64_t inner,
                           const Positions& positions, Range which) {
  const std::int64_t n = which.size();
  if (positions.are_neighbours(which)) {
    const std::int64_t first = positions.at(which.begin);
    add_tile_product(n, d_, inner, a, inner_of_rows, b, d_, bring({first, first + n}, true), d_);
    return;
  }
  float* more = copies(n);
  std::fill_n(more, n * d_, 0.0f);
  add_tile_product(n, d_, inner, a, inner_of_rows, b, d_, more, d_);
  for_each_run(positions, which, [&](std::int64_t i, std::int64_t position, std::int64_t rows) {
    Eigen::Map<Mat>(bring({position, position + rows}, true), rows, d_) +=
        Eigen::Map<const Mat>(more + i * d_, rows, d_);
  });
}

}  // namespace scaling
