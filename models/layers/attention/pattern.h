// Which keys a query may look at, by position. Scores and what becomes of them are not its affair.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/team.h"

namespace scaling {

class Pattern {
 public:
  virtual ~Pattern() = default;
  /// Every key that any of a group of queries may look at: appends ranges, ascending and apart.
  /// keys: how many there are; causal: none after the query, and as many keys as queries.
  virtual void keys_of(Range queries, std::int64_t keys, bool causal,
                       std::vector<Range>& ranges) const = 0;
  /// What one query of the group may look at among `keys`, a piece of one of those ranges.
  virtual Range visible(std::int64_t query, Range keys, bool causal) const = 0;
  /// How many pairs of a query and a key there are in a sequence.
  virtual double pairs(std::int64_t length, bool causal) const = 0;
  /// Latest positions that a decode of `capacity` ones must remember, the current one included.
  virtual std::int64_t remembered(std::int64_t capacity) const = 0;
};

}  // namespace scaling
