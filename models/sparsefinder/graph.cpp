// Bits by words of 64.
#include "models/sparsefinder/graph.h"

#include <algorithm>
#include <bit>
#include <string>

#include "kernels/check.h"

namespace scaling {
namespace {

constexpr std::uint64_t kAll = ~std::uint64_t(0);

/// visit(word, mask) for the words that a range of keys touches.
template <class Visit>
void for_words(Range keys, Visit&& visit) {
  if (keys.begin >= keys.end) return;
  const std::int64_t first = keys.begin / 64, last = (keys.end - 1) / 64;
  for (std::int64_t word = first; word <= last; ++word) {
    std::uint64_t mask = kAll;
    if (word == first) mask &= kAll << (keys.begin % 64);
    if (word == last) mask &= kAll >> (63 - (keys.end - 1) % 64);
    visit(word, mask);
  }
}

Range cut_to(Range keys, std::int64_t positions) {
  return {std::max<std::int64_t>(0, keys.begin), std::min(positions, keys.end)};
}

}  // namespace

HeadGraph::HeadGraph(std::int64_t positions)
    : n_(positions), words_((positions + 63) / 64), bits_(std::size_t(n_ * words_)) {}

void HeadGraph::add(std::int64_t query, Range keys) {
  std::uint64_t* const bits = row(query);
  for_words(cut_to(keys, n_),
            [bits](std::int64_t word, std::uint64_t mask) { bits[word] |= mask; });
}

HeadGraph& HeadGraph::operator|=(const HeadGraph& more) {
  SCALING_CHECK(n_ == more.n_);
  for (std::size_t i = 0; i < bits_.size(); ++i) bits_[i] |= more.bits_[i];
  return *this;
}

HeadGraph& HeadGraph::operator&=(const HeadGraph& other) {
  SCALING_CHECK(n_ == other.n_);
  for (std::size_t i = 0; i < bits_.size(); ++i) bits_[i] &= other.bits_[i];
  return *this;
}

std::int64_t HeadGraph::pairs() const {
  std::int64_t n = 0;
  for (const std::uint64_t word : bits_) n += std::popcount(word);
  return n;
}

std::int64_t HeadGraph::pairs(std::int64_t query, Range keys) const {
  const std::uint64_t* const bits = row(query);
  std::int64_t n = 0;
  for_words(cut_to(keys, n_), [bits, &n](std::int64_t word, std::uint64_t mask) {
    n += std::popcount(bits[word] & mask);
  });
  return n;
}

std::int64_t legal_pairs(std::int64_t positions, bool causal) {
  return causal ? positions * (positions + 1) / 2 : positions * positions;
}

HeadGraph legal_graph(std::int64_t positions, bool causal) {
  HeadGraph graph(positions);
  for (std::int64_t i = 0; i < positions; ++i) graph.add(i, legal_keys(positions, i, causal));
  return graph;
}

void keep_legal(HeadGraph& graph, bool causal) {
  if (causal) graph &= legal_graph(graph.positions(), causal);
}

std::int64_t window_reach(std::int64_t width) {
  if (width < 0 || (width > 0 && width % 2 == 0)) {
    throw UserError("a window of width " + std::to_string(width) +
                    " has no middle; give an odd width, or 0 for no window");
  }
  return width == 0 ? -1 : (width - 1) / 2;
}

HeadGraph window_graph(std::int64_t positions, std::int64_t width) {
  const std::int64_t reach = window_reach(width);
  HeadGraph graph(positions);
  if (reach < 0) return graph;
  for (std::int64_t i = 0; i < positions; ++i) graph.add(i, Range{i - reach, i + reach + 1});
  return graph;
}

void add_globals(HeadGraph& graph, GlobalTokens globals) {
  const std::int64_t n = graph.positions();
  if (globals == GlobalTokens::none || n == 0) return;
  const auto add = [&graph, n](std::int64_t token) {
    graph.add(token, Range{0, n});
    for (std::int64_t i = 0; i < n; ++i) graph.add(i, token);
  };
  add(0);
  if (globals == GlobalTokens::first_and_last) add(n - 1);
}

}  // namespace scaling
