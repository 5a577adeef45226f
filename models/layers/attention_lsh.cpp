// Heads of all examples are shared among the threads. A chunk's keys and values are gathered, so
// that its scores are a small dense product; all rounds are one softmax, brought together as they
// come. Backward hashes nothing: it sorts the kept buckets again and recomputes probabilities from
// the kept normalisers.
#include "models/layers/attention_lsh.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <utility>

#include "kernels/check.h"
#include "kernels/parallel.h"
#include "models/layers/partial_sums.h"

namespace scaling {
namespace {

using Row = Eigen::Map<Eigen::ArrayXf>;
using ConstRow = Eigen::Map<const Eigen::ArrayXf>;

constexpr std::int64_t kRowsHashedAtOnce = 256;
/// More buckets are made of two hashes, which costs a root of as many products.
constexpr std::int64_t kMostOfOneHash = 128;
/// A logit that is never the largest.
constexpr float kNever = -1e30f;
/// Normaliser of no keys at all.
constexpr float kNone = -std::numeric_limits<float>::infinity();
/// Of rotations in evaluation; passes count theirs from 0.
constexpr std::uint64_t kFixedRotations = 0x6c73682d726f7461;
/// In the root mean square of a key.
constexpr float kEpsilon = 1e-6f;

bool drops(const Pass& pass) { return pass.training && pass.dropout > 0; }

/// Multiplies each of n values by 0 or 1 / (1 - rate), by draws from the counter `first` on.
void drop(const Pass& pass, std::uint64_t stream, std::uint64_t first, float* values,
          std::int64_t n) {
  const float keep = 1 / (1 - pass.dropout);
  const auto threshold = std::uint32_t(double(pass.dropout) * 4294967296.0);
  for (std::int64_t j = 0; j < n; j += 4) {
    const auto bits = pass.draws(stream, first + std::uint64_t(j / 4));
    const std::int64_t some = std::min<std::int64_t>(4, n - j);
    for (std::int64_t lane = 0; lane < some; ++lane) {
      values[j + lane] *= bits[std::size_t(lane)] < threshold ? 0.0f : keep;
    }
  }
}

/// values[i] ~ N(0, 1), four from each counter from `first` on.
void draw_normals(std::uint64_t seed, std::uint64_t stream, std::uint64_t first, float* values,
                  std::int64_t n) {
  for (std::int64_t i = 0; i < n; i += 4) {
    const auto bits = random_bits(seed, stream, first + std::uint64_t(i / 4));
    std::array<float, 4> four{};
    for (std::size_t pair = 0; pair < 4; pair += 2) {
      const float radius = std::sqrt(-2.0f * std::log(unit_float(bits[pair])));
      const float angle = 2.0f * std::numbers::pi_v<float> * unit_float(bits[pair + 1]);
      four[pair] = radius * std::cos(angle);
      four[pair + 1] = radius * std::sin(angle);
    }
    std::copy_n(four.data(), std::min<std::int64_t>(4, n - i), values + i);
  }
}

/// Index of the largest of (x, -x), ties to the lowest.
std::int64_t largest_of_both(const float* x, std::int64_t n) {
  float best = x[0];
  std::int64_t at = 0;
  for (std::int64_t i = 1; i < n; ++i) {
    if (x[i] > best) best = x[i], at = i;
  }
  for (std::int64_t i = 0; i < n; ++i) {
    if (-x[i] > best) best = -x[i], at = n + i;
  }
  return at;
}

/// rotated: a position's products with one round's directions.
std::int32_t bucket_of(const LshAttention::Hashing& hashing, const float* rotated) {
  const std::int64_t of_first = hashing.first / 2;
  std::int64_t bucket = largest_of_both(rotated, of_first);
  if (hashing.second > 1) {
    bucket += hashing.first * largest_of_both(rotated + of_first, hashing.second / 2);
  }
  return std::int32_t(bucket);
}

/// Replaces what the query at `position` may not see: itself, and if causal what is later.
void hide(float* row, const std::int32_t* positions, std::int64_t n, std::int32_t position,
          bool causal, float by) {
  if (causal) {
    for (std::int64_t j = 0; j < n; ++j) row[j] = positions[j] < position ? row[j] : by;
  } else {
    for (std::int64_t j = 0; j < n; ++j) row[j] = positions[j] != position ? row[j] : by;
  }
}

/// log(exp(a) + exp(b)); a may be kNone.
float log_of_sum(float a, float b) {
  return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}

template <class T>
std::int64_t size_of(const std::vector<T>& values) {
  return std::int64_t(values.capacity());
}

/// Numbers in each buffer of one thread.
std::vector<std::int64_t> sizes_of(const LshAttention::Scratch& s) {
  std::vector<std::int64_t> all;
  for (const Mat* m :
       {&s.qk, &s.unit, &s.dqk, &s.dunit, &s.rotation, &s.rotated, &s.queries, &s.outputs,
        &s.dqueries, &s.keys, &s.values, &s.dkeys, &s.dvalues, &s.scores, &s.gradient}) {
    all.push_back(m->size());
  }
  for (const std::vector<float>* v :
       {&s.inverse_lengths, &s.deltas, &s.normalizers, &s.inverse_sums}) {
    all.push_back(size_of(*v));
  }
  for (const std::vector<std::int32_t>* v : {&s.order, &s.positions}) all.push_back(size_of(*v));
  all.push_back(size_of(s.starts));
  return all;
}

std::vector<std::int64_t> sizes_of(const LshAttention::Kept& kept) {
  std::vector<std::int64_t> all = {size_of(kept.buckets), size_of(kept.normalizers), kept.o.size()};
  for (const LshAttention::Scratch& s : kept.scratch) {
    const std::vector<std::int64_t> more = sizes_of(s);
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

bool shares_bucket(const std::int32_t* a, const std::int32_t* b, std::int64_t rounds) {
  for (std::int64_t round = 0; round < rounds; ++round) {
    if (a[round] == b[round]) return true;
  }
  return false;
}

[[noreturn]] void refuse_cross_attention() {
  throw UserError(
      "attention lsh compares positions of one sequence by their shared queries and keys, which "
      "queries and keys of two sequences do not have; leave cross-attention full");
}

}  // namespace

/// One head of one example in a call.
struct LshAttention::Head {
  const Pass& pass;
  const AttentionMask& mask;
  const Kept& kept;
  std::int64_t pair, length;
  std::int64_t entries;      // of the sorted list: rounds * length
  std::int64_t view;         // most keys that a chunk sees
  std::int64_t index;        // of the head
  std::int64_t row, column;  // of its first element in q, k, v, o
  const std::uint8_t* seen;  // of its example, or null

  bool is_padding(std::int64_t position) const { return seen && !seen[position]; }
  /// Of the draws for an entry's probabilities: `view` of them, and one for its own value should it
  /// see nothing else.
  std::uint64_t counter(std::int64_t entry) const {
    return std::uint64_t((pair * entries + entry) * (view / 4 + 1));
  }
};

/// What decoded positions hashed to, and what hashes them.
struct LshAttention::Memory : LayerState {
  std::int64_t capacity = 0;
  Hashing hashing;
  std::vector<float> rotations;       // (heads, d_head, rounds * columns)
  std::vector<std::int32_t> buckets;  // (tokens * heads, capacity, rounds)
  std::vector<float> scratch;         // (tokens * heads, d_head + rounds * columns), of one step
};

std::int64_t LshAttention::Kept::largest_buffer() const {
  const std::vector<std::int64_t> all = sizes_of(*this);
  return *std::max_element(all.begin(), all.end());
}

std::int64_t LshAttention::Kept::elements() const {
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes_of(*this)) sum += size;
  return sum;
}

LshAttention::LshAttention(const ModelConfig& config)
    : heads_(config.n_heads),
      d_head_(config.d_head()),
      chunk_(config.lsh_chunk),
      rounds_(config.lsh_rounds),
      buckets_(config.lsh_buckets),
      before_(config.lsh_chunks_before),
      after_(config.lsh_chunks_after),
      seed_(config.seed) {
  SCALING_CHECK(chunk_ > 0 && rounds_ > 0 && before_ >= 0 && after_ >= 0);
  SCALING_CHECK(buckets_ >= 0 && buckets_ % 2 == 0);
}

LshAttention::Hashing LshAttention::hashing_of(std::int64_t length) const {
  const std::int64_t buckets = buckets_ ? buckets_ : 2 * std::max<std::int64_t>(1, length / chunk_);
  if (buckets <= kMostOfOneHash) return {buckets, 1};
  std::int64_t first = 2;
  while (first * first < buckets) first *= 2;
  return {first, 2 * (buckets / (2 * first))};
}

/// Entries of a chunk: no more than there are.
std::int64_t LshAttention::chunk_of(std::int64_t length) const {
  return std::min(chunk_, rounds_ * length);
}

std::int64_t LshAttention::keys_in_view(std::int64_t length) const {
  return std::min((before_ + 1 + after_) * chunk_of(length), rounds_ * length);
}

std::unique_ptr<Activations> LshAttention::make_activations() const {
  return std::make_unique<Kept>();
}

LshAttention::Head LshAttention::head_of(const Pass& pass, const AttentionMask& mask,
                                         const Kept& kept, std::int64_t pair,
                                         std::int64_t length) const {
  const std::int64_t example = pair / heads_, head = pair % heads_;
  return {pass,
          mask,
          kept,
          pair,
          length,
          rounds_ * length,
          keys_in_view(length),
          head,
          example * length,
          head * d_head_,
          mask.keys ? mask.keys + example * length : nullptr};
}

void LshAttention::size(const Head& head, bool for_backward, Scratch& s) const {
  const std::int64_t length = head.length, chunk = chunk_of(length), view = head.view;
  s.qk.resize(length, d_head_);
  s.unit.resize(length, d_head_);
  s.inverse_lengths.resize(std::size_t(length));
  s.order.resize(std::size_t(head.entries));
  s.positions.reserve(std::size_t(view));
  s.starts.resize(std::size_t(hashing_of(length).buckets() + 2));
  s.queries.resize(chunk, d_head_);
  s.keys.resize(view, d_head_);
  s.values.resize(view, d_head_);
  s.outputs.resize(chunk, d_head_);
  s.scores.resize(chunk, view);
  s.normalizers.resize(std::size_t(chunk));
  s.inverse_sums.resize(std::size_t(chunk));
  if (!for_backward) return;
  s.dqk.setZero(length, d_head_);
  s.dunit.setZero(length, d_head_);
  s.deltas.resize(std::size_t(length));
  s.gradient.resize(chunk, view);
  s.dqueries.resize(chunk, d_head_);
  s.dkeys.resize(view, d_head_);
  s.dvalues.resize(view, d_head_);
}

void LshAttention::share_projections(const Head& head, const Mat& q, const Mat& k,
                                     Scratch& s) const {
  for (std::int64_t t = 0; t < head.length; ++t) {
    const ConstRow query(q.row(head.row + t).data() + head.column, d_head_);
    const ConstRow key(k.row(head.row + t).data() + head.column, d_head_);
    Row qk(s.qk.row(t).data(), d_head_);
    qk = (query + key) * 0.5f;
    // Root mean square and the logits' 1 / sqrt(d_head) in one.
    const float inverse = 1 / std::sqrt(qk.square().sum() + float(d_head_) * kEpsilon);
    s.inverse_lengths[std::size_t(t)] = inverse;
    Row(s.unit.row(t).data(), d_head_) = qk * inverse;
  }
}

/// The index-th rotation of a stream: (d_head, rounds * columns).
void LshAttention::draw_rotation(std::uint64_t seed, std::uint64_t stream, std::int64_t index,
                                 const Hashing& hashing, float* rotation) const {
  const std::int64_t n = d_head_ * rounds_ * hashing.columns(), counters = (n + 3) / 4;
  draw_normals(seed, stream, std::uint64_t(index * counters), rotation, n);
}

/// buckets: (rounds, length).
void LshAttention::hash(const Head& head, std::int32_t* buckets, Scratch& s) const {
  const Hashing hashing = hashing_of(head.length);
  const std::int64_t columns = hashing.columns();
  s.rotation.resize(d_head_, rounds_ * columns);
  s.rotated.resize(kRowsHashedAtOnce, rounds_ * columns);
  if (head.pass.training) {
    draw_rotation(head.pass.seed, head.kept.rotation_stream, head.pair, hashing, s.rotation.data());
  } else {
    draw_rotation(seed_, kFixedRotations, head.index, hashing, s.rotation.data());
  }
  for (std::int64_t first = 0; first < head.length; first += kRowsHashedAtOnce) {
    const std::int64_t n = std::min(kRowsHashedAtOnce, head.length - first);
    s.rotated.topRows(n).noalias() = s.qk.middleRows(first, n) * s.rotation;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t t = first + i;
      const float* rotated = s.rotated.row(i).data();
      for (std::int64_t round = 0; round < rounds_; ++round) {
        buckets[round * head.length + t] = head.is_padding(t)
                                               ? std::int32_t(hashing.buckets())
                                               : bucket_of(hashing, rotated + round * columns);
      }
    }
  }
}

/// Positions of every round by bucket, those of a bucket in their own order.
void LshAttention::sort(const Head& head, const std::int32_t* buckets, Scratch& s) const {
  for (std::int64_t round = 0; round < rounds_; ++round) {
    const std::int32_t* own = buckets + round * head.length;
    std::int32_t* order = s.order.data() + round * head.length;
    std::fill(s.starts.begin(), s.starts.end(), 0);
    for (std::int64_t t = 0; t < head.length; ++t) ++s.starts[std::size_t(own[t] + 1)];
    for (std::size_t b = 1; b < s.starts.size(); ++b) s.starts[b] += s.starts[b - 1];
    for (std::int64_t t = 0; t < head.length; ++t) {
      order[s.starts[std::size_t(own[t])]++] = std::int32_t(t);
    }
  }
}

/// Queries of a chunk, and positions, keys and values that they look at. Returns the chunk's
/// entries of the sorted list; they are none after the last chunk.
Range LshAttention::gather(const Head& head, std::int64_t chunk, const Mat& v, Scratch& s) const {
  const std::int64_t n = head.entries, size = chunk_of(head.length);
  const std::int64_t chunks = (n + size - 1) / size;
  const auto entries_of = [&](std::int64_t c) {
    return Range{std::min(n, c * size), std::min(n, (c + 1) * size)};
  };
  s.positions.clear();
  const std::int64_t in_view = std::min(before_ + 1 + after_, chunks);
  for (std::int64_t i = 0; i < in_view; ++i) {
    const std::int64_t c = ((chunk - before_ + i) % chunks + chunks) % chunks;
    const Range entries = entries_of(c);
    for (std::int64_t entry = entries.begin; entry < entries.end; ++entry) {
      const std::int32_t t = s.order[std::size_t(entry)];
      if (head.is_padding(t)) continue;
      const auto at = std::int64_t(s.positions.size());
      s.positions.push_back(t);
      std::copy_n(s.unit.row(t).data(), d_head_, s.keys.row(at).data());
      std::copy_n(v.row(head.row + t).data() + head.column, d_head_, s.values.row(at).data());
    }
  }
  const Range own = entries_of(chunk);
  for (std::int64_t entry = own.begin; entry < own.end; ++entry) {
    const std::int32_t t = s.order[std::size_t(entry)];
    std::copy_n(s.qk.row(t).data(), d_head_, s.queries.row(entry - own.begin).data());
  }
  return own;
}

/// What an entry that sees nothing but itself takes of its own value.
float LshAttention::own_share(const Head& head, std::int64_t entry) const {
  float share = 1 / float(rounds_);
  if (drops(head.pass)) {
    // The lane behind those of the keys in view.
    std::array<float, 4> lanes = {share, share, share, share};
    drop(head.pass, head.kept.stream, head.counter(entry) + std::uint64_t(head.view / 4),
         lanes.data(), 4);
    share = lanes[std::size_t(head.view % 4)];
  }
  return share;
}

/// Scores of a chunk's entries to exp(score - the entry's largest), dropped out; notes the entries'
/// normalisers.
void LshAttention::softmax(const Head& head, Range entries, Scratch& s) const {
  const auto keys = std::int64_t(s.positions.size());
  for (std::int64_t i = 0; i < entries.size(); ++i) {
    const std::int32_t t = s.order[std::size_t(entries.begin + i)];
    float* scores = s.scores.row(i).data();
    Row row(scores, keys);
    hide(scores, s.positions.data(), keys, t, head.mask.causal, kNever);
    const float largest = row.maxCoeff();
    float& normalizer = s.normalizers[std::size_t(i)];
    if (largest <= kNever) {
      row.setZero();
      normalizer = kNone;
      continue;
    }
    row = (row - largest).exp();
    // The vectorised exp never quite reaches zero.
    hide(scores, s.positions.data(), keys, t, head.mask.causal, 0);
    const float sum = row.sum();
    normalizer = largest + std::log(sum);
    s.inverse_sums[std::size_t(i)] = 1 / sum;
    if (drops(head.pass)) {
      drop(head.pass, head.kept.stream, head.counter(entries.begin + i), scores, keys);
    }
  }
}

/// Adds a chunk's outputs to those of other rounds, each by its normaliser.
void LshAttention::combine(const Head& head, Range entries, const Mat& v, float* normalizers,
                           const Scratch& s, Mat& o) const {
  for (std::int64_t i = 0; i < entries.size(); ++i) {
    const std::int32_t t = s.order[std::size_t(entries.begin + i)];
    Row out(o.row(head.row + t).data() + head.column, d_head_);
    const float own = s.normalizers[std::size_t(i)];
    float& all = normalizers[t];
    if (own == kNone) {
      // Counts as long as no round has seen anything: the first that does multiplies it by zero.
      if (all != kNone || head.is_padding(t)) continue;
      const ConstRow value(v.row(head.row + t).data() + head.column, d_head_);
      out += value * own_share(head, entries.begin + i);
      continue;
    }
    const float both = log_of_sum(all, own);
    const float old_share = std::exp(all - both);
    const float new_share = std::exp(own - both) * s.inverse_sums[std::size_t(i)];
    const ConstRow more(s.outputs.row(i).data(), d_head_);
    out = out * old_share + more * new_share;
    all = both;
  }
}

void LshAttention::attend(const Head& head, const Mat& v, float* normalizers, Scratch& s,
                          Mat& o) const {
  std::fill_n(normalizers, head.length, kNone);
  o.block(head.row, head.column, head.length, d_head_).setZero();
  const std::int64_t size = chunk_of(head.length);
  for (std::int64_t chunk = 0; chunk * size < head.entries; ++chunk) {
    const Range entries = gather(head, chunk, v, s);
    const auto keys = std::int64_t(s.positions.size());
    if (keys == 0) continue;
    const std::int64_t n = entries.size();
    auto scores = s.scores.topLeftCorner(n, keys);
    scores.noalias() = s.queries.topRows(n) * s.keys.topRows(keys).transpose();
    softmax(head, entries, s);
    s.outputs.topRows(n).noalias() = scores * s.values.topRows(keys);
    combine(head, entries, v, normalizers, s, o);
  }
}

void LshAttention::forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                           const AttentionMask& mask, Activations& kept, Mat& o) const {
  if (k.rows() != q.rows()) refuse_cross_attention();
  const std::int64_t length = pass.length(q), pairs = pass.examples * heads_;
  SCALING_CHECK(q.rows() == pass.examples * length && v.rows() == q.rows());
  SCALING_CHECK(length <= std::numeric_limits<std::int32_t>::max());
  SCALING_CHECK(q.cols() == heads_ * d_head_ && k.cols() == q.cols() && v.cols() == q.cols());
  auto& own = static_cast<Kept&>(kept);
  own.take_stream(pass);
  const auto decisions = std::size_t(pairs * rounds_ * length);
  if (pass.replay) {
    SCALING_CHECK(own.buckets.size() == decisions);
  } else {
    own.rotation_stream = pass.new_stream();
    own.buckets.resize(decisions);
  }
  own.normalizers.resize(std::size_t(pairs * length));
  own.o.resize(q.rows(), q.cols());
  if (own.scratch.size() < std::size_t(pairs)) own.scratch.resize(std::size_t(pairs));
  o.resize(q.rows(), q.cols());
  parallel_for(pairs, [&](std::int64_t begin, std::int64_t end) {
    Scratch& s = own.scratch[std::size_t(begin)];
    for (std::int64_t pair = begin; pair < end; ++pair) {
      const Head head = head_of(pass, mask, own, pair, length);
      std::int32_t* buckets = own.buckets.data() + pair * rounds_ * length;
      size(head, /*for_backward=*/false, s);
      share_projections(head, q, k, s);
      if (!pass.replay) hash(head, buckets, s);
      sort(head, buckets, s);
      attend(head, v, own.normalizers.data() + pair * length, s, o);
      own.o.block(head.row, head.column, length, d_head_) =
          o.block(head.row, head.column, length, d_head_);
    }
  });
}

