// Heads of all examples are shared among the threads.
#include "models/layers/attention/tiles.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "kernels/parallel.h"
#include "models/attention_graphs.h"
#include "models/layers/attention/tiled_head.h"

namespace scaling {
namespace {

/// A graph that was given, as parts of the pattern.
class GivenPairs : public HeadPairs {
 public:
  GivenPairs(const Pattern& pattern, HeadGraph graph)
      : pattern_(pattern), graph_(std::move(graph)) {}
  std::int64_t decisions(std::int64_t) const override { return 0; }
  void choose(std::int64_t, const Mat&, const Mat&, const std::uint8_t*, std::int32_t*) override {}
  void load(const PatternCall& call, const std::int32_t*) override {
    SCALING_CHECK(graph_.positions() == call.keys && call.queries == call.keys);
  }
  const Pattern& pattern() const override { return pattern_; }
  bool hides(const Pattern::Part&) const override { return true; }
  void show(const PatternCall&, const Pattern::Part& part, std::int64_t i, Range keys,
            std::uint64_t* bits) const override {
    const std::int64_t query = part.queries.at(i);
    std::fill_n(bits, (keys.size() + 63) / 64, std::uint64_t(0));
    for (std::int64_t j = 0; j < keys.size(); ++j) {
      const bool meets = graph_.has(query, part.keys.at(keys.begin + j));
      bits[j / 64] |= std::uint64_t(meets) << (j % 64);
    }
  }

 private:
  const Pattern& pattern_;
  HeadGraph graph_;
};

struct AttentionActivations : Activations {
  /// (examples * heads, queries): the largest unscaled logit, and one over the sum of exp(logit -
  /// the largest), or the threshold.
  std::vector<float> largest, statistics;
  std::vector<HeadRows> o;        ///< (examples * heads): the last result
  std::vector<double> pairs_met;  ///< (examples * heads), where pairs are chosen
  /// A thread's are at its first pair of example and head; at others there are none.
  std::vector<std::unique_ptr<HeadBuffers>> buffers;
};

void own_pairs(const TiledAttention& layer, HeadBuffers& b) {
  if (b.pairs && b.pairs_of == &layer) return;
  b.pairs = layer.make_pairs();
  b.pairs_of = &layer;
}

/// The head's pairs are those that the buffers' make of the decisions.
void take_pairs(TiledHead& head, const std::int32_t* decisions, HeadBuffers& b) {
  b.pairs->load(head.call, decisions);
  head.pairs = b.pairs.get();
  head.pattern = &b.pairs->pattern();
}

/// body(head, its queries' part, its keys' part, buffers with its q, k and v) for all heads.
template <class Body>
void for_heads(const TiledAttention& layer, const Pass& pass, const Mat& q, const Mat& k,
               const Mat& v, const AttentionMask& mask, AttentionActivations& own, Body&& body) {
  const std::int64_t heads = layer.heads, all_heads = layer.all_heads();
  const std::int64_t queries = pass.length(q), keys = pass.length(k), d = layer.d_head;
  parallel_for(pass.examples * heads, [&](std::int64_t begin, std::int64_t end) {
    std::unique_ptr<HeadBuffers>& buffers = own.buffers[std::size_t(begin)];
    if (!buffers) buffers = std::make_unique<HeadBuffers>();
    HeadBuffers& b = *buffers;
    b.scores.resize(kQueriesAtOnce, tile_width(keys));
    for (std::int64_t pair = begin; pair < end; ++pair) {
      const std::int64_t example = pair / heads, head_index = layer.first + pair % heads;
      const std::int64_t column = head_index * d;
      const HeadPart of_queries = {example * queries, column, queries, d};
      const HeadPart of_keys = {example * keys, column, keys, d};
      b.q.load(q, of_queries);
      b.k.load(k, of_keys);
      b.v.load(v, of_keys);
      const TiledHead head = {.pass = pass,
                              .pattern = layer.pattern.get(),
                              .normaliser = layer.normaliser.get(),
                              .stream = own.stream,
                              .seen = mask.keys ? mask.keys + example * keys : nullptr,
                              .call = {.head = head_index,
                                       .queries = queries,
                                       .keys = keys,
                                       .causal = mask.causal,
                                       .streams = mask.streams},
                              .d = d,
                              .pair = example * all_heads + head_index,
                              .own = pair,
                              .largest = own.largest.data() + pair * queries,
                              .statistics = own.statistics.data() + pair * queries};
      body(head, of_queries, of_keys, b);
    }
  });
}

}  // namespace

double TiledAttention::pairs_met(const Activations& kept) const {
  const std::vector<double>& of_heads = static_cast<const AttentionActivations&>(kept).pairs_met;
  return std::accumulate(of_heads.begin(), of_heads.end(), 0.0);
}

std::unique_ptr<Activations> TiledAttention::make_activations() const {
  return std::make_unique<AttentionActivations>();
}

/// Whether tiles take rows that are no neighbours, which are copied first.
bool TiledAttention::takes_rows_apart(std::int64_t queries, std::int64_t keys) const {
  if (make_pairs) return true;
  Pattern::Parts parts;
  pattern->cut({.head = first, .queries = queries, .keys = keys, .causal = queries == keys}, parts);
  return std::any_of(parts.all.begin(), parts.all.end(), [](const Pattern::Part& part) {
    return !part.queries.are_neighbours() || !part.keys.are_neighbours();
  });
}

double TiledAttention::thread_floats(std::int64_t queries, std::int64_t keys) const {
  const std::int64_t rows = (3 * queries + 4 * keys) * d_head + 2 * queries;
  const std::int64_t panels = 2 * (tile_panel_floats(keys, d_head) +
                                   tile_panel_floats(std::min(kKeysAtOnce, keys), d_head));
  const std::int64_t at_once =
      3 * std::min(kQueriesAtOnce, queries) + 4 * std::min(kKeysAtOnce, keys);
  const std::int64_t copies = takes_rows_apart(queries, keys) ? at_once * d_head : 0;
  return double(rows + copies + panels + 2 * kQueriesAtOnce * tile_width(keys));
}

void TiledAttention::forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                             const AttentionMask& mask, Activations& kept, Mat& o) const {
  const std::int64_t queries = pass.length(q), keys = pass.length(k);
  const std::int64_t pairs = pass.examples * heads;
  SCALING_CHECK(q.rows() == pass.examples * queries && k.rows() == pass.examples * keys);
  SCALING_CHECK(v.rows() == k.rows() && (!mask.causal || queries == keys));
  SCALING_CHECK(q.cols() == all_heads() * d_head && k.cols() == q.cols() && v.cols() == q.cols());
  auto& own = static_cast<AttentionActivations&>(kept);
  own.take_stream(pass);
  own.largest.resize(std::size_t(pairs * queries));
  own.statistics.resize(own.largest.size());
  if (own.buffers.size() < std::size_t(pairs)) own.buffers.resize(std::size_t(pairs));
  own.o.resize(std::size_t(pairs), HeadRows(kQueriesAtOnce));
  o.resize(q.rows(), q.cols());
  // Rows are read and written in turns.
  SCALING_CHECK(o.data() != q.data() && o.data() != k.data() && o.data() != v.data());
  SCALING_CHECK(!pass.graphs || (!pass.training && pass.examples == 1 && queries == keys));
  SCALING_CHECK(!pass.graphs || !make_pairs);
  const std::int64_t attention = pass.graphs ? pass.attentions++ : 0;
  own.pairs_met.assign(pass.graphs || make_pairs ? std::size_t(pairs) : 0, 0.0);
  const std::int64_t decisions = make_pairs ? make_pairs()->decisions(queries) : 0;
  if (pass.recalls_decisions()) {
    SCALING_CHECK(own.chosen.size() == std::size_t(pairs * decisions));
  } else {
    own.chosen.resize(std::size_t(pairs * decisions));
  }
  for_heads(*this, pass, q, k, v, mask, own,
            [&](const TiledHead& all, const HeadPart& of_queries, const HeadPart&, HeadBuffers& b) {
              TiledHead head = all;
              if (pass.graphs) {
                b.pairs = std::make_unique<GivenPairs>(
                    *pattern, pass.graphs->graph(attention, head.call.head, b.q.all(), b.k.all()));
                b.pairs_of = nullptr;
                take_pairs(head, nullptr, b);
              } else if (make_pairs) {
                own_pairs(*this, b);
                std::int32_t* chosen = own.chosen.data() + head.own * decisions;
                if (!pass.recalls_decisions()) {
                  b.pairs->choose(head.call.head, b.q.all(), b.k.all(), head.seen, chosen);
                }
                take_pairs(head, chosen, b);
              }
              HeadRows& of_head = own.o[std::size_t(head.own)];
              of_head.sum_into(o, of_queries);
              const double met = forward_of_head(head, b, of_head);
              if (head.pairs) own.pairs_met[std::size_t(head.own)] = met;
            });
}

