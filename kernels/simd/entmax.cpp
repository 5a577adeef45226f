// Rows of alpha-entmax, and attention over a cache by it: keys stream from several places, and of
// values only the rows are read whose probability is not zero.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/entmax.cpp"
#include "hwy/foreach_target.h"
// After foreach_target:
#include <bit>
#include <cfloat>
#include <cmath>

#include "hwy/contrib/math/math-inl.h"
#include "kernels/entmax.h"
#include "kernels/kernels.h"
#include "kernels/simd/rows-inl.h"
#include "kernels/simd/scattered-inl.h"
#include "kernels/simd/simd.h"

// Within, x is (alpha - 1) z: at most 0, and tau lies in [-1, 0).
HWY_BEFORE_NAMESPACE();
namespace scaling {
namespace HWY_NAMESPACE {
using simd::Prefetch;

/// p of x, given tau: 0 where x does not exceed it.
struct Linear {
  float tau;
  HWY_INLINE Vector operator()(Vector x) const {
    return hn::Max(hn::Sub(x, broadcast(tau)), zero());
  }
};
struct Square {
  float tau;
  HWY_INLINE Vector operator()(Vector x) const {
    const Vector u = hn::Max(hn::Sub(x, broadcast(tau)), zero());
    return hn::Mul(u, u);
  }
};

/// What is raised to a power is at most 1, but in slopes; e^20 is what they are limited to.
inline constexpr float kLargestLogarithm = 20;
/// The largest float below 1.
inline constexpr float kBelowOne = 1 - FLT_EPSILON / 2;

/// The same for any alpha, given the largest p, which x = 0 gets: tau = -largest^(alpha - 1), so p
/// = largest (1 + v)^(1 / (alpha - 1)), v = x largest^(1 - alpha). Its digits are kept as alpha
/// nears 1, when tau nears -1, and where alpha is large, when tau nears 0.
struct AnyPower {
  float largest, factor, exponent;
  AnyPower(double alpha, float of_zero)
      : largest(of_zero),
        factor(float(std::min(std::pow(double(of_zero), 1 - alpha), kMostFactor))),
        exponent(float(1 / (alpha - 1))) {}
  HWY_INLINE Vector scaled(Vector x) const { return hn::Mul(x, broadcast(factor)); }
  /// p / largest of v, which is above -1.
  HWY_INLINE Vector power(Vector v) const {
    const Vector log = hn::Log1p(Floats(), v);
    return hn::Exp(Floats(), hn::Mul(broadcast(exponent), log));
  }
  HWY_INLINE Vector operator()(Vector x) const {
    const Vector v = scaled(x);
    const auto above = hn::Gt(v, broadcast(-1));
    if (hn::AllFalse(Floats(), above)) return zero();
    const Vector p = hn::Mul(broadcast(largest), power(hn::Max(v, broadcast(-kBelowOne))));
    return hn::IfThenElseZero(above, p);
  }
  /// 0 times it must be 0.
  static constexpr double kMostFactor = 1e30;
};

/// (alpha - 1), finite as a float.
float scale_of(double alpha) { return float(std::min(alpha - 1, AnyPower::kMostFactor)); }

/// Lower than any tau, in lanes behind the end of a row.
inline constexpr float kBelowAll = -2;

HWY_INLINE Vector load_last(const float* x, std::int64_t n) {
  alignas(64) float lanes[kLanes];
  std::fill(lanes, lanes + kLanes, kBelowAll);
  for (std::int64_t i = 0; i < n; ++i) lanes[i] = x[i];
  return hn::Load(Floats(), lanes);
}
/// The next vector of a row of which n are left.
HWY_INLINE Vector load_some(const float* x, std::int64_t n) {
  return n >= kLanes ? load(x) : load_last(x, n);
}

inline constexpr std::int64_t kHalf = HWY_MAX(1, kLanes / 2);
using Doubles = hn::FixedTag<double, std::size_t(kHalf)>;
using DoubleVector = hn::Vec<Doubles>;
using HalfFloats = hn::FixedTag<float, std::size_t(kHalf)>;

HWY_INLINE DoubleVector lower(Vector v) {
  return hn::PromoteTo(Doubles(), hn::LowerHalf(HalfFloats(), v));
}
HWY_INLINE DoubleVector upper(Vector v) {
  return hn::PromoteTo(Doubles(), hn::UpperHalf(HalfFloats(), v));
}
HWY_INLINE double sum_of(DoubleVector a, DoubleVector b) {
  return hn::GetLane(hn::SumOfLanes(Doubles(), hn::Add(a, b)));
}

/// Of u = x - tau over all x that exceed tau.
struct Moments {
  double count, sum, squares;
};

/// The same in lanes.
struct LaneMoments {
  DoubleVector count, sum, squares;

