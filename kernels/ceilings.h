// The machine's own limits, measured in this process beside whatever is compared with them.
#pragma once

#include <cstdint>

#include "kernels/team.h"

namespace scaling {

struct Ceilings {
  double read_bytes_per_second = 0;
  double fma_flops_per_second = 0;
};

/// Read rate of `team` over [data, data + bytes), every thread its own share: the best of three
/// read loops (one stream; eight and 24 streams with software prefetch), each the best of two
/// passes after one that leaves in cache what a cache can keep. So over a model whose step reads
/// `bytes`, this is the rate a perfect step could have, last-level cache included.
double measure_read_rate(Team& team, const void* data, std::uint64_t bytes);

/// f32 multiply-add rate of `team` from registers, best of three bursts of about two milliseconds.
double measure_fma_rate(Team& team);

}  // namespace scaling
