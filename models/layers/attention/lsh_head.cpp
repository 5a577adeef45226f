// Queries and keys of a chunk go by position, so that under a causal mask a query sees a first part
// of the keys, and what is beyond is neither multiplied nor exponentiated. All rounds are one
// softmax, brought together as they come; backward recomputes probabilities from its normalisers.
#include "models/layers/attention/lsh_head.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "models/layers/parts/partial_sums.h"
#include "models/layers/parts/product.h"

namespace scaling {
namespace {

using Row = Eigen::Map<Eigen::ArrayXf>;
using ConstRow = Eigen::Map<const Eigen::ArrayXf>;

constexpr std::int64_t kRowsHashedAtOnce = 256;
/// Fewer skip more of what is masked, more make better products.
constexpr std::int64_t kQueriesAtOnce = 64;
/// A logit that is never the largest.
constexpr float kNever = -1e30f;
/// Normaliser of no keys at all.
constexpr float kNone = -std::numeric_limits<float>::infinity();

/// log(exp(a) + exp(b)); a may be kNone.
float log_of_sum(float a, float b) {
  return std::max(a, b) + std::log1p(std::exp(-std::abs(a - b)));
}

template <class T>
std::int64_t size_of(const std::vector<T>& values) {
  return std::int64_t(values.capacity());
}

}  // namespace

void LshHead::load(const HeadBlock& q, const HeadBlock& k, const HeadBlock& v) {
  const std::int64_t length = q.rows(), d = q.cols();
  qk_.resize(length, d);
  unit_.resize(length, d);
  inverse_lengths_.resize(std::size_t(length));
  v_ = v;
  qk_ = (q + k) * 0.5f;
  for (std::int64_t t = 0; t < length; ++t) {
    // Root mean square and the logits' 1 / sqrt(d_head) in one.
    const float inverse = 1 / std::sqrt(qk_.row(t).squaredNorm() + float(d) * kLshEpsilon);
    inverse_lengths_[std::size_t(t)] = inverse;
    unit_.row(t) = qk_.row(t) * inverse;
  }
}

float* LshHead::rotation(const LshCall& call) {
  rotation_.resize(qk_.cols(), call.cut.rounds * call.hashing.columns());
  return rotation_.data();
}

void LshHead::hash(const LshCall& call) {
  const std::int64_t length = call.cut.length, columns = call.hashing.columns();
  rotated_.resize(kRowsHashedAtOnce, rotation_.cols());
  for (std::int64_t first = 0; first < length; first += kRowsHashedAtOnce) {
    const std::int64_t n = std::min(kRowsHashedAtOnce, length - first);
    rotated_.topRows(n).noalias() = qk_.middleRows(first, n) * rotation_;
    for (std::int64_t i = 0; i < n; ++i) {
      const std::int64_t t = first + i;
      const bool is_padding = call.seen && !call.seen[t];
      for (std::int64_t round = 0; round < call.cut.rounds; ++round) {
        call.buckets[round * length + t] =
            is_padding ? std::int32_t(call.hashing.buckets())
                       : bucket_of(call.hashing, rotated_.row(i).data() + round * columns);
      }
    }
  }
}

void LshHead::size(const LshCall& call, bool for_backward) {
  const std::int64_t d = qk_.cols(), chunk = call.cut.chunk, view = call.cut.view();
  const std::int64_t at_once = std::min(kQueriesAtOnce, chunk);
  key_positions_.reserve(std::size_t(view));
  sights_.resize(std::size_t(chunk));
  queries_.resize(chunk, d);
  keys_.resize(view, d);
  values_.resize(view, d);
  outputs_.resize(chunk, d);
  scores_.resize(at_once, padded(view));
  normalizers_.resize(std::size_t(chunk));
  inverse_sums_.resize(std::size_t(chunk));
  if (!for_backward) return;
  deltas_.resize(std::size_t(call.cut.length));
  gradient_.resize(at_once, padded(view));
  dqueries_.resize(chunk, d);
  dkeys_.resize(view, d);
  dvalues_.resize(view, d);
}

void LshHead::sort(const LshCall& call) {
  const std::int64_t buckets = call.hashing.buckets() + 1;
  if (call.adjusts()) {
    chunks_.sort_with_codes(call.cut, call.buckets, buckets);
  } else {
    chunks_.sort(call.cut, call.buckets, buckets);
  }
}

/// Queries of a chunk, keys and values in their view, and who sees whom.
void LshHead::gather(const LshCall& call, std::int64_t chunk) {
  query_positions_ = chunks_.positions_of(chunk);
  if (call.adjusts()) {
    query_codes_ = chunks_.codes_of(chunk);
    chunks_.collect_view(chunk, call.seen, key_positions_, key_codes_);
  } else {
    chunks_.collect_view(chunk, call.seen, key_positions_);
  }
  const std::int64_t d = qk_.cols();
  for (std::size_t j = 0; j < key_positions_.size(); ++j) {
    const std::int32_t t = key_positions_[j];
    std::copy_n(unit_.row(t).data(), d, keys_.row(std::int64_t(j)).data());
    std::copy_n(v_.row(t).data(), d, values_.row(std::int64_t(j)).data());
  }
  for (std::size_t i = 0; i < query_positions_.size(); ++i) {
    const std::int32_t t = query_positions_[i];
    std::copy_n(qk_.row(t).data(), d, queries_.row(std::int64_t(i)).data());
    const auto [begin, end] = std::equal_range(key_positions_.begin(), key_positions_.end(), t);
    const auto hidden = std::int32_t(begin - key_positions_.begin());
    if (call.causal) {
      sights_[i] = {hidden, hidden, hidden};
    } else {
      sights_[i] = {hidden, std::int32_t(end - key_positions_.begin()),
                    std::int32_t(key_positions_.size())};
    }
  }
}

LshHead::Group LshHead::group_of(std::int64_t first) const {
  const std::int64_t size = std::min(kQueriesAtOnce, std::int64_t(query_positions_.size()) - first);
  return {first, size, sights_[std::size_t(first + size - 1)].end};
}

/// Drops some of an entry's probabilities; behind those of its keys is one for its own value.
void LshHead::drop_row(const LshCall& call, std::int64_t entry, std::int64_t keys,
                       float* row) const {
  const std::int64_t elements = call.cut.view() + 1;
  drop(call.pass, call.stream, (call.index * call.cut.entries() + entry) * elements, keys, row);
}

/// What an entry that sees nothing but itself takes of its own value.
float LshHead::own_share(const LshCall& call, std::int64_t entry) const {
  float share = 1 / float(call.cut.rounds);
  const std::int64_t elements = call.cut.view() + 1;
  drop(call.pass, call.stream, (call.index * call.cut.entries() + entry + 1) * elements - 1, 1,
       &share);
  return share;
}

/// Of a query's scores: those of keys that it does not meet, and what is taken off others because
/// they are met again.
void LshHead::adjust(const LshCall& call, std::int64_t i, float* scores) const {
  if (!call.adjusts()) return;
  const bool alike = call.graph == LshGraph::buckets;
  const std::int64_t t = query_at(i);
  for (std::int32_t j = 0; j < sights_[std::size_t(i)].end; ++j) {
    const auto key = std::size_t(j);
    if (alike && key_codes_[key] != query_codes_[std::size_t(i)]) {
      scores[j] = kNever;
    } else if (call.count == LshCount::once) {
      const std::int64_t times = chunks_.times_met(t, key_positions_[key], alike);
      if (times > 1) scores[j] -= std::log(float(times));
    }
  }
}

/// The vectorised exp never quite reaches zero.
void LshHead::clear_others(const LshCall& call, std::int64_t i, float* values) const {
  if (call.graph != LshGraph::buckets) return;
  for (std::int32_t j = 0; j < sights_[std::size_t(i)].end; ++j) {
    if (key_codes_[std::size_t(j)] != query_codes_[std::size_t(i)]) values[j] = 0;
  }
}

/// Scores of a group to exp(score - the query's largest), dropped out; notes normalisers.
void LshHead::softmax(const LshCall& call, std::int64_t first_entry, const Group& group) {
  for (std::int64_t row = 0; row < group.size; ++row) {
    const std::int64_t i = group.first + row;
    const Sight& sight = sights_[std::size_t(i)];
    float* scores = scores_.row(row).data();
    float& normalizer = normalizers_[std::size_t(i)];
    // Whole vectors: what hangs over is hidden too.
    Row whole(scores, padded(sight.end));
    adjust(call, i, scores);
    std::fill(scores + sight.hidden, scores + sight.hidden_end, kNever);
    std::fill(scores + sight.end, scores + whole.size(), kNever);
    const float largest = sight.end > 0 ? whole.maxCoeff() : kNever;
    if (largest <= kNever) {
      std::fill_n(scores, group.keys, 0.0f);
      normalizer = kNone;
      continue;
    }
    whole = (whole - largest).exp();
    // The vectorised exp never quite reaches zero.
    std::fill(scores + sight.hidden, scores + sight.hidden_end, 0.0f);
    std::fill(scores + sight.end, scores + std::max(whole.size(), group.keys), 0.0f);
    clear_others(call, i, scores);
    const float sum = whole.sum();
    normalizer = largest + std::log(sum);
    inverse_sums_[std::size_t(i)] = 1 / sum;
    drop_row(call, first_entry + i, sight.end, scores);
  }
}

/// Adds a chunk's outputs to those of other rounds, each by its normaliser.
void LshHead::combine(const LshCall& call, std::int64_t first_entry, float* normalizers) {
  const std::int64_t d = o_.cols();
  for (std::int64_t i = 0; i < std::int64_t(query_positions_.size()); ++i) {
    const std::int64_t t = query_at(i);
    Row out(o_.row(t).data(), d);
    const float own = normalizers_[std::size_t(i)];
    float& all = normalizers[t];
    if (own == kNone) {
      // Counts as long as no round has seen anything: the first that does multiplies it by zero.
      if (all != kNone || (call.seen && !call.seen[t])) continue;
      out += ConstRow(v_.row(t).data(), d) * own_share(call, first_entry + i);
      continue;
    }
    const float both = log_of_sum(all, own);
    const float old_share = std::exp(all - both);
    const float new_share = std::exp(own - both) * inverse_sums_[std::size_t(i)];
    out = out * old_share + ConstRow(outputs_.row(i).data(), d) * new_share;
    all = both;
  }
}

void LshHead::forward(const LshCall& call, float* normalizers) {
  size(call, /*for_backward=*/false);
  sort(call);
  std::fill_n(normalizers, call.cut.length, kNone);
  const std::int64_t d = qk_.cols(), width = scores_.cols();
  o_.setZero(call.cut.length, d);
  for (std::int64_t chunk = 0; chunk < call.cut.chunks(); ++chunk) {
    const Range entries = chunks_.entries_of(chunk);
    gather(call, chunk);
    for (std::int64_t first = 0; first < entries.size(); first += kQueriesAtOnce) {
      const Group group = group_of(first);
      if (group.keys > 0) {
        call.pass.gemm.product(false, true, group.size, group.keys, d, queries_.row(first).data(),
                               d, keys_.data(), d, 0, scores_.data(), width);
      }
      softmax(call, entries.begin, group);
      if (group.keys > 0) {
        call.pass.gemm.product(false, false, group.size, d, group.keys, scores_.data(), width,
                               values_.data(), d, 0, outputs_.row(first).data(), d);
      }
    }
    combine(call, entries.begin, normalizers);
  }
}

/// Scores to probabilities of all rounds together, after dropout; the gradient of those to that of
/// the scores.
void LshHead::softmax_backward(const LshCall& call, std::int64_t first_entry, const Group& group,
                               const float* normalizers) {
  const std::int64_t d = qk_.cols();
  for (std::int64_t row = 0; row < group.size; ++row) {
    const std::int64_t i = group.first + row, t = query_at(i);
    const Sight& sight = sights_[std::size_t(i)];
    float* scores = scores_.row(row).data();
    float* gradients = gradient_.row(row).data();
    if (normalizers[t] == kNone) {
      std::fill_n(scores, group.keys, 0.0f);
      std::fill_n(gradients, group.keys, 0.0f);
      if (call.seen && !call.seen[t]) continue;
      Row(dv_.row(t).data(), d) +=
          ConstRow(dout_.row(t).data(), d) * own_share(call, first_entry + i);
      continue;
    }
    const std::int64_t whole = padded(sight.end);
    Row p(scores, whole), g(gradients, whole);
    adjust(call, i, scores);
    std::fill(scores + sight.hidden, scores + sight.hidden_end, kNever);
    std::fill(scores + sight.end, scores + whole, kNever);
    std::fill(gradients + sight.end, gradients + whole, 0.0f);
    p = (p - normalizers[t]).exp();
    std::fill(scores + sight.hidden, scores + sight.hidden_end, 0.0f);
    clear_others(call, i, scores);
    drop_row(call, first_entry + i, sight.end, gradients);
    g = p * (g - deltas_[std::size_t(t)]);
    drop_row(call, first_entry + i, sight.end, scores);
    std::fill(scores + sight.end, scores + std::max(whole, group.keys), 0.0f);
    std::fill(gradients + sight.end, gradients + std::max(whole, group.keys), 0.0f);
  }
}

/// dqueries of a group; dkeys and dvalues of what it sees, overwritten by a chunk's first group.
void LshHead::group_backward(const LshCall& call, std::int64_t first_entry, const Group& group,
                             bool is_first, const float* normalizers) {
  const std::int64_t d = qk_.cols(), width = scores_.cols(), n = group.size, keys = group.keys;
  const float* queries = queries_.row(group.first).data();
  const float* dout = outputs_.row(group.first).data();
  float* dqueries = dqueries_.row(group.first).data();
  const GemmFunction product = call.pass.gemm.product;
  if (keys > 0) {
    product(false, true, n, keys, d, queries, d, keys_.data(), d, 0, scores_.data(), width);
    product(false, true, n, keys, d, dout, d, values_.data(), d, 0, gradient_.data(), width);
  }
  softmax_backward(call, first_entry, group, normalizers);
  if (keys == 0) {
    std::fill_n(dqueries, n * d, 0.0f);
    return;
  }
  const float beta = is_first ? 0.0f : 1.0f;
  product(true, false, keys, d, n, scores_.data(), width, dout, d, beta, dvalues_.data(), d);
  product(false, false, n, d, keys, gradient_.data(), width, keys_.data(), d, 0, dqueries, d);
  product(true, false, keys, d, n, gradient_.data(), width, queries, d, beta, dkeys_.data(), d);
}

/// Gradients of a chunk's queries and of its first `keys` keys to where they came from.
void LshHead::scatter(std::int64_t keys) {
  for (std::int64_t i = 0; i < std::int64_t(query_positions_.size()); ++i) {
    dqk_.row(query_at(i)) += dqueries_.row(i);
  }
  for (std::int64_t j = 0; j < keys; ++j) {
    const std::int32_t t = key_positions_[std::size_t(j)];
    dunit_.row(t) += dkeys_.row(j);
    dv_.row(t) += dvalues_.row(j);
  }
}

/// Through the keys' lengths: with r an inverse length and u = r qk, dqk += r du - r^3 (qk . du)
/// qk. Half of the sum is each projection's.
void LshHead::backward_of_lengths() {
  for (std::int64_t t = 0; t < qk_.rows(); ++t) {
    const float r = inverse_lengths_[std::size_t(t)];
    const float along = unit_.row(t).dot(dunit_.row(t));
    dqk_.row(t) = (dqk_.row(t) + (dunit_.row(t) - unit_.row(t) * along) * r) * 0.5f;
  }
}

void LshHead::backward(const LshCall& call, const HeadBlock& o, const HeadBlock& dout,
                       const float* normalizers) {
  size(call, /*for_backward=*/true);
  sort(call);
  const std::int64_t length = call.cut.length, d = qk_.cols();
  dout_ = dout;
  for (std::int64_t t = 0; t < length; ++t) deltas_[std::size_t(t)] = o.row(t).dot(dout_.row(t));
  for (Mat* sum : {&dqk_, &dunit_, &dv_}) sum->setZero(length, d);
  for (std::int64_t chunk = 0; chunk < call.cut.chunks(); ++chunk) {
    const Range entries = chunks_.entries_of(chunk);
    gather(call, chunk);
    for (std::int64_t i = 0; i < entries.size(); ++i) {
      std::copy_n(dout_.row(query_at(i)).data(), d, outputs_.row(i).data());
    }
    // The last group sees the most keys, so the others can add to what it has written.
    const std::int64_t last = (entries.size() - 1) / kQueriesAtOnce * kQueriesAtOnce;
    for (std::int64_t first = last; first >= 0; first -= kQueriesAtOnce) {
      group_backward(call, entries.begin, group_of(first), first == last, normalizers);
    }
    scatter(group_of(last).keys);
  }
  backward_of_lengths();
}

double LshHead::floats(const LshCut& cut, const LshHashing& hashing, std::int64_t d, bool adjusts) {
  const std::int64_t columns = cut.rounds * hashing.columns(), view = cut.view();
  // Rows, their gradients and what they are divided by; positions in the order of all rounds.
  const std::int64_t of_sequence = cut.length * (8 * d + 2) + cut.entries();
  const std::int64_t of_chunk = (3 * cut.chunk + 4 * view) * d + view +
                                2 * std::min(kQueriesAtOnce, cut.chunk) * padded(view);
  // Codes and chunks of all entries; codes, and pairs while they are sorted, of a view.
  const std::int64_t of_codes = adjusts ? 3 * cut.entries() + 6 * view : 0;
  return double(of_sequence + of_chunk + of_codes + (d + kRowsHashedAtOnce) * columns);
}

std::vector<std::int64_t> LshHead::sizes() const {
  std::vector<std::int64_t> all = {chunks_.elements(), size_of(key_positions_), size_of(key_codes_),
                                   3 * size_of(sights_)};
  for (const Mat* m :
       {&qk_, &unit_, &v_, &o_, &dout_, &dqk_, &dunit_, &dv_, &rotation_, &rotated_, &queries_,
        &outputs_, &dqueries_, &keys_, &values_, &dkeys_, &dvalues_, &scores_, &gradient_}) {
    all.push_back(m->size());
  }
  for (const std::vector<float>* v : {&inverse_lengths_, &deltas_, &normalizers_, &inverse_sums_}) {
    all.push_back(size_of(*v));
  }
  return all;
}

}  // namespace scaling
