// A layer's learned numbers: declared by name and shape first, given memory and values later.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/arena.h"
#include "kernels/team.h"
#include "kernels/weight.h"
#include "models/matrix.h"

namespace scaling {

/// How a parameter starts (paper 0.1).
struct Initializer {
  enum class Kind { uniform, normal, constant, positions };
  Kind kind = Kind::constant;
  float scale =
      0;  ///< half-width, standard deviation, or the constant; unused by positions (sin/cos table)
};

/// U(-l, l) with l = sqrt(6 / (fan_in + fan_out)).
Initializer glorot_uniform(std::int64_t fan_in, std::int64_t fan_out);

/// What a parameter is where a layer computes but a part of itself: of what chooses that part (a
/// controller, a router), or of the rows that are chosen. Training may give each a rate of its own.
enum class Role { ordinary, selector, selected };

/// A matrix (rows, cols) in a kernel's layout, or a vector (rows = 1), which is f32 whatever the
/// model's weight type. Declaring costs nothing; allocate() binds memory, so that counting a 17B
/// model needs none.
struct Parameter {
  std::string name;  ///< within its layer; a model prefixes the path
  std::vector<std::int64_t>
      shape;  ///< the released code's logical shape (optimisers factor over it)
  std::vector<std::int64_t> strides;  ///< of each logical axis, over the row-major (rows, cols)
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  Layout layout = Layout::rows;
  Initializer init;
  bool is_vector = false;
  bool is_dense = false;  ///< only dense products read it while decoding
  Role role = Role::ordinary;

  WeightType type = WeightType::f32;  ///< of `data`, once allocated
  void* data = nullptr;
  /// Row-major (rows, cols); backward passes add to it. Null in models that only evaluate, and
  /// where is_frozen.
  float* gradient = nullptr;
  bool is_frozen = false;  ///< keeps its initial value in training
  /// The name whose draws it starts as, so that it starts equal to a parameter of that name, shape
  /// and initialiser; empty: its own. Of an attention: within the layer's projection.
  std::string drawn_as = {};
  /// Not 0: no weight, but a running mean. Backward passes add to `gradient` what it is the mean
  /// of, and an update makes it mean_decay * value + (1 - mean_decay) * gradient, whatever the
  /// rate.
  double mean_decay = 0;

  std::int64_t count() const { return rows * cols; }
  std::uint64_t bytes(WeightType model_type) const;
  WeightView view() const { return {data, type, layout, rows, cols}; }
  const float* vector() const { return static_cast<const float*>(data); }
  /// f32 values of a parameter in training storage (f32, Layout::rows).
  float* values();
  float get(std::int64_t row, std::int64_t col) const { return element(view(), row, col); }
  void set(std::int64_t row, std::int64_t col, float value);
  /// As a plain row-major matrix (a copy).
  Mat matrix() const;

  /// shape and strides default to the matrix as it is stored; a shape alone is that of the same
  /// row-major order.
  static Parameter make_matrix(std::string name, std::int64_t rows, std::int64_t cols,
                               Layout layout, Initializer init,
                               std::vector<std::int64_t> shape = {},
                               std::vector<std::int64_t> strides = {});
  /// A matrix that only dense products read while decoding: allocated in the layout that they like.
  static Parameter make_dense(std::string name, std::int64_t rows, std::int64_t cols,
                              Initializer init, std::vector<std::int64_t> shape = {},
                              std::vector<std::int64_t> strides = {});
  static Parameter make_vector(std::string name, std::int64_t n, Initializer init,
                               std::vector<std::int64_t> shape = {});
};

using ParameterVisitor = std::function<void(Parameter&)>;

}  // namespace scaling
