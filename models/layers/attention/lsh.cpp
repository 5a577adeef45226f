// Heads of all examples are shared among the threads, each in buffers of one thread; decoding is in
// lsh_step.cpp.
#include "models/layers/attention/lsh.h"

#include <algorithm>
#include <limits>
#include <set>

#include "kernels/check.h"
#include "kernels/parallel.h"
#include "models/config_checks.h"

namespace scaling {
namespace {

/// first: the head of `all` that is the first of `heads`.
template <class M>
auto rows_of(M& all, std::int64_t pair, std::int64_t first, std::int64_t heads, std::int64_t length,
             std::int64_t d) {
  return all.block(pair / heads * length, (first + pair % heads) * d, length, d);
}

/// Queries and keys of each code that queries have.
void visit_alike(std::span<const std::int32_t> queries, std::span<const std::int64_t> query_codes,
                 const std::vector<std::int32_t>& keys, const std::vector<std::int64_t>& key_codes,
                 const LshAttention::ViewVisitor& visit) {
  const auto of_code = [](std::span<const std::int32_t> all, std::span<const std::int64_t> codes,
                          std::int64_t code) {
    std::vector<std::int32_t> some;
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (codes[i] == code) some.push_back(all[i]);
    }
    return some;
  };
  const std::set<std::int64_t> codes(query_codes.begin(), query_codes.end());
  for (const std::int64_t code : codes) {
    visit(of_code(queries, query_codes, code), of_code(keys, key_codes, code));
  }
}

std::vector<std::int64_t> sizes_of(const LshAttention::Kept& kept) {
  std::vector<std::int64_t> all = {std::int64_t(kept.chosen.capacity()),
                                   std::int64_t(kept.normalizers.capacity()), kept.o.size()};
  for (const LshHead& head : kept.scratch) {
    const std::vector<std::int64_t> more = head.sizes();
    all.insert(all.end(), more.begin(), more.end());
  }
  return all;
}

}  // namespace

std::int64_t LshAttention::Kept::largest_buffer() const {
  const std::vector<std::int64_t> all = sizes_of(*this);
  return *std::max_element(all.begin(), all.end());
}

std::int64_t LshAttention::Kept::elements() const {
  std::int64_t sum = 0;
  for (const std::int64_t size : sizes_of(*this)) sum += size;
  return sum;
}

void LshAttention::validate(const ModelConfig& config) {
  constexpr std::int64_t kMaxBuckets = 65536;
  const auto knobs = config.options<LshKnobs>();
  require_positive("lsh_chunk", knobs.lsh_chunk);
  require_positive("lsh_rounds", knobs.lsh_rounds);
  const std::int64_t buckets = knobs.lsh_buckets;
  if (buckets < 0 || buckets % 2 != 0 || buckets > kMaxBuckets) {
    throw UserError("lsh_buckets " + std::to_string(buckets) + " is not an even number up to " +
                    std::to_string(kMaxBuckets) +
                    ", and every hash has an opposite; give one, or 0 for two buckets a chunk");
  }
  require_not_negative("lsh_chunks_before", knobs.lsh_chunks_before);
  require_not_negative("lsh_chunks_after", knobs.lsh_chunks_after);
  // All multiplied are a count of keys.
  constexpr std::int64_t kMostOfEach = 32768, kLongestChunk = std::int64_t(1) << 31;
  require_at_most("lsh_chunk", knobs.lsh_chunk, kLongestChunk);
  require_at_most("lsh_rounds", knobs.lsh_rounds, kMostOfEach);
  require_at_most("lsh_chunks_before", knobs.lsh_chunks_before, kMostOfEach);
  require_at_most("lsh_chunks_after", knobs.lsh_chunks_after, kMostOfEach);
}

LshAttention::LshAttention(const ModelConfig& config)
    : LshAttention(config, config.options<LshKnobs>()) {}

