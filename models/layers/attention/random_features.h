// Random directions whose exponentials estimate exp(x . y): FAVOR+'s positive features.
#pragma once

#include <array>
#include <cstdint>

namespace scaling {

/// How the directions w_1 to w_m of one head are drawn. With independent and orthogonal ones the
/// mean of f(x) . f(y) over draws is exp(x . y), where f(x) = exp(-|x|^2 / 2) (e^(w_1 . x), ...,
/// e^(w_m . x)) / sqrt(m); with regularised ones a kernel near it.
///   orthogonal   d at a time at right angles, each as long as a normally distributed vector:
///                estimates vary less
///   regularised  the same, each sqrt(d) long
///   independent  normally distributed
enum class FeatureDirections { orthogonal, regularised, independent };
constexpr std::array<const char*, 3> names_of(FeatureDirections) {
  return {"orthogonal", "regularised", "independent"};
}

/// w (m, d), row-major: the index-th of a pair of streams, `stream` and the one after it. Each
/// block of d rows is at right angles; the last one may have fewer.
void draw_directions(FeatureDirections kind, std::uint64_t seed, std::uint64_t stream,
                     std::int64_t index, std::int64_t m, std::int64_t d, float* w);

}  // namespace scaling
