// Keys and values of a decode, and evaluation of one sequence.
#include "models/attention.h"

#include <algorithm>

#include "kernels/check.h"
#include "models/initialize.h"

namespace scaling {

KeyValueCache::KeyValueCache(int tokens_, std::int64_t heads_, std::int64_t capacity_,
                             std::int64_t d_head_)
    : tokens(tokens_), heads(heads_), capacity(capacity_), d_head(d_head_) {
  const std::size_t positions = std::size_t(tokens * heads * capacity);
  keys.resize(positions * std::size_t(d_head));
  values.resize(positions * std::size_t(d_head));
  scores.resize(positions);
}

std::uint64_t KeyValueCache::bytes(int tokens, std::int64_t heads, std::int64_t capacity,
                                   std::int64_t d_head) {
  return std::uint64_t(tokens * heads * capacity * (2 * d_head + 1)) * sizeof(float);
}

void KeyValueCache::pretend(const StepContext& ctx, std::int64_t length, std::uint64_t seed,
                            const std::string& stream) {
  const Initializer uniform = {Initializer::Kind::uniform, 1};
  const std::int64_t n = std::min(length, capacity) * d_head;
  const Range share = ctx.share(tokens * heads);
  for (std::int64_t unit = share.begin; unit < share.end; ++unit) {
    const int token = int(unit / heads);
    const std::int64_t head = unit % heads;
    draw_values(seed, stream, uniform, 2 * unit * n, n, keys_of(token, head));
    draw_values(seed, stream, uniform, (2 * unit + 1) * n, n, values_of(token, head));
  }
}

void KeyValueCache::reorder(const StepContext& ctx, const RowMoves& moves) {
  move_slots(ctx, moves, std::min(ctx.position, capacity));
}

void KeyValueCache::move_slots(const StepContext& ctx, const RowMoves& moves, std::int64_t slots) {
  const std::int64_t of_head = capacity * d_head;
  const Range share = ctx.share(heads);
  for (std::int64_t head = share.begin; head < share.end; ++head) {
    for (auto* all : {&keys, &values}) {
      moves.apply(all->data() + head * of_head, heads * of_head, {0, slots * d_head});
    }
  }
}

void KeyValueCache::attend(const StepContext& ctx, std::int64_t slots, const float* q, float* o) {
  // A head's cache is read by one thread only.
  const Range share = ctx.share(ctx.tokens * heads);
  for (std::int64_t unit = share.begin; unit < share.end; ++unit) {
    const int token = int(unit / heads);
    const std::int64_t head = unit % heads, at = unit * d_head;
    const HeadMemory memory = {keys_of(token, head), values_of(token, head), slots, d_head};
    ctx.kernels.attend(q + at, memory, scores_of(token, head), o + at);
  }
  ctx.sync();
}

Cost KeyValueCache::attend_cost(int tokens, std::int64_t heads, std::int64_t slots,
                                std::int64_t d_head) {
  const double floats = 2 * double(slots) * double(heads * d_head) * tokens;
  return {{"attention", 0, floats * 4, 2 * floats}};
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

void SelfAttention::take_heads(Range) { SCALING_CHECK(false); }

Mat SelfAttention::forward(const Mat& q, const Mat& k, const Mat& v, bool causal) const {
  Pass pass = evaluation_pass();
  Mat o;
  forward(pass, q, k, v, {.causal = causal}, *make_activations(), o);
  return o;
}

Mat CrossAttention::forward(const Mat& q, const Mat& k, const Mat& v) const {
  Pass pass = evaluation_pass();
  Mat o;
  forward(pass, q, k, v, {}, *make_activations(), o);
  return o;
}

}  // namespace scaling
