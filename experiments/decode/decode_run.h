// Carries out a plan: groups of rows into memory, all thread counts, records to the file.
#pragma once

#include <map>
#include <memory>

#include "experiments/decode/decode_candidate.h"
#include "experiments/decode/plan.h"
#include "experiments/instruments/interleave.h"
#include "experiments/study/progress.h"

namespace scaling {

class DecodeRun {
 public:
  DecodeRun(const Experiment& experiment, const Options& options, const Provenance& provenance,
            Plan& plan, RecordFile& file);

  /// Measures what the plan has to do, once all that will be timed has been compared with ref:
  /// throws UserError if it differs. A row that cannot be measured leaves a record that says why.
  /// Exit status: 0, or kExitFailedRows if a row failed, or kExitInterrupted.
  int run();

 private:
  /// Every kernel set with every weight type and choice of layers among these rows of the plan.
  void compare_with_ref(std::vector<std::size_t>& rows);
  /// Rows of one group that reached memory, in the group's order.
  std::vector<Resident> load(const std::vector<std::size_t>& group);
  void measure(std::vector<Resident>& residents, int threads);
  void record(const Resident& resident, int threads, const Samples& samples);
  void give_up(const PlannedRow& planned, int threads, Status status, const std::string& why);
  const PlannedRow& planned_of(const Resident& resident) const;
  Team& team(int threads);

  const Experiment& experiment_;
  const Options& options_;
  const Provenance& provenance_;
  Plan& plan_;
  RecordFile& file_;
  const ProtocolSettings settings_;
  std::map<int, std::unique_ptr<Team>> teams_;
  Progress progress_;
  bool failed_ = false;
};

}  // namespace scaling
