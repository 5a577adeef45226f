// Adafactor over logical shapes whose storage has another order of axes.
//
// A tensor is walked as it is stored: strips of its unit-stride axis are the units of work, the
// other axes are plain loops within one. For a segment of a strip the row statistics R are a vector
// beside it or a single number, and so are the column statistics C; both are stored such that the
// vectors are contiguous. Sums are in double, of a strip first and then over strips in order: the
// number of threads changes no bit.
#include "models/training/adafactor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <type_traits>

#include "kernels/check.h"
#include "kernels/parallel.h"

namespace scaling {
namespace {

constexpr double kClip = 1.0;
constexpr double kEpsilon = 1e-16;     // eps1 (paper 9.3)
constexpr double kLeastScale = 1e-3;   // eps2
constexpr std::int64_t kStrip = 64;    // floats: four registers, and strips enough for many threads
constexpr std::int64_t kBlock = 4096;  // elements of an unfactored tensor at a time
/// Elements below which waking other threads costs more than they save.
constexpr std::int64_t kSerialBelow = 1 << 15;

constexpr int kLanes = 16;

/// A sum whose order is given by the elements' places alone, and which compilers vectorise.
struct Lanes {
  std::array<double, kLanes> lane{};

  template <class Term>
  void add(std::int64_t n, Term&& term) {
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (int j = 0; j < kLanes; ++j) lane[std::size_t(j)] += term(i + j);
    }
    for (std::size_t j = 0; i < n; ++i, ++j) lane[j] += term(i);
  }
  double sum() const {
    std::array<double, kLanes> left = lane;
    for (std::size_t width = kLanes / 2; width > 0; width /= 2) {
      for (std::size_t j = 0; j < width; ++j) left[j] += left[j + width];
    }
    return left[0];
  }
};

double squared(float value) { return double(value) * double(value); }

template <class Body>
void share_out(std::int64_t units, std::int64_t elements, Body&& body) {
  if (elements < kSerialBelow) {
    body(std::int64_t(0), units);
  } else {
    parallel_for(units, body);
  }
}

/// What one update of a tensor takes beside its state.
struct Rates {
  double decay;         // rho
  double weight_decay;  // wd
  double learning_rate;
};

/// Sums of squares of the update Y and of the weights W, one a unit of work.
struct UnitSums {
  std::vector<double> update, weights;

  void make_room(std::int64_t units) {
    update.resize(std::max(update.size(), std::size_t(units)));
    weights.resize(update.size());
  }
  /// What Y is multiplied with: clipped to RMS 1, relative to the RMS of W.
  float scale(std::int64_t units, std::int64_t count, double learning_rate) const {
    double y = 0, w = 0;
    for (std::size_t u = 0; u < std::size_t(units); ++u) {
      y += update[u];
      w += weights[u];
    }
    const double n = double(count);
    return float(learning_rate * std::max(std::sqrt(w / n), kLeastScale) /
                 std::max(1.0, std::sqrt(y / n) / kClip));
  }
};

/// One axis of a logical shape: its size, and its strides over the stored weights, R and C (0: the
/// statistics do not have it).
struct Axis {
  std::int64_t size = 1, stride = 0, row_stride = 0, column_stride = 0;
};

/// A parameter of two axes or more.
struct Factored {
  explicit Factored(Parameter& p);

  std::int64_t strips() const { return (inner.size + kStrip - 1) / kStrip; }
  /// Copies of the sums for R that strips need: where R is no vector beside a strip, each strip has
  /// but a part of every sum.
  std::int64_t row_parts() const { return inner.row_stride ? 1 : strips(); }
  std::int64_t column_parts() const { return inner.column_stride ? 1 : strips(); }

