// Philox of a vector of counters: each of its four numbers in the lower half of a 64-bit lane,
// where the products of its rounds are whole.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/simd/random_bits.cpp"
#include "hwy/foreach_target.h"
// After foreach_target:
#include <algorithm>

#include "kernels/random.h"
#include "kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace scaling {
namespace HWY_NAMESPACE {

inline constexpr std::int64_t kCounters = kLanes / 2;  // of a vector
using Lanes64 = hn::FixedTag<std::uint64_t, std::size_t(kCounters)>;
using Lanes32 = hn::Repartition<std::uint32_t, Lanes64>;
using Words = hn::Vec<Lanes64>;

HWY_INLINE Words words(std::uint64_t v) { return hn::Set(Lanes64(), v); }

HWY_INLINE Words product(Words numbers, std::uint32_t factor) {
  return hn::MulEven(hn::BitCast(Lanes32(), numbers), hn::Set(Lanes32(), factor));
}

/// low | high << 32.
HWY_INLINE Words joined(Words high, Words low) {
  const Lanes32 halves;
  const auto shifted = hn::BitCast(halves, hn::ShiftLeft<32>(high));
  return hn::BitCast(Lanes64(), hn::OddEven(shifted, hn::BitCast(halves, low)));
}

/// The draws of kVectors vectors of counters, which do not wait for each other.
template <int kVectors>
HWY_INLINE void draw(std::uint64_t seed, std::uint64_t stream, std::uint64_t first,
                     std::uint32_t* bits) {
  // Within 128 bits lie two counters half a vector apart: interleaving parts them.
  alignas(64) std::uint64_t order[kCounters];
  for (std::int64_t i = 0; i < kCounters; ++i) {
    order[i] = std::uint64_t(i % 2 * (kCounters / 2) + i / 2);
  }
  Words a[kVectors], b[kVectors], c[kVectors], d[kVectors];
  for (int v = 0; v < kVectors; ++v) {
    a[v] = hn::Add(hn::Load(Lanes64(), order), words(first + std::uint64_t(v * kCounters)));
    b[v] = hn::ShiftRight<32>(a[v]);
    c[v] = words(stream);
    d[v] = words(stream >> 32);
  }
  auto k0 = std::uint32_t(seed), k1 = std::uint32_t(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    for (int v = 0; v < kVectors; ++v) {
      const Words p = product(a[v], 0xD2511F53u), q = product(c[v], 0xCD9E8D57u);
      a[v] = hn::Xor(hn::Xor(hn::ShiftRight<32>(q), b[v]), words(k0));
      c[v] = hn::Xor(hn::Xor(hn::ShiftRight<32>(p), d[v]), words(k1));
      b[v] = q;
      d[v] = p;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int v = 0; v < kVectors; ++v) {
    const Words ab = joined(b[v], a[v]), cd = joined(d[v], c[v]);
    std::uint32_t* to = bits + 4 * v * kCounters;
    hn::StoreU(hn::BitCast(Lanes32(), hn::InterleaveLower(Lanes64(), ab, cd)), Lanes32(), to);
    hn::StoreU(hn::BitCast(Lanes32(), hn::InterleaveUpper(Lanes64(), ab, cd)), Lanes32(),
               to + 2 * kCounters);
  }
}

void ManyRandomBits(std::uint64_t seed, std::uint64_t stream, std::uint64_t first,
                    std::int64_t counters, std::uint32_t* bits) {
  std::int64_t i = 0;
  for (; i + 2 * kCounters <= counters; i += 2 * kCounters) {
    draw<2>(seed, stream, first + std::uint64_t(i), bits + 4 * i);
  }
  for (; i < counters; i += kCounters) {
    std::uint32_t vector[4 * kCounters];
    draw<1>(seed, stream, first + std::uint64_t(i), vector);
    std::copy_n(vector, 4 * std::min(kCounters, counters - i), bits + 4 * i);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace scaling
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace scaling {
HWY_EXPORT(ManyRandomBits);

void many_random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t first,
                      std::int64_t counters, std::uint32_t* bits) {
  HWY_DYNAMIC_DISPATCH(ManyRandomBits)(seed, stream, first, counters, bits);
}
}  // namespace scaling
#endif