  HWY_INLINE void add(DoubleVector x, DoubleVector tau) {
    const DoubleVector u = hn::Sub(x, tau);
    const auto above = hn::Gt(u, hn::Zero(Doubles()));
    const DoubleVector kept = hn::IfThenElseZero(above, u);
    count = hn::Add(count, hn::IfThenElseZero(above, hn::Set(Doubles(), 1.0)));
    sum = hn::Add(sum, kept);
    squares = hn::MulAdd(kept, kept, squares);
  }
};

HWY_INLINE Moments moments_above(double tau, const float* x, std::int64_t n) {
  const DoubleVector taus = hn::Set(Doubles(), tau);
  const DoubleVector none = hn::Zero(Doubles());
  LaneMoments a = {none, none, none}, b = a;
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const Vector v = load_some(x + i, n - i);
    a.add(lower(v), taus);
    b.add(upper(v), taus);
  }
  return {sum_of(a.count, b.count), sum_of(a.sum, b.sum), sum_of(a.squares, b.squares)};
}

/// Those above `least` come to the front; returns how many they are.
HWY_INLINE std::int64_t keep_above(float least, float* x, std::int64_t n) {
  const Vector leasts = broadcast(least);
  std::int64_t kept = 0, i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vector v = load(x + i);
    const auto above = hn::Gt(v, leasts);
    store(hn::Compress(v, above), x + kept);
    kept += std::int64_t(hn::CountTrue(Floats(), above));
  }
  for (; i < n; ++i) {
    const float v = x[i];
    x[kept] = v;
    kept += v > least;
  }
  return kept;
}

/// So many numbers are added up in floats, whose rounding then stays below 1e-4 of the sum on every
/// instruction set.
inline constexpr std::int64_t kRoughBlock = 1024;

/// The same moments to about four digits, a quarter of the work. Those above tau come to the front,
/// and their number is n from now on.
HWY_INLINE Moments keep_moments(float tau, float* x, std::int64_t& n) {
  static_assert(kRoughBlock % kLanes == 0);
  const Vector taus = broadcast(tau);
  Moments all = {0, 0, 0};
  std::int64_t kept = 0;
  for (std::int64_t begin = 0; begin < n; begin += kRoughBlock) {
    const std::int64_t end = std::min(n, begin + kRoughBlock);
    Vector sums = zero(), squares = zero();
    std::int64_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      const Vector v = load(x + i);
      const auto above = hn::Gt(v, taus);
      const Vector u = hn::IfThenElseZero(above, hn::Sub(v, taus));
      sums = hn::Add(sums, u);
      squares = hn::MulAdd(u, u, squares);
      store(hn::Compress(v, above), x + kept);
      kept += std::int64_t(hn::CountTrue(Floats(), above));
    }
    all.sum += double(sum(sums));
    all.squares += double(sum(squares));
    for (; i < end; ++i) {
      const float v = x[i];
      if (!(v > tau)) continue;
      const double u = double(v) - double(tau);
      all.sum += u;
      all.squares += u * u;
      x[kept++] = v;
    }
  }
  n = kept;
  all.count = double(kept);
  return all;
}

/// More than any row takes; rounding must not keep a loop going.
inline constexpr int kMostRounds = 64;
/// While the sum that is to be 1 is more than this, moments may be rough, if this share of each
/// step is not gone: it is more than their rounding can add to a step.
inline constexpr double kFarAbove = 1.25, kHeldBack = 1.0 / 64;

/// A tau close below the one that is sought, and the x that exceed it, at the front.
template <bool kSquares>
HWY_INLINE double rough_threshold(float* x, std::int64_t& n) {
  double tau = -1;
  for (int round = 0; round < kMostRounds; ++round) {
    const Moments m = keep_moments(float(tau), x, n);
    const double total = kSquares ? std::sqrt(m.squares) : m.sum;
    if (!(total > kFarAbove)) break;
    const double step = kSquares ? total * (total - 1) / m.sum : (total - 1) / m.count;
    // A float, so that the next round's is the same.
    tau = double(float(tau + (1 - kHeldBack) * step));
  }
  return tau;
}

