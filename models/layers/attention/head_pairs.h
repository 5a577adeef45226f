// Who meets whom in a head because of what its queries and keys are, where positions alone do not
// say it.
#pragma once

#include <cstdint>
#include <vector>

#include "models/layers/attention/pattern.h"
#include "models/matrix.h"

namespace scaling {

/// Of one head at a time: what is chosen for it from its queries and keys, the decisions, is all
/// that the rest needs, so that a forward which is computed again finds the same pairs.
class HeadPairs {
 public:
  virtual ~HeadPairs() = default;
  /// Numbers that hold the decisions of a head.
  virtual std::int64_t decisions(std::int64_t positions) const = 0;
  /// q, k: (positions, d_head), before any scaling; seen: 0 is padding; null: there is none.
  virtual void choose(std::int64_t head, const Mat& q, const Mat& k, const std::uint8_t* seen,
                      std::int32_t* decisions) = 0;
  /// Before what follows: the head's own. They stay where they are until the next.
  virtual void load(const PatternCall& call, const std::int32_t* decisions) = 0;
  /// How the pairs are cut into parts; a part may show more than there is.
  virtual const Pattern& pattern() const = 0;
  /// Whether a part does, so that show() must be asked.
  virtual bool hides(const Pattern::Part& part) const = 0;
  /// Sets bits [0, keys.size()) and the rest of their last word: which of these keys of the part,
  /// all visible, its i-th query meets.
  virtual void show(const PatternCall& call, const Pattern::Part& part, std::int64_t i, Range keys,
                    std::uint64_t* bits) const = 0;
};

}  // namespace scaling
