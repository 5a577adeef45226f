// A decode step of an attention, between its projections, over caches that pretend a past.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "experiments/instruments/cold_memory.h"
#include "experiments/instruments/held_attention.h"
#include "experiments/instruments/interleave.h"
#include "kernels/cost.h"
#include "kernels/kernels.h"
#include "kernels/team.h"
#include "models/attention.h"
#include "models/config.h"

namespace scaling {

/// Steps of a trial that count, and those before them that do not.
inline constexpr int kTimedSteps = 6, kUntimedSteps = 1;

/// Columns of a trial: medians over its timed steps, but for the last.
enum StepColumn : std::size_t {
  kStepSeconds,
  kReadRate,     ///< bytes a second of the memory that is read right before the step
  kProductRate,  ///< FLOP/s of the team, once a trial
  kColumns
};

/// One attention at one number of cached positions; a trial decodes from there on, over and over
/// again.
class DecodeCore {
 public:
  /// All of them outlive this. Throws UserError if the cache does not fit, or the attention has no
  /// decode.
  DecodeCore(const ModelConfig& model, std::int64_t context, const KernelSet& kernels, Team& team,
             const ColdMemory& elsewhere);

  /// For interleave; borrows this.
  Candidate candidate(const std::string& name);

  /// What the middle one of the timed steps reads and computes; after a trial.
  Cost cost() const;
  std::uint64_t cache_bytes() const { return bytes_of(attention_.layer(), context_); }
  /// What the cache of such a decode takes.
  static std::uint64_t bytes_of(const SelfAttention& attention, std::int64_t context) {
    return attention.cache_bytes(1, capacity(context));
  }
  /// v, of every step, and o of the last: d_model numbers.
  const std::vector<float>& value() const { return v_; }
  const std::vector<float>& output() const { return o_; }

 private:
  static std::int64_t capacity(std::int64_t context) {
    return context + kUntimedSteps + kTimedSteps;
  }
  StepContext at(int thread, std::int64_t position);
  double step(std::int64_t position);
  Trial decode();

  const std::int64_t context_;
  const KernelSet& kernels_;
  Team& team_;
  const ColdMemory& elsewhere_;
  const HeldAttention attention_;
  std::unique_ptr<AttentionCache> cache_;
  std::vector<float> q_, k_, v_, o_, workspace_;
};

}  // namespace scaling
