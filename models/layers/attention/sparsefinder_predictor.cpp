// The same arithmetic for a sequence and for a step, so that both decide alike.
#include "models/layers/attention/sparsefinder_predictor.h"

#include <algorithm>
#include <bit>
#include <boost/math/distributions/chi_squared.hpp>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/check.h"
#include "models/initialize.h"
#include "models/layers/attention/bit_rows.h"
#include "models/layers/attention/sparsefinder_pairs.h"

namespace scaling {
namespace {

std::int64_t words_of(std::int64_t positions) { return (positions + 63) / 64; }

/// A vector that training leaves alone.
Parameter fixed(const char* name, Initializer init, std::vector<std::int64_t> shape) {
  const std::int64_t n =
      std::accumulate(shape.begin(), shape.end(), std::int64_t(1), std::multiplies<std::int64_t>());
  Parameter p = Parameter::make_vector(name, n, init, std::move(shape));
  p.is_frozen = true;
  return p;
}

/// Differences of two standard normal vectors have variance 2 a number, and a map whose columns
/// have d_head numbers of variance 1 / rank makes of them 2 d_head / rank a dimension.
float threshold_of(const SparsefinderSizes& sizes, double density) {
  if (density >= 1) return std::numeric_limits<float>::infinity();
  const boost::math::chi_squared squares{double(sizes.rank)};
  const double variance = 2 * double(sizes.d_head) / double(sizes.rank);
  return float(variance * boost::math::quantile(squares, density));
}

}  // namespace

SparsefinderPredictor::SparsefinderPredictor(const SparsefinderSizes& sizes, std::uint64_t seed)
    : sizes_(sizes),
      seed_(seed),
      map_(fixed("map", {Initializer::Kind::normal, float(1 / std::sqrt(double(sizes.rank)))},
                 {sizes.heads, sizes.d_head, sizes.rank})) {}

const float* SparsefinderPredictor::of_head(const Parameter& p, std::int64_t head,
                                            std::vector<float>& copy) const {
  const std::int64_t n = p.count() / sizes_.heads;
  if (p.data != nullptr) return p.vector() + head * n;
  copy.resize(std::size_t(n));
  draw_values(seed_, p.name, p.init, head * n, n, copy.data());
  return copy.data();
}

void SparsefinderPredictor::project(std::int64_t head, const float* rows, std::int64_t n,
                                    SparsefinderScratch& scratch) const {
  const float* map = of_head(map_, head, scratch.map);
  const std::int64_t d = sizes_.d_head, rank = sizes_.rank;
  scratch.points.resize(std::size_t(n * rank));
  float* to = scratch.points.data();
  for (std::int64_t t = 0; t < n; ++t, rows += d, to += rank) {
    std::fill_n(to, rank, 0.0f);
    for (std::int64_t i = 0; i < d; ++i) {
      for (std::int64_t r = 0; r < rank; ++r) to[r] += rows[i] * map[i * rank + r];
    }
  }
}

void squared_distances(const std::int32_t* point, std::int64_t rank, const float* points,
                       std::int64_t stride, std::int64_t n, float* to) {
  std::fill_n(to, n, 0.0f);
  for (std::int64_t r = 0; r < rank; ++r) {
    const float own = std::bit_cast<float>(point[r]);
    const float* const others = points + r * stride;
    for (std::int64_t j = 0; j < n; ++j) {
      const float apart = own - others[j];
      to[j] += apart * apart;
    }
  }
}

DistancePredictor::DistancePredictor(const SparsefinderSizes& sizes, std::uint64_t seed,
                                     double density)
    : SparsefinderPredictor(sizes, seed),
      density_(density),
      thresholds_(fixed("thresholds", {Initializer::Kind::constant, threshold_of(sizes, density)},
                        {sizes.heads})) {}

void DistancePredictor::visit_parameters(const ParameterVisitor& visit) {
  SparsefinderPredictor::visit_parameters(visit);
  visit(thresholds_);
}

float DistancePredictor::threshold(std::int64_t head, SparsefinderScratch& scratch) const {
  return *of_head(thresholds_, head, scratch.learnt);
}

void DistancePredictor::place(std::int64_t head, const float* rows, std::int64_t n,
                              const std::uint8_t* seen, std::int32_t* numbers,
                              SparsefinderScratch& scratch) const {
  const std::int64_t rank = sizes_.rank;
  project(head, rows, n, scratch);
  for (std::int64_t t = 0; t < n; ++t) {
    for (std::int64_t r = 0; r < rank; ++r) {
      // Far from everyone, itself included: no comparison holds.
      const float x = seen == nullptr || seen[t] ? scratch.points[std::size_t(t * rank + r)]
                                                 : std::numeric_limits<float>::quiet_NaN();
      numbers[t * rank + r] = std::bit_cast<std::int32_t>(x);
    }
  }
}

std::unique_ptr<HeadPairs> DistancePredictor::make_pairs(const Additions& additions) const {
  return std::make_unique<DistancePairs>(*this, additions);
}

std::int64_t DistancePredictor::memory_floats(std::int64_t capacity) const {
  return sizes_.rank * capacity;
}

double DistancePredictor::read_bytes(std::int64_t length) const {
  return double(sizes_.rank * length) * sizeof(float);
}

void DistancePredictor::remember(const Memory& memory, std::int64_t position,
                                 const std::int32_t* numbers) const {
  for (std::int64_t r = 0; r < sizes_.rank; ++r) {
    memory.floats[r * memory.capacity + position] = std::bit_cast<float>(numbers[r]);
  }
}

void DistancePredictor::recall(std::int64_t head, const Memory& memory, std::int64_t n,
                               const std::int32_t* numbers, std::uint64_t* bits,
                               SparsefinderScratch& scratch) const {
  const float limit = threshold(head, scratch);
  scratch.distances.resize(std::size_t(memory.capacity));
  float* distances = scratch.distances.data();
  squared_distances(numbers, sizes_.rank, memory.floats, memory.capacity, n, distances);
  mark_at_most(distances, n, limit, bits);
}

std::unique_ptr<HeadPairs> BucketPredictor::make_pairs(const Additions& additions) const {
  return std::make_unique<BucketPairs>(*this, additions);
}

std::int64_t BucketPredictor::memory_words(std::int64_t capacity) const {
  return buckets_ * words_of(capacity);
}

double BucketPredictor::read_bytes(std::int64_t length) const {
  return double(each_ * words_of(length)) * sizeof(std::uint64_t);
}

void BucketPredictor::remember(const Memory& memory, std::int64_t position,
                               const std::int32_t* numbers) const {
  const std::int64_t words = words_of(memory.capacity);
  if (position == 0) std::fill_n(memory.words, buckets_ * words, std::uint64_t(0));
  for (std::int64_t i = 0; i < each_; ++i) {
    if (numbers[i] < 0) continue;
    memory.words[numbers[i] * words + position / 64] |= std::uint64_t(1) << (position % 64);
  }
}

void BucketPredictor::recall(std::int64_t /*head*/, const Memory& memory, std::int64_t n,
                             const std::int32_t* numbers, std::uint64_t* bits,
                             SparsefinderScratch& /*scratch*/) const {
  const std::int64_t words = words_of(memory.capacity), read = words_of(n);
  std::fill_n(bits, read, std::uint64_t(0));
  for (std::int64_t i = 0; i < each_; ++i) {
    if (numbers[i] < 0) continue;
    const std::uint64_t* members = memory.words + numbers[i] * words;
    for (std::int64_t word = 0; word < read; ++word) bits[word] |= members[word];
  }
}

/// Points of standard normal queries and keys have variance d_head / rank a dimension.
ClusterPredictor::ClusterPredictor(const SparsefinderSizes& sizes, std::uint64_t seed,
                                   std::int64_t clusters, std::int64_t nearest)
    : BucketPredictor(sizes, seed, nearest, clusters),
      centroids_(fixed(
          "centroids",
          {Initializer::Kind::normal, float(std::sqrt(double(sizes.d_head) / double(sizes.rank)))},
          {sizes.heads, clusters, sizes.rank})) {}

void ClusterPredictor::visit_parameters(const ParameterVisitor& visit) {
  SparsefinderPredictor::visit_parameters(visit);
  visit(centroids_);
}

void ClusterPredictor::place(std::int64_t head, const float* rows, std::int64_t n,
                             const std::uint8_t* seen, std::int32_t* numbers,
                             SparsefinderScratch& scratch) const {
  const std::int64_t rank = sizes_.rank;
  const float* centroids = of_head(centroids_, head, scratch.learnt);
  project(head, rows, n, scratch);
  scratch.distances.resize(std::size_t(buckets_));
  std::vector<float>& distances = scratch.distances;
  for (std::int64_t t = 0; t < n; ++t) {
    std::int32_t* own = numbers + t * each_;
    if (seen != nullptr && !seen[t]) {
      std::fill_n(own, each_, -1);
      continue;
    }
    for (std::int64_t c = 0; c < buckets_; ++c) {
      float& distance = distances[std::size_t(c)] = 0;
      for (std::int64_t r = 0; r < rank; ++r) {
        const float apart = scratch.points[std::size_t(t * rank + r)] - centroids[c * rank + r];
        distance += apart * apart;
      }
    }
    for (std::int64_t i = 0; i < each_; ++i) {
      const auto at = std::min_element(distances.begin(), distances.end());
      own[i] = std::int32_t(at - distances.begin());
      *at = std::numeric_limits<float>::infinity();
    }
    std::sort(own, own + each_);
  }
}

/// Two sets of `each` out of all buckets have one in common.
double ClusterPredictor::share() const {
  double apart = 1;
  for (std::int64_t i = 0; i < each_; ++i) {
    apart *= std::max(0.0, double(buckets_ - each_ - i) / double(buckets_ - i));
  }
  return 1 - apart;
}

double ClusterPredictor::place_flops() const {
  return SparsefinderPredictor::place_flops() + 3 * double(sizes_.rank * buckets_);
}

double ClusterPredictor::weights() const {
  return SparsefinderPredictor::weights() + double(sizes_.rank * buckets_);
}

void QuantizationPredictor::place(std::int64_t head, const float* rows, std::int64_t n,
                                  const std::uint8_t* seen, std::int32_t* numbers,
                                  SparsefinderScratch& scratch) const {
  const std::int64_t rank = sizes_.rank;
  project(head, rows, n, scratch);
  std::vector<std::int64_t>& order = scratch.order;
  order.clear();
  for (std::int64_t t = 0; t < n; ++t) {
    if (seen == nullptr || seen[t]) order.push_back(t);
  }
  std::fill_n(numbers, n * rank, -1);
  const auto there = std::int64_t(order.size());
  const std::int64_t size = std::max<std::int64_t>(1, (there + bins_ - 1) / bins_);
  for (std::int64_t r = 0; r < rank; ++r) {
    std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
      const float x = scratch.points[std::size_t(a * rank + r)];
      const float y = scratch.points[std::size_t(b * rank + r)];
      return x < y || (x == y && a < b);
    });
    for (std::int64_t i = 0; i < there; ++i) {
      numbers[order[std::size_t(i)] * rank + r] = std::int32_t(r * bins_ + i / size);
    }
  }
}

/// In some dimension one bin.
double QuantizationPredictor::share() const {
  return 1 - std::pow(1 - 1 / double(bins_), double(sizes_.rank));
}

}  // namespace scaling
