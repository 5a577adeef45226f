// What trained feed-forwards choose, token by token: kept in a file, counted, and replayed by
// models of other widths, whose weights nobody trained.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/study/point.h"
#include "models/layer.h"

namespace scaling {

/// Choices of every block of a model while it decoded examples, each from its beginning.
struct SelectionTrace {
  std::int64_t examples = 0, positions = 0, blocks = 0;
  Choices choices;                   ///< of each block
  std::vector<std::uint8_t> chosen;  ///< (examples, positions, blocks, choices.count)

  std::int64_t size() const { return examples * positions * blocks * choices.count; }
  std::int32_t at(std::int64_t example, std::int64_t position, std::int64_t block,
                  std::int64_t place) const {
    const std::int64_t row = (example * positions + position) * blocks + block;
    return chosen[std::size_t(row * choices.count + place)];
  }
};

/// Files are at most so large: examples beyond that are left out.
inline constexpr std::int64_t kMostTraceBytes = 100'000;
/// What a byte tells apart; layers that choose among more leave no trace.
inline constexpr std::int64_t kMostTraceOptions = 256;

/// As an .npy file of the four dimensions; throws UserError if it cannot be written.
void write_trace(const std::string& path, const SelectionTrace& trace);
/// options: among how many its blocks are to choose, which the file does not say. Throws UserError
/// if there is no such file, or if it chooses among others.
SelectionTrace read_trace(const std::string& path, std::int64_t options);

/// Means over places and blocks:
///
///   selection_reuse_<lag>  share of choices that are those of 1, 2, 4, 8, 16 tokens before
///   selection_chance       what that would be if tokens were independent: a place's shares of
///                          its options, squared and summed
///   selection_touched      share of a place's options that an example touches
std::vector<Metric> count_selections(const SelectionTrace& trace);

/// A trace as choices of a model with as many places as it likes: each stretch of as many places as
/// the trace has goes through an example of its own, so that what a place uses, and how often
/// again, is as it was.
class SelectionReplay {
 public:
  /// blocks: what they choose, of a model for decoding `tokens` sequences. Throws UserError if one
  /// chooses among others than the trace.
  SelectionReplay(SelectionTrace trace, std::vector<Choices> blocks, int tokens);
  /// Goes on at other places of the trace, where stretches of `length` tokens begin that hold all
  /// of an example about equally often; number: of the sequences, each draws others. Throws
  /// UserError if no example is so long.
  void begin(std::uint64_t number, std::int64_t length);
  /// Of the next token of each sequence, as Decoder::replay takes it.
  std::vector<std::vector<std::int32_t>> next();

 private:
  struct Place {
    std::int64_t example, position;
  };

  SelectionTrace trace_;
  std::vector<Choices> blocks_;
  std::int64_t tokens_, copies_ = 1;
  std::vector<Place> at_;  // (tokens, blocks, copies)
};

}  // namespace scaling
