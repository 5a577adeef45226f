// A weight matrix as kernels see it: borrowed memory, an element type and a layout.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

#include "kernels/bf16.h"

namespace scaling {

/// How a weight is stored. Activations and sums are f32 throughout.
enum class WeightType { f32, bf16 };

/// How a (rows, cols) matrix lies in memory.
///   rows    row-major, a row of `cols` contiguous values.
///   panels  [ceil(cols / kPanel)][rows][kPanel]: columns in groups of kPanel, so that an input row
///           meets a whole vector of outputs and several panels stream side by side. Columns past
///           `cols` in the last panel are zero.
///   strips  [ceil(cols / kStrip)][rows][kStrip]: columns in groups of kStrip, the last one
///           narrower, so that activations of a group stay in a first-level cache while all rows
///           stream past, each running on into the next. Up to kStrip columns are as in rows.
enum class Layout { rows, panels, strips };

inline constexpr std::int64_t kPanel = 16;
inline constexpr std::int64_t kStrip = 1024;

struct WeightView {
  const void* data = nullptr;
  WeightType type = WeightType::f32;
  Layout layout = Layout::rows;
  std::int64_t rows = 0;
  std::int64_t cols = 0;

  const float* f32() const { return static_cast<const float*>(data); }
  const bf16* half() const { return static_cast<const bf16*>(data); }
};

inline std::int64_t bytes_of(WeightType type) { return type == WeightType::f32 ? 4 : 2; }

/// "f32" or "bf16".
inline const char* name_of(WeightType type) { return type == WeightType::f32 ? "f32" : "bf16"; }

/// Throws UserError that lists the known types.
WeightType parse_weight_type(const std::string& name);

inline std::int64_t panel_count(std::int64_t cols) { return (cols + kPanel - 1) / kPanel; }

/// Values of a row that lie side by side, from a column that is a multiple of it.
inline std::int64_t run_length(Layout layout, std::int64_t cols) {
  return layout == Layout::rows ? cols : layout == Layout::panels ? kPanel : kStrip;
}

/// Elements in memory, padding of the last panel included.
inline std::int64_t stored_elements(Layout layout, std::int64_t rows, std::int64_t cols) {
  return layout == Layout::panels ? panel_count(cols) * kPanel * rows : rows * cols;
}

/// Where element (row, col) lies, in elements from the start.
inline std::int64_t element_offset(Layout layout, std::int64_t rows, std::int64_t cols,
                                   std::int64_t row, std::int64_t col) {
  if (layout == Layout::rows) return row * cols + col;
  const std::int64_t run = run_length(layout, cols), first = col / run * run;
  const std::int64_t width = layout == Layout::panels ? kPanel : std::min(kStrip, cols - first);
  return first * rows + row * width + col - first;
}

/// Strips of a matrix in strips; one in rows is a single one.
inline std::int64_t strip_count(const WeightView& w) {
  return w.layout == Layout::strips ? (w.cols + kStrip - 1) / kStrip : 1;
}

/// Strip i as a matrix in rows: columns [i * kStrip, i * kStrip + cols of the view).
inline WeightView strip(const WeightView& w, std::int64_t i) {
  if (w.layout != Layout::strips) return w;
  const std::int64_t first = i * kStrip;
  return {static_cast<const char*>(w.data) + first * w.rows * bytes_of(w.type), w.type,
          Layout::rows, w.rows, std::min(kStrip, w.cols - first)};
}

/// One element as float; for definitions and tests, not for loops that matter.
inline float element(const WeightView& w, std::int64_t row, std::int64_t col) {
  const std::int64_t at = element_offset(w.layout, w.rows, w.cols, row, col);
  return w.type == WeightType::f32 ? w.f32()[at] : to_float(w.half()[at]);
}

}  // namespace scaling
