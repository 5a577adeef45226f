// Lengths one after another, then the recall: what is recorded, what is skipped and why.
#pragma once

#include <map>
#include <string>

#include "experiments/attention/long_sequence_measure.h"
#include "experiments/attention/long_sequence_plan.h"
#include "experiments/study/progress.h"

namespace scaling {

/// Of the whole run if nothing is recorded yet.
double planned_seconds(const Experiment& experiment, const LongSequenceOptions& options);

class LongSequenceRun {
 public:
  LongSequenceRun(const Experiment& experiment, const LongSequenceOptions& options,
                  const Provenance& provenance, RecordFile& file);
  /// Measures what is not recorded yet. Exit status: 0, kExitFailedRows if a length failed, or
  /// kExitInterrupted.
  int run();

 private:
  /// What a row was found to cost at the longest length so far: what a longer one may cost.
  struct Found {
    double length = 0, seconds = 0, bytes = 0;
  };

  void measure_all();
  Record record(const Row& row, std::int64_t length) const;
  const Record* find(const std::string& key, const std::string& metric) const;
  bool is_known(const Record& base) const;
  void remember(const Row& row, std::int64_t length);
  std::string reason_to_skip(const Row& row, std::int64_t length) const;
  void skip(Record base, const std::string& reason);
  void fail(std::int64_t length, const std::string& why);
  std::string measure_rows(const std::vector<Row>& rows, std::int64_t length);
  std::string measure_length(std::int64_t length);
  std::string measure_distribution(const std::string& distribution);

  const Experiment& experiment_;
  const LongSequenceOptions& options_;
  const Provenance& provenance_;
  RecordFile& file_;
  Progress progress_;
  std::map<std::string, Found> found_;
  bool failed_ = false;
};

}  // namespace scaling
