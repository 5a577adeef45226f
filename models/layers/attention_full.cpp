// Heads of all tokens (in training: of all examples) are shared among the threads; a head's cache
// is read by one thread only.
#include "models/layers/attention_full.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "kernels/check.h"
#include "kernels/parallel.h"
#include "models/layers/product.h"

namespace scaling {
namespace {

/// Queries of one head that go through together: under a causal mask keys after the last of them
/// are not looked at.
constexpr std::int64_t kQueriesAtOnce = 64;
constexpr float kMasked = -1e9f;

/// (kQueriesAtOnce, keys): probabilities after dropout, and their gradient.
struct Scratch {
  Mat dropped, gradient;
};

struct AttentionActivations : Activations {
  Mat probabilities;  // (examples * heads * queries, keys), before dropout
  /// A thread uses the one at its first pair of example and head, so only a few are ever sized.
  std::vector<Scratch> scratch;
  void reserve(std::int64_t pairs) {
    if (scratch.size() < std::size_t(pairs)) scratch.resize(std::size_t(pairs));
  }
};

/// Draws for every element of (rows, row_length); values' rows start at first_row.
template <class Rows>
void drop_rows(const Pass& pass, std::uint64_t stream, std::int64_t first_row, Rows& values,
               std::int64_t row_length) {
  for (std::int64_t i = 0; i < values.rows(); ++i) {
    drop(pass, stream, (first_row + i) * row_length, values.cols(), values.row(i).data());
  }
}

/// Unscaled logits to probabilities: of `visible` keys, those not `seen` (null: all are) masked;
/// zero for the rest of `all`.
void softmax(float* row, std::int64_t visible, std::int64_t all, const std::uint8_t* seen,
             float scale) {
  for (std::int64_t j = 0; seen && j < visible; ++j) row[j] = seen[j] ? row[j] : kMasked;
  Eigen::Map<Eigen::ArrayXf> logits(row, visible);
  const float largest = logits.maxCoeff();
  logits = ((logits - largest) * scale).exp();
  // The vectorised exp never quite reaches zero.
  for (std::int64_t j = 0; seen && largest > kMasked && j < visible; ++j) {
    row[j] = seen[j] ? row[j] : 0.0f;
  }
  logits /= logits.sum();
  std::fill(row + visible, row + all, 0.0f);
}

/// g: gradient of the probabilities a to that of the products of query and keys.
void softmax_backward(const float* a, float* g, std::int64_t visible, std::int64_t all,
                      const std::uint8_t* seen, float scale) {
  const Eigen::Map<const Eigen::ArrayXf> p(a, visible);
  Eigen::Map<Eigen::ArrayXf> gradient(g, visible);
  const float mean = (p * gradient).sum();
  gradient = p * (gradient - mean) * scale;
  // A replaced logit passes nothing back, even where nothing but masked keys was there to look at.
  for (std::int64_t j = 0; seen && j < visible; ++j) g[j] = seen[j] ? g[j] : 0.0f;
  std::fill(g + visible, g + all, 0.0f);
}

}  // namespace

KeyValueCache::KeyValueCache(int tokens_, std::int64_t heads_, std::int64_t capacity_,
                             std::int64_t d_head_)
    : tokens(tokens_), heads(heads_), capacity(capacity_), d_head(d_head_) {
  const std::size_t positions = std::size_t(tokens * heads * capacity);
  keys.resize(positions * std::size_t(d_head));
  values.resize(positions * std::size_t(d_head));
  scores.resize(positions);
}

float* KeyValueCache::keys_of(int token, std::int64_t head) {
  return keys.data() + (token * heads + head) * capacity * d_head;
}

float* KeyValueCache::values_of(int token, std::int64_t head) {
  return values.data() + (token * heads + head) * capacity * d_head;
}

float* KeyValueCache::scores_of(int token, std::int64_t head) {
  return scores.data() + (token * heads + head) * capacity;
}

FullAttention::FullAttention(const ModelConfig& config)
    : heads_(config.n_heads), d_head_(config.d_head()) {}

std::unique_ptr<Activations> FullAttention::make_activations() const {
  return std::make_unique<AttentionActivations>();
}

void FullAttention::forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                            const AttentionMask& mask, Activations& kept, Mat& o) const {
  const std::int64_t queries = pass.length(q), keys = pass.length(k);
  const std::int64_t pairs = pass.examples * heads_;
  SCALING_CHECK(q.rows() == pass.examples * queries && k.rows() == pass.examples * keys);
  SCALING_CHECK(v.rows() == k.rows() && (!mask.causal || queries == keys));
  SCALING_CHECK(q.cols() == heads_ * d_head_ && k.cols() == q.cols() && v.cols() == q.cols());
  auto& own = static_cast<AttentionActivations&>(kept);
  own.take_stream(pass);
  own.probabilities.resize(pairs * queries, keys);
  own.reserve(pairs);
  o.resize(q.rows(), q.cols());
  const float scale = 1 / std::sqrt(float(d_head_));
  parallel_for(pairs, [&](std::int64_t begin, std::int64_t end) {
    Scratch& scratch = own.scratch[std::size_t(begin)];
    for (std::int64_t pair = begin; pair < end; ++pair) {
      const std::int64_t example = pair / heads_, at = pair % heads_ * d_head_;
      const std::uint8_t* seen = mask.keys ? mask.keys + example * keys : nullptr;
      for (std::int64_t first = 0; first < queries; first += kQueriesAtOnce) {
        const std::int64_t n = std::min(kQueriesAtOnce, queries - first);
        const std::int64_t some_keys = mask.causal ? first + n : keys;
        const auto key_rows = k.block(example * keys, at, some_keys, d_head_);
        auto a = own.probabilities.block(pair * queries + first, 0, n, some_keys);
        a.noalias() = q.block(example * queries + first, at, n, d_head_) * key_rows.transpose();
        for (std::int64_t i = 0; i < n; ++i) {
          const std::int64_t visible = mask.causal ? first + i + 1 : keys;
          softmax(a.row(i).data(), visible, some_keys, seen, scale);
        }
        auto out = o.block(example * queries + first, at, n, d_head_);
        const auto value_rows = v.block(example * keys, at, some_keys, d_head_);
        if (pass.drops()) {
          scratch.dropped.resize(kQueriesAtOnce, keys);
          auto dropped = scratch.dropped.topLeftCorner(n, some_keys);
          dropped = a;
          drop_rows(pass, own.stream, pair * queries + first, dropped, keys);
          out.noalias() = dropped * value_rows;
        } else {
          out.noalias() = a * value_rows;
        }
      }
    }
  });
}