/// Scores to probabilities of all rounds together, after dropout; `gradient` from that of those to
/// that of the scores.
void LshAttention::softmax_backward(const Head& head, Range entries, const float* normalizers,
                                    Scratch& s, const Mat& do_, Mat& dv) const {
  const auto keys = std::int64_t(s.positions.size());
  for (std::int64_t i = 0; i < entries.size(); ++i) {
    const std::int64_t entry = entries.begin + i;
    const std::int32_t t = s.order[std::size_t(entry)];
    float* scores = s.scores.row(i).data();
    float* gradients = s.gradient.row(i).data();
    Row p(scores, keys), g(gradients, keys);
    if (normalizers[t] == kNone) {
      p.setZero();
      g.setZero();
      if (head.is_padding(t)) continue;
      const ConstRow dout(do_.row(head.row + t).data() + head.column, d_head_);
      Row(dv.row(head.row + t).data() + head.column, d_head_) += dout * own_share(head, entry);
      continue;
    }
    p = (p - normalizers[t]).exp();
    hide(scores, s.positions.data(), keys, t, head.mask.causal, 0);
    const std::uint64_t counter = head.counter(entry);
    if (drops(head.pass)) drop(head.pass, head.kept.stream, counter, gradients, keys);
    g = p * (g - s.deltas[std::size_t(t)]);
    if (drops(head.pass)) drop(head.pass, head.kept.stream, counter, scores, keys);
  }
}

