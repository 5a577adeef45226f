// A row of a decode experiment: a model and the way it is decoded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/instruments/model_row.h"
#include "experiments/instruments/selection_trace.h"
#include "models/knobs.h"

namespace scaling {

struct DecodeKnobs {
  std::int64_t context = 0;         ///< cached positions before the first measured token
  std::int64_t source_length = 16;  ///< encoder positions
  std::string kernels = "simd";     ///< kernel set
  bool own_threads = false;         ///< the library starts its own threads; our team is one thread
  bool cold = false;                ///< nothing of the model is in a cache when a token begins
  std::string replay = {};          ///< file of choices (selection_trace.h); empty: its own
  std::string differs = {};         ///< from the published model: words with _ between commas

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("context", k.context, "cached positions before the first measured token");
    visit("source_length", k.source_length, "encoder positions");
    visit("kernels", k.kernels, "kernel set");
    visit("own_threads", k.own_threads, "the library uses its own threads");
    visit("cold", k.cold, "caches are emptied of the model before each token");
    visit("replay", k.replay,
          "trace of a trained model's choices, which are taken instead of the row's own; a file, "
          "from the folder the program runs in");
    visit(
        "differs", k.differs,
        "what a published model has otherwise, in words with _ between commas; of no other effect",
        Trait{.in_key = InKey::no});
  }
};

struct DecodeRow : ModelRow {
  DecodeKnobs decode;

  int tokens() const { return int(batch); }
};

/// Tokens of a measured decode, the first of which are not timed; a row's tables must have room for
/// them.
inline constexpr int kDecodeTokens = 12, kUntimedTokens = 2;
/// Tokens of a decode that warms up.
inline constexpr int kWarmUpTokens = 4;

/// The choices that a row replays, or nothing if it makes its own; throws UserError if the file or
/// what it holds does not fit the row's feed-forward.
std::optional<SelectionTrace> replayed_by(const DecodeRow& row);

/// What a row may set.
std::vector<KnobInfo> decode_row_knobs();

/// The file's rows, checked. Throws UserError naming file and row for anything inconsistent.
std::vector<DecodeRow> decode_rows(const RowFile& file);

/// Every knob of a row as text, those of ModelRow first.
Settings settings_of(const DecodeRow& row);

/// The cached length at the middle of a decode's timed tokens; costs are counted there.
inline std::int64_t middle_length(const DecodeRow& row) {
  // The timed tokens see lengths context + 3 to context + 12.
  return row.decode.context + 8;
}

/// Positions that a decode's caches hold.
inline std::int64_t capacity_of(const DecodeRow& row) { return row.decode.context + kDecodeTokens; }

}  // namespace scaling
