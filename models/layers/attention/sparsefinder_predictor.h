// What Sparsefinder knows of a head before any score: its projection into a few dimensions, and who
// is near there ("Predicting Attention Sparsity in Transformers", section 4).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "models/layers/attention/head_pairs.h"
#include "models/parameter.h"

namespace scaling {

struct Additions;

/// Sizes of all heads.
struct SparsefinderSizes {
  std::int64_t heads, d_head, rank;
};

/// Buffers of one thread.
struct SparsefinderScratch {
  std::vector<float> map, learnt, points, distances;
  std::vector<std::int64_t> order;
};

/// Of a head's queries and keys alike, numbers that say who meets whom. The map (heads, d_head,
/// rank) and what else a predictor knows are learnt from a trained model's attention, not by the
/// loss: in training they stay.
class SparsefinderPredictor {
 public:
  virtual ~SparsefinderPredictor() = default;
  virtual void visit_parameters(const ParameterVisitor& visit) { visit(map_); }
  /// What decides about a position: so many numbers.
  virtual std::int64_t numbers() const = 0;
  /// rows: n of d_head, one after another, the queries or the keys of a sequence.
  virtual void place(std::int64_t head, const float* rows, std::int64_t n, const std::uint8_t* seen,
                     std::int32_t* numbers, SparsefinderScratch& scratch) const = 0;
  virtual std::unique_ptr<HeadPairs> make_pairs(const Additions& additions) const = 0;

  /// Share of the pairs, if all are equally likely.
  virtual double share() const = 0;
  /// FLOP of placing one query or key, and of comparing one pair.
  virtual double place_flops() const { return 2 * double(sizes_.d_head * sizes_.rank); }
  virtual double pair_flops() const { return 0; }
  /// Values that a decode step reads of a head, whatever its caches hold.
  virtual double weights() const { return double(sizes_.d_head * sizes_.rank); }

  // Decoding: what a head remembers of keys beside them.
  virtual std::int64_t memory_floats(std::int64_t /*capacity*/) const { return 0; }
  virtual std::int64_t memory_words(std::int64_t /*capacity*/) const { return 0; }
  /// Bytes of it that a step over `length` positions reads.
  virtual double read_bytes(std::int64_t /*length*/) const { return 0; }
  struct Memory {
    float* floats;
    std::uint64_t* words;
    std::int64_t capacity;
  };
  /// The key of these numbers is at `position`; at 0 everything before is forgotten.
  virtual void remember(const Memory& memory, std::int64_t position,
                        const std::int32_t* numbers) const = 0;
  /// Bits of the first n positions that a query meets.
  virtual void recall(std::int64_t head, const Memory& memory, std::int64_t n,
                      const std::int32_t* numbers, std::uint64_t* bits,
                      SparsefinderScratch& scratch) const = 0;

 protected:
  SparsefinderPredictor(const SparsefinderSizes& sizes, std::uint64_t seed);
  /// A head's share of a parameter; of one without memory, of a layer on its own, what it starts
  /// from, in `copy`.
  const float* of_head(const Parameter& p, std::int64_t head, std::vector<float>& copy) const;
  /// To scratch.points, (n, rank).
  void project(std::int64_t head, const float* rows, std::int64_t n,
               SparsefinderScratch& scratch) const;

  SparsefinderSizes sizes_;
  std::uint64_t seed_;
  Parameter map_;
};

/// Those at a squared distance of at most the head's threshold. Numbers: the projected point.
class DistancePredictor : public SparsefinderPredictor {
 public:
  /// density: of independent standard normal queries and keys so many meet at the thresholds that
  /// there are at first; 1: all.
  DistancePredictor(const SparsefinderSizes& sizes, std::uint64_t seed, double density);
  void visit_parameters(const ParameterVisitor& visit) override;
  std::int64_t rank() const { return sizes_.rank; }
  float threshold(std::int64_t head, SparsefinderScratch& scratch) const;
  std::int64_t numbers() const override { return sizes_.rank; }
  void place(std::int64_t head, const float* rows, std::int64_t n, const std::uint8_t* seen,
             std::int32_t* numbers, SparsefinderScratch& scratch) const override;
  std::unique_ptr<HeadPairs> make_pairs(const Additions& additions) const override;
  double share() const override { return density_; }
  double pair_flops() const override { return 3 * double(sizes_.rank); }
  std::int64_t memory_floats(std::int64_t capacity) const override;
  double read_bytes(std::int64_t length) const override;
  void remember(const Memory& memory, std::int64_t position,
                const std::int32_t* numbers) const override;
  void recall(std::int64_t head, const Memory& memory, std::int64_t n, const std::int32_t* numbers,
              std::uint64_t* bits, SparsefinderScratch& scratch) const override;

 private:
  double density_;
  Parameter thresholds_;
};

/// to[j] = squared distance of a point, numbers of its place(), from the first n columns of
/// `points`, (rank, stride).
void squared_distances(const std::int32_t* point, std::int64_t rank, const float* points,
                       std::int64_t stride, std::int64_t n, float* to);

/// Those that share a bucket. Numbers: the position's buckets, ascending; -1 throughout: in none.
class BucketPredictor : public SparsefinderPredictor {
 public:
  std::int64_t numbers() const override { return each_; }
  std::int64_t buckets() const { return buckets_; }
  /// Whether two positions can share the i-th bucket of one only as the i-th of the other.
  virtual bool is_by_place() const = 0;
  std::unique_ptr<HeadPairs> make_pairs(const Additions& additions) const override;
  std::int64_t memory_words(std::int64_t capacity) const override;
  double read_bytes(std::int64_t length) const override;
  void remember(const Memory& memory, std::int64_t position,
                const std::int32_t* numbers) const override;
  void recall(std::int64_t head, const Memory& memory, std::int64_t n, const std::int32_t* numbers,
              std::uint64_t* bits, SparsefinderScratch& scratch) const override;

 protected:
  BucketPredictor(const SparsefinderSizes& sizes, std::uint64_t seed, std::int64_t each,
                  std::int64_t buckets)
      : SparsefinderPredictor(sizes, seed), each_(each), buckets_(buckets) {}
  std::int64_t each_, buckets_;
};

/// The `nearest` nearest of a head's centroids.
class ClusterPredictor : public BucketPredictor {
 public:
  ClusterPredictor(const SparsefinderSizes& sizes, std::uint64_t seed, std::int64_t clusters,
                   std::int64_t nearest);
  void visit_parameters(const ParameterVisitor& visit) override;
  void place(std::int64_t head, const float* rows, std::int64_t n, const std::uint8_t* seen,
             std::int32_t* numbers, SparsefinderScratch& scratch) const override;
  bool is_by_place() const override { return false; }
  double share() const override;
  double place_flops() const override;
  double weights() const override;

 private:
  Parameter centroids_;
};

/// Bins of equal size in each dimension, by rank among the sequence's queries or among its keys:
/// what is later decides too, so that nothing causal can have it.
class QuantizationPredictor : public BucketPredictor {
 public:
  QuantizationPredictor(const SparsefinderSizes& sizes, std::uint64_t seed, std::int64_t bins)
      : BucketPredictor(sizes, seed, sizes.rank, sizes.rank * bins), bins_(bins) {}
  void place(std::int64_t head, const float* rows, std::int64_t n, const std::uint8_t* seen,
             std::int32_t* numbers, SparsefinderScratch& scratch) const override;
  bool is_by_place() const override { return true; }
  double share() const override;

 private:
  std::int64_t bins_;
};

}  // namespace scaling