/// Adds to s.dqk (of queries), s.dunit and dv.
void LshAttention::attend_backward(const Head& head, const Mat& v, const float* normalizers,
                                   Scratch& s, const Mat& do_, Mat& dv) const {
  dv.block(head.row, head.column, head.length, d_head_).setZero();
  const std::int64_t size = chunk_of(head.length);
  for (std::int64_t chunk = 0; chunk * size < head.entries; ++chunk) {
    const Range entries = gather(head, chunk, v, s);
    const auto keys = std::int64_t(s.positions.size());
    if (keys == 0) continue;
    const std::int64_t n = entries.size();
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int32_t t = s.order[std::size_t(entries.begin + i)];
      std::copy_n(do_.row(head.row + t).data() + head.column, d_head_, s.outputs.row(i).data());
    }
    const auto queries = s.queries.topRows(n), dout = s.outputs.topRows(n);
    auto scores = s.scores.topLeftCorner(n, keys);
    auto gradient = s.gradient.topLeftCorner(n, keys);
    scores.noalias() = queries * s.keys.topRows(keys).transpose();
    gradient.noalias() = dout * s.values.topRows(keys).transpose();
    softmax_backward(head, entries, normalizers, s, do_, dv);
    s.dvalues.topRows(keys).noalias() = scores.transpose() * dout;
    s.dqueries.topRows(n).noalias() = gradient * s.keys.topRows(keys);
    s.dkeys.topRows(keys).noalias() = gradient.transpose() * queries;
    for (std::int64_t i = 0; i < n; ++i) {
      s.dqk.row(s.order[std::size_t(entries.begin + i)]) += s.dqueries.row(i);
    }
    for (std::int64_t j = 0; j < keys; ++j) {
      const std::int32_t t = s.positions[std::size_t(j)];
      s.dunit.row(t) += s.dkeys.row(j);
      Row(dv.row(head.row + t).data() + head.column, d_head_) +=
          ConstRow(s.dvalues.row(j).data(), d_head_);
    }
  }
}

