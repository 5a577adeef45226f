// What is added to a token's row to say where it stands (paper 4.7).
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "models/config.h"
#include "models/parameter.h"

namespace scaling {

/// A position written with eight digits in each of four bases: digit i of a base, as a number,
/// times a learned vector of an eighth of the width, pieces side by side, bases added up.
struct FixedBase {
  static constexpr std::array<std::int64_t, 4> kBases = {11, 13, 14, 15};
  static constexpr std::int64_t kDigits = 8;
  static constexpr std::int64_t kEnd = 214358881;  ///< 11^8 positions are told apart
  /// Of one position, the least significant first.
  using Digits = std::array<std::array<float, kDigits>, kBases.size()>;
  static Digits digits_of(std::int64_t position);
};

/// The positions of one stack.
struct PositionVectors {
  PositionEncoding encoding = PositionEncoding::table;
  /// table: (max_length, d). fixed_base: vectors of d, one for each base and one that is added to a
  /// sequence's first position.
  Parameter weights;

  static PositionVectors make(const std::string& name, const ModelConfig& config);
  /// How many positions it has rows for.
  std::int64_t end() const {
    return encoding == PositionEncoding::table ? weights.rows : FixedBase::kEnd;
  }
  std::int64_t width() const;
  /// Adds a position's row to `to`. is_first: of its sequence, wherever that begins.
  void add(std::int64_t position, bool is_first, float* to) const;
};

}  // namespace scaling
