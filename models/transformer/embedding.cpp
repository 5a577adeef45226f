// Rows of tables of either weight type are read as f32; gradients are f32.
#include "models/transformer/embedding.h"

#include <algorithm>
#include <array>
#include <string>

#include "kernels/check.h"
#include "kernels/parallel.h"
#include "models/layers/parts/product.h"

namespace scaling {
namespace {

std::int64_t row_of_id(const Parameter& table, int id) {
  return std::clamp<std::int64_t>(id, 0, table.rows - 1);
}

void copy_row(const WeightView& table, std::int64_t row, float* to) {
  const std::int64_t at = row * table.cols;
  if (table.type == WeightType::f32) {
    std::copy_n(table.f32() + at, table.cols, to);
    return;
  }
  for (std::int64_t i = 0; i < table.cols; ++i) to[i] = to_float(table.half()[at + i]);
}

void add_row(const WeightView& table, std::int64_t row, const float* mask, float* to) {
  const std::int64_t at = row * table.cols;
  if (table.type == WeightType::f32) {
    const float* from = table.f32() + at;
    for (std::int64_t i = 0; i < table.cols; ++i) to[i] += from[i] * mask[i];
    return;
  }
  for (std::int64_t i = 0; i < table.cols; ++i) to[i] += to_float(table.half()[at + i]) * mask[i];
}

constexpr std::uint32_t kDigitsDroppedBelow = std::uint32_t((1ull << 32) / 100);

/// Where one sequence, or a batch, begins: 0 or drawn (paper 4.7).
std::int64_t first_position(const Pass& pass, const std::array<std::uint32_t, 4>& bits) {
  if (pass.position_offsets < 1 || unit_float(bits[0]) < pass.start_from_zero) return 0;
  return std::int64_t((std::uint64_t(bits[1]) * std::uint64_t(pass.position_offsets)) >> 32);
}

void draw_starts(Pass& pass, const PositionVectors& positions, std::int64_t streams,
                 EmbeddingKept& kept) {
  kept.first = 0;
  kept.starts.clear();
  const bool is_table = positions.encoding == PositionEncoding::table;
  if (!pass.training || (is_table && pass.position_offsets < 1)) return;
  kept.start.take_stream(pass);
  if (is_table) {
    kept.first = first_position(pass, pass.draws(kept.start.stream, 0));
    return;
  }
  for (std::int64_t e = 0; e < pass.examples; ++e) {
    const auto bits = pass.draws(kept.start.stream, std::uint64_t(e / streams));
    kept.starts.push_back({first_position(pass, bits), bits[3] >= kDigitsDroppedBelow});
  }
}

void require_end(const PositionVectors& positions, std::int64_t first, std::int64_t length) {
  if (first + length <= positions.end()) return;
  const bool is_table = positions.encoding == PositionEncoding::table;
  throw UserError(std::to_string(length) + " positions" +
                  (first ? " from " + std::to_string(first) + " on" : "") + " exceed " +
                  (is_table
                       ? "max_length " + std::to_string(positions.end()) + "; raise --max_length"
                       : std::to_string(positions.end()) +
                             ", which position_encoding fixed_base tells apart; lower "
                             "--position_offsets"));
}

/// Of a sequence of a batch; in evaluation all begin at 0.
EmbeddingKept::Start start_of(const EmbeddingKept& kept, std::int64_t sequence) {
  return kept.starts.empty() ? EmbeddingKept::Start{} : kept.starts[std::size_t(sequence)];
}

/// What row `row` of a batch has of its position.
void add_position(const PositionVectors& positions, const EmbeddingKept& kept, std::int64_t row,
                  std::int64_t length, float* to) {
  const std::int64_t t = row % length;
  if (positions.encoding == PositionEncoding::table) {
    add_row(positions.weights.view(), kept.first + t, kept.mask.data(), to);
    return;
  }
  const EmbeddingKept::Start start = start_of(kept, row / length);
  // Position 0 has no digits but zeros.
  positions.add(start.has_digits ? start.first + t : 0, t == 0, to);
}

void add_table_gradient(const PositionVectors& positions, const EmbeddingKept& kept,
                        std::int64_t length, const Mat& dx) {
  const std::int64_t d = dx.cols();
  parallel_for(length, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t t = begin; t < end; ++t) {
      float* to = positions.weights.gradient + (kept.first + t) * d;
      for (std::int64_t row = t; row < dx.rows(); row += length) {
        const float* from = dx.data() + row * d;
        for (std::int64_t i = 0; i < d; ++i) to[i] += from[i] * kept.mask.data()[i];
      }
    }
  });
}