LshAttention::LshAttention(const ModelConfig& config, const LshKnobs& knobs)
    : heads_(config.n_heads),
      all_heads_(config.n_heads),
      d_head_(config.d_head()),
      chunk_(knobs.lsh_chunk),
      rounds_(knobs.lsh_rounds),
      buckets_(knobs.lsh_buckets),
      before_(knobs.lsh_chunks_before),
      after_(knobs.lsh_chunks_after),
      graph_(knobs.lsh_graph),
      count_(knobs.lsh_count),
      seed_(config.seed) {
  SCALING_CHECK(chunk_ > 0 && rounds_ > 0 && before_ >= 0 && after_ >= 0);
  SCALING_CHECK(buckets_ >= 0 && buckets_ % 2 == 0);
}

void LshAttention::take_heads(Range heads) {
  SCALING_CHECK(heads_ == all_heads_ && heads.begin >= 0 && heads.size() > 0);
  SCALING_CHECK(heads.end <= all_heads_);
  first_ = heads.begin;
  heads_ = heads.size();
}

LshHashing LshAttention::hashing_of(std::int64_t length) const {
  return split_buckets(buckets_ ? buckets_ : 2 * std::max<std::int64_t>(1, length / chunk_));
}

LshCut LshAttention::cut_of(std::int64_t length) const {
  // No more entries a chunk than there are.
  return {length, rounds_, std::min(chunk_, rounds_ * length), before_, after_};
}

std::unique_ptr<Activations> LshAttention::make_activations() const {
  return std::make_unique<Kept>();
}

LshCall LshAttention::call_of(const Pass& pass, const AttentionMask& mask, Kept& kept,
                              std::int64_t pair, std::int64_t length) const {
  return {.pass = pass,
          .stream = kept.stream,
          .index = pair / heads_ * all_heads_ + first_ + pair % heads_,
          .causal = mask.causal,
          .seen = mask.keys ? mask.keys + pair / heads_ * length : nullptr,
          .cut = cut_of(length),
          .hashing = hashing_of(length),
          .buckets = kept.chosen.data() + pair * rounds_ * length,
          .graph = graph_,
          .count = count_};
}

void LshAttention::hash(const LshCall& call, std::uint64_t rotation_stream, LshHead& head) const {
  const std::int64_t columns = call.hashing.columns();
  if (call.pass.training) {
    draw_rotations(call.pass.seed, rotation_stream, call.index, d_head_, rounds_, columns,
                   head.rotation(call));
  } else {
    draw_rotations(seed_, kFixedRotations, call.index % all_heads_, d_head_, rounds_, columns,
                   head.rotation(call));
  }
  head.hash(call);
}

void LshAttention::forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                           const AttentionMask& mask, Activations& kept, Mat& o) const {
  const std::int64_t length = pass.length(q), pairs = pass.examples * heads_;
  SCALING_CHECK(q.rows() == pass.examples * length && k.rows() == q.rows() && v.rows() == q.rows());
  SCALING_CHECK(length <= std::numeric_limits<std::int32_t>::max());
  SCALING_CHECK(q.cols() == all_heads_ * d_head_ && k.cols() == q.cols() && v.cols() == q.cols());
  auto& own = static_cast<Kept&>(kept);
  own.take_stream(pass);
  if (!pass.recomputes) pass.new_stream();  // that of the rotations
  const auto decisions = std::size_t(pairs * rounds_ * length);
  if (pass.recalls_decisions()) {
    SCALING_CHECK(own.chosen.size() == decisions);
  } else {
    own.chosen.resize(decisions);
  }
  own.normalizers.resize(std::size_t(pairs * length));
  own.o.resize(q.rows(), heads_ * d_head_);
  if (own.scratch.size() < std::size_t(pairs)) own.scratch.resize(std::size_t(pairs));
  o.resize(q.rows(), q.cols());
  parallel_for(pairs, [&](std::int64_t begin, std::int64_t end) {
    LshHead& head = own.scratch[std::size_t(begin)];
    for (std::int64_t pair = begin; pair < end; ++pair) {
      const auto of = [&](auto& all) {
        return rows_of(all, pair, first_, heads_, length, d_head_);
      };
      const auto of_own = [&](auto& all) { return rows_of(all, pair, 0, heads_, length, d_head_); };
      const LshCall call = call_of(pass, mask, own, pair, length);
      head.load(of(q), of(k), of(v));
      if (!pass.recalls_decisions()) hash(call, own.rotation_stream(), head);
      head.forward(call, own.normalizers.data() + pair * length);
      of(o) = of_own(own.o) = head.o();
    }
  });
}

