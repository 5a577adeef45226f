// Rounds of interleaved decodes, bracketed by ceilings.
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
constexpr int kAttemptsBeforeRestless = 8;

Ceilings mean(const Ceilings& a, const Ceilings& b) {
  return {(a.read_bytes_per_second + b.read_bytes_per_second) / 2,
          (a.fma_flops_per_second + b.fma_flops_per_second) / 2};
}

bool close(double a, double b) { return std::abs(a - b) <= kMaxCeilingChange * (a + b) / 2; }

bool agree(const Ceilings& a, const Ceilings& b) {
  return close(a.read_bytes_per_second, b.read_bytes_per_second) &&
         close(a.fma_flops_per_second, b.fma_flops_per_second);
}

/// The run of one group of subjects.
class Rounds {
 public:
  Rounds(const std::vector<Subject*>& subjects, const ProtocolSettings& settings)
      : subjects_(subjects),
        settings_(settings),
        samples_(subjects.size()),
        random_(settings.seed, 7) {}

  const Samples& samples(std::size_t i) const { return samples_[i]; }

  void warm_up(std::size_t i) {
    const auto start = Clock::now();
    subjects_[i]->warm_up();
    samples_[i].seconds += seconds_since(start);
  }

  /// Whether a subject may still decode.
  bool takes_part(std::size_t i) const {
    const int kept = int(samples_[i].kept.size());
    if (kept < settings_.min_decodes) return true;
    return kept < settings_.max_decodes && samples_[i].seconds < settings_.budget_seconds;
  }

  /// Whether a subject needs no further decode.
  bool settled(std::size_t i) const {
    return !takes_part(i) || (int(samples_[i].kept.size()) >= settings_.min_decodes &&
                              uncertainty_of(samples_[i]) <= settings_.precision);
  }

  std::vector<std::size_t> random_order() {
    std::vector<std::size_t> order(subjects_.size());
    std::iota(order.begin(), order.end(), std::size_t(0));
    for (std::size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[random_.below(std::uint32_t(i))]);
    }
    return order;
  }

  void attempt(std::size_t i) {
    const auto start = Clock::now();
    Subject& subject = *subjects_[i];
    Samples& samples = samples_[i];
    const int number = samples.attempts++;
    if (settings_.kind == Protocol::paper) subject.warm_up();
    subject.prepare(number);
    Ceilings before;  // of no use to long tokens
    if (!samples.by_token) {
      const bool fresh = last_.subject == &subject && seconds_since(last_.time) < kMaxCeilingAge;
      before = fresh ? last_.ceilings : subject.ceilings();
    }
    Decode decode = subject.decode(number);
    samples.by_token = !decode.long_tokens.empty();
    if (!samples.by_token) decode.long_tokens = {{decode.times, before, subject.ceilings()}};
    last_ = {&subject, decode.long_tokens.back().after, Clock::now()};
    keep(samples, decode);
    if (!samples.restless && hopeless(samples)) {
      samples.restless = true;
      samples.kept.insert(samples.kept.end(), samples.set_aside.begin(), samples.set_aside.end());
      samples.set_aside.clear();
    }
    samples.seconds += seconds_since(start);
  }

 private:
  static void keep(Samples& samples, const Decode& decode) {
    Sample all{{}, decode.rows_touched}, steady = all;
    for (const auto& [times, before, after] : decode.long_tokens) {
      all.parts.push_back({times, mean(before, after)});
      if (agree(before, after)) steady.parts.push_back(all.parts.back());
    }
    if (samples.restless) {
      samples.kept.push_back(all);
    } else if (2 * steady.parts.size() >= all.parts.size()) {
      samples.kept.push_back(steady);
    } else {
      samples.set_aside.push_back(all);
    }
  }

  /// Whether waiting for a steady machine has cost enough.
  bool hopeless(const Samples& samples) const {
    const int aside = int(samples.set_aside.size()), kept = int(samples.kept.size());
    const bool too_many = samples.attempts >= kAttemptsBeforeRestless && aside > 3 * kept;
    const bool too_long = samples.seconds > 2 * settings_.budget_seconds && aside > kept;
    return too_many || too_long;
  }

  struct LastCeilings {
    const Subject* subject = nullptr;
    Ceilings ceilings;
    Clock::time_point time;
  };

  const std::vector<Subject*>& subjects_;
  const ProtocolSettings& settings_;
  std::vector<Samples> samples_;
  Rng random_;
  LastCeilings last_;
};

}  // namespace

ProtocolSettings settings_for(const Options& options) {
  ProtocolSettings settings;
  settings.kind = options.protocol;
  settings.budget_seconds = options.time_budget;
  if (options.quick) settings.min_decodes = 3;
  if (options.protocol == Protocol::paper) settings.max_decodes = settings.min_decodes;
  return settings;
}

double uncertainty_of(const Samples& samples) {
  std::vector<double> token, block;
  for (const Sample& sample : samples.kept) {
    token.push_back(sample.median([](const Part& p) { return p.times.token_seconds; }));
    block.push_back(sample.median([](const Part& p) { return p.times.block_seconds; }));
  }
  return std::max(relative_uncertainty(token), relative_uncertainty(block));
}

void run_protocol(const std::vector<Subject*>& subjects, const ProtocolSettings& settings,
                  const std::function<void(std::size_t, const Samples&)>& finished,
                  const std::function<void(const std::string&)>& live) {
  Rounds rounds(subjects, settings);
  std::vector<bool> reported(subjects.size(), false);
  const auto report = [&](std::size_t i) {
    if (!reported[i]) finished(i, rounds.samples(i));
    reported[i] = true;
  };
  const auto all_settled = [&] {
    for (std::size_t i = 0; i < subjects.size(); ++i) {
      if (!rounds.settled(i)) return false;
    }
    return true;
  };
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    live(subjects[i]->name() + ": warm-up");
    rounds.warm_up(i);
  }
  while (!all_settled()) {
    for (const std::size_t i : rounds.random_order()) {
      check_interrupt();
      if (!rounds.takes_part(i)) continue;
      live(subjects[i]->name() + ": decode " + std::to_string(rounds.samples(i).attempts + 1));
      rounds.attempt(i);
      if (!rounds.takes_part(i)) report(i);
    }
  }
  for (std::size_t i = 0; i < subjects.size(); ++i) report(i);
}

}  // namespace scaling