/// tau where p is u (sparsemax) or, if kSquares, u^2 (1.5-entmax): Newton's method from below. The
/// sum of u, and the root of that of u^2, are convex in tau, so that no step passes what is sought,
/// and what is not above it now never will be. Once those above are the same as before, tau is
/// solved for as if they stayed the same; if they do, it is exact.
template <bool kSquares>
HWY_INLINE double exact_threshold(float* x, std::int64_t n) {
  double tau = rough_threshold<kSquares>(x, n), before = -1, solved_for = -1;
  for (int round = 0; round < kMostRounds; ++round) {
    const Moments m = moments_above(tau, x, n);
    if (m.count == solved_for) break;
    if (2 * m.count < double(n) && (!kSquares || solved_for < 0)) {
      n = keep_above(std::nextafter(float(tau), kBelowAll), x, n);
    }
    if constexpr (kSquares) {
      // count step^2 - 2 sum step + squares - 1 = 0
      const double discriminant = m.sum * m.sum - m.count * (m.squares - 1);
      if (m.count == before && discriminant >= 0) {
        tau += (m.squares - 1) / (m.sum + std::sqrt(discriminant));
        solved_for = m.count;
      } else {
        const double root = std::sqrt(m.squares);
        tau += root * (root - 1) / m.sum;
      }
    } else {
      tau += (m.sum - 1) / m.count;
      solved_for = m.count;
    }
    before = m.count;
  }
  return tau;
}

/// With r = p / largest of all x: the sum of r, and that of r^(2 - alpha).
struct PowerSums {
  double sum, slopes;
};

HWY_INLINE PowerSums power_sums(const AnyPower& power, const float* x, std::int64_t n) {
  const DoubleVector none = hn::Zero(Doubles());
  DoubleVector sums[2] = {none, none}, slope_sums[2] = {none, none};
  for (std::int64_t i = 0; i < n; i += kLanes) {
    const Vector v = power.scaled(load_some(x + i, n - i));
    const auto above = hn::Gt(v, broadcast(-1));
    const Vector inside = hn::Max(v, broadcast(-kBelowOne));
    const Vector r = hn::IfThenElseZero(above, power.power(inside));
    const Vector slope = hn::Div(r, hn::Add(inside, broadcast(1)));
    sums[0] = hn::Add(sums[0], lower(r));
    sums[1] = hn::Add(sums[1], upper(r));
    slope_sums[0] = hn::Add(slope_sums[0], lower(slope));
    slope_sums[1] = hn::Add(slope_sums[1], upper(slope));
  }
  return {sum_of(sums[0], sums[1]), sum_of(slope_sums[0], slope_sums[1])};
}

/// How often an interval is halved until floats end; far fewer are needed where steps of Newton's
/// method take their place.
inline constexpr int kHalvings = 24;
/// Of a step, as a share: what is left after it is of the order of its square.
inline constexpr double kSmallStep = 1e-5;

/// The largest p for any alpha, from the interval in which it must lie; n >= 1 that are above -1.
/// The step is Newton's for the (alpha - 1)th power of the sum of p, as a function of tau: convex
/// if alpha is less than 2, so that from above no step passes what is sought; close to an alpha of
/// 1 the first one meets it. Beyond 2, and where rounding leads a step out of the interval, its
/// logarithms are halved instead, until a last step.
HWY_INLINE double largest_of_any(double alpha, float* x, std::int64_t n) {
  double low = 1 / double(n), high = 1, middle = 1;
  for (int round = 0;; ++round) {
    const AnyPower power(alpha, float(middle));
    const PowerSums s = power_sums(power, x, n);
    const double largest = double(power.largest), sum = largest * s.sum;
    (sum < 1 ? low : high) = largest;
    const double step =
        std::log1p(s.sum / s.slopes * std::expm1((1 - alpha) * std::log(sum))) / (alpha - 1);
    const double next = largest * std::exp(step);
    if (round == kHalvings || std::abs(step) < kSmallStep) {
      return std::clamp(next, std::min(low, largest), std::max(high, largest));
    }
    const bool is_inside = next > low && next < high;
    middle = alpha < 2 && is_inside ? next : std::sqrt(low * high);
    // Where the sum is at least 1, tau is too low, and what is not above it never will be.
    n = keep_above(std::nextafter(-float(std::pow(high, alpha - 1)), kBelowAll), x, n);
  }
}

/// As entmax_threshold, of a row of which all are above -1.
HWY_INLINE double threshold_of_survivors(double alpha, float* x, std::int64_t n) {
  if (alpha == 2) return exact_threshold<false>(x, n);
  if (alpha == 1.5) return exact_threshold<true>(x, n);
  return largest_of_any(alpha, x, n);
}

