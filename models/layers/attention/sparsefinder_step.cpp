// Decoding: a head's prediction is bits of cached positions, of which attention is given a list.
#include <algorithm>
#include <bit>
#include <string>
#include <vector>

#include "kernels/check.h"
#include "models/layers/attention/sparsefinder.h"

namespace scaling {

/// A unit is a head of a token.
struct SparsefinderAttention::Cache : KeyValueCache {
  Cache(const SparsefinderPredictor& predictor_, bool sorts, int tokens_, std::int64_t heads_,
        std::int64_t capacity_, std::int64_t d_head_)
      : KeyValueCache(tokens_, heads_, capacity_, d_head_),
        predictor(predictor_),
        of_head_floats(predictor.memory_floats(capacity)),
        of_head_words(predictor.memory_words(capacity)),
        floats(std::size_t(units() * of_head_floats)),
        words(std::size_t(units() * of_head_words)),
        met(std::size_t(units()), 0),
        threads(std::size_t(units())) {
    if (sorts) sorted.resize(scores.size());
  }

  std::int64_t units() const { return tokens * heads; }
  SparsefinderPredictor::Memory memory(std::int64_t unit) {
    return {floats.data() + unit * of_head_floats, words.data() + unit * of_head_words, capacity};
  }

  /// Keys of variance 1, as queries have it.
  void pretend(const StepContext& ctx, std::int64_t length, std::uint64_t seed,
               const std::string& stream) override {
    KeyValueCache::pretend(ctx, length, seed, stream);
    const Range share = ctx.share(units());
    std::vector<std::int32_t> numbers(std::size_t(predictor.numbers()));
    SparsefinderScratch scratch;
    for (std::int64_t unit = share.begin; unit < share.end; ++unit) {
      float* key = keys_of(int(unit / heads), unit % heads);
      for (std::int64_t t = 0; t < std::min(length, capacity); ++t, key += d_head) {
        for (std::int64_t i = 0; i < d_head; ++i) key[i] *= 1.732f;
        predictor.place(unit % heads, key, 1, nullptr, numbers.data(), scratch);
        predictor.remember(memory(unit), t, numbers.data());
      }
    }
  }
  void reorder(const StepContext& ctx, const RowMoves& moves) override {
    KeyValueCache::reorder(ctx, moves);
    const Range share = ctx.share(heads);
    const auto move = [&](auto& all, std::int64_t of_head) {
      moves.apply(all.data(), heads * of_head, {share.begin * of_head, share.end * of_head});
    };
    move(floats, of_head_floats);
    move(words, of_head_words);
  }

  /// A thread uses the one of its first unit; sized by its first step.
  struct Thread {
    std::vector<std::int32_t> query, key;  // their numbers
    std::vector<std::uint64_t> bits;
    std::vector<std::int32_t> positions;  // (capacity): those that are met
    SparsefinderScratch scratch;
  };

