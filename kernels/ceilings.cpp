// The limits: how fast this team reads, and how fast it multiplies and adds.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/ceilings.cpp"
#include "hwy/foreach_target.h"
// After foreach_target:
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "kernels/bf16_dot/bf16_dot.h"
#include "kernels/bf16_dot/tiles.h"
#include "kernels/ceilings.h"
#include "kernels/clock.h"
#include "kernels/random.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace scaling {
namespace HWY_NAMESPACE {

/// One stream, left to the processor's own prefetching.
float ReadOneStream(const float* p, std::int64_t n) {
  constexpr int kSums = 8;
  Vector sums[kSums];
  for (Vector& v : sums) v = zero();
  std::int64_t i = 0;
  for (; i + kSums * kLanes <= n; i += kSums * kLanes) {
    for (int u = 0; u < kSums; ++u) sums[u] = hn::Add(sums[u], load(p + i + u * kLanes));
  }
  Vector total = zero();
  for (const Vector v : sums) total = hn::Add(total, v);
  for (; i + kLanes <= n; i += kLanes) total = hn::Add(total, load(p + i));
  return sum(total);
}

/// Sums n floats: groups of kReadStreams pages, the pages of a group side by side, each asked for
/// half a page ahead, at its end in the next group; what is left of n, as one stream.
template <int kReadStreams>
HWY_INLINE float read_streams(const float* p, std::int64_t n) {
  constexpr std::int64_t kRun = 4096 / sizeof(float), kAhead = kRun / 2;
  constexpr std::int64_t kGroup = kReadStreams * kRun, kOfLine = 64 / sizeof(float);
  Vector sums[kReadStreams];
  for (Vector& v : sums) v = zero();
  const float* const end = p + n;
  const auto run = [&](std::int64_t from, std::int64_t to, std::int64_t ahead) HWY_ATTR {
    for (std::int64_t c = from; c < to; c += kOfLine) {
      for (int s = 0; s < kReadStreams; ++s) {
        const float* const at = p + s * kRun + c;
        prefetch(at + ahead);
        for (std::int64_t v = 0; v < kOfLine; v += kLanes) sums[s] = hn::Add(sums[s], load(at + v));
      }
    }
  };
  for (; p + kGroup <= end; p += kGroup) {
    run(0, kRun - kAhead, kAhead);
    // After the last group nothing: a line at hand.
    run(kRun - kAhead, kRun, p + 2 * kGroup <= end ? kAhead + kGroup - kRun : 0);
  }
  Vector total = zero();
  for (const Vector v : sums) total = hn::Add(total, v);
  return sum(total) + ReadOneStream(p, end - p);
}

// Which is best depends on the processor: how many misses it has under way, and its registers. 12
// and 16 streams were never the best.
float ReadEightStreams(const float* p, std::int64_t n) { return read_streams<8>(p, n); }
float ReadManyStreams(const float* p, std::int64_t n) { return read_streams<24>(p, n); }

/// kShares shares side by side, kLines lines of each at a time and asked for kAhead lines ahead
/// into the second-level cache, 0: left to the processor's own prefetching; what is left of n, as
/// one stream.
template <int kShares, int kLines, int kAhead>
HWY_INLINE float read_shares(const float* p, std::int64_t n) {
  constexpr std::int64_t kOfLine = 64 / sizeof(float), kAtOnce = kLines * kOfLine;
  const std::int64_t share = n / (kShares * kAtOnce) * kAtOnce;
  Vector sums[kShares];
  for (Vector& v : sums) v = zero();
  for (std::int64_t i = 0; i < share; i += kAtOnce) {
    for (int s = 0; s < kShares; ++s) {
      const float* const at = p + s * share + i;
      if constexpr (kAhead > 0) {
        for (std::int64_t v = 0; v < kAtOnce; v += kOfLine) prefetch_far(at + kAhead * kOfLine + v);
      }
      for (std::int64_t v = 0; v < kAtOnce; v += kLanes) sums[s] = hn::Add(sums[s], load(at + v));
    }
  }
  Vector total = zero();
  for (const Vector v : sums) total = hn::Add(total, v);
  return sum(total) + ReadOneStream(p + kShares * share, n - kShares * share);
}

/// As dense products go where the kernel asks far ahead (simd.h): on a Granite Rapids as fast as
/// six or a few percent faster.
float ReadTwoShares(const float* p, std::int64_t n) { return read_shares<2, 4, 8>(p, n); }
/// Six because shares of a power of two would meet in the same banks of memory.
float ReadSixShares(const float* p, std::int64_t n) { return read_shares<6, 1, 0>(p, n); }

/// `rounds` times 12 independent multiply-adds; enough for two units of latency five, few enough
/// for 16 registers.
float MultiplyAdd(std::int64_t rounds, float seed) {
  constexpr int kSums = 12;
  Vector sums[kSums];
  for (int i = 0; i < kSums; ++i) sums[i] = broadcast(seed + float(i));
  const Vector a = broadcast(0.999f), b = broadcast(seed);
  for (std::int64_t r = 0; r < rounds; ++r) {
    for (Vector& v : sums) v = hn::MulAdd(v, a, b);
  }
  Vector total = zero();
  for (const Vector v : sums) total = hn::Add(total, v);
  return sum(total);
}

std::int64_t FlopsOfRound() { return 12 * 2 * kLanes; }

}  // namespace HWY_NAMESPACE
}  // namespace scaling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scaling {
namespace {
HWY_EXPORT(ReadOneStream);
HWY_EXPORT(ReadTwoShares);
HWY_EXPORT(ReadSixShares);
HWY_EXPORT(ReadEightStreams);
HWY_EXPORT(ReadManyStreams);
HWY_EXPORT(MultiplyAdd);
HWY_EXPORT(FlopsOfRound);

constexpr std::uint64_t kLineBytes = 64;

/// Where a thread's results go so that the compiler cannot drop the work.
thread_local volatile float sink;

/// Seconds for the whole team to do work(thread), from a common start to the last end.
template <class Work>
double timed(Team& team, const Work& work) {
  double seconds = 0;
  team.run([&](int thread) {
    team.barrier().wait();
    const auto start = Clock::now();
    work(thread);
    team.barrier().wait();
    if (thread == 0) seconds = seconds_since(start);
  });
  return seconds;
}

/// FLOP/s of the whole team, best of three bursts of a fraction of a millisecond.
template <class Work>
double best_rate(Team& team, std::int64_t flops_of_round, const Work& work) {
  constexpr std::int64_t kRounds = 100'000;
  double best = 0;
  for (int burst = 0; burst < 3; ++burst) {
    const double seconds = timed(team, [&](int) { sink = work(kRounds); });
    best = std::max(best, double(kRounds * flops_of_round) * team.threads() / seconds);
  }
  return best;
}

float read(ReadStreams streams, const float* p, std::int64_t n) {
  switch (streams) {
    case ReadStreams::one:
      return HWY_DYNAMIC_DISPATCH(ReadOneStream)(p, n);
    case ReadStreams::two:
      return HWY_DYNAMIC_DISPATCH(ReadTwoShares)(p, n);
    case ReadStreams::six:
      return HWY_DYNAMIC_DISPATCH(ReadSixShares)(p, n);
    case ReadStreams::eight:
      return HWY_DYNAMIC_DISPATCH(ReadEightStreams)(p, n);
    case ReadStreams::many:
      break;
  }
  return HWY_DYNAMIC_DISPATCH(ReadManyStreams)(p, n);
}

/// Bytes a second of going over the data again and again.
double read_rate(Team& team, const void* data, std::uint64_t bytes, ReadStreams streams,
                 std::int64_t repeats) {
  const auto* floats = static_cast<const float*>(data);
  const std::int64_t n = std::int64_t(bytes / sizeof(float));
  const double seconds = timed(team, [&](int thread) {
    const Range own = share_of(n, thread, team.threads(), 1024);
    for (std::int64_t r = 0; r < repeats; ++r) sink = read(streams, floats + own.begin, own.size());
  });
  return double(n) * double(sizeof(float)) * double(repeats) / seconds;
}

/// 0 to n - 1 in an order that no prefetching follows, the same every time.
std::vector<std::uint64_t> shuffled(std::uint64_t n) {
  std::vector<std::uint64_t> order(n);
  Rng random(1, 0);
  for (std::uint64_t i = 0; i < n; ++i) {
    const std::uint64_t j = random.below(std::uint32_t(i + 1));
    order[i] = order[j];
    order[j] = i;
  }
  return order;
}

/// Seconds of the fastest of a few passes, of which the first fills the caches.
template <class Pass>
double least_of_passes(const Pass& pass) {
  constexpr int kPasses = 12;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kPasses; ++i) {
    const auto start = Clock::now();
    pass();
    least = std::min(least, seconds_since(start));
  }
  return least;
}