void TiledAttention::backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                              const AttentionMask& mask, Activations& kept, const Mat& do_, Mat& dq,
                              Mat& dk, Mat& dv) const {
  auto& own = static_cast<AttentionActivations&>(kept);
  SCALING_CHECK(std::int64_t(own.largest.size()) == q.rows() * heads);
  SCALING_CHECK(std::int64_t(own.o.size()) == pass.examples * heads);
  SCALING_CHECK(do_.rows() == q.rows() && do_.cols() == q.cols() && !pass.graphs);
  const std::int64_t pairs = pass.examples * heads;
  const std::int64_t decisions = std::int64_t(own.chosen.size()) / pairs;
  dq.resize(q.rows(), q.cols());
  dk.resize(k.rows(), k.cols());
  dv.resize(k.rows(), k.cols());
  for (const Mat* to : {&dq, &dk, &dv}) {
    for (const Mat* from : {&q, &k, &v, &do_}) SCALING_CHECK(to->data() != from->data());
  }
  for_heads(*this, pass, q, k, v, mask, own,
            [&](const TiledHead& all, const HeadPart& of_queries, const HeadPart& of_keys,
                HeadBuffers& b) {
              TiledHead head = all;
              if (make_pairs) {
                own_pairs(*this, b);
                take_pairs(head, own.chosen.data() + head.own * decisions, b);
              }
              b.dout.load(do_, of_queries);
              b.dq.sum_into(dq, of_queries);
              b.dk.sum_into(dk, of_keys);
              b.dv.sum_into(dv, of_keys);
              backward_of_head(head, own.o[std::size_t(head.own)], b);
            });
}

}  // namespace scaling
