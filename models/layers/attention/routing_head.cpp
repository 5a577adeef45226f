// Members of a cluster go by time, so that where queries are keys a causal mask leaves a query the
// first part of the list, up to itself. Probabilities are made again in backward from normalisers.
#include "models/layers/attention/routing_head.h"

#include <algorithm>
#include <cmath>

#include "models/layers/parts/product.h"

namespace scaling {
namespace {

using Row = Eigen::Map<Eigen::ArrayXf>;
using ConstRow = Eigen::Map<const Eigen::ArrayXf>;

/// Fewer skip more of what is masked, more make better products.
constexpr std::int64_t kQueriesAtOnce = 64;

}  // namespace

double RoutingHead::floats(const RoutingSizes& sizes, std::int64_t d_head) {
  const double length = double(sizes.length), d = double(d_head), window = double(sizes.window);
  const double at_once = double(std::min(kQueriesAtOnce, sizes.window));
  const double of_sides = double(sizes.sides()) * length * (2 * d + 1);
  const double of_positions = length * (2 * d + 1);  // o_, dv_, covers_
  const double of_cluster = 5 * window * d + at_once * (2 * d + 2 * window);
  return of_sides + of_positions + of_cluster + RoutingClusters::floats(sizes);
}

void RoutingHead::load(const RoutingCall& call, const RoutingRows& q, const RoutingRows& k) {
  const std::int64_t length = q.rows(), d = q.cols();
  if (call.sizes.is_shared) {
    sides_[0].items = (q + k) * 0.5f;
  } else {
    sides_[0].items = q;
    sides_[1].items = k;
  }
  for (std::int64_t s = 0; s < call.sizes.sides(); ++s) {
    Side& side = sides_[std::size_t(s)];
    side.inverses.resize(std::size_t(length));
    for (std::int64_t t = 0; t < length; ++t) {
      side.inverses[std::size_t(t)] = normalise_item(side.items.row(t).data(), d);
    }
  }
}

void RoutingHead::choose(const RoutingCall& call) {
  for (std::int64_t s = 0; s < call.sizes.sides(); ++s) {
    clusters_.choose(call.pass.gemm, call.sizes, sides_[std::size_t(s)].items, call.directions,
                     call.seen, call.decisions + call.sizes.members_at(s, 0),
                     call.decisions + call.sizes.nearest_at(s));
  }
}

double RoutingHead::distance_loss(const RoutingCall& call) const {
  double sum = 0;
  for (std::int64_t s = 0; s < call.sizes.sides(); ++s) {
    const Mat& items = sides_[std::size_t(s)].items;
    const std::int32_t* nearest = call.decisions + call.sizes.nearest_at(s);
    const std::int64_t d = items.cols();
    for (std::int64_t t = 0; t < call.sizes.length; ++t) {
      if (nearest[t] < 0) continue;
      const ConstRow item(items.row(t).data(), d), mean(call.means + nearest[t] * d, d);
      sum += double((item - mean).square().sum());
    }
  }
  return call.commitment * sum;
}

/// Items' gradients of the loss above.
void RoutingHead::add_distance_gradient(const RoutingCall& call) {
  const auto factor = float(2 * call.commitment * double(call.pass.loss_scale));
  if (factor == 0) return;
  for (std::int64_t s = 0; s < call.sizes.sides(); ++s) {
    Side& side = sides_[std::size_t(s)];
    const std::int32_t* nearest = call.decisions + call.sizes.nearest_at(s);
    const std::int64_t d = side.items.cols();
    for (std::int64_t t = 0; t < call.sizes.length; ++t) {
      if (nearest[t] < 0) continue;
      const ConstRow item(side.items.row(t).data(), d), mean(call.means + nearest[t] * d, d);
      Row(side.gradient.row(t).data(), d) += factor * (item - mean);
    }
  }
}

void RoutingHead::add_statistics(const RoutingCall& call, float* counts, float* sums) const {
  for (std::int64_t s = 0; s < call.sizes.sides(); ++s) {
    const Mat& items = sides_[std::size_t(s)].items;
    const std::int32_t* nearest = call.decisions + call.sizes.nearest_at(s);
    const std::int64_t d = items.cols();
    for (std::int64_t t = 0; t < call.sizes.length; ++t) {
      if (nearest[t] < 0) continue;
      counts[nearest[t]] += 1;
      Row(sums + nearest[t] * d, d) += ConstRow(items.row(t).data(), d);
    }
  }
}

std::span<const std::int32_t> RoutingHead::members(const RoutingCall& call, std::int64_t side,
                                                   std::int64_t cluster) const {
  const std::int32_t* first = call.decisions + call.sizes.members_at(side, cluster);
  const std::int32_t* last = first + call.sizes.window;
  while (last > first && last[-1] < 0) --last;
  return {first, last};
}

void RoutingHead::size(const RoutingCall& call, bool for_backward) {
  const std::int64_t window = call.sizes.window, d = sides_[0].items.cols();
  const std::int64_t at_once = std::min(kQueriesAtOnce, window);
  for (Mat* m : {&queries_, &keys_, &values_}) m->resize(window, d);
  outputs_.resize(at_once, d);
  scores_.resize(at_once, window);
  if (!for_backward) return;
  for (Mat* m : {&dkeys_, &dvalues_}) m->resize(window, d);
  dqueries_.resize(at_once, d);
  gradient_.resize(at_once, window);
}

void RoutingHead::count_covers(const RoutingCall& call) {
  covers_.assign(std::size_t(call.sizes.length), 0);
  for (std::int64_t c = 0; c < call.sizes.clusters; ++c) {
    for (const std::int32_t t : members(call, 0, c)) ++covers_[std::size_t(t)];
  }
}

std::int64_t RoutingHead::uncovered(const RoutingCall& call) const {
  std::int64_t n = 0;
  for (std::int64_t t = 0; t < call.sizes.length; ++t) {
    n += covers_[std::size_t(t)] == 0 && (!call.seen || call.seen[t]);
  }
  return n;
}

/// A cluster's queries, keys and values.
void RoutingHead::gather(const RoutingCall& call, std::int64_t cluster, const RoutingRows& v) {
  query_positions_ = members(call, 0, cluster);
  key_positions_ = members(call, call.sizes.sides() - 1, cluster);
  const Mat &queries = sides_[0].items, &keys = key_side(call).items;
  for (std::size_t i = 0; i < query_positions_.size(); ++i) {
    queries_.row(std::int64_t(i)) = queries.row(query_positions_[i]);
  }
  for (std::size_t j = 0; j < key_positions_.size(); ++j) {
    keys_.row(std::int64_t(j)) = keys.row(key_positions_[j]);
    values_.row(std::int64_t(j)) = v.row(key_positions_[j]);
  }
}

RoutingHead::Group RoutingHead::group_of(const RoutingCall& call, std::int64_t cluster,
                                         std::int64_t first) const {
  const std::int64_t size = std::min(kQueriesAtOnce, std::int64_t(query_positions_.size()) - first);
  const auto keys = std::int64_t(key_positions_.size());
  return {cluster, first, size, call.sizes.is_shared ? first + size : keys};
}

/// Keys that a query of the group sees: the first so many.
std::int64_t RoutingHead::sight(const RoutingCall& call, const Group& group,
                                std::int64_t row) const {
  return call.sizes.is_shared ? group.first + row + 1 : group.keys;
}

void RoutingHead::score(const RoutingCall& call, const Group& group) {
  const std::int64_t d = queries_.cols();
  call.pass.gemm.product(false, true, group.size, group.keys, d, queries_.row(group.first).data(),
                         d, keys_.data(), d, 0, scores_.data(), scores_.cols());
}

/// Drops some of a query's probabilities.
void RoutingHead::drop_row(const RoutingCall& call, const Group& group, std::int64_t row,
                           float* values) const {
  const std::int64_t place = group.cluster * call.sizes.window + group.first + row;
  drop(call.pass, call.stream, (call.index * call.sizes.places() + place) * call.sizes.window,
       sight(call, group, row), values);
}

/// Scores of a group to probabilities, dropped out; notes normalisers.
void RoutingHead::softmax(const RoutingCall& call, const Group& group) {
  const float scale = 1 / std::sqrt(float(queries_.cols()));
  float* normalizers = call.normalizers + group.cluster * call.sizes.window + group.first;
  for (std::int64_t row = 0; row < group.size; ++row) {
    const std::int64_t seen = sight(call, group, row);
    float* scores = scores_.row(row).data();
    Row p(scores, seen);
    p *= scale;
    const float largest = p.maxCoeff();
    p = (p - largest).exp();
    const float sum = p.sum();
    p *= 1 / sum;
    normalizers[row] = largest + std::log(sum);
    std::fill(scores + seen, scores + group.keys, 0.0f);
    drop_row(call, group, row, scores);
  }
}

void RoutingHead::forward(const RoutingCall& call, const RoutingRows& v) {
  const std::int64_t d = v.cols();
  size(call, /*for_backward=*/false);
  count_covers(call);
  o_.setZero(call.sizes.length, d);
  for (std::int64_t cluster = 0; cluster < call.sizes.clusters; ++cluster) {
    gather(call, cluster, v);
    const auto queries = std::int64_t(query_positions_.size());
    for (std::int64_t first = 0; first < queries; first += kQueriesAtOnce) {
      const Group group = group_of(call, cluster, first);
      score(call, group);
      softmax(call, group);
      call.pass.gemm.product(false, false, group.size, d, group.keys, scores_.data(),
                             scores_.cols(), values_.data(), d, 0, outputs_.data(), d);
      for (std::int64_t row = 0; row < group.size; ++row) {
        const std::int32_t t = query_positions_[std::size_t(first + row)];
        o_.row(t) += outputs_.row(row) * share_of_cluster(t);
      }
    }
  }
}

/// scores_ to probabilities after dropout, gradient_, of those, to that of scores before scaling.
void RoutingHead::softmax_backward(const RoutingCall& call, const Group& group) {
  const float scale = 1 / std::sqrt(float(queries_.cols()));
  const float* normalizers = call.normalizers + group.cluster * call.sizes.window + group.first;
  for (std::int64_t row = 0; row < group.size; ++row) {
    const std::int64_t seen = sight(call, group, row);
    float* scores = scores_.row(row).data();
    float* gradients = gradient_.row(row).data();
    Row p(scores, seen), g(gradients, seen);
    p = (p * scale - normalizers[row]).exp();
    drop_row(call, group, row, gradients);
    const float mean = (p * g).sum();
    g = p * (g - mean) * scale;
    drop_row(call, group, row, scores);
    std::fill(scores + seen, scores + group.keys, 0.0f);
    std::fill(gradients + seen, gradients + group.keys, 0.0f);
  }
}

/// Adds to dkeys_ and dvalues_, and to the queries' gradients where these came from.
void RoutingHead::group_backward(const RoutingCall& call, const Group& group,
                                 const RoutingRows& dout) {
  const std::int64_t d = queries_.cols(), width = scores_.cols(), n = group.size;
  const std::int64_t keys = group.keys;
  const GemmFunction product = call.pass.gemm.product;
  score(call, group);
  for (std::int64_t row = 0; row < n; ++row) {
    const std::int32_t t = query_positions_[std::size_t(group.first + row)];
    outputs_.row(row) = dout.row(t) * share_of_cluster(t);
  }
  product(false, true, n, keys, d, outputs_.data(), d, values_.data(), d, 0, gradient_.data(),
          width);
  softmax_backward(call, group);
  const float* queries = queries_.row(group.first).data();
  product(true, false, keys, d, n, scores_.data(), width, outputs_.data(), d, 1, dvalues_.data(),
          d);
  product(false, false, n, d, keys, gradient_.data(), width, keys_.data(), d, 0, dqueries_.data(),
          d);
  product(true, false, keys, d, n, gradient_.data(), width, queries, d, 1, dkeys_.data(), d);
  for (std::int64_t row = 0; row < n; ++row) {
    const std::int32_t t = query_positions_[std::size_t(group.first + row)];
    sides_[0].gradient.row(t) += dqueries_.row(row);
  }
}

/// With y the normed item and r one over its deviation, dx = r (dy - mean(dy) - y mean(y dy)).
void RoutingHead::backward_of_norms(const RoutingCall& call) {
  for (std::int64_t s = 0; s < call.sizes.sides(); ++s) {
    Side& side = sides_[std::size_t(s)];
    const std::int64_t d = side.items.cols();
    for (std::int64_t t = 0; t < call.sizes.length; ++t) {
      Row dy(side.gradient.row(t).data(), d);
      const ConstRow y(side.items.row(t).data(), d);
      const float mean = dy.mean(), along = (y * dy).mean();
      dy = (dy - mean - y * along) * side.inverses[std::size_t(t)];
    }
  }
}

void RoutingHead::backward(const RoutingCall& call, const RoutingRows& v, const RoutingRows& dout) {
  const std::int64_t length = call.sizes.length, d = v.cols();
  size(call, /*for_backward=*/true);
  count_covers(call);
  for (std::int64_t s = 0; s < call.sizes.sides(); ++s) {
    sides_[std::size_t(s)].gradient.setZero(length, d);
  }
  dv_.setZero(length, d);
  for (std::int64_t cluster = 0; cluster < call.sizes.clusters; ++cluster) {
    gather(call, cluster, v);
    dkeys_.setZero();
    dvalues_.setZero();
    const auto queries = std::int64_t(query_positions_.size());
    for (std::int64_t first = 0; first < queries; first += kQueriesAtOnce) {
      group_backward(call, group_of(call, cluster, first), dout);
    }
    Mat& gradient = key_side(call).gradient;
    for (std::size_t j = 0; j < key_positions_.size(); ++j) {
      gradient.row(key_positions_[j]) += dkeys_.row(std::int64_t(j));
      dv_.row(key_positions_[j]) += dvalues_.row(std::int64_t(j));
    }
  }
  add_distance_gradient(call);
  backward_of_norms(call);
  if (call.sizes.is_shared) sides_[0].gradient *= 0.5f;  // half of it is each projection's
}

}  // namespace scaling
