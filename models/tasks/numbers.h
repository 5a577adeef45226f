// Copying and adding decimal numbers (paper table 4, paper 10.1): every example is drawn from a
// key and its index.
//
// Ids: 0 padding, 1 + v the digit v, kPlus, kSeparator. Addends and sums have their lowest digit
// first and no leading zeros; a number to copy is any row of digits.
//
//              one sequence for a decoder       weights 1     source      target, weights 1
//   copy       0 w 0 w                          second w      w           w
//   addition   S x + y S z                      z             x + y       z
//
// What follows is padding of weight 0. All examples of a batch to copy have one length, drawn in
// training; in evaluation the first few batches spread over all lengths.
#pragma once

#include <cstdint>
#include <memory>

#include "models/tasks/task.h"

namespace scaling {

struct Numbers {
  enum class Kind { copy, addition };

  static constexpr int kPlus = 11, kSeparator = 12;

  Kind kind = Kind::copy;
  bool has_source = false;  ///< a source and a target instead of one sequence
  /// Digits of the number to copy, or of both addends together: x gets at least half of digits_min,
  /// y at least one, so that a sum's digits can be fewer than digits_min, as in the paper's code.
  std::int64_t digits_min = 1, digits_max = 16;
  std::int64_t batch = 1;        ///< examples in a batch
  std::uint64_t key = 0;         ///< of all draws
  bool spreads_lengths = false;  ///< of numbers to copy, over the batches
  bool is_strict = false;        ///< both addends together have digits_min digits at least
  /// Lengths are multiples of this, and no longer than the longest example of a piece needs.
  std::int64_t pad_to = 32;

  /// Numbers in a question, so the least digits_max.
  std::int64_t numbers() const { return kind == Kind::addition ? 2 : 1; }
  std::int64_t least_vocab_size() const { return kind == Kind::addition ? 13 : 12; }
  /// Positions that the longest possible example takes, padded.
  Lengths longest() const;

  /// Examples [first, last) of batch `index` (0, 1, ...). 1 <= digits_min <= digits_max and
  /// numbers() <= digits_max.
  void make_batch(std::int64_t index, std::int64_t first, std::int64_t last, Batch& out) const;
};

/// Examples of a kind, with a source or without. Evaluated on eval_digits; also on the digits
/// trained on and, at the end, range by range of digits.
Needs needs_of_numbers(Numbers::Kind kind, bool has_source, const TrainConfig& config);
std::unique_ptr<Task> make_numbers(Numbers::Kind kind, bool has_source, const TrainConfig& config);

}  // namespace scaling