  Parameter* parameter;
  std::vector<Axis> axes;            // in logical order
  Axis inner;                        // the one of unit stride
  std::array<Axis, 3> outer;         // the others, the longest stride first
  std::vector<float> rows, columns;  // R, C
};

/// Gives the axes strides over a tensor without axis `left_out`, axis `inner` innermost. Returns
/// the tensor's size.
std::int64_t lay_out(std::vector<Axis>& axes, std::size_t inner, std::size_t left_out,
                     std::int64_t Axis::*stride) {
  std::int64_t size = 1;
  if (inner != left_out) {
    axes[inner].*stride = 1;
    size = axes[inner].size;
  }
  for (std::size_t k = axes.size(); k-- > 0;) {
    if (k == inner || k == left_out) continue;
    axes[k].*stride = size;
    size *= axes[k].size;
  }
  return size;
}

Factored::Factored(Parameter& p) : parameter(&p) {
  const std::size_t rank = p.shape.size();
  SCALING_CHECK(rank >= 2 && rank <= outer.size() + 1 && p.strides.size() == rank);
  std::int64_t count = 1;
  std::size_t unit = rank - 1;
  for (std::size_t k = 0; k < rank; ++k) {
    axes.push_back({.size = p.shape[k], .stride = p.strides[k]});
    count *= p.shape[k];
    // A stride over a single element says nothing.
    if (p.shape[k] > 1 && (p.shape[unit] == 1 || p.strides[k] < p.strides[unit])) unit = k;
  }
  SCALING_CHECK(count == p.count());
  SCALING_CHECK(axes[unit].size == 1 || axes[unit].stride == 1);
  rows.assign(std::size_t(lay_out(axes, unit, rank - 1, &Axis::row_stride)), 0.0f);
  columns.assign(std::size_t(lay_out(axes, unit, rank - 2, &Axis::column_stride)), 0.0f);
  inner = axes[unit];
  std::size_t filled = 0;
  for (std::size_t k = 0; k < rank; ++k) {
    if (k != unit) outer[filled++] = axes[k];
  }
  std::sort(outer.begin(), outer.begin() + std::ptrdiff_t(filled),
            [](const Axis& a, const Axis& b) { return a.stride > b.stride; });
}

/// segment(offset in the weights, in R, in C) for every index of the outer axes.
template <class Segment>
void walk(const Factored& t, Segment&& segment) {
  const Axis &a = t.outer[0], &b = t.outer[1], &c = t.outer[2];
  for (std::int64_t i = 0; i < a.size; ++i) {
    for (std::int64_t j = 0; j < b.size; ++j) {
      for (std::int64_t k = 0; k < c.size; ++k) {
        segment(i * a.stride + j * b.stride + k * c.stride,
                i * a.row_stride + j * b.row_stride + k * c.row_stride,
                i * a.column_stride + j * b.column_stride + k * c.column_stride);
      }
    }
  }
}

/// body(strip, its first element of the inner axis, its elements, whether R is a vector beside it,
/// whether C is), the last two as std::true_type or std::false_type.
template <class Body>
void for_strips(const Factored& t, Body&& body) {
  share_out(t.strips(), t.parameter->count(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t strip = begin; strip < end; ++strip) {
      const std::int64_t first = strip * kStrip, n = std::min(kStrip, t.inner.size - first);
      if (t.inner.row_stride == 0) {
        body(strip, first, n, std::false_type{}, std::true_type{});
      } else if (t.inner.column_stride == 0) {
        body(strip, first, n, std::true_type{}, std::false_type{});
      } else {
        body(strip, first, n, std::true_type{}, std::true_type{});
      }
    }
  });
}

/// sums += g^2, element by element or all into the first.
template <bool kIsVector>
void add_squares(std::int64_t n, const float* g, double* sums) {
  if constexpr (kIsVector) {
    for (std::int64_t i = 0; i < n; ++i) sums[i] += squared(g[i]);
  } else {
    Lanes lanes;
    lanes.add(n, [&](std::int64_t i) { return squared(g[i]); });
    sums[0] += lanes.sum();
  }
}

/// Y of a segment before clipping: gradient times the factors of R and C.
template <bool kRowVector, bool kColumnVector>
float update_at(std::int64_t i, const float* g, const float* row, const float* column) {
  return g[i] * (row[kRowVector ? i : 0] * column[kColumnVector ? i : 0]);
}

template <bool kRowVector, bool kColumnVector>
void apply_update(std::int64_t n, const float* __restrict g, const float* __restrict row,
                  const float* __restrict column, float weight_decay, float scale,
                  float* __restrict w) {
  for (std::int64_t i = 0; i < n; ++i) {
    w[i] -= weight_decay * w[i] + scale * update_at<kRowVector, kColumnVector>(i, g, row, column);
  }
}

/// Scratch shared by all tensors, made for the largest.
class FactoredRule {
 public:
  void make_room(const Factored& t) {
    const auto grow = [](auto& scratch, std::int64_t n) {
      scratch.resize(std::max(scratch.size(), std::size_t(n)));
    };
    grow(row_sums_, t.row_parts() * std::int64_t(t.rows.size()));
    grow(column_sums_, t.column_parts() * std::int64_t(t.columns.size()));
    grow(row_factors_, std::int64_t(t.rows.size()));
    grow(column_factors_, std::int64_t(t.columns.size()));
    sums_.make_room(t.strips());
  }

