// Each check runs a pattern against a plain rule over pairs.
#include "tests/layers/pattern_checks.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/models/live_bytes.h"
#include "tests/training/training_harness.h"

namespace scaling {

bool allows(const Rule& rule, const PatternCall& call, std::int64_t t, std::int64_t j) {
  return !(call.causal && j > t) && rule(call, t, j);
}

ModelConfig config_of_heads(const std::vector<std::pair<std::string, std::string>>& knobs) {
  ModelConfig c;
  c.d_model = 24;
  c.n_heads = 3;
  for (const auto& [name, value] : knobs) set_field(c, name, value);
  return c;
}

std::string text_of(std::int64_t length, bool causal) {
  return "length " + std::to_string(length) + (causal ? " causal" : "");
}

AttentionResult define_by_rule(const AttentionInput& in, std::int64_t heads,
                               const AttentionMask& mask, double alpha, const Rule& rule) {
  const std::int64_t n = in.q.rows(), d = in.q.cols() / heads;
  AttentionResult all{Mat(n, in.q.cols()), Mat(n, in.q.cols()), Mat(n, in.q.cols()),
                      Mat(n, in.q.cols())};
  for (std::int64_t head = 0; head < heads; ++head) {
    const auto of = [&](const Mat& m) -> Mat { return m.middleCols(head * d, d); };
    AttentionInput one(n, n, d);
    one.q = of(in.q);
    one.k = of(in.k);
    one.v = of(in.v);
    one.dout = of(in.dout);
    const PatternCall call{head, n, n, mask.causal};
    const AttentionResult r = define_attention(
        one, 1, mask, alpha, [&](std::int64_t t, std::int64_t j) { return rule(call, t, j); });
    all.o.middleCols(head * d, d) = r.o;
    all.dq.middleCols(head * d, d) = r.dq;
    all.dk.middleCols(head * d, d) = r.dk;
    all.dv.middleCols(head * d, d) = r.dv;
  }
  return all;
}

void expect_is_rule(const SelfAttention& layer, std::int64_t length, bool causal, const Rule& rule,
                    double alpha) {
  for (const bool is_padded : {false, true}) {
    SCOPED_TRACE(text_of(length, causal) + (is_padded ? " padded" : "") + " alpha " +
                 std::to_string(alpha));
    std::vector<std::uint8_t> seen(std::size_t(length), 1);
    for (std::int64_t j = 0; is_padded && j < length; ++j) seen[std::size_t(j)] = j % 5 != 3;
    const AttentionMask mask{causal, is_padded ? seen.data() : nullptr};
    const AttentionInput in(length, length, 24);
    expect_same(run_attention(layer, training_pass(), in, mask),
                define_by_rule(in, 3, mask, alpha, rule));
  }
}

AttentionResult run_with_input(const SelfAttention& layer, const AttentionInput& in, const Mat& x,
                               const AttentionMask& mask, Mat& dx) {
  const std::unique_ptr<Activations> kept = layer.make_activations();
  Pass pass = training_pass();
  AttentionResult r;
  layer.take_input(x, *kept);
  layer.forward(pass, in.q, in.k, in.v, mask, *kept, r.o);
  layer.backward(pass, in.q, in.k, in.v, mask, *kept, in.dout, r.dq, r.dk, r.dv);
  dx.setZero(x.rows(), x.cols());
  layer.add_input_gradient(*kept, dx);
  return r;
}

void expect_pairs(const Pattern& pattern, const Rule& rule) {
  for (const std::int64_t length : {1, 2, 3, 7, 16, 41}) {
    for (const bool causal : {false, true}) {
      for (std::int64_t head = 0; head < 3; ++head) {
        SCOPED_TRACE(text_of(length, causal) + " head " + std::to_string(head));
        const PatternCall call{head, length, length, causal};
        std::map<std::pair<std::int64_t, std::int64_t>, int> ours;
        pattern.for_each_pair(call, [&](std::int64_t t, std::int64_t j) { ++ours[{t, j}]; });
        double n = 0;
        for (std::int64_t t = 0; t < length; ++t) {
          for (std::int64_t j = 0; j < length; ++j) {
            const bool is_pair = allows(rule, call, t, j);
            n += is_pair;
            const auto at = ours.find({t, j});
            EXPECT_EQ(at == ours.end() ? 0 : at->second, int(is_pair)) << t << " sees " << j;
          }
        }
        EXPECT_EQ(pattern.pairs(call), n);
      }
    }
  }
}

void expect_decodes(const PatternAttention& layer, const Pattern& pattern, const Rule& rule,
                    std::int64_t length) {
  SCOPED_TRACE("decode of " + std::to_string(length));
  const AttentionInput in(length, length, 24);
  expect_close(decode_attention(layer, in), layer.forward(in.q, in.k, in.v, true), "step");
  std::vector<Range> read;
  for (std::int64_t t = 0; t < length; ++t) {
    double keys = 0;
    for (std::int64_t head = 0; head < 3; ++head) {
      double of_head = 0;
      for (std::int64_t j = 0; j <= t; ++j)
        of_head += allows(rule, {head, t + 1, t + 1, true}, t, j);
      EXPECT_EQ(double(pattern.keys_read(head, t + 1)), of_head) << t;
      read.clear();
      pattern.reads(head, t, length, read);
      std::int64_t slots = 0;
      for (const Range& range : read) {
        EXPECT_TRUE(range.begin >= 0 && range.begin < range.end);
        EXPECT_LE(range.end, pattern.slots(length)) << t;
        slots += range.size();
      }
      EXPECT_EQ(double(slots), of_head) << t;
      EXPECT_TRUE(read.size() == 1 || slots <= pattern.most_apart(length)) << t;
      keys += of_head;
    }
    EXPECT_EQ(total(layer.step_cost(2, t + 1)).bytes, 2 * keys * 2 * 8 * 4) << t;
  }
}

void expect_no_leak(const SelfAttention& layer, std::int64_t length) {
  AttentionInput in(length, length, 24);
  const Mat before = layer.forward(in.q, in.k, in.v, true);
  for (const std::int64_t changed : {length - 1, length / 2, std::int64_t(1)}) {
    AttentionInput other = in;
    other.q.bottomRows(length - changed) *= -3;
    other.k.bottomRows(length - changed) *= 5;
    other.v.bottomRows(length - changed).array() += 2;
    const Mat after = layer.forward(other.q, other.k, other.v, true);
    EXPECT_TRUE(after.topRows(changed) == before.topRows(changed)) << "from " << changed << " on";
    EXPECT_FALSE(after.row(changed) == before.row(changed));
  }
}

void expect_linear_memory([[maybe_unused]] const SelfAttention& layer) {
#ifdef SCALING_COUNTS_ALLOCATIONS
  set_gemm_threads(1);
  const auto held = [&](std::int64_t length) {
    const AttentionInput in(length, length, 24);
    AttentionResult r{in.q, in.q, in.q, in.q};
    const std::unique_ptr<Activations> kept = layer.make_activations();
    Pass pass = training_pass();
    const std::int64_t before = live_bytes();
    layer.forward(pass, in.q, in.k, in.v, {.causal = true}, *kept, r.o);
    layer.backward(pass, in.q, in.k, in.v, {.causal = true}, *kept, in.dout, r.dq, r.dk, r.dv);
    return live_bytes() - before;
  };
  held(500);  // what stays for good is there
  const std::int64_t once = held(1500), twice = held(3000);
  EXPECT_GT(twice, once);
  EXPECT_LT(double(twice), 2.1 * double(once));
#endif
}

void expect_dropout_is_repeated(const SelfAttention& layer, std::int64_t length) {
  const AttentionInput in(length, length, 24);
  Pass pass = training_pass();
  const Mat whole = run_attention(layer, pass, in, {.causal = true}).o;
  pass.dropout = 0.3f;
  const AttentionResult dropped = run_attention(layer, pass, in, {.causal = true});
  EXPECT_GT((dropped.o - whole).norm(), 0.1f * whole.norm());
  const double left = in.dout.cast<double>().cwiseProduct(dropped.o.cast<double>()).sum();
  const double right = dropped.dv.cast<double>().cwiseProduct(in.v.cast<double>()).sum();
  EXPECT_NEAR(left, right, 1e-5 * double(dropped.dv.norm()) * double(in.v.norm()));
}

}  // namespace scaling
