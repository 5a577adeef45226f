// Exact attention over lengths of many tiles, against its definition in plain double precision;
// finite differences of it are in gradient_test.
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/gemm.h"
#include "models/layers/attention/full.h"
#include "tests/layers/attention_definition.h"
#include "tests/training/training_harness.h"

namespace scaling {
namespace {

ModelConfig config() {
  ModelConfig c;
  c.d_model = 24;
  c.n_heads = 3;
  return c;
}

struct Input : AttentionInput {
  Input(std::int64_t queries, std::int64_t keys)
      : AttentionInput(queries, keys, config().d_model) {}
};

AttentionResult run(Pass pass, const Input& in, const AttentionMask& mask, int times = 1) {
  return run_attention(FullAttention(config()), pass, in, mask, times);
}

AttentionResult define(const Input& in, const AttentionMask& mask) {
  return define_attention(in, config().n_heads, mask);
}

TEST(FullAttentionTest, TilesAreTheDefinition) {
  for (const auto& [queries, keys] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {2, 2}, {63, 63}, {65, 65}, {600, 600}, {1100, 1100}, {7, 1030}, {200, 3}}) {
    for (const bool causal : {false, true}) {
      if (causal && queries != keys) continue;
      for (const bool is_padded : {false, true}) {
        if (is_padded && keys < 10) continue;
        SCOPED_TRACE(std::to_string(queries) + " queries, " + std::to_string(keys) + " keys" +
                     (causal ? ", causal" : "") + (is_padded ? ", padded" : ""));
        std::vector<std::uint8_t> seen(std::size_t(keys), 1);
        // The first keys too: under a causal mask the first queries see nothing else, and of those
        // beyond the first tile some find nothing better than padding until late.
        for (std::int64_t j = 0; is_padded && j < keys; ++j) {
          seen[std::size_t(j)] = j >= (keys > 520 ? 520 : 2) && j % 5 != 3;
        }
        const AttentionMask mask{causal, is_padded ? seen.data() : nullptr};
        const Input in(queries, keys);
        expect_same(run(training_pass(), in, mask), define(in, mask));
      }
    }
  }
}

TEST(FullAttentionTest, LargeLogitsDoNotOverflow) {
  Input in(600, 600);
  in.q *= 300;
  // Larger and larger, so that every tile rescales what came before.
  for (std::int64_t t = 0; t < 600; ++t) in.k.row(t) *= 0.01f * float(t);
  const AttentionResult ours = run(training_pass(), in, {.causal = true});
  EXPECT_TRUE(ours.o.allFinite() && ours.dq.allFinite() && ours.dk.allFinite());
  // float's logits of a thousand are known to a few thousandths
  EXPECT_LT((ours.o - define(in, {.causal = true}).o).norm(), 0.02f * ours.o.norm());
}

TEST(FullAttentionTest, EveryLibraryAgrees) {
  const Input in(150, 150);
  const AttentionResult expected = define(in, {.causal = true});
  for (const Gemm& gemm : gemms()) {
    SCOPED_TRACE(gemm.name);
    expect_same(run(Pass{.gemm = gemm, .training = true}, in, {.causal = true}), expected);
  }
}

TEST(FullAttentionTest, ThreadsAndRepetitionChangeNothing) {
  const Input in(2 * 90, 2 * 90);
  Pass pass = training_pass(2);
  pass.dropout = 0.2f;
  set_gemm_threads(1);
  const AttentionResult one = run(pass, in, {.causal = true});
  set_gemm_threads(3);
  const AttentionResult three = run(pass, in, {.causal = true}, 2);
  set_gemm_threads(1);
  EXPECT_TRUE(one.o == three.o && one.dq == three.dq && one.dk == three.dk && one.dv == three.dv);
}

/// o is linear in v whatever is dropped, if backward drops the same.
TEST(FullAttentionTest, DropoutIsRepeatedInBackward) {
  const Input in(600, 600);
  Pass pass = training_pass();
  const Mat whole = run(pass, in, {.causal = true}).o;
  pass.dropout = 0.3f;
  const AttentionResult dropped = run(pass, in, {.causal = true});
  EXPECT_GT((dropped.o - whole).norm(), 0.1f * whole.norm());
  const double left = in.dout.cast<double>().cwiseProduct(dropped.o.cast<double>()).sum();
  const double right = dropped.dv.cast<double>().cwiseProduct(in.v.cast<double>()).sum();
  EXPECT_NEAR(left, right, 1e-5 * double(dropped.dv.norm()) * double(in.v.norm()));
}

}  // namespace
}  // namespace scaling
