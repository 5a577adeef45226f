// Sparsefinder's three predictions, as pairs that tiles of attention can be made of.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "models/layers/attention/head_pairs.h"
#include "models/layers/attention/patterns/all.h"
#include "models/layers/attention/sparsefinder_predictor.h"

namespace scaling {

/// What is met whatever was predicted: the neighbours on either side, and the first positions,
/// which also meet everyone.
struct Additions {
  std::int64_t side = -1;  ///< neighbours before and as many after; -1: not even itself
  std::int64_t globals = 0;

  /// Keys of a query by its window; none of a global query, which has all.
  Range window(const PatternCall& call, std::int64_t query) const;
  /// Global keys of a query that is not global, without those of its window.
  Range global_keys(std::int64_t query) const;
  /// How many keys a query meets so.
  std::int64_t count(const PatternCall& call, std::int64_t query) const;
};

/// Pairs whose distance in the projected space is at most the head's threshold. Tiles are of
/// neighbours; one in which nobody meets is left out.
class DistancePairs : public HeadPairs {
 public:
  DistancePairs(const DistancePredictor& predictor, Additions additions)
      : predictor_(predictor), additions_(additions) {}
  std::int64_t decisions(std::int64_t positions) const override;
  void choose(std::int64_t head, const Mat& q, const Mat& k, const std::uint8_t* seen,
              std::int32_t* decisions) override;
  void load(const PatternCall& call, const std::int32_t* decisions) override;
  const Pattern& pattern() const override { return pattern_; }
  bool hides(const Pattern::Part&) const override { return true; }
  void show(const PatternCall& call, const Pattern::Part& part, std::int64_t i, Range keys,
            std::uint64_t* bits) const override;

 private:
  const DistancePredictor& predictor_;
  Additions additions_;
  AllKeys pattern_;
  float threshold_ = 0;
  const std::int32_t* queries_ = nullptr;  // (positions, rank), floats by their bits
  std::vector<float> keys_;                // (rank, positions)
  mutable SparsefinderScratch scratch_;
};

/// Pairs that share a bucket. Every bucket is a part of its queries and its keys, so that nothing
/// is computed for the rest; a pair of several buckets is in the first.
class BucketPairs : public HeadPairs, private Pattern {
 public:
  BucketPairs(const BucketPredictor& predictor, Additions additions)
      : predictor_(predictor), additions_(additions) {}
  std::int64_t decisions(std::int64_t positions) const override;
  void choose(std::int64_t head, const Mat& q, const Mat& k, const std::uint8_t* seen,
              std::int32_t* decisions) override;
  void load(const PatternCall& call, const std::int32_t* decisions) override;
  const Pattern& pattern() const override { return *this; }
  bool hides(const Part& part) const override;
  void show(const PatternCall& call, const Part& part, std::int64_t i, Range keys,
            std::uint64_t* bits) const override;

 private:
  /// Members of all buckets, one after another, each ascending.
  struct Side {
    const std::int32_t* buckets = nullptr;  // (positions, each), -1: none
    std::vector<std::int64_t> begins;       // (buckets + 1)
    std::vector<std::int64_t> members;
    std::span<const std::int64_t> of(std::int64_t bucket) const;
  };
  void fill(Side& side, const std::int32_t* buckets, std::int64_t positions) const;
  bool share_earlier(std::int64_t query, std::int64_t key, std::int64_t bucket) const;

  void cut(const PatternCall& call, Parts& parts) const override;
  Range visible(const PatternCall& call, const Part& part, std::int64_t i) const override;
  std::int64_t slots(std::int64_t capacity) const override { return capacity; }

  const BucketPredictor& predictor_;
  Additions additions_;
  Side queries_, keys_;
  SparsefinderScratch scratch_;
};

}  // namespace scaling
