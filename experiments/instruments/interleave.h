// When something is measured, when it is believed and when there is enough of it.
//
// Candidates in memory together take turns, one whole trial at a time, in a new random order each
// round. The machine's ceilings are measured right before and right after a trial; where the two
// differ by more than 5 % it is rejected, since the machine changed meanwhile. Where a trial is
// long, it changes within: there each of its parts has its own two readings, and a trial is the
// median of those parts whose readings agree, if half of them do. A candidate that has lost more
// than 3 of 4 trials that way, or half of them when twice its time is up, or any of them if it
// still lacks the least, keeps everything and says so.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "experiments/study/statistics.h"
#include "kernels/ceilings.h"

namespace scaling {

/// What a trial measures, the same columns in each trial of a candidate.
using Columns = std::vector<double>;

struct LongPart {
  Columns values;
  Ceilings before, after;
};

struct Trial {
  Columns values;
  std::vector<LongPart> parts;  ///< in place of `values` where there are any
};

/// Something to be measured, in memory.
struct Candidate {
  std::string name;
  std::function<Trial(int number)> trial;   ///< counted from 0
  std::function<void()> warm_up = {};       ///< once, or before each trial
  std::function<void()> prepare = {};       ///< before the readings around a trial
  std::function<Ceilings()> ceilings = {};  ///< of the machine, now; empty: all trials are believed
};

inline constexpr int kFewestTrials = 6;  ///< that give a 95 % interval of the median
/// A floor over a time: above it the floor is none, and something is measured or counted wrongly.
inline constexpr double kMaxEfficiency = 1.03;

struct Protocol {
  int least = kFewestTrials;  ///< trials to keep
  int most = 2000;
  /// Of a candidate, all included. Candidates share theirs, so that all are in every round but
  /// perhaps the last; the least of trials goes first.
  double budget_seconds = 20;
  double precision = 0.02;   ///< wanted half-width of the 95 % interval of the median; 0: spend all
  std::size_t decisive = 1;  ///< the first columns, whose medians are wanted so precisely
  bool warm_up_each = false;  ///< before each trial, not once
  std::uint64_t seed = 1;     ///< of the order
};

/// What was measured between two readings of the ceilings, and their mean.
struct Part {
  Columns values;
  Ceilings ceilings;
};

/// A trial that is over: one part, or its long ones.
struct Sample {
  std::vector<Part> parts;  ///< one at least
  int round = 0;            ///< candidates of one round were tried right after one another
  double began = 0;         ///< seconds since the first round

  /// The median of value(part) over the parts.
  template <class F>
  double median(const F& value) const {
    std::vector<double> values;
    for (const Part& part : parts) values.push_back(value(part));
    return quantile(std::move(values), 0.5);
  }
  double column(std::size_t column) const {
    return median([column](const Part& part) { return part.values[column]; });
  }
};

struct Trials {
  std::vector<Sample> kept;
  std::vector<Sample> rejected;  ///< the ceilings before and after disagreed
  int attempts = 0;
  bool by_part = false;  ///< trials are long, and their parts have ceilings of their own
  /// Too much was rejected: everything was kept, and is kept from then on. A ratio to the mean of
  /// both ceilings is then believed only if its median is certain enough.
  bool unstable = false;
  double seconds = 0;  ///< spent on this candidate, all included

  /// One value a kept trial.
  std::vector<double> column(std::size_t column) const;
};

/// Largest relative uncertainty of the medians of the first `decisive` columns.
double uncertainty_of(const Trials& trials, std::size_t decisive);

using Finished = std::function<void(std::size_t candidate, const Trials&)>;
using Live = std::function<void(const std::string&)>;

/// The trials of each candidate. `finished` is called once for each, as soon as it takes no further
/// part; `live` gets what is going on. Throws Interrupted.
std::vector<Trials> interleave(std::span<const Candidate> candidates, const Protocol& protocol,
                               const Finished& finished = {}, const Live& live = {});

}  // namespace scaling
