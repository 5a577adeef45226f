// What layers are held against is itself held: its gradients against finite differences of its
// forward, in double precision.
#include "tests/layers/attention_definition.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace scaling {
namespace {

TEST(AttentionDefinition, GradientsAreSlopes) {
  constexpr std::int64_t kHeads = 2, kWidth = 10, d = kWidth / kHeads;
  const std::vector<std::uint8_t> seen = {0, 1, 1, 0, 1, 1, 1, 1};
  const auto near = [](std::int64_t t, std::int64_t j) { return j == t || (t + j) % 3 != 1; };
  for (const double alpha : {1.0, 1.25, 1.5, 2.0}) {
    for (const bool causal : {false, true}) {
      for (const bool is_padded : {false, true}) {
        for (const bool has_pattern : {false, true}) {
          SCOPED_TRACE("alpha " + std::to_string(alpha) + (causal ? ", causal" : "") +
                       (is_padded ? ", padded" : "") + (has_pattern ? ", a pattern" : ""));
          const AttentionMask mask{causal, is_padded ? seen.data() : nullptr};
          std::function<bool(std::int64_t, std::int64_t)> is_allowed;
          if (has_pattern) is_allowed = near;
          AttentionInput in(8, 8, kWidth);
          // Far enough apart that entmax leaves some keys out.
          in.q *= 2;
          expect_slopes(define_attention(in, kHeads, mask, alpha, is_allowed), in,
                        [&](const Double& q, const Double& k, const Double& v) {
                          Double o(8, kWidth);
                          for (std::int64_t head = 0; head < kHeads; ++head) {
                            const auto of = [&](const Double& m) -> Double {
                              return m.middleCols(head * d, d);
                            };
                            o.middleCols(head * d, d) =
                                attention_weights(of(q), of(k), mask, alpha, is_allowed) * of(v);
                          }
                          return o;
                        });
        }
      }
    }
  }
}

}  // namespace
}  // namespace scaling
