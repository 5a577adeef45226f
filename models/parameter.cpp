// Parameters' sizes, memory and element access.
#include "models/parameter.h"

#include <cmath>

#include "kernels/check.h"

namespace scaling {
namespace {

std::vector<std::int64_t> row_major_strides(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t axis = shape.size() - 1; axis > 0; --axis) {
    strides[axis - 1] = strides[axis] * shape[axis];
  }
  return strides;
}

}  // namespace

Initializer glorot_uniform(std::int64_t fan_in, std::int64_t fan_out) {
  return {Initializer::Kind::uniform, std::sqrt(6.0f / float(fan_in + fan_out))};
}

std::uint64_t Parameter::bytes(WeightType model_type) const {
  const WeightType stored = is_vector ? WeightType::f32 : model_type;
  return std::uint64_t(stored_elements(layout, rows, cols)) * std::uint64_t(bytes_of(stored));
}

void Parameter::set(std::int64_t row, std::int64_t col, float value) {
  SCALING_CHECK(data != nullptr && row >= 0 && row < rows && col >= 0 && col < cols);
  const std::int64_t at = element_offset(layout, rows, cols, row, col);
  if (type == WeightType::f32) {
    static_cast<float*>(data)[at] = value;
  } else {
    static_cast<bf16*>(data)[at] = to_bf16(value);
  }
}

float* Parameter::values() {
  SCALING_CHECK(data != nullptr && type == WeightType::f32 && layout == Layout::rows);
  return static_cast<float*>(data);
}

Mat Parameter::matrix() const {
  SCALING_CHECK(data != nullptr);
  Mat m(rows, cols);
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < cols; ++j) m(i, j) = get(i, j);
  }
  return m;
}

Parameter Parameter::make_matrix(std::string name, std::int64_t rows, std::int64_t cols,
                                 Layout layout, Initializer init, std::vector<std::int64_t> shape,
                                 std::vector<std::int64_t> strides) {
  Parameter p;
  p.name = std::move(name);
  p.shape = shape.empty() ? std::vector<std::int64_t>{rows, cols} : std::move(shape);
  p.strides = strides.empty() ? row_major_strides(p.shape) : std::move(strides);
  p.rows = rows;
  p.cols = cols;
  p.layout = layout;
  p.init = init;
  return p;
}

Parameter Parameter::make_dense(std::string name, std::int64_t rows, std::int64_t cols,
                                Initializer init, std::vector<std::int64_t> shape,
                                std::vector<std::int64_t> strides) {
  Parameter p = make_matrix(std::move(name), rows, cols, Layout::rows, init, std::move(shape),
                            std::move(strides));
  p.is_dense = true;
  return p;
}

Parameter Parameter::make_vector(std::string name, std::int64_t n, Initializer init,
                                 std::vector<std::int64_t> shape) {
  Parameter p;
  p.name = std::move(name);
  p.shape = shape.empty() ? std::vector<std::int64_t>{n} : std::move(shape);
  p.strides = row_major_strides(p.shape);
  p.rows = 1;
  p.cols = n;
  p.init = init;
  p.is_vector = true;
  return p;
}

}  // namespace scaling