/// Seconds of a step from line to line; each line holds where the next one is. line(i): offset of
/// the i-th of them.
template <class Line>
double chase(char* memory, const Line& line) {
  const std::vector<std::uint64_t> order = shuffled(kLoadLines);
  for (std::uint64_t i = 0; i < kLoadLines; ++i) {
    const std::uint64_t next = line(order[(i + 1) % kLoadLines]);
    std::memcpy(memory + line(order[i]), &next, sizeof next);
  }
  std::uint64_t at = line(order[0]);
  const double least = least_of_passes([&] {
    for (std::uint64_t i = 0; i < kLoadLines; ++i) std::memcpy(&at, memory + at, sizeof at);
  });
  sink = float(at);
  return least / double(kLoadLines);
}

constexpr ReadStreams kAllStreams[] = {ReadStreams::one, ReadStreams::two, ReadStreams::six,
                                       ReadStreams::eight, ReadStreams::many};

}  // namespace

double measure_read_rate(Team& team, const void* data, std::uint64_t bytes) {
  // Below a MiB a pass takes less time than the barriers around it; go over it again and again.
  const std::int64_t repeats = std::max<std::int64_t>(1, (4 << 20) / std::int64_t(bytes + 1));
  read_rate(team, data, bytes, ReadStreams::one, repeats);  // leaves in cache what it can keep
  double best = 0;
  for (int pass = 0; pass < 2; ++pass) {
    for (const ReadStreams streams : kAllStreams) {
      best = std::max(best, read_rate(team, data, bytes, streams, repeats));
    }
  }
  return best;
}

