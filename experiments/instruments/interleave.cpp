// Rounds of trials, bracketed by ceilings.
#include "experiments/instruments/interleave.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "experiments/study/interrupt.h"
#include "kernels/clock.h"
#include "kernels/random.h"

namespace scaling {
namespace {

constexpr double kMaxCeilingChange = 0.05;
constexpr double kMaxCeilingAge = 2;  // seconds
constexpr int kAttemptsBeforeUnstable = 8;
constexpr std::uint64_t kOrderStream = 7;

Ceilings mean(const Ceilings& a, const Ceilings& b) {
  return {(a.read_bytes_per_second + b.read_bytes_per_second) / 2,
          (a.fma_flops_per_second + b.fma_flops_per_second) / 2};
}

bool close(double a, double b) { return std::abs(a - b) <= kMaxCeilingChange * (a + b) / 2; }

bool agree(const Ceilings& a, const Ceilings& b) {
  return close(a.read_bytes_per_second, b.read_bytes_per_second) &&
         close(a.fma_flops_per_second, b.fma_flops_per_second);
}

class Rounds {
 public:
  Rounds(std::span<const Candidate> candidates, const Protocol& protocol)
      : candidates_(candidates),
        protocol_(protocol),
        trials_(candidates.size()),
        random_(protocol.seed, kOrderStream),
        start_(Clock::now()) {}

  const Trials& trials(std::size_t i) const { return trials_[i]; }
  std::vector<Trials> take() { return std::move(trials_); }

  void warm_up(std::size_t i) {
    if (!candidates_[i].warm_up) return;
    const auto start = Clock::now();
    candidates_[i].warm_up();
    trials_[i].seconds += seconds_since(start);
  }

  /// Whether a candidate may still be tried.
  bool takes_part(std::size_t i) const {
    const int kept = int(trials_[i].kept.size());
    if (kept < protocol_.least) return true;
    return kept < protocol_.most && spent_ < protocol_.budget_seconds * double(trials_.size());
  }

  /// Whether a candidate needs no further trial.
  bool settled(std::size_t i) const {
    return !takes_part(i) ||
           (int(trials_[i].kept.size()) >= protocol_.least &&
            uncertainty_of(trials_[i], protocol_.decisive) <= protocol_.precision);
  }

  std::vector<std::size_t> random_order() {
    std::vector<std::size_t> order(candidates_.size());
    std::iota(order.begin(), order.end(), std::size_t(0));
    for (std::size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[random_.below(std::uint32_t(i))]);
    }
    return order;
  }

  void attempt(std::size_t i) {
    const Candidate& candidate = candidates_[i];
    Trials& trials = trials_[i];
    if (protocol_.warm_up_each) warm_up(i);
    const auto start = Clock::now();
    // A candidate that takes part takes part in every round until then: its attempts are rounds.
    const int number = trials.attempts++;
    const double began = seconds_since(start_);
    if (candidate.prepare) candidate.prepare();
    Ceilings before;  // of no use to long parts
    if (candidate.ceilings && !trials.by_part) {
      const bool fresh = last_.candidate == i && seconds_since(last_.time) < kMaxCeilingAge;
      before = fresh ? last_.ceilings : candidate.ceilings();
    }
    Trial trial = candidate.trial(number);
    trials.by_part = !trial.parts.empty();
    if (!trials.by_part) {
      const Ceilings after = candidate.ceilings ? candidate.ceilings() : before;
      trial.parts = {{std::move(trial.values), before, after}};
    }
    last_ = {i, trial.parts.back().after, Clock::now()};
    keep(trials, trial, number, began);
    if (!trials.unstable && hopeless(trials)) {
      trials.unstable = true;
      trials.kept.insert(trials.kept.end(), trials.rejected.begin(), trials.rejected.end());
      trials.rejected.clear();
    }
    trials.seconds += seconds_since(start);
    spent_ += seconds_since(start);
  }

 private:
  static void keep(Trials& trials, const Trial& trial, int round, double began) {
    Sample all{.parts = {}, .round = round, .began = began}, steady = all;
    for (const auto& [values, before, after] : trial.parts) {
      all.parts.push_back({values, mean(before, after)});
      if (agree(before, after)) steady.parts.push_back(all.parts.back());
    }
    if (trials.unstable) {
      trials.kept.push_back(std::move(all));
    } else if (2 * steady.parts.size() >= all.parts.size()) {
      trials.kept.push_back(std::move(steady));
    } else {
      trials.rejected.push_back(std::move(all));
    }
  }

  /// Whether waiting for a steady machine has cost enough.
  bool hopeless(const Trials& trials) const {
    const int rejected = int(trials.rejected.size()), kept = int(trials.kept.size());
    const bool too_many = trials.attempts >= kAttemptsBeforeUnstable && rejected > 3 * kept;
    const bool too_long = trials.seconds > 2 * protocol_.budget_seconds &&
                          (rejected > kept || (rejected > 0 && kept < protocol_.least));
    return too_many || too_long;
  }

  struct LastCeilings {
    std::size_t candidate = std::size_t(-1);
    Ceilings ceilings;
    Clock::time_point time;
  };

  const std::span<const Candidate> candidates_;
  const Protocol& protocol_;
  std::vector<Trials> trials_;
  double spent_ = 0;  ///< seconds of all trials
  Rng random_;
  const Clock::time_point start_;
  LastCeilings last_;
};

}  // namespace

std::vector<double> Trials::column(std::size_t column) const {
  std::vector<double> values;
  for (const Sample& sample : kept) values.push_back(sample.column(column));
  return values;
}

double uncertainty_of(const Trials& trials, std::size_t decisive) {
  double largest = 0;
  for (std::size_t column = 0; column < decisive; ++column) {
    largest = std::max(largest, relative_uncertainty(trials.column(column)));
  }
  return largest;
}

std::vector<Trials> interleave(std::span<const Candidate> candidates, const Protocol& protocol,
                               const Finished& finished, const Live& live) {
  Rounds rounds(candidates, protocol);
  std::vector<bool> reported(candidates.size(), false);
  const auto report = [&](std::size_t i) {
    if (!reported[i] && finished) finished(i, rounds.trials(i));
    reported[i] = true;
  };
  const auto say = [&](std::size_t i, const std::string& what) {
    if (live) live(candidates[i].name + ": " + what);
  };
  const auto all_settled = [&] {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      if (!rounds.settled(i)) return false;
    }
    return true;
  };
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    say(i, "warm-up");
    rounds.warm_up(i);
  }
  while (!all_settled()) {
    for (const std::size_t i : rounds.random_order()) {
      check_interrupt();
      if (!rounds.takes_part(i)) continue;
      say(i, "trial " + std::to_string(rounds.trials(i).attempts + 1));
      rounds.attempt(i);
      if (!rounds.takes_part(i)) report(i);
    }
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) report(i);
  return rounds.take();
}

}  // namespace scaling
