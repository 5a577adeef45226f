// When a decode is measured, when it is believed and when there are enough of them.
//
// Rows in memory together take turns, one whole decode at a time, in a new random order each round.
// The machine's ceilings are measured right before and right after a decode; where the two differ
// by more than 5 % it is set aside, since the machine changed meanwhile. Where tokens are long, it
// changes within a decode: there each token has its own two readings, and a decode is the median of
// those tokens whose readings agree, if half of them do (not in the paper's protocol). A row that
// has lost more than 3 of 4 decodes that way, or half of them when its time is up, keeps everything
// and says so.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "experiments/decode/options.h"
#include "experiments/study/statistics.h"
#include "kernels/ceilings.h"
#include "models/block_part.h"

namespace scaling {

/// Seconds; longer tokens have ceilings of their own.
inline constexpr double kLongToken = 0.15;

struct ProtocolSettings {
  Protocol kind = Protocol::steady;
  int warm_up_tokens = 4;
  int tokens = kDecodeTokens;
  int dropped = 2;      ///< first tokens of a decode that are not timed
  int min_decodes = 6;  ///< the fewest that give a 95 % interval of the median
  int max_decodes = 2000;
  double budget_seconds = 20;  ///< of a row at one thread count; the minimum of decodes goes first
  double precision = 0.02;     ///< wanted half-width of the 95 % interval of the median
  std::uint64_t seed = 1;
};

ProtocolSettings settings_for(const Options& options);

/// A decode's median over its timed tokens (paper protocol: the mean), or one long token.
struct Times {
  double token_seconds = 0;
  double block_seconds = 0;
  /// Of a block; of a decode, those of the last token before the timed ones.
  PerPart<double> seat_seconds{};
};

struct LongToken {
  Times times;
  Ceilings before, after;
};

/// One decode of one row.
struct Decode {
  Times times;
  double rows_touched = 0;             ///< distinct feed-forward rows, mean over held blocks
  std::vector<LongToken> long_tokens;  ///< in place of `times` where there are any
};

/// Something that decodes: a row at one thread count, resident in memory.
class Subject {
 public:
  virtual ~Subject() = default;
  virtual std::string name() const = 0;
  virtual void warm_up() = 0;
  /// Untimed: makes ready for decode `number`.
  virtual void prepare(int number) = 0;
  virtual Decode decode(int number) = 0;
  virtual Ceilings ceilings() = 0;
};

/// What was measured between two readings of the ceilings, and their mean.
struct Part {
  Times times;
  Ceilings ceilings;
};

/// A decode: one part, or its long tokens.
struct Sample {
  std::vector<Part> parts;  ///< one at least
  double rows_touched = 0;

  /// The median of value(part) over the parts.
  template <class F>
  double median(const F& value) const {
    std::vector<double> values;
    for (const Part& part : parts) values.push_back(value(part));
    return quantile(std::move(values), 0.5);
  }
};

struct Samples {
  std::vector<Sample> kept;
  std::vector<Sample> set_aside;  ///< the ceilings before and after disagreed
  int attempts = 0;
  bool by_token = false;  ///< tokens are long, and have ceilings of their own
  /// Too much had to be set aside: everything was kept, and is kept from then on. A ratio to the
  /// mean of both ceilings is then believed only if its median is certain enough.
  bool restless = false;
  double seconds = 0;  ///< spent on this row, all included
};

/// Largest relative uncertainty of the medians of token and block time.
double uncertainty_of(const Samples& samples);

/// Fills one Samples for each subject. `finished(i, samples)` is called once for each, as soon as
/// it takes no further part; `live` gets what is going on. Throws Interrupted.
void run_protocol(const std::vector<Subject*>& subjects, const ProtocolSettings& settings,
                  const std::function<void(std::size_t, const Samples&)>& finished,
                  const std::function<void(const std::string&)>& live);

}  // namespace scaling