/// Through the key's length: with r its inverse and u = r qk, dqk += r du - r^3 (qk . du) qk. Half
/// of the sum is each projection's.
void LshAttention::unshare_projections(const Head& head, const Scratch& s, Mat& dq, Mat& dk) const {
  for (std::int64_t t = 0; t < head.length; ++t) {
    const ConstRow qk(s.qk.row(t).data(), d_head_), dunit(s.dunit.row(t).data(), d_head_);
    const ConstRow unit(s.unit.row(t).data(), d_head_), dqk(s.dqk.row(t).data(), d_head_);
    const float r = s.inverse_lengths[std::size_t(t)];
    const float along = (unit * dunit).sum();
    Row query(dq.row(head.row + t).data() + head.column, d_head_);
    query = (dqk + (dunit - unit * along) * r) * 0.5f;
    Row(dk.row(head.row + t).data() + head.column, d_head_) = query;
  }
}

void LshAttention::backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                            const AttentionMask& mask, Activations& kept, const Mat& do_, Mat& dq,
                            Mat& dk, Mat& dv) const {
  const std::int64_t length = pass.length(q), pairs = pass.examples * heads_;
  auto& own = static_cast<Kept&>(kept);
  SCALING_CHECK(own.buckets.size() == std::size_t(pairs * rounds_ * length));
  SCALING_CHECK(own.o.rows() == q.rows() && do_.rows() == q.rows() && do_.cols() == q.cols());
  dq.resize(q.rows(), q.cols());
  dk.resize(q.rows(), q.cols());
  dv.resize(q.rows(), q.cols());
  parallel_for(pairs, [&](std::int64_t begin, std::int64_t end) {
    Scratch& s = own.scratch[std::size_t(begin)];
    for (std::int64_t pair = begin; pair < end; ++pair) {
      const Head head = head_of(pass, mask, own, pair, length);
      size(head, /*for_backward=*/true, s);
      share_projections(head, q, k, s);
      sort(head, own.buckets.data() + pair * rounds_ * length, s);
      for (std::int64_t t = 0; t < length; ++t) {
        const ConstRow out(own.o.row(head.row + t).data() + head.column, d_head_);
        const ConstRow dout(do_.row(head.row + t).data() + head.column, d_head_);
        s.deltas[std::size_t(t)] = (out * dout).sum();
      }
      attend_backward(head, v, own.normalizers.data() + pair * length, s, do_, dv);
      unshare_projections(head, s, dq, dk);
    }
  });
}

