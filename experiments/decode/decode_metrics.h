// What is recorded about a row: times, floors, efficiencies, counters.
#pragma once

#include <string>
#include <vector>

#include "experiments/decode/decode_candidate.h"
#include "experiments/study/point.h"

namespace scaling {

/// Written last among a row's numbers: the row is finished if this is there.
inline constexpr const char* kTokenMs = "token_ms";

struct DecodeNumbers {
  std::vector<Metric> metrics;  ///< the last is kTokenMs
  Extra extra;                  ///< its line lacks the point's name
};

/// Where fewer blocks are held than the model has, block numbers are `scaled_down` and token times
/// are blocks x block + rest, `extrapolated`. Times that should not be believed are `untrusted`.
DecodeNumbers decode_numbers(const DecodeModel& decoded, const Trials& trials, double precision);

}  // namespace scaling
