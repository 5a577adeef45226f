// Which keys each query of one head meets, as rows of bits: what Sparsefinder predicts and what a
// sparse attention really uses ("Predicting Attention Sparsity in Transformers").
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/kernels.h"

namespace scaling {

/// Pairs of a query and a key of one sequence of `positions`. Row i has a bit for every key of
/// query i; bits behind the last key are 0.
class HeadGraph {
 public:
  HeadGraph() = default;
  /// Without pairs.
  explicit HeadGraph(std::int64_t positions);

  std::int64_t positions() const { return n_; }
  std::int64_t words() const { return words_; }  ///< of a row
  std::uint64_t* row(std::int64_t query) { return bits_.data() + query * words_; }
  const std::uint64_t* row(std::int64_t query) const { return bits_.data() + query * words_; }

  bool has(std::int64_t query, std::int64_t key) const {
    return (row(query)[key / 64] >> (key % 64) & 1) != 0;
  }
  void add(std::int64_t query, std::int64_t key) {
    row(query)[key / 64] |= std::uint64_t(1) << (key % 64);
  }
  /// Keys of a range, which is cut to the sequence.
  void add(std::int64_t query, Range keys);
  HeadGraph& operator|=(const HeadGraph& more);
  HeadGraph& operator&=(const HeadGraph& other);
  bool operator==(const HeadGraph&) const = default;

  std::int64_t pairs() const;
  /// Of one query, with keys in a range, which is cut to the sequence.
  std::int64_t pairs(std::int64_t query, Range keys) const;

 private:
  std::int64_t n_ = 0, words_ = 0;
  std::vector<std::uint64_t> bits_;
};

/// Pairs that there may be at all: n^2, or with a causal mask those of a key at or before the
/// query.
std::int64_t legal_pairs(std::int64_t positions, bool causal);
HeadGraph legal_graph(std::int64_t positions, bool causal);
/// Keys that a query may meet.
inline Range legal_keys(std::int64_t positions, std::int64_t query, bool causal) {
  return {0, causal ? query + 1 : positions};
}
/// Takes away what the mask forbids: to be done last, after patterns have been united.
void keep_legal(HeadGraph& graph, bool causal);

/// Positions that everyone meets and that meet everyone.
enum class GlobalTokens { none, first, first_and_last };
constexpr std::array<const char*, 3> names_of(GlobalTokens) {
  return {"none", "first", "first_and_last"};
}

/// Every query and the keys at most (width - 1) / 2 before or after it; 0: no pairs. Throws
/// UserError for an even width.
HeadGraph window_graph(std::int64_t positions, std::int64_t width);
/// Half the width of a window, less its middle; -1: no window. Throws as window_graph does.
std::int64_t window_reach(std::int64_t width);
void add_globals(HeadGraph& graph, GlobalTokens globals);

}  // namespace scaling