// -- decoding -------------------------------------------------------------------------------------

std::int64_t LshAttention::workspace_floats(int, int threads) const {
  return threads * 2 * padded(slots() * d_head_);
}

std::unique_ptr<LayerState> LshAttention::make_memory(int tokens, std::int64_t capacity) const {
  auto memory = std::make_unique<Memory>();
  memory->capacity = capacity;
  memory->hashing = hashing_of(capacity);
  const std::int64_t columns = rounds_ * memory->hashing.columns(), units = tokens * heads_;
  memory->rotations.resize(std::size_t(heads_ * d_head_ * columns));
  for (std::int64_t head = 0; head < heads_; ++head) {
    draw_rotation(seed_, kFixedRotations, head, memory->hashing,
                  memory->rotations.data() + head * d_head_ * columns);
  }
  memory->buckets.resize(std::size_t(units * capacity * rounds_));
  Rng rng(seed_, kFixedRotations + 1);
  for (std::int32_t& bucket : memory->buckets) {
    bucket = std::int32_t(rng.below(std::uint32_t(memory->hashing.buckets())));
  }
  memory->scratch.resize(std::size_t(units * (d_head_ + columns)));
  return memory;
}

/// unit: token * heads + head; q, k, v, o: of this head.
void LshAttention::step_head(const StepContext& ctx, KeyValueCache& cache, Memory& memory,
                             std::int64_t unit, const float* q, const float* k, const float* v,
                             float* o) const {
  const std::int64_t position = ctx.position, head = unit % heads_, slots_left = slots() - 1;
  const std::int64_t of_round = memory.hashing.columns(), columns = rounds_ * of_round;
  const int token = int(unit / heads_);
  float* keys = cache.keys_of(token, head);
  float* values = cache.values_of(token, head);
  float* qk = memory.scratch.data() + unit * (d_head_ + columns);
  float* rotated = qk + d_head_;
  const float* rotation = memory.rotations.data() + head * d_head_ * columns;

  float squares = 0;
  for (std::int64_t i = 0; i < d_head_; ++i) {
    qk[i] = (q[i] + k[i]) * 0.5f;
    squares += qk[i] * qk[i];
  }
  // The kernel divides logits by sqrt(d_head).
  const float inverse = 1 / std::sqrt(squares / float(d_head_) + kEpsilon);
  for (std::int64_t i = 0; i < d_head_; ++i) keys[position * d_head_ + i] = qk[i] * inverse;
  std::copy_n(v, d_head_, values + position * d_head_);

  std::fill_n(rotated, columns, 0.0f);
  for (std::int64_t i = 0; i < d_head_; ++i) {
    const float* direction = rotation + i * columns;
    for (std::int64_t c = 0; c < columns; ++c) rotated[c] += qk[i] * direction[c];
  }
  std::int32_t* all_buckets = memory.buckets.data() + unit * cache.capacity * rounds_;
  std::int32_t* buckets = all_buckets + position * rounds_;
  for (std::int64_t round = 0; round < rounds_; ++round) {
    buckets[round] = bucket_of(memory.hashing, rotated + round * of_round);
  }

  const std::int64_t others = std::min(slots_left, position);
  float* scores = cache.scores_of(token, head);
  if (others == 0) {
    std::copy_n(v, d_head_, o);
    return;
  }
  if (others == position) {
    ctx.kernels.attend(qk, keys, values, position, d_head_, scores, o);
    return;
  }
  float* chosen_keys = ctx.workspace + ctx.thread * 2 * padded(slots() * d_head_);
  float* chosen_values = chosen_keys + padded(slots() * d_head_);
  std::int64_t n = 0;
  for (const bool alike : {true, false}) {
    for (std::int64_t at = position - 1; at >= 0 && n < others; --at) {
      if (shares_bucket(all_buckets + at * rounds_, buckets, rounds_) != alike) continue;
      std::copy_n(keys + at * d_head_, d_head_, chosen_keys + n * d_head_);
      std::copy_n(values + at * d_head_, d_head_, chosen_values + n * d_head_);
      ++n;
    }
  }
  ctx.kernels.attend(qk, chosen_keys, chosen_values, n, d_head_, scores, o);
}

