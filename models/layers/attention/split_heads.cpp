// Part after part, and sums over them.
#include "models/layers/attention/split_heads.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>

#include "kernels/check.h"

namespace scaling {
namespace {

void add(AttentionWork& to, const AttentionWork& more) {
  to.pairs += more.pairs;
  to.choice += more.choice;
  to.products += more.products;
  to.backward_products += more.backward_products;
}

}  // namespace

struct SplitAttention::Kept : Activations {
  std::vector<std::unique_ptr<Activations>> parts;
};

struct SplitAttention::Cache : AttentionCache {
  void pretend(const StepContext& ctx, std::int64_t length, std::uint64_t seed,
               const std::string& stream) override {
    for (std::size_t i = 0; i < parts.size(); ++i) {
      parts[i]->pretend(ctx, length, seed, stream + ".heads" + std::to_string(i));
    }
  }
  void reorder(const StepContext& ctx, const RowMoves& moves) override {
    for (const auto& part : parts) part->reorder(ctx, moves);
  }
  std::vector<std::unique_ptr<AttentionCache>> parts;
};

SplitAttention::SplitAttention(std::vector<std::unique_ptr<SelfAttention>> parts)
    : parts_(std::move(parts)) {
  SCALING_CHECK(!parts_.empty());
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const std::string prefix = "heads" + std::to_string(i) + ".";
    parts_[i]->visit_parameters([&](Parameter& p) { p.name = prefix + p.name; });
  }
}

void SplitAttention::visit_parameters(const ParameterVisitor& visit) {
  for (const auto& part : parts_) part->visit_parameters(visit);
}

std::int64_t SplitAttention::workspace_floats(int tokens, int threads) const {
  std::int64_t most = 0;
  for (const auto& part : parts_) most = std::max(most, part->workspace_floats(tokens, threads));
  return most;
}

std::unique_ptr<Activations> SplitAttention::make_activations() const {
  auto kept = std::make_unique<Kept>();
  for (const auto& part : parts_) kept->parts.push_back(part->make_activations());
  return kept;
}

void SplitAttention::forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                             const AttentionMask& mask, Activations& kept, Mat& o) const {
  auto& own = static_cast<Kept&>(kept);
  if (pass.recalls_decisions()) hand_out_choices(own);
  std::uint64_t earlier = 0;  // streams of the parts before, so that the first one's tells all
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    own.parts[i]->stream = own.stream + earlier;
    parts_[i]->forward(pass, q, k, v, mask, *own.parts[i], o);
    if (i == 0) own.stream = own.parts[i]->stream;
    SCALING_CHECK(own.parts[i]->stream == own.stream + earlier);
    earlier += std::uint64_t(parts_[i]->drawn_streams());
  }
  if (!pass.recalls_decisions()) gather_choices(own);
}

void SplitAttention::gather_choices(Kept& kept) {
  kept.chosen.clear();
  const bool choose = std::any_of(kept.parts.begin(), kept.parts.end(),
                                  [](const auto& part) { return !part->chosen.empty(); });
  if (!choose) return;
  for (const auto& part : kept.parts) {
    SCALING_CHECK(part->chosen.size() <= std::size_t(std::numeric_limits<std::int32_t>::max()));
    kept.chosen.push_back(std::int32_t(part->chosen.size()));
    kept.chosen.insert(kept.chosen.end(), part->chosen.begin(), part->chosen.end());
  }
}

void SplitAttention::hand_out_choices(Kept& kept) {
  if (kept.chosen.empty()) return;
  auto at = kept.chosen.begin();
  for (const auto& part : kept.parts) {
    const std::int32_t size = *at++;
    part->chosen.assign(at, at + size);
    at += size;
  }
  SCALING_CHECK(at == kept.chosen.end());
}

void SplitAttention::backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                              const AttentionMask& mask, Activations& kept, const Mat& do_, Mat& dq,
                              Mat& dk, Mat& dv) const {
  auto& own = static_cast<Kept&>(kept);
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    parts_[i]->backward(pass, q, k, v, mask, *own.parts[i], do_, dq, dk, dv);
  }
}

std::unique_ptr<AttentionCache> SplitAttention::make_cache(int tokens,
                                                           std::int64_t capacity) const {
  auto cache = std::make_unique<Cache>();
  for (const auto& part : parts_) cache->parts.push_back(part->make_cache(tokens, capacity));
  return cache;
}

std::uint64_t SplitAttention::cache_bytes(int tokens, std::int64_t capacity) const {
  std::uint64_t bytes = 0;
  for (const auto& part : parts_) bytes += part->cache_bytes(tokens, capacity);
  return bytes;
}

void SplitAttention::step(const StepContext& ctx, AttentionCache& cache, const float* q,
                          const float* k, const float* v, float* o) const {
  auto& own = static_cast<Cache&>(cache);
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    parts_[i]->step(ctx, *own.parts[i], q, k, v, o);
  }
}

Cost SplitAttention::step_cost(int tokens, std::int64_t length) const {
  Cost all;
  for (const auto& part : parts_) append(all, part->step_cost(tokens, length));
  return {total(all, "attention")};
}

AttentionWork SplitAttention::work(std::int64_t length, bool causal) const {
  AttentionWork all;
  for (const auto& part : parts_) add(all, part->work(length, causal));
  return all;
}

AttentionWork SplitAttention::work_of(const Activations& kept, std::int64_t length,
                                      bool causal) const {
  const auto& own = static_cast<const Kept&>(kept);
  AttentionWork all;
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    add(all, parts_[i]->work_of(*own.parts[i], length, causal));
  }
  return all;
}

double SplitAttention::activation_floats() const {
  double floats = 0;
  for (const auto& part : parts_) floats += part->activation_floats();
  return floats;
}

double SplitAttention::thread_floats(std::int64_t length) const {
  double floats = 0;
  for (const auto& part : parts_) floats += part->thread_floats(length);
  return floats;
}

}  // namespace scaling