  void update(Factored& t, const Rates& rates) {
    sum_squares(t);
    merge(row_sums_, t.row_parts(), 1 / double(t.axes.back().size), rates.decay, t.rows);
    merge(column_sums_, t.column_parts(), 1 / double(t.axes[t.axes.size() - 2].size), rates.decay,
          t.columns);
    find_row_factors(t);
    find_column_factors(t);
    sum_updates(t);
    const float scale = sums_.scale(t.strips(), t.parameter->count(), rates.learning_rate);
    const auto weight_decay = float(rates.weight_decay);
    float* weights = t.parameter->values();
    for_strips(t, [&](std::int64_t, std::int64_t first, std::int64_t n, auto row_vector,
                      auto column_vector) {
      constexpr bool kRows = row_vector(), kColumns = column_vector();
      const float* rows = row_factors_.data() + (kRows ? first : 0);
      const float* columns = column_factors_.data() + (kColumns ? first : 0);
      walk(t, [&](std::int64_t at, std::int64_t row, std::int64_t column) {
        apply_update<kRows, kColumns>(n, t.parameter->gradient + first + at, rows + row,
                                      columns + column, weight_decay, scale, weights + first + at);
      });
    });
  }

 private:
  void sum_squares(const Factored& t) {
    const auto row_count = std::int64_t(t.rows.size()),
               column_count = std::int64_t(t.columns.size());
    std::fill_n(row_sums_.begin(), t.row_parts() * row_count, 0.0);
    std::fill_n(column_sums_.begin(), t.column_parts() * column_count, 0.0);
    for_strips(t, [&](std::int64_t strip, std::int64_t first, std::int64_t n, auto row_vector,
                      auto column_vector) {
      constexpr bool kRows = row_vector(), kColumns = column_vector();
      double* rows = row_sums_.data() + (kRows ? first : strip * row_count);
      double* columns = column_sums_.data() + (kColumns ? first : strip * column_count);
      walk(t, [&](std::int64_t at, std::int64_t row, std::int64_t column) {
        const float* g = t.parameter->gradient + first + at;
        add_squares<kRows>(n, g, rows + row);
        add_squares<kColumns>(n, g, columns + column);
      });
    });
  }

  /// statistics = decay * statistics + (1 - decay) * mean, the mean's sum being in `parts`.
  static void merge(const std::vector<double>& sums, std::int64_t parts, double inverse,
                    double decay, std::vector<float>& statistics) {
    const auto n = std::int64_t(statistics.size());
    share_out(n, n, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        double sum = 0;
        for (std::int64_t p = 0; p < parts; ++p) sum += sums[std::size_t(p * n + i)];
        float& value = statistics[std::size_t(i)];
        value = float(decay * double(value) + (1 - decay) * inverse * sum);
      }
    });
  }

  /// sqrt(mean(R) / (R + eps1)), the mean over R's last axis.
  void find_row_factors(const Factored& t) {
    const std::size_t leading = t.axes.size() - 2;
    const Axis& axis = t.axes[leading];
    const auto count = std::int64_t(t.rows.size());
    share_out(count / axis.size, count, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t index = begin; index < end; ++index) {
        std::int64_t at = 0, left = index;
        for (std::size_t k = leading; k-- > 0; left /= t.axes[k].size) {
          at += left % t.axes[k].size * t.axes[k].row_stride;
        }
        const float* r = t.rows.data() + at;
        float* factors = row_factors_.data() + at;
        double sum = 0;
        for (std::int64_t i = 0; i < axis.size; ++i) sum += double(r[i * axis.row_stride]);
        const double mean = sum / double(axis.size);
        for (std::int64_t i = 0; i < axis.size * axis.row_stride; i += axis.row_stride) {
          factors[i] = float(std::sqrt(mean / (double(r[i]) + kEpsilon)));
        }
      }
    });
  }

  /// 1 / sqrt(C + eps1).
  void find_column_factors(const Factored& t) {
    const auto n = std::int64_t(t.columns.size());
    share_out(n, n, [&](std::int64_t begin, std::int64_t end) {
      for (auto i = std::size_t(begin); i < std::size_t(end); ++i) {
        column_factors_[i] = float(1 / std::sqrt(double(t.columns[i]) + kEpsilon));
      }
    });
  }

  void sum_updates(const Factored& t) {
    const float* weights = t.parameter->values();
    for_strips(t, [&](std::int64_t strip, std::int64_t first, std::int64_t n, auto row_vector,
                      auto column_vector) {
      constexpr bool kRows = row_vector(), kColumns = column_vector();
      const float* rows = row_factors_.data() + (kRows ? first : 0);
      const float* columns = column_factors_.data() + (kColumns ? first : 0);
      Lanes y, w;
      walk(t, [&](std::int64_t at, std::int64_t row, std::int64_t column) {
        const float* g = t.parameter->gradient + first + at;
        y.add(n, [&](std::int64_t i) {
          return squared(update_at<kRows, kColumns>(i, g, rows + row, columns + column));
        });
        w.add(n, [&](std::int64_t i) { return squared(weights[first + at + i]); });
      });
      sums_.update[std::size_t(strip)] = y.sum();
      sums_.weights[std::size_t(strip)] = w.sum();
    });
  }

  std::vector<double> row_sums_, column_sums_;
  std::vector<float> row_factors_, column_factors_;
  UnitSums sums_;
};

