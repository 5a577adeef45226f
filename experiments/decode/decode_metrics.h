// What is written about a row: times, floors, efficiencies, counters.
#pragma once

#include <string>
#include <vector>

#include "experiments/decode/options.h"
#include "experiments/instruments/interleave.h"
#include "experiments/study/record.h"
#include "models/transformer/transformer.h"

namespace scaling {

/// The part that all records of a row at one thread count share.
Record record_base(const Experiment& experiment, const Row& row, const Options& options,
                   int threads, const Provenance& provenance);

/// All metrics of a measured row, kClosingMetric last. Where fewer blocks are held than the model
/// has, block numbers are `scaled_down` and token times are blocks x block + rest, `extrapolated`.
/// `note` is added to what the samples themselves call for.
std::vector<Record> decode_records(const Record& base, const Row& row, Transformer& model,
                                   const Samples& samples, double precision,
                                   const std::string& note);

/// One record without a value for a row that could not be measured.
Record missing_record(const Record& base, Status status, const std::string& why);

}  // namespace scaling
