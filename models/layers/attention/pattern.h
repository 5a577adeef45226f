// Which keys a query may look at, by position. Scores and what becomes of them are not its affair.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "kernels/team.h"

namespace scaling {

/// n positions, each once: neighbours from `first` on, or runs of `run` neighbours (of the last run
/// maybe fewer), each starting `step` after the one before or where `starts` says.
struct Positions {
  std::int64_t n = 0, first = 0;
  std::int64_t run = 0;  ///< 0: all are neighbours
  std::int64_t step = 0;
  const std::int64_t* starts = nullptr;

  bool are_neighbours() const { return run == 0; }
  std::int64_t at(std::int64_t i) const {
    if (run == 0) return first + i;
    return (starts ? starts[i / run] : first + i / run * step) + i % run;
  }
  /// How many from the i-th on are neighbours.
  std::int64_t neighbours(std::int64_t i) const {
    return (run == 0 ? n : std::min(n, (i / run + 1) * run)) - i;
  }
  bool are_neighbours(Range which) const { return neighbours(which.begin) >= which.size(); }
};

/// Whose pattern is asked for.
struct PatternCall {
  std::int64_t head = 0;
  std::int64_t queries = 0, keys = 0;  ///< positions of either
  bool causal = false;                 ///< no key after its query, and as many keys as queries
  std::int64_t streams = 1;            ///< see AttentionMask
};

/// A pattern is cut into parts, in each of which a query sees a range of the part's keys: so a part
/// is worked through in tiles, although the keys of one query may lie apart. How it is cut, in
/// which order queries are visited and how keys are gathered is the pattern's choice; every pair of
/// a query and a key is in one part at most.
class Pattern {
 public:
  struct Part {
    Positions queries, keys;
    int kind = 0;  ///< the pattern's own mark
  };
  struct Parts {
    std::vector<Part> all;
    /// For Positions::starts; must have its size before a part points into it.
    std::vector<std::int64_t> starts;
    void clear() {
      all.clear();
      starts.clear();
    }
  };

  virtual ~Pattern() = default;

  /// To parts, which are cleared before.
  virtual void cut(const PatternCall& call, Parts& parts) const = 0;
  /// Which of a part's keys its i-th query may look at: a range of their indices in the part, which
  /// may be empty.
  virtual Range visible(const PatternCall& call, const Part& part, std::int64_t i) const = 0;
  /// Whether heads have patterns of their own.
  virtual bool differs_by_head() const { return false; }

  /// How many pairs of a query and a key a head has.
  double pairs(const PatternCall& call) const;
  /// visit(query, key) for each of them.
  void for_each_pair(const PatternCall& call,
                     const std::function<void(std::int64_t, std::int64_t)>& visit) const;

  // Decoding, under a causal mask. A head's cache has slots for keys and values; each position's go
  // into one or two of them, and a step reads ranges of slots.

  /// Whether slots are a ring of the latest positions, all of which a step reads; a pattern that
  /// says no has a place and reads of its own.
  virtual bool is_ring() const { return true; }
  /// Slots of a decode of `capacity` positions.
  virtual std::int64_t slots(std::int64_t capacity) const = 0;
  struct Place {
    std::int64_t slot, copy = -1;  ///< copy: the second slot, or -1
  };
  virtual Place place(std::int64_t head, std::int64_t position, std::int64_t capacity) const;
  /// Appends what the query at `position` reads, its own place included: ranges that are apart.
  virtual void reads(std::int64_t head, std::int64_t position, std::int64_t capacity,
                     std::vector<Range>& read) const;
  /// Most slots that a step reads if it reads several ranges; 0: it always reads one.
  virtual std::int64_t most_apart(std::int64_t /*capacity*/) const { return 0; }
  /// Positions that the last step of a decode of `length` ones reads.
  std::int64_t keys_read(std::int64_t head, std::int64_t length) const;
};

}  // namespace scaling