float EntmaxThreshold(double alpha, float* z, std::int64_t n) {
  const float scale = scale_of(alpha);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    store(hn::Mul(load(z + i), broadcast(scale)), z + i);
  }
  for (; i < n; ++i) z[i] *= scale;
  n = keep_above(-1, z, n);
  return n > 0 ? float(threshold_of_survivors(alpha, z, n)) : 0;
}

template <class Power>
HWY_INLINE void probabilities(const Power& power, float scale, float* z, std::int64_t n) {
  const Vector scales = broadcast(scale);
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(power(hn::Mul(load(z + i), scales)), z + i);
  if (i < n) store_first(power(hn::Mul(load_first(z + i, n - i), scales)), z + i, n - i);
}

void EntmaxProbabilities(double alpha, float threshold, float* z, std::int64_t n) {
  const float scale = scale_of(alpha);
  if (alpha == 2) {
    probabilities(Linear{threshold}, scale, z, n);
  } else if (alpha == 1.5) {
    probabilities(Square{threshold}, scale, z, n);
  } else {
    probabilities(AnyPower(alpha, threshold), scale, z, n);
  }
}

/// p^(2 - alpha) of p > 0, else 0.
struct NoPower {
  HWY_INLINE Vector operator()(Vector p) const {
    return hn::IfThenElseZero(hn::Gt(p, zero()), broadcast(1));
  }
};
struct Root {
  HWY_INLINE Vector operator()(Vector p) const { return hn::Sqrt(p); }
};
struct AnySlope {
  float exponent;
  HWY_INLINE Vector operator()(Vector p) const {
    const auto above = hn::Gt(p, zero());
    if (hn::AllFalse(Floats(), above)) return zero();
    const Vector log = hn::Log(Floats(), hn::Max(p, broadcast(FLT_MIN)));
    const Vector logarithm =
        hn::Min(hn::Mul(broadcast(exponent), log), broadcast(kLargestLogarithm));
    return hn::IfThenElseZero(above, hn::Exp(Floats(), logarithm));
  }
};

template <class Slope>
HWY_INLINE void slopes(const Slope& slope, const float* p, float* s, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) store(slope(load(p + i)), s + i);
  if (i < n) store_first(slope(load_first(p + i, n - i)), s + i, n - i);
}

void EntmaxSlopes(double alpha, const float* p, float* s, std::int64_t n) {
  if (alpha == 2) {
    slopes(NoPower(), p, s, n);
  } else if (alpha == 1.5) {
    slopes(Root(), p, s, n);
  } else {
    slopes(AnySlope{float(2 - alpha)}, p, s, n);
  }
}

/// scores = q . keys over positions, from kRows places at once; returns what is left over.
template <int kRows, int kBytes>
HWY_INLINE Range score_keys(const float* q, const float* keys, Range positions, std::int64_t d,
                            float* scores) {
  const std::int64_t steps = positions.size() / kRows;
  // Rows are short: what is asked for is some rows on in the same place.
  const std::int64_t ahead = std::max<std::int64_t>(1, kBytes / std::int64_t(sizeof(float)) / d);
  const float* places[kRows];
  const float* qs[kRows];
  for (int s = 0; s < kRows; ++s) {
    places[s] = keys + (positions.begin + s * steps) * d;
    qs[s] = q;
  }
  if (steps > 0) prefetch_starts<kBytes>(places, steps * d);
  for (std::int64_t i = 0; i < steps; ++i) {
    const float* rows[kRows];
    const float* next[kRows];
    float dots[kRows];
    for (int s = 0; s < kRows; ++s) {
      rows[s] = places[s] + i * d;
      next[s] = places[s] + std::min(i + ahead, steps - 1) * d;
    }
    dot_rows<kBytes>(rows, next, qs, d, dots);
    for (int s = 0; s < kRows; ++s) scores[positions.begin + s * steps + i] = dots[s];
  }
  return {positions.begin + steps * kRows, positions.end};
}

