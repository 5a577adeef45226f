// A row at one thread count as something that decodes: model, decoder, teams.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "experiments/decode/decode_row.h"
#include "experiments/instruments/conditions.h"
#include "experiments/instruments/interleave.h"
#include "experiments/instruments/selection_trace.h"
#include "kernels/arena.h"
#include "kernels/random.h"
#include "models/transformer/decoder.h"

namespace scaling {

/// A row's model, shared by all thread counts: shapes, until it is allocated.
struct DecodeModel {
  DecodeRow row;
  std::unique_ptr<Transformer> model;
  Mat encoded = {};  ///< of an allocated model, as Transformer::encode has it

  /// What the model counts at the middle of a decode: count(&Transformer::token_cost).
  template <class Counted>
  Counted count(Counted (Transformer::*counted)(int tokens, std::int64_t length,
                                                std::int64_t source_length) const) const {
    return (model.get()->*counted)(row.tokens(), middle_length(row), row.decode.source_length);
  }
  /// What a token through the blocks in memory reads and computes.
  Phase held_token() const { return total(count(&Transformer::held_token_cost)); }
  /// Keys and values that decoding needs beside the weights.
  std::uint64_t cache_bytes() const;
};

/// Seconds; longer tokens have ceilings of their own.
inline constexpr double kLongToken = 0.15;

/// Ceilings are measured over as much memory as a token reads, and no more than this.
inline constexpr std::uint64_t kMaxCeilingBytes = 1ull << 30;

/// steady: a decode's median over its timed tokens counts. paper: their mean, after a warm-up.
enum class DecodeProtocol { steady, paper };
constexpr std::array<const char*, 2> names_of(DecodeProtocol) { return {"steady", "paper"}; }

/// Columns of a decode, or of one long token. The last are one a part, a block's seconds in it and
/// barriers: of a decode, those of the last token before the timed ones; and from kTokens on, of a
/// decode of short tokens, each token's seconds.
enum DecodeColumn : std::size_t {
  kTokenSeconds,
  kBlockSeconds,
  kRowsTouched,
  kBegan,       ///< seconds since the trial began
  kReadBefore,  ///< GB/s of the fixed memory, right before and right after
  kReadAfter,
  kBarrier,  ///< from here on Conditions, of the whole decode
  kSteal,
  kPressure,
  kSwitches,
  kLoad,
  kHugePages,
  kLoadApart,  ///< seconds of a load from the row's own weights, each from another page
  kPartSeconds,
  kPartBarriers = kPartSeconds + kParts,
  kTokens = kPartBarriers + kParts
};
/// Token and block.
inline constexpr std::size_t kDecisiveColumns = 2;

/// Teacher-forced decodes of random tokens.
class DecodeCandidate {
 public:
  /// The model and the teams outlive this. decode_team runs the steps, ceiling_team measures the
  /// machine (they differ where a library brings its own threads). Throws UserError if the caches
  /// do not fit. meter: outlives this; null: conditions are not noted.
  DecodeCandidate(const DecodeModel& loaded, const KernelSet& kernels, Team& decode_team,
                  Team& ceiling_team, ConditionsMeter* meter, DecodeProtocol protocol);

  /// For interleave; borrows this.
  Candidate candidate();

 private:
  void begin();
  /// One token a sequence, of random ids; of a cold row after other memory has gone through caches.
  StepTiming step(Rng& ids);
  void warm_up();
  Trial decode(int number);
  Ceilings ceilings();
  /// Ceilings, and the read of the fixed memory right beside them.
  struct Look {
    Ceilings ceilings;
    double read_gbps;
  };
  Look look();
  /// Before memory is read: a library's own threads would take some of its rate.
  double idle_seconds() const;
  double read_gbps();
  /// One number a timed token to that of the decode.
  double middle(const std::vector<double>& values) const;
  /// Those of times, all else as yet unknown.
  Columns columns(double token_seconds, double block_seconds) const;

  const DecodeModel& loaded_;
  const KernelSet& kernels_;
  const int library_threads_;
  Team& ceiling_team_;
  ConditionsMeter* const meter_;
  const DecodeProtocol protocol_;
  Decoder decoder_;
  Arena elsewhere_;  ///< of a cold row: more than caches hold
  std::optional<SelectionReplay> replay_;
  std::uint64_t ceiling_bytes_;
  bool has_long_tokens_ = false;  ///< known after the warm-up
  std::vector<int> ids_, next_;
};

}  // namespace scaling