void LshAttention::backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                            const AttentionMask& mask, Activations& kept, const Mat& do_, Mat& dq,
                            Mat& dk, Mat& dv) const {
  const std::int64_t length = pass.length(q), pairs = pass.examples * heads_;
  auto& own = static_cast<Kept&>(kept);
  SCALING_CHECK(own.chosen.size() == std::size_t(pairs * rounds_ * length));
  SCALING_CHECK(own.o.rows() == q.rows() && do_.rows() == q.rows() && do_.cols() == q.cols());
  dq.resize(q.rows(), q.cols());
  dk.resize(q.rows(), q.cols());
  dv.resize(q.rows(), q.cols());
  parallel_for(pairs, [&](std::int64_t begin, std::int64_t end) {
    LshHead& head = own.scratch[std::size_t(begin)];
    for (std::int64_t pair = begin; pair < end; ++pair) {
      const auto of = [&](auto& all) {
        return rows_of(all, pair, first_, heads_, length, d_head_);
      };
      const auto of_own = [&](auto& all) { return rows_of(all, pair, 0, heads_, length, d_head_); };
      head.load(of(q), of(k), of(v));
      head.backward(call_of(pass, mask, own, pair, length), of_own(own.o), of(do_),
                    own.normalizers.data() + pair * length);
      of(dq) = of(dk) = head.dprojection();
      of(dv) = head.dv();
    }
  });
}

void LshAttention::visit_views(const Kept& kept, std::int64_t pair, std::int64_t length,
                               const std::uint8_t* seen, const ViewVisitor& visit) const {
  const LshCut cut = cut_of(length);
  SCALING_CHECK(std::int64_t(kept.chosen.size()) >= (pair + 1) * cut.entries());
  LshChunks chunks;
  const std::int32_t* buckets = kept.chosen.data() + pair * cut.entries();
  std::vector<std::int32_t> keys;
  if (graph_ == LshGraph::buckets) {
    chunks.sort_with_codes(cut, buckets, hashing_of(length).buckets() + 1);
    std::vector<std::int64_t> codes;
    for (std::int64_t chunk = 0; chunk < cut.chunks(); ++chunk) {
      chunks.collect_view(chunk, seen, keys, codes);
      visit_alike(chunks.positions_of(chunk), chunks.codes_of(chunk), keys, codes, visit);
    }
    return;
  }
  chunks.sort(cut, buckets, hashing_of(length).buckets() + 1);
  for (std::int64_t chunk = 0; chunk < cut.chunks(); ++chunk) {
    chunks.collect_view(chunk, seen, keys);
    visit(chunks.positions_of(chunk), keys);
  }
}

double LshAttention::hashing_flops(std::int64_t length) const {
  return 2 * double(length * heads_ * d_head_) * double(rounds_ * hashing_of(length).columns());
}

double LshAttention::thread_floats(std::int64_t length) const {
  return LshHead::floats(cut_of(length), hashing_of(length), d_head_, adjusts(graph_, count_));
}

AttentionWork LshAttention::work(std::int64_t length, bool causal) const {
  const double others = double(cut_of(length).view() - 1) * (causal ? 0.5 : 1.0);
  return {.pairs = double(heads_ * length * rounds_) * others, .choice = hashing_flops(length)};
}

AttentionWork LshAttention::work_of(const Activations& kept, std::int64_t length,
                                    bool causal) const {
  AttentionWork work{.choice = hashing_flops(length)};
  for (std::int64_t head = 0; head < heads_; ++head) {
    visit_views(static_cast<const Kept&>(kept), head, length, nullptr,
                [&](std::span<const std::int32_t> queries, std::span<const std::int32_t> keys) {
                  for (const std::int32_t t : queries) {
                    const auto [own, after] = std::equal_range(keys.begin(), keys.end(), t);
                    work.pairs += double(own - keys.begin());
                    if (!causal) work.pairs += double(keys.end() - after);
                  }
                });
  }
  return work;
}

}  // namespace scaling
