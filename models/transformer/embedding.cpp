// Rows of tables of either weight type are read as f32; gradients are f32.
#include "models/transformer/embedding.h"

#include <algorithm>

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

/// Where positions begin in this pass (paper 4.7: one draw for the batch).
std::int64_t first_position(Pass& pass, Activations& start) {
  if (!pass.training || pass.position_offsets < 1) return 0;
  start.take_stream(pass);
  const auto bits = pass.draws(start.stream, 0);
  if (unit_float(bits[0]) < pass.start_from_zero) return 0;
  return std::int64_t((std::uint64_t(bits[1]) * std::uint64_t(pass.position_offsets)) >> 32);
}

}  // namespace

void embed(Pass& pass, const Parameter& tokens, const Parameter& positions,
           const std::vector<int>& ids, EmbeddingKept& kept, Mat& x) {
  SCALING_CHECK(tokens.data != nullptr && tokens.layout == Layout::rows);
  SCALING_CHECK(positions.data != nullptr && positions.layout == Layout::rows);
  const std::int64_t d = tokens.cols, rows = std::int64_t(ids.size());
  SCALING_CHECK(pass.examples > 0 && rows % pass.examples == 0);
  const std::int64_t length = rows / pass.examples;
  kept.tokens.take_stream(pass);
  kept.features.take_stream(pass);
  kept.first = first_position(pass, kept.start);
  if (kept.first + length > positions.rows) {
    throw UserError(std::to_string(length) + " positions" +
                    (kept.first ? " from " + std::to_string(kept.first) + " on" : "") +
                    " exceed max_length " + std::to_string(positions.rows) +
                    "; raise --max_length");
  }
  kept.mask.setOnes(1, d);
  apply_dropout(pass, kept.features.stream, kept.mask);
  x.resize(rows, d);
  parallel_for(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      float* to = x.data() + row * d;
      copy_row(tokens.view(), row_of_id(tokens, ids[std::size_t(row)]), to);
      drop(pass, kept.tokens.stream, pass.mask_begin(x, kept.masks, row), d, to);
      add_row(positions.view(), kept.first + row % length, kept.mask.data(), to);
    }
  });
}

void embed_backward(const Pass& pass, const Parameter& tokens, const Parameter& positions,
                    const std::vector<int>& ids, const EmbeddingKept& kept, Mat& dx) {
  SCALING_CHECK(dx.rows() == std::int64_t(ids.size()) && dx.cols() == tokens.cols);
  const std::int64_t d = dx.cols(), length = pass.length(dx);
  if (positions.gradient) {
    parallel_for(length, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t t = begin; t < end; ++t) {
        float* to = positions.gradient + (kept.first + t) * d;
        for (std::int64_t row = t; row < dx.rows(); row += length) {
          const float* from = dx.data() + row * d;
          for (std::int64_t i = 0; i < d; ++i) to[i] += from[i] * kept.mask.data()[i];
        }
      }
    });
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
