// Members of buckets are counted into place; what is hidden are bits of a row.
#include "models/layers/attention/sparsefinder_pairs.h"

#include <algorithm>
#include <bit>
#include <numeric>

#include "kernels/check.h"
#include "models/layers/attention/bit_rows.h"

namespace scaling {
namespace {

// Kinds of parts; a bucket's is its index.
constexpr int kWindow = -1, kGlobalKeys = -2, kGlobalQueries = -3;

void set_bits(std::uint64_t* bits, std::int64_t begin, std::int64_t end) {
  for (std::int64_t j = begin; j < end; ++j) bits[j / 64] |= std::uint64_t(1) << (j % 64);
}

void clear_bit(std::uint64_t* bits, std::int64_t j) {
  bits[j / 64] &= ~(std::uint64_t(1) << (j % 64));
}

}  // namespace

Range Additions::window(const PatternCall& call, std::int64_t query) const {
  if (side < 0) return {0, 0};
  return {std::max<std::int64_t>(0, query - side),
          std::min(call.keys, query + 1 + (call.causal ? 0 : side))};
}

Range Additions::global_keys(std::int64_t query) const {
  return {0, std::min(globals, side < 0 ? query : std::max<std::int64_t>(0, query - side))};
}

std::int64_t Additions::count(const PatternCall& call, std::int64_t query) const {
  if (query < globals) return call.causal ? query + 1 : call.keys;
  return window(call, query).size() + global_keys(query).size();
}

std::int64_t DistancePairs::decisions(std::int64_t positions) const {
  return 2 * positions * predictor_.numbers();
}

void DistancePairs::choose(std::int64_t head, const Mat& q, const Mat& k, const std::uint8_t* seen,
                           std::int32_t* decisions) {
  predictor_.place(head, q.data(), q.rows(), seen, decisions, scratch_);
  std::int32_t* const of_keys = decisions + q.rows() * predictor_.numbers();
  predictor_.place(head, k.data(), k.rows(), seen, of_keys, scratch_);
}

void DistancePairs::load(const PatternCall& call, const std::int32_t* decisions) {
  SCALING_CHECK(call.queries == call.keys && call.streams == 1);
  const std::int64_t n = call.keys, rank = predictor_.rank();
  threshold_ = predictor_.threshold(call.head, scratch_);
  queries_ = decisions;
  keys_.resize(std::size_t(n * rank));
  for (std::int64_t j = 0; j < n; ++j) {
    for (std::int64_t r = 0; r < rank; ++r) {
      keys_[std::size_t(r * n + j)] = std::bit_cast<float>(decisions[(n + j) * rank + r]);
    }
  }
}

void DistancePairs::show(const PatternCall& call, const Pattern::Part& /*part*/, std::int64_t i,
                         Range keys, std::uint64_t* bits) const {
  const std::int64_t rank = predictor_.rank(), n = keys.size();
  std::vector<float>& distances = scratch_.distances;
  distances.resize(std::size_t(call.keys));
  squared_distances(queries_ + i * rank, rank, keys_.data() + keys.begin, call.keys, n,
                    distances.data());
  mark_at_most(distances.data(), n, threshold_, bits);
  const auto add = [&](Range more) {
    set_bits(bits, std::max<std::int64_t>(0, more.begin - keys.begin),
             std::min(n, more.end - keys.begin));
  };
  if (i < additions_.globals) {
    add(keys);
    return;
  }
  add(additions_.window(call, i));
  add(additions_.global_keys(i));
}

std::span<const std::int64_t> BucketPairs::Side::of(std::int64_t bucket) const {
  const std::int64_t begin = begins[std::size_t(bucket)], end = begins[std::size_t(bucket + 1)];
  return {members.data() + begin, std::size_t(end - begin)};
}

std::int64_t BucketPairs::decisions(std::int64_t positions) const {
  return 2 * positions * predictor_.numbers();
}

void BucketPairs::choose(std::int64_t head, const Mat& q, const Mat& k, const std::uint8_t* seen,
                         std::int32_t* decisions) {
  predictor_.place(head, q.data(), q.rows(), seen, decisions, scratch_);
  std::int32_t* const of_keys = decisions + q.rows() * predictor_.numbers();
  predictor_.place(head, k.data(), k.rows(), seen, of_keys, scratch_);
}

/// Global positions have all their pairs elsewhere.
void BucketPairs::fill(Side& side, const std::int32_t* buckets, std::int64_t positions) const {
  const std::int64_t each = predictor_.numbers(), all = predictor_.buckets();
  side.buckets = buckets;
  side.begins.assign(std::size_t(all + 2), 0);
  // One place further than it will be, so that filling moves begins to where they belong.
  const auto for_all = [&](auto&& visit) {
    for (std::int64_t t = additions_.globals; t < positions; ++t) {
      for (std::int64_t i = 0; i < each; ++i) {
        const std::int64_t bucket = buckets[t * each + i];
        if (bucket >= 0) visit(bucket, t);
      }
    }
  };
  for_all([&](std::int64_t bucket, std::int64_t) { ++side.begins[std::size_t(bucket + 2)]; });
  std::partial_sum(side.begins.begin(), side.begins.end(), side.begins.begin());
  side.members.resize(std::size_t(side.begins.back()));
  for_all([&](std::int64_t bucket, std::int64_t t) {
    side.members[std::size_t(side.begins[std::size_t(bucket + 1)]++)] = t;
  });
  side.begins.pop_back();
}

void BucketPairs::load(const PatternCall& call, const std::int32_t* decisions) {
  SCALING_CHECK(call.queries == call.keys && call.streams == 1);
  fill(queries_, decisions, call.queries);
  fill(keys_, decisions + call.queries * predictor_.numbers(), call.keys);
}

void BucketPairs::cut(const PatternCall& call, Parts& parts) const {
  const std::int64_t n = call.keys, globals = std::min(additions_.globals, n);
  parts.starts = queries_.members;
  parts.starts.insert(parts.starts.end(), keys_.members.begin(), keys_.members.end());
  const Positions all = {.n = n}, others = {.n = n - globals, .first = globals};
  if (globals > 0) {
    parts.all.push_back({.queries = {.n = globals}, .keys = all, .kind = kGlobalQueries});
    parts.all.push_back({.queries = others, .keys = {.n = globals}, .kind = kGlobalKeys});
  }
  if (additions_.side >= 0) parts.all.push_back({.queries = others, .keys = all, .kind = kWindow});
  const std::int64_t* const starts = parts.starts.data();
  const auto members = [&](const Side& side, std::int64_t bucket, std::int64_t before) {
    return Positions{.n = std::int64_t(side.of(bucket).size()),
                     .run = 1,
                     .starts = starts + before + side.begins[std::size_t(bucket)]};
  };
  const auto queries = std::int64_t(queries_.members.size());
  for (std::int64_t bucket = 0; bucket < predictor_.buckets(); ++bucket) {
    if (queries_.of(bucket).empty() || keys_.of(bucket).empty()) continue;
    parts.all.push_back({.queries = members(queries_, bucket, 0),
                         .keys = members(keys_, bucket, queries),
                         .kind = int(bucket)});
  }
}

Range BucketPairs::visible(const PatternCall& call, const Part& part, std::int64_t i) const {
  const std::int64_t query = part.queries.at(i);
  switch (part.kind) {
    case kGlobalQueries:
      return {0, call.causal ? query + 1 : call.keys};
    case kGlobalKeys:
      return additions_.global_keys(query);
    case kWindow:
      return additions_.window(call, query);
    default:
      break;
  }
  if (!call.causal) return {0, part.keys.n};
  const std::span<const std::int64_t> keys = keys_.of(part.kind);
  return {0, std::upper_bound(keys.begin(), keys.end(), query) - keys.begin()};
}

bool BucketPairs::hides(const Part& part) const {
  return part.kind >= 0 && (additions_.side >= 0 || predictor_.numbers() > 1);
}

bool BucketPairs::share_earlier(std::int64_t query, std::int64_t key, std::int64_t bucket) const {
  const std::int64_t each = predictor_.numbers();
  const std::int32_t* const a = queries_.buckets + query * each;
  const std::int32_t* const b = keys_.buckets + key * each;
  if (predictor_.is_by_place()) {
    for (std::int64_t i = 0; i < each && a[i] < bucket; ++i) {
      if (a[i] == b[i]) return true;
    }
    return false;
  }
  for (std::int64_t i = 0; i < each && a[i] < bucket; ++i) {
    if (std::find(b, b + each, a[i]) != b + each) return true;
  }
  return false;
}

void BucketPairs::show(const PatternCall& call, const Part& part, std::int64_t i, Range keys,
                       std::uint64_t* bits) const {
  const std::int64_t query = part.queries.at(i), n = keys.size();
  std::fill_n(bits, (n + 63) / 64, std::uint64_t(0));
  set_bits(bits, 0, n);
  const std::int64_t* const positions = keys_.of(part.kind).data() + keys.begin;
  const Range window = additions_.window(call, query);
  for (const std::int64_t* j = std::lower_bound(positions, positions + n, window.begin);
       j < positions + n && *j < window.end; ++j) {
    clear_bit(bits, j - positions);
  }
  if (predictor_.numbers() == 1) return;
  for (std::int64_t j = 0; j < n; ++j) {
    if (share_earlier(query, positions[j], part.kind)) clear_bit(bits, j);
  }
}

}  // namespace scaling