void LshAttention::step(const StepContext& ctx, KeyValueCache& cache, const float* q,
                        const float* k, const float* v, float* o) const {
  SCALING_CHECK(ctx.position < cache.capacity && cache.more != nullptr);
  auto& memory = static_cast<Memory&>(*cache.more);
  SCALING_CHECK(memory.capacity == cache.capacity);
  const Range share = ctx.share(ctx.tokens * heads_);
  for (std::int64_t unit = share.begin; unit < share.end; ++unit) {
    const std::int64_t at = unit * d_head_;
    step_head(ctx, cache, memory, unit, q + at, k + at, v + at, o + at);
  }
  ctx.sync();
}

void LshAttention::step_fixed(const StepContext&, KeyValueCache&, std::int64_t, const float*,
                              float*) const {
  refuse_cross_attention();
}

Cost LshAttention::step_cost(int tokens, std::int64_t length) const {
  const double width = double(heads_ * d_head_), chosen = double(std::min(slots(), length));
  const double directions = width * double(rounds_ * hashing_of(length).columns());
  // While all fit, nobody looks at buckets.
  const double compared = length > slots() ? double(rounds_ * heads_ * length) * tokens : 0;
  const double cached = 2 * chosen * width * tokens;
  return {
      {"attention", 0, 4 * (cached + compared + directions), 2 * cached + 2 * directions * tokens}};
}

}  // namespace scaling
