// What the problems of all kernels share: drawing numbers, rotating weights, guarded outputs,
// comparing.
#include "kernels/cases/problem.h"

#include <bit>
#include <cfloat>
#include <cmath>
#include <cstring>
#include <sstream>

#include "kernels/check.h"

namespace scaling {
namespace {

constexpr std::uint32_t kUntouched = 0x7fc0deadu;  ///< a NaN that no arithmetic makes

bool same_bits(float a, float b) {
  return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b);
}

}  // namespace

Source::Source(const ProblemOptions& options, Values values)
    : rng_(options.seed),
      values_(values),
      absolute_(options.absolute),
      scale_(values == Values::large  ? 1e10
             : values == Values::tiny ? 1e-12
                                      : 1.0) {}

float Source::draw() {
  const std::uint32_t bits = rng_.bits();
  float value = float(scale_) * (2.0f * unit_float(bits) - 1.0f);
  if (values_ == Values::zeros) value = 0;
  if (values_ == Values::integers) value = float(int(bits % 5u) - 2);
  return absolute_ ? std::fabs(value) : value;
}

void Source::fill(Guarded<float>& to) {
  for (std::int64_t i = 0; i < to.size(); ++i) to[i] = draw();
}

RotatedWeights::RotatedWeights(const ProblemOptions& options, WeightType type,
                               std::vector<Shape> shapes, Source& source, int misalign)
    : type_(type), shapes_(std::move(shapes)) {
  const std::int64_t size = bytes_of(type);
  std::uint64_t once = 0;
  for (const Shape& s : shapes_) {
    once += Arena::rounded(std::uint64_t(stored_elements(s.layout, s.rows, s.cols) * size));
  }
  if (options.rotate_bytes > 0 && once > 0) {
    copies_ = std::int64_t(options.rotate_bytes / once) + 1;
    const std::uint64_t bytes = once * std::uint64_t(copies_);
    require_memory(bytes, "the weights of this case", "choose smaller cases by a filter");
    arena_ = Arena(bytes);
  }
  pieces_.resize(shapes_.size());
  for (std::int64_t copy = 0; copy < copies_; ++copy) {
    for (std::size_t m = 0; m < shapes_.size(); ++m) {
      const Shape& s = shapes_[m];
      const std::int64_t bytes = stored_elements(s.layout, s.rows, s.cols) * size;
      if (arena_.capacity() > 0) {
        pieces_[m].push_back(arena_.take(std::uint64_t(bytes)));
      } else {
        guarded_.emplace_back(bytes, int(misalign * size));
        std::memset(guarded_.back().data(), 0, std::size_t(bytes));
        pieces_[m].push_back(guarded_.back().data());
      }
      if (copy > 0) {
        std::memcpy(pieces_[m].back(), pieces_[m].front(), std::size_t(bytes));
        continue;
      }
      for (std::int64_t row = 0; row < s.rows; ++row) {
        for (std::int64_t col = 0; col < s.cols; ++col) {
          const std::int64_t at = element_offset(s.layout, s.rows, s.cols, row, col);
          const float value = source.draw();
          if (type == WeightType::f32) {
            static_cast<float*>(pieces_[m][0])[at] = value;
          } else {
            static_cast<bf16*>(pieces_[m][0])[at] = to_bf16(value);
          }
        }
      }
    }
  }
}

WeightView RotatedWeights::view(int matrix, std::int64_t call) const {
  const Shape& s = shapes_[std::size_t(matrix)];
  return {pieces_[std::size_t(matrix)][std::size_t(call % copies_)], type_, s.layout, s.rows,
          s.cols};
}

ProblemBase::ProblemBase(const ProblemOptions& options, Values values)
    : options_(options), values_(values), source_(options, values) {}

void ProblemBase::overwrite_outputs(std::int64_t size, int misalign) {
  outputs_.emplace_back(size, misalign);
  initial_.assign(std::size_t(size), std::bit_cast<float>(kUntouched));
}

void ProblemBase::add_outputs(std::int64_t size, int misalign, int factors) {
  for (int t = 0; t < options_.threads; ++t) outputs_.emplace_back(size, misalign);
  initial_.resize(std::size_t(size));
  const double more = std::pow(source_.scale(), factors - 1);
  for (float& v : initial_) v = float(double(source_.draw()) * more);
}

void ProblemBase::reset() {
  for (std::size_t t = 0; t < outputs_.size(); ++t) {
    for (std::int64_t i = 0; i < outputs_[t].size(); ++i) {
      outputs_[t][i] = t == 0 ? initial_[std::size_t(i)] : 0.0f;
    }
  }
}

Outputs ProblemBase::outputs() const {
  Outputs result;
  result.values.assign(outputs_[0].data(), outputs_[0].data() + outputs_[0].size());
  for (std::size_t t = 1; t < outputs_.size(); ++t) {
    for (std::size_t i = 0; i < result.values.size(); ++i) {
      result.values[i] += outputs_[t][std::int64_t(i)];
    }
  }
  return result;
}

bool ProblemBase::guards_intact() const {
  for (const auto& output : outputs_) {
    if (!output.intact()) return false;
  }
  return true;
}

double ProblemBase::tolerance(std::int64_t, double, double magnitude, double input_rounding) const {
  // Rounding errors of a sum grow with its length if all have one sign, with the root of it if not;
  // partial sums are at most the magnitude. A missing term is magnitude / length, far more.
  const double sum = FLT_EPSILON * (4 + std::sqrt(length_));
  return (sum + input_rounding) * magnitude + double(FLT_MIN);
}

Range ProblemBase::part(Range whole, int thread, std::int64_t multiple) const {
  const Range share = share_of(whole.size(), thread, options_.threads, multiple);
  return {whole.begin + share.begin, whole.begin + share.end};
}

std::string ProblemBase::compare(const Outputs& actual, const Outputs& expected,
                                 const Outputs& magnitude, double input_rounding) const {
  return compare_values(actual, expected, magnitude, input_rounding);
}

std::string ProblemBase::compare_values(const Outputs& actual, const Outputs& expected,
                                        const Outputs& magnitude, double input_rounding) const {
  std::int64_t informative = 0;
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    const float e = expected.values[i], a = actual.values[i];
    if (e != 0 && !same_bits(e, initial_[i])) ++informative;
    if (same_bits(e, a)) continue;
    const double allowed =
        tolerance(std::int64_t(i), double(e), double(magnitude.values[i]), input_rounding);
    // Written so that a NaN on either side fails.
    if (!(std::fabs(double(a) - double(e)) <= allowed)) {
      std::ostringstream text;
      text << "output " << i << " of " << expected.values.size() << " is " << a << ", ref has " << e
           << ", allowed difference " << allowed;
      return text.str();
    }
  }
  const double touched = touched_ * double(expected.values.size());
  if (values_ != Values::zeros && touched >= 32 && double(informative) < 0.25 * touched) {
    return "only " + std::to_string(informative) + " of " + std::to_string(touched) +
           " outputs are not zero, too few to prove anything";
  }
  return "";
}

}  // namespace scaling