/// x = (score - the largest) * scale in place; those above -1 are copied to survivors, and their
/// number is returned.
HWY_INLINE std::int64_t find_survivors(float scale, float* scores, std::int64_t n,
                                       float* survivors) {
  Vector largest_of_lanes = broadcast(scores[0]);
  std::int64_t i = 0, kept = 0;
  for (; i + kLanes <= n; i += kLanes) {
    largest_of_lanes = hn::Max(largest_of_lanes, load(scores + i));
  }
  float largest = hn::GetLane(hn::MaxOfLanes(Floats(), largest_of_lanes));
  for (; i < n; ++i) largest = std::max(largest, scores[i]);

  const Vector shift = broadcast(largest), scales = broadcast(scale);
  for (i = 0; i + kLanes <= n; i += kLanes) {
    const Vector x = hn::Mul(hn::Sub(load(scores + i), shift), scales);
    const auto above = hn::Gt(x, broadcast(-1));
    store(x, scores + i);
    if (hn::AllFalse(Floats(), above)) continue;
    store(hn::Compress(x, above), survivors + kept);
    kept += std::int64_t(hn::CountTrue(Floats(), above));
  }
  for (; i < n; ++i) {
    scores[i] = (scores[i] - largest) * scale;
    survivors[kept] = scores[i];
    kept += scores[i] > -1;
  }
  return kept;
}

/// x becomes the probabilities that are not zero, one after another, and `positions` the bits of
/// where in the row they were (int32); returns how many they are.
template <class Power>
HWY_INLINE std::int64_t keep_support(const Power& power, float* x, std::int64_t n,
                                     float* positions) {
  const hn::FixedTag<std::int32_t, std::size_t(kLanes)> integers;
  std::int64_t kept = 0, i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vector p = power(load(x + i));
    const auto above = hn::Gt(p, zero());
    if (hn::AllFalse(Floats(), above)) continue;
    const Vector here = hn::BitCast(Floats(), hn::Iota(integers, std::int32_t(i)));
    store(hn::Compress(p, above), x + kept);
    store(hn::Compress(here, above), positions + kept);
    kept += std::int64_t(hn::CountTrue(Floats(), above));
  }
  if (i == n) return kept;
  alignas(64) float last[kLanes];
  hn::Store(power(load_last(x + i, n - i)), Floats(), last);
  for (std::int64_t l = 0; i + l < n; ++l) {
    x[kept] = last[l];
    positions[kept] = std::bit_cast<float>(std::int32_t(i + l));
    kept += last[l] > 0;
  }
  return kept;
}

void AttendEntmax(double alpha, const float* q, const HeadMemory& memory, float* scores,
                  float* survivors, float* out, Prefetch by) {
  const std::int64_t length = memory.length, d = memory.d_head;
  const auto key = [&](std::int64_t i) { return memory.keys + memory.position(i) * d; };
  if (memory.positions) {
    score_scattered(length, d, key, q, scores);
  } else {
    Range rest = {0, length};
    if (simd::is_by_processor(by)) {
      rest = score_keys<kFewRows, kNoLead>(q, memory.keys, rest, d, scores);
    } else {
      rest = score_keys<kShortStreams, kLongLead>(q, memory.keys, rest, d, scores);
    }
    for (std::int64_t i = rest.begin; i < rest.end; ++i) scores[i] = dot_row(key(i), q, d);
  }
  const float scale = scale_of(alpha) / std::sqrt(float(d));
  const std::int64_t few = find_survivors(scale, scores, length, survivors);
  const float threshold = float(threshold_of_survivors(alpha, survivors, few));
  std::int64_t n = 0;
  if (alpha == 2) {
    n = keep_support(Linear{threshold}, scores, length, survivors);
  } else if (alpha == 1.5) {
    n = keep_support(Square{threshold}, scores, length, survivors);
  } else {
    n = keep_support(AnyPower(alpha, threshold), scores, length, survivors);
  }
  const auto value = [&](std::int64_t i) {
    return memory.values + memory.position(std::bit_cast<std::int32_t>(survivors[i])) * d;
  };
  mix_scattered(n, d, value, scores, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace scaling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scaling {
namespace simd {
HWY_EXPORT(AttendEntmax);

void attend_entmax(double alpha, const float* q, const HeadMemory& memory, float* scores,
                   float* survivors, float* out) {
  HWY_DYNAMIC_DISPATCH(AttendEntmax)(alpha, q, memory, scores, survivors, out, prefetch_by());
}
}  // namespace simd

HWY_EXPORT(EntmaxThreshold);
HWY_EXPORT(EntmaxProbabilities);
HWY_EXPORT(EntmaxSlopes);

float entmax_threshold(double alpha, float* z, std::int64_t n) {
  return HWY_DYNAMIC_DISPATCH(EntmaxThreshold)(alpha, z, n);
}

void entmax_probabilities(double alpha, float threshold, float* z, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(EntmaxProbabilities)(alpha, threshold, z, n);
}

void entmax_slopes(double alpha, const float* p, float* s, std::int64_t n) {
  HWY_DYNAMIC_DISPATCH(EntmaxSlopes)(alpha, p, s, n);
}
}  // namespace scaling
#endif
