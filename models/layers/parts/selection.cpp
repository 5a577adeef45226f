// Loops over one position at a time, so that logits stay in the first cache level between steps.
#include "models/layers/parts/selection.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <type_traits>

namespace scaling {

void SelectionKnobs::validate() const {
  constexpr double kMaxNoise = 1000;
  // A negative value stands for the reference's; what is not a number fails the first comparison.
  if (!(selection_noise <= kMaxNoise)) {
    throw UserError("selection_noise " + print_value(selection_noise) + " exceeds " +
                    print_value(kMaxNoise) +
                    ", where nothing but noise selects; give a smaller one, 0 for none");
  }
  if (!(hard_probability <= 1)) {
    throw UserError("hard_probability " + print_value(hard_probability) +
                    " is no probability; give a number in [0, 1], or a negative one for the "
                    "reference's");
  }
  constexpr double kMaxWeight = 1000;
  if (!(selection_balance >= 0 && selection_balance <= kMaxWeight)) {
    throw UserError("selection_balance " + print_value(selection_balance) +
                    " is no weight of a loss; give a number from 0, for none, to " +
                    print_value(kMaxWeight));
  }
  if (!(std::abs(selection_entropy) <= kMaxWeight)) {
    throw UserError("selection_entropy " + print_value(selection_entropy) +
                    " is no weight of a loss; give a number of at most " + print_value(kMaxWeight) +
                    ", negative for less certain selections, 0 for none");
  }
}
namespace {

using Row = Eigen::Map<Eigen::ArrayXf>;
using ConstRow = Eigen::Map<const Eigen::ArrayXf>;

/// Draws of positions count from 0; the call's own draw has the last index.
constexpr std::uint64_t kCallIndex = ~std::uint64_t(0);

double entropy_of_probabilities(const float* p, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    if (p[i] > 0) sum -= double(p[i]) * double(std::log(p[i]));
  }
  return sum;
}

/// ln sum(exp z) - sum(p z), after subtraction of the largest.
double entropy_of_logits(const float* logits, std::int64_t n) {
  const float largest = ConstRow(logits, n).maxCoeff();
  double sum = 0, weighted = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const float z = logits[i] - largest;
    const double weight = double(std::exp(z));
    sum += weight;
    weighted += weight * double(z);
  }
  return std::log(sum) - weighted / sum;
}

/// fn(std::integral_constant) of the blocks' size if it is a usual one, so that what is done to
/// a block is vectorised even where a block is less than a register; else Eigen::Dynamic.
template <class Fn>
void with_block_size(std::int64_t n, Fn&& fn) {
  switch (n) {
    case 8:
      return fn(std::integral_constant<int, 8>());
    case 16:
      return fn(std::integral_constant<int, 16>());
    case 32:
      return fn(std::integral_constant<int, 32>());
    case 64:
      return fn(std::integral_constant<int, 64>());
    default:
      return fn(std::integral_constant<int, Eigen::Dynamic>());
  }
}

template <class Size>
using BlockOf = Eigen::Map<Eigen::Array<float, Size::value, 1>>;
template <class Size>
using ConstBlockOf = Eigen::Map<const Eigen::Array<float, Size::value, 1>>;

}  // namespace

bool draw_hard_call(const Pass& pass, std::uint64_t stream, double probability) {
  const double share = pass.hard_share < 0 ? probability : pass.hard_share;
  return double(pass.draws(stream, kCallIndex)[0]) < share * 4294967296.0;
}

void choose_largest(Blocks shape, const float* logits, std::int32_t* chosen) {
  with_block_size(shape.n, [&]<class Size>(Size) {
    const auto n = std::int32_t(Size::value == Eigen::Dynamic ? shape.n : Size::value);
    for (std::int64_t b = 0; b < shape.blocks; ++b) {
      const float* block = logits + b * shape.n;
      // Eigen vectorises the maximum but not its place; of blocks of NaN it is the last.
      const float largest = ConstBlockOf<Size>(block, n).maxCoeff();
      std::int32_t first = n - 1;
      for (std::int32_t k = 0; k < n; ++k) {
        first = std::min(first, block[k] == largest ? k : n - 1);
      }
      chosen[b] = first;
    }
  });
}

void subtract_largest(Blocks shape, float* logits) {
  with_block_size(shape.n, [&]<class Size>(Size) {
    for (std::int64_t b = 0; b < shape.blocks; ++b) {
      BlockOf<Size> block(logits + b * shape.n, shape.n);
      const float largest = block.maxCoeff();
      block -= largest;
    }
  });
}

void choose_noisily(const Pass& pass, std::uint64_t stream, std::int64_t row, Blocks shape,
                    double tau, const float* logits, float* scratch, std::int32_t* chosen) {
  Row(scratch, shape.size()) = (ConstRow(logits, shape.size()) / float(tau)).exp();
  std::array<std::uint32_t, 4> bits{};
  for (std::int64_t b = 0; b < shape.blocks; ++b) {
    const std::int64_t draw = row * shape.blocks + b;
    if (b == 0 || draw % 4 == 0) bits = pass.draws(stream, std::uint64_t(draw / 4));
    const float* weights = scratch + b * shape.n;
    float left = unit_float(bits[std::size_t(draw % 4)]) * ConstRow(weights, shape.n).sum();
    std::int64_t k = 0;
    while (k + 1 < shape.n && left >= weights[k]) left -= weights[k++];
    chosen[b] = std::int32_t(k);
  }
}

void softmax_of_blocks(Blocks shape, float* logits) {
  Row row(logits, shape.size());
  row = row.exp();
  with_block_size(shape.n, [&]<class Size>(Size) {
    for (std::int64_t b = 0; b < shape.blocks; ++b) {
      BlockOf<Size> block(logits + b * shape.n, shape.n);
      const float scale = 1 / block.sum();
      block *= scale;
    }
  });
}

void softmax_of_blocks_backward(Blocks shape, const float* p, float* dz) {
  with_block_size(shape.n, [&]<class Size>(Size) {
    for (std::int64_t b = 0; b < shape.blocks; ++b) {
      BlockOf<Size> block(dz + b * shape.n, shape.n);
      const float sum = block.sum();
      block -= sum * ConstBlockOf<Size>(p + b * shape.n, shape.n);
    }
  });
}

double mean_entropy(Blocks shape, const Mat& rows, bool are_probabilities) {
  if (rows.size() == 0) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0;
  for (std::int64_t t = 0; t < rows.rows(); ++t) {
    for (std::int64_t b = 0; b < shape.blocks; ++b) {
      const float* block = rows.data() + t * shape.size() + b * shape.n;
      sum += are_probabilities ? entropy_of_probabilities(block, shape.n)
                               : entropy_of_logits(block, shape.n);
    }
  }
  return sum / double(rows.rows() * shape.blocks);
}

}  // namespace scaling