/// A vector: every square is kept.
struct Unfactored {
  Parameter* parameter;
  std::vector<float> squares;

  std::int64_t blocks() const { return (parameter->count() + kBlock - 1) / kBlock; }

  template <class Body>
  void for_blocks(Body&& body) const {
    const std::int64_t count = parameter->count();
    share_out(blocks(), count, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t block = begin; block < end; ++block) {
        body(block, block * kBlock, std::min(kBlock, count - block * kBlock));
      }
    });
  }

  static float update_at(float g, float square) { return g / std::sqrt(square + float(kEpsilon)); }

  void update(const Rates& rates, UnitSums& sums) {
    const auto decay = float(rates.decay), rest = float(1 - rates.decay);
    float* weights = parameter->values();
    for_blocks([&](std::int64_t block, std::int64_t first, std::int64_t n) {
      const float* g = parameter->gradient + first;
      const float* w = weights + first;
      float* v = squares.data() + first;
      for (std::int64_t i = 0; i < n; ++i) v[i] = decay * v[i] + rest * g[i] * g[i];
      Lanes y_squares, w_squares;
      y_squares.add(n, [&](std::int64_t i) { return squared(update_at(g[i], v[i])); });
      w_squares.add(n, [&](std::int64_t i) { return squared(w[i]); });
      sums.update[std::size_t(block)] = y_squares.sum();
      sums.weights[std::size_t(block)] = w_squares.sum();
    });
    const float scale = sums.scale(blocks(), parameter->count(), rates.learning_rate);
    const auto weight_decay = float(rates.weight_decay);
    for_blocks([&](std::int64_t, std::int64_t first, std::int64_t n) {
      const float* g = parameter->gradient + first;
      const float* v = squares.data() + first;
      float* w = weights + first;
      for (std::int64_t i = 0; i < n; ++i) {
        w[i] -= weight_decay * w[i] + scale * update_at(g[i], v[i]);
      }
    });
  }
};

class Adafactor : public Optimizer {
 public:
  Adafactor(const TrainConfig& config, const std::vector<Parameter*>& parameters)
      : config_(config) {
    for (Parameter* p : parameters) {
      if (p->gradient == nullptr) continue;
      if (p->shape.size() >= 2) {
        rule_.make_room(factored_.emplace_back(*p));
      } else {
        const auto n = std::size_t(p->count());
        unfactored_.push_back({p, std::vector<float>(n, 0.0f)});
        sums_.make_room(unfactored_.back().blocks());
      }
    }
  }

  void update(std::int64_t step, double learning_rate) override {
    const double decay = adafactor_decay_at(step), weight_decay = weight_decay_at(config_, step);
    const auto rates_of = [&](const Parameter& p) {
      return Rates{decay, weight_decay, rate_factor(config_, p) * learning_rate};
    };
    for (Factored& t : factored_) rule_.update(t, rates_of(*t.parameter));
    for (Unfactored& t : unfactored_) t.update(rates_of(*t.parameter), sums_);
  }

  std::vector<Slot> slots() override {
    std::vector<Slot> all;
    for (Factored& t : factored_) {
      all.push_back({t.parameter->name + ".rows", &t.rows});
      all.push_back({t.parameter->name + ".columns", &t.columns});
    }
    for (Unfactored& t : unfactored_) all.push_back({t.parameter->name + ".squares", &t.squares});
    return all;
  }

 private:
  TrainConfig config_;
  std::vector<Factored> factored_;
  std::vector<Unfactored> unfactored_;
  FactoredRule rule_;
  UnitSums sums_;
};

}  // namespace

std::unique_ptr<Optimizer> make_adafactor(const TrainConfig& config,
                                          const std::vector<Parameter*>& parameters) {
  return std::make_unique<Adafactor>(config, parameters);
}

}  // namespace scaling