void add_fixed_base_gradient(const PositionVectors& positions, const EmbeddingKept& kept,
                             std::int64_t length, const Mat& dx) {
  const std::int64_t d = dx.cols(), piece = d / FixedBase::kDigits;
  // Columns are shared among the threads, since all rows add to all bases.
  parallel_for(d, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = 0; row < dx.rows(); ++row) {
      const EmbeddingKept::Start start = start_of(kept, row / length);
      const std::int64_t t = row % length;
      const float* from = dx.data() + row * d;
      float* to = positions.weights.gradient;
      for (const auto& digits : FixedBase::digits_of(start.has_digits ? start.first + t : 0)) {
        for (std::int64_t i = begin; i < end; ++i) {
          to[i] += digits[std::size_t(i / piece)] * from[i];
        }
        to += d;
      }
      for (std::int64_t i = begin; t == 0 && i < end; ++i) to[i] += from[i];
    }
  });
}

}  // namespace

void embed(Pass& pass, const Parameter& tokens, const PositionVectors& positions,
           const std::vector<int>& ids, EmbeddingKept& kept, Mat& x, std::int64_t streams) {
  SCALING_CHECK(tokens.data != nullptr && tokens.layout == Layout::rows);
  SCALING_CHECK(positions.weights.data != nullptr);
  const std::int64_t d = tokens.cols, rows = std::int64_t(ids.size());
  SCALING_CHECK(pass.examples > 0 && rows % pass.examples == 0 && positions.width() == d);
  const std::int64_t length = rows / pass.examples;
  kept.tokens.take_stream(pass);
  kept.mask.setOnes(1, d);
  if (positions.encoding == PositionEncoding::table) {
    kept.features.take_stream(pass);
    apply_dropout(pass, kept.features.stream, kept.mask);
  }
  draw_starts(pass, positions, streams, kept);
  require_end(positions, kept.first, length);
  for (const EmbeddingKept::Start& start : kept.starts) require_end(positions, start.first, length);
  x.resize(rows, d);
  parallel_for(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      float* to = x.data() + row * d;
      copy_row(tokens.view(), row_of_id(tokens, ids[std::size_t(row)]), to);
      drop(pass, kept.tokens.stream, pass.mask_begin(x, kept.masks, row), d, to);
      add_position(positions, kept, row, length, to);
    }
  });
}

void embed_one(const Parameter& tokens, const PositionVectors& positions, int id,
               std::int64_t position, float* to) {
  copy_row(tokens.view(), row_of_id(tokens, id), to);
  positions.add(position, position == 0, to);
}

void embed_backward(const Pass& pass, const Parameter& tokens, const PositionVectors& positions,
                    const std::vector<int>& ids, const EmbeddingKept& kept, Mat& dx) {
  SCALING_CHECK(dx.rows() == std::int64_t(ids.size()) && dx.cols() == tokens.cols);
  const std::int64_t d = dx.cols(), length = pass.length(dx);
  if (positions.weights.gradient) {
    const bool is_table = positions.encoding == PositionEncoding::table;
    (is_table ? add_table_gradient : add_fixed_base_gradient)(positions, kept, length, dx);
  }
  if (!tokens.gradient) return;
  apply_dropout(pass, kept.tokens.stream, dx, kept.masks);
  // Columns are shared among the threads, since two rows may have the same id.
  parallel_for(d, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = 0; row < dx.rows(); ++row) {
      const float* from = dx.data() + row * d;
      float* to = tokens.gradient + row_of_id(tokens, ids[std::size_t(row)]) * d;
      for (std::int64_t i = begin; i < end; ++i) to[i] += from[i];
    }
  });
}

}  // namespace scaling