void FullAttention::backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                             const AttentionMask& mask, Activations& kept, const Mat& do_, Mat& dq,
                             Mat& dk, Mat& dv) const {
  const std::int64_t queries = pass.length(q), keys = pass.length(k);
  const std::int64_t pairs = pass.examples * heads_;
  auto& own = static_cast<AttentionActivations&>(kept);
  SCALING_CHECK(own.probabilities.rows() == pairs * queries && own.probabilities.cols() == keys);
  SCALING_CHECK(do_.rows() == q.rows() && do_.cols() == q.cols());
  dq.resize(q.rows(), q.cols());
  dk.resize(k.rows(), k.cols());
  dv.resize(v.rows(), v.cols());
  const float scale = 1 / std::sqrt(float(d_head_));
  parallel_for(pairs, [&](std::int64_t begin, std::int64_t end) {
    Scratch& scratch = own.scratch[std::size_t(begin)];
    scratch.gradient.resize(kQueriesAtOnce, keys);
    if (pass.drops()) scratch.dropped.resize(kQueriesAtOnce, keys);
    for (std::int64_t pair = begin; pair < end; ++pair) {
      const std::int64_t example = pair / heads_, at = pair % heads_ * d_head_;
      const std::uint8_t* seen = mask.keys ? mask.keys + example * keys : nullptr;
      dk.block(example * keys, at, keys, d_head_).setZero();
      dv.block(example * keys, at, keys, d_head_).setZero();
      for (std::int64_t first = 0; first < queries; first += kQueriesAtOnce) {
        const std::int64_t n = std::min(kQueriesAtOnce, queries - first);
        const std::int64_t some_keys = mask.causal ? first + n : keys;
        const auto a = own.probabilities.block(pair * queries + first, 0, n, some_keys);
        const auto dout = do_.block(example * queries + first, at, n, d_head_);
        auto dvalues = dv.block(example * keys, at, some_keys, d_head_);
        auto g = scratch.gradient.topLeftCorner(n, some_keys);
        g.noalias() = dout * v.block(example * keys, at, some_keys, d_head_).transpose();
        if (pass.drops()) {
          auto dropped = scratch.dropped.topLeftCorner(n, some_keys);
          dropped = a;
          drop_rows(pass, own.stream, pair * queries + first, dropped, keys);
          dvalues.noalias() += dropped.transpose() * dout;
          drop_rows(pass, own.stream, pair * queries + first, g, keys);
        } else {
          dvalues.noalias() += a.transpose() * dout;
        }
        for (std::int64_t i = 0; i < n; ++i) {
          const std::int64_t visible = mask.causal ? first + i + 1 : keys;
          softmax_backward(a.row(i).data(), g.row(i).data(), visible, some_keys, seen, scale);
        }
        dq.block(example * queries + first, at, n, d_head_).noalias() =
            g * k.block(example * keys, at, some_keys, d_head_);
        dk.block(example * keys, at, some_keys, d_head_).noalias() +=
            g.transpose() * q.block(example * queries + first, at, n, d_head_);
      }
    }
  });
}

void FullAttention::step(const StepContext& ctx, KeyValueCache& cache, const float* q,
                         const float* k, const float* v, float* o) const {
  SCALING_CHECK(ctx.position < cache.capacity);
  const Range share = ctx.share(ctx.tokens * heads_);
  for (std::int64_t unit = share.begin; unit < share.end; ++unit) {
    const int token = int(unit / heads_);
    const std::int64_t head = unit % heads_, at = unit * d_head_;
    float* keys = cache.keys_of(token, head);
    float* values = cache.values_of(token, head);
    std::copy_n(k + at, d_head_, keys + ctx.position * d_head_);
    std::copy_n(v + at, d_head_, values + ctx.position * d_head_);
    ctx.kernels.attend(q + at, keys, values, ctx.position + 1, d_head_,
                       cache.scores_of(token, head), o + at);
  }
  ctx.sync();
}

void FullAttention::step_fixed(const StepContext& ctx, KeyValueCache& cache, std::int64_t length,
                               const float* q, float* o) const {
  const Range share = ctx.share(ctx.tokens * heads_);
  for (std::int64_t unit = share.begin; unit < share.end; ++unit) {
    const int token = int(unit / heads_);
    const std::int64_t head = unit % heads_, at = unit * d_head_;
    ctx.kernels.attend(q + at, cache.keys_of(token, head), cache.values_of(token, head), length,
                       d_head_, cache.scores_of(token, head), o + at);
  }
  ctx.sync();
}

Cost FullAttention::step_cost(int tokens, std::int64_t length) const {
  const double floats = 2 * double(length) * double(heads_ * d_head_) * tokens;
  return {{"attention", 0, floats * 4, 2 * floats}};
}

}  // namespace scaling