  const SparsefinderPredictor& predictor;
  std::int64_t of_head_floats, of_head_words;
  std::vector<float> floats;         // (units, of_head_floats)
  std::vector<std::uint64_t> words;  // (units, of_head_words)
  std::vector<std::int64_t> met;     // by the last step of each unit
  std::vector<float> sorted;         // as scores, if there is a threshold to find
  std::vector<Thread> threads;       // (units)
};

std::unique_ptr<AttentionCache> SparsefinderAttention::make_cache(int tokens,
                                                                  std::int64_t capacity) const {
  auto cache = std::make_unique<Cache>(*predictor_, tiles_.normaliser != nullptr, tokens,
                                       tiles_.heads, capacity, tiles_.d_head);
  for (Cache::Thread& thread : cache->threads) {
    thread.query.resize(std::size_t(predictor_->numbers()));
    thread.key.resize(thread.query.size());
    thread.bits.resize(std::size_t((capacity + 63) / 64));
    thread.positions.resize(std::size_t(capacity));
  }
  return cache;
}

std::uint64_t SparsefinderAttention::cache_bytes(int tokens, std::int64_t capacity) const {
  const std::int64_t units = tokens * tiles_.heads;
  const std::int64_t sorted = tiles_.normaliser ? units * capacity : 0;
  const std::int64_t floats = sorted + units * predictor_->memory_floats(capacity);
  const std::int64_t words = units * (predictor_->memory_words(capacity) + (capacity + 63) / 64);
  return KeyValueCache::bytes(tokens, tiles_.heads, capacity, tiles_.d_head) +
         std::uint64_t(floats) * sizeof(float) + std::uint64_t(words) * sizeof(std::uint64_t) +
         std::uint64_t(units * capacity) * sizeof(std::int32_t);
}

/// unit: token * heads + head; q, k, v, o: of this head. Returns how many keys are met.
std::int64_t SparsefinderAttention::step_head(const StepContext& ctx, Cache& cache,
                                              std::int64_t unit, const float* q, const float* k,
                                              const float* v, float* o) const {
  const std::int64_t head = unit % cache.heads, d = cache.d_head, position = ctx.position;
  const int token = int(unit / cache.heads);
  Cache::Thread& own = cache.threads[std::size_t(ctx.share(cache.units()).begin)];
  std::copy_n(k, d, cache.keys_of(token, head) + position * d);
  std::copy_n(v, d, cache.values_of(token, head) + position * d);

  const SparsefinderPredictor::Memory memory = cache.memory(unit);
  predictor_->place(head, q, 1, nullptr, own.query.data(), own.scratch);
  predictor_->place(head, k, 1, nullptr, own.key.data(), own.scratch);
  predictor_->remember(memory, position, own.key.data());
  std::uint64_t* bits = own.bits.data();
  predictor_->recall(head, memory, position + 1, own.query.data(), bits, own.scratch);
  const PatternCall call = {.queries = position + 1, .keys = position + 1, .causal = true};
  const auto add = [bits](Range more) {
    for (std::int64_t j = more.begin; j < more.end; ++j) {
      bits[j / 64] |= std::uint64_t(1) << (j % 64);
    }
  };
  if (position < additions_.globals) {
    add({0, position + 1});
  } else {
    add(additions_.window(call, position));
    add(additions_.global_keys(position));
  }

  const std::int64_t words = (position + 64) / 64;
  std::int64_t n = 0;
  for (std::int64_t word = 0; word < words; ++word) n += std::popcount(bits[word]);
  if (n == 0) {
    std::fill_n(o, d, 0.0f);
    return 0;
  }
  HeadMemory met = {cache.keys_of(token, head), cache.values_of(token, head), n, d};
  if (n < position + 1) {
    std::int32_t* to = own.positions.data();
    met.positions = to;
    for (std::int64_t word = 0; word < words; ++word) {
      for (std::uint64_t left = bits[word]; left != 0; left &= left - 1) {
        *to++ = std::int32_t(word * 64 + std::countr_zero(left));
      }
    }
  }
  float* scores = cache.scores_of(token, head);
  if (tiles_.normaliser) {
    float* sorted = cache.sorted.data() + unit * cache.capacity;
    ctx.kernels.attend_entmax(tiles_.normaliser->alpha(), q, met, scores, sorted, o);
  } else {
    ctx.kernels.attend(q, met, scores, o);
  }
  return n;
}

void SparsefinderAttention::step(const StepContext& ctx, AttentionCache& of_branch, const float* q,
                                 const float* k, const float* v, float* o) const {
  auto& cache = static_cast<Cache&>(of_branch);
  SCALING_CHECK(cache.tokens == ctx.tokens && ctx.position < cache.capacity);
  const Range share = ctx.share(cache.units());
  for (std::int64_t unit = share.begin; unit < share.end; ++unit) {
    const std::int64_t at = unit * cache.d_head;
    cache.met[std::size_t(unit)] = step_head(ctx, cache, unit, q + at, k + at, v + at, o + at);
  }
  ctx.sync();
}

/// keys: that are met, of all tokens and heads.
Cost SparsefinderAttention::cost_of_keys(int tokens, std::int64_t length, double keys) const {
  const double heads = double(tiles_.heads), n = double(tokens);
  // With a sparse normaliser values are read behind the probabilities: of one key at least.
  const double values = tiles_.normaliser ? std::min(keys, heads * n) : keys;
  const double floats = (keys + values) * double(tiles_.d_head);
  const double weights = heads * predictor_->weights();
  const double remembered = heads * predictor_->read_bytes(length) * n;
  const double predicted =
      heads * n * (2 * predictor_->place_flops() + double(length) * predictor_->pair_flops());
  return {{"attention", weights, 4 * (floats + weights) + remembered, 2 * floats + predicted}};
}

Cost SparsefinderAttention::step_cost(int tokens, std::int64_t length) const {
  if (length < 1) return {{"attention", 0, 0, 0}};
  const PatternCall call = {.queries = length, .keys = length, .causal = true};
  const double added = double(additions_.count(call, length - 1));
  const double keys = added + predictor_->share() * (double(length) - added);
  return cost_of_keys(tokens, length, keys * double(tiles_.heads) * tokens);
}

Cost SparsefinderAttention::step_cost_of(const AttentionCache& cache, int tokens,
                                         std::int64_t length) const {
  double keys = 0;
  for (const std::int64_t met : static_cast<const Cache&>(cache).met) keys += double(met);
  return cost_of_keys(tokens, length, keys);
}

}  // namespace scaling