ReadStreams fastest_streams(Team& team, const void* data, std::uint64_t bytes) {
  std::pair<double, ReadStreams> best{0, ReadStreams::one};
  for (int pass = 0; pass < 3; ++pass) {
    for (const ReadStreams streams : kAllStreams) {
      best = std::max(best, {measure_one_pass(team, data, bytes, streams), streams});
    }
  }
  return best.second;
}

double measure_one_pass(Team& team, const void* data, std::uint64_t bytes, ReadStreams streams) {
  return read_rate(team, data, bytes, streams, 1);
}

double measure_load(void* memory, Lines lines) {
  // Apart, 64 pages have theirs at one place, the next 64 at the next: so lines fill all sets of
  // the cache alike, whether pages lie in memory as they do here or anywhere.
  return chase(static_cast<char*>(memory), [lines](std::uint64_t i) {
    if (lines == Lines::neighbours) return i * kLineBytes;
    return i * kPageBytes + i / 64 % (kPageBytes / kLineBytes) * kLineBytes;
  });
}

std::vector<std::uint64_t> lines_apart(std::uint64_t bytes) {
  constexpr std::uint64_t kStretch = 2 << 20, kPages = kStretch / kPageBytes, kMost = 8;
  const std::uint64_t stretches = std::min(kMost, bytes / kStretch);
  const std::uint64_t step = stretches < 2 ? 0 : (bytes - kStretch) / (stretches - 1);
  std::vector<std::uint64_t> lines;
  for (std::uint64_t i = 0; i < stretches * kPages; ++i) {
    const std::uint64_t stretch = i / kPages * step / kPageBytes * kPageBytes;
    const std::uint64_t in_page = i / 64 % (kPageBytes / kLineBytes) * kLineBytes;
    lines.push_back(stretch + i % kPages * kPageBytes + in_page);
  }
  return lines;
}

double measure_load_apart(const void* data, std::uint64_t bytes) {
  const std::vector<std::uint64_t> lines = lines_apart(bytes);
  if (lines.empty()) return std::numeric_limits<double>::quiet_NaN();
  std::vector<const char*> addresses;
  for (const std::uint64_t i : shuffled(lines.size())) {
    addresses.push_back(static_cast<const char*>(data) + lines[i]);
  }
  // What was loaded is a part of the next address, though always none: so loads wait.
  const volatile std::uint64_t none = 0;
  const std::uint64_t mask = none;
  std::uint64_t last = 0;
  const double least = least_of_passes([&] {
    for (const char* const at : addresses) std::memcpy(&last, at + (last & mask), sizeof last);
  });
  sink = float(last);
  return least / double(lines.size());
}

double measure_barrier(Team& team) {
  constexpr int kTimes = 1000;
  return timed(team,
               [&team](int) {
                 for (int i = 0; i < kTimes; ++i) team.barrier().wait();
               }) /
         kTimes;
}

double measure_fma_rate(Team& team) {
  return best_rate(team, HWY_DYNAMIC_DISPATCH(FlopsOfRound)(), [](std::int64_t rounds) {
    return HWY_DYNAMIC_DISPATCH(MultiplyAdd)(rounds, 0.5f);
  });
}

double measure_bf16_dot_rate(Team& team) {
  if (!bf16_dot::is_supported()) return 0;
  const double vectors = best_rate(team, bf16_dot::kFlopsOfRound, [](std::int64_t rounds) {
    return bf16_dot::dot_registers(rounds, 0.5f);
  });
  if (!bf16_dot::has_tiles()) return vectors;
  return std::max(vectors, best_rate(team, bf16_dot::kTileFlopsOfRound, bf16_dot::multiply_tiles));
}

double measure_product_rate(Team& team, const KernelSet& kernels, WeightType type) {
  const double fma = measure_fma_rate(team);
  return kernels.rounds(type) ? std::max(fma, measure_bf16_dot_rate(team)) : fma;
}

}  // namespace scaling
#endif
