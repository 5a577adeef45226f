// The machine's own limits, measured in this process beside whatever is compared with them.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/kernels.h"
#include "kernels/team.h"

namespace scaling {

struct Ceilings {
  double read_bytes_per_second = 0;
  double fma_flops_per_second = 0;  ///< of a row of a table: measure_product_rate's
};

/// Read rate of `team` over [data, data + bytes), every thread its own share: the best of five
/// read loops (one stream; six far apart; two, eight and 24 with software prefetch), each the best
/// of two passes after one that leaves in cache what a cache can keep. So over a model whose step
/// reads `bytes`, this is the rate a perfect step could have, last-level cache included.
double measure_read_rate(Team& team, const void* data, std::uint64_t bytes);

/// How many places of memory a thread reads in turn; which is the fastest differs by processor.
enum class ReadStreams { one, two, six, eight, many };

/// The fastest way of `team` to read [data, data + bytes), by the best of three passes each.
ReadStreams fastest_streams(Team& team, const void* data, std::uint64_t bytes);

/// Bytes a second of one pass of `team` over [data, data + bytes): quick, and the same work every
/// time it is asked for. Over memory that no cache holds it tells one state of the machine's memory
/// from another.
double measure_one_pass(Team& team, const void* data, std::uint64_t bytes, ReadStreams streams);

/// Where the lines are that a chain of loads goes over: side by side, or one in each of as many
/// stretches of kPageBytes.
enum class Lines { neighbours, apart };
inline constexpr std::uint64_t kPageBytes = 4096, kLoadLines = 8192;
/// Seconds of a load that waits for the one before, each of another line of kLoadLines, which a
/// second-level cache holds; the least of several times. memory: kLoadLines * kPageBytes bytes at a
/// multiple of kPageBytes, in huge pages; they are written. Where a huge page is one for the
/// processor, too, both kinds of lines take the same. Where those apart take longer, it is put
/// together from small ones below what the system sees, as by a hypervisor that has no others: then
/// every row in another page waits for page tables.
double measure_load(void* memory, Lines lines);
/// Offsets of lines in so many bytes, one in each kPageBytes of eight stretches of 2 MiB, evenly
/// spread, of fewer where it holds fewer: a second-level cache of half a MiB holds them. They fill
/// its sets alike.
std::vector<std::uint64_t> lines_apart(std::uint64_t bytes);
/// Seconds of a load of one of these lines, and of the step to its address, which waits for the one
/// before: of memory that is in use and is only read. Not a number where there are none.
double measure_load_apart(const void* data, std::uint64_t bytes);

/// Seconds that the team takes to meet once at its barrier, mean of a thousand times.
double measure_barrier(Team& team);

/// f32 multiply-add rate of `team` from registers, best of three bursts of a fraction of a
/// millisecond.
double measure_fma_rate(Team& team);
/// The same by the processor's bf16 dot product, which may do two in the time of one, or by that of
/// tiles, which may do sixteen; 0 if it has none.
double measure_bf16_dot_rate(Team& team);
/// The rate that bounds a set's products with weights of this type: the faster of the two where it
/// rounds activations to bf16, as that product asks for, else that of f32.
double measure_product_rate(Team& team, const KernelSet& kernels, WeightType type);

}  // namespace scaling
