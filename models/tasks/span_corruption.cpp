// Kept spans and noise spans in turn, lengths drawn as random compositions.
#include "models/tasks/span_corruption.h"

#include <algorithm>

#include "kernels/check.h"

namespace scaling {

SpanCounts span_counts(std::int64_t n) {
  SCALING_CHECK(n >= 2);
  // 0.15 n = 3 n / 20 in whole numbers: no doubt about halves.
  std::int64_t noise = 3 * n / 20;
  const std::int64_t rest = 3 * n % 20;
  if (rest > 10 || (rest == 10 && noise % 2 == 1)) ++noise;
  noise = std::clamp<std::int64_t>(noise, 1, n - 1);
  return {noise, std::max<std::int64_t>(1, (noise + 1) / 3)};
}

void random_composition(std::int64_t n, std::int64_t parts, Rng& rng, std::vector<int>& out) {
  SCALING_CHECK(1 <= parts && parts <= n);
  out.clear();
  // parts - 1 of the n - 1 gaps, every choice equally likely: gap after gap, taken with probability
  // wanted / left.
  std::int64_t wanted = parts - 1;
  int length = 1;
  for (std::int64_t left = n - 1; left > 0; --left) {
    if (std::int64_t(rng.below(std::uint32_t(left))) < wanted) {
      --wanted;
      out.push_back(length);
      length = 0;
    }
    ++length;
  }
  out.push_back(length);
}

void corrupt_spans(const int* ids, std::int64_t n, std::int64_t vocab_size, Rng& rng,
                   CorruptedText& out) {
  const SpanCounts counts = span_counts(n);
  random_composition(n - counts.noise, counts.spans, rng, out.kept_lengths);
  random_composition(counts.noise, counts.spans, rng, out.noise_lengths);
  out.input.clear();
  out.target.clear();
  out.taken.clear();
  for (std::size_t span = 0; span < out.kept_lengths.size(); ++span) {
    const int sentinel = int(vocab_size) - 1 - int(span);
    const int kept = out.kept_lengths[span];
    const int noise = out.noise_lengths[span];
    out.input.insert(out.input.end(), ids, ids + kept);
    out.input.push_back(sentinel);
    ids += kept;
    out.target.push_back(sentinel);
    out.taken.push_back(0);
    out.target.insert(out.target.end(), ids, ids + noise);
    out.taken.insert(out.taken.end(), std::size_t(noise), 1);
    ids += noise;
  }
  out.input.push_back(1);
  out.target.push_back(1);
  out.taken.push_back(0);
}

}  // namespace scaling
