// Routing attention against its definition in plain double precision: who belongs to which cluster,
// attention among members, gradients by differences of the definition, running means and decoding.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "models/layers/attention/routing.h"
#include "models/training/optimizer.h"
#include "tests/gemms.h"
#include "tests/layers/attention_definition.h"
#include "tests/training/training_harness.h"

namespace scaling {
namespace {

using Layer = TrainedLayer<RoutingAttention>;
using Seen = std::vector<std::uint8_t>;  // of one example; empty: all are seen

constexpr std::int64_t kHeads = 3, kWidth = 24, kHead = kWidth / kHeads;

ModelConfig config(std::int64_t clusters, std::int64_t window = 0) {
  ModelConfig c;
  c.d_model = kWidth;
  c.n_heads = kHeads;
  c.attention = "routing";
  set_field(c, "routing_clusters", clusters);
  set_field(c, "routing_window", window);
  set_field(c, "routing_commitment", 0.5);  // so that it shows
  validate(c);
  return c;
}

Layer layer_of(const ModelConfig& c) { return Layer(std::make_unique<RoutingAttention>(c)); }

AttentionMask mask_of(bool causal, const Seen& seen) {
  return {.causal = causal, .keys = seen.empty() ? nullptr : seen.data()};
}

Seen some_padding(std::int64_t length) {
  Seen seen(std::size_t(length), 1);
  for (std::int64_t t = 0; t < length; ++t) seen[std::size_t(t)] = t % 5 != 3 && t + 2 < length;
  return seen;
}

// -- the definition -------------------------------------------------------------------------------

Double head_of(const Mat& all, std::int64_t head) {
  return all.middleCols(head * kHead, kHead).cast<double>();
}

/// Every row to mean 0 and variance 1.
Double normed(Double x) {
  for (std::int64_t t = 0; t < x.rows(); ++t) {
    x.row(t).array() -= x.row(t).mean();
    x.row(t) /= std::sqrt(x.row(t).squaredNorm() / double(x.cols()) + 1e-6);
  }
  return x;
}

struct Items {
  Double queries, keys;
};

Items items_of(const Double& q, const Double& k, bool causal) {
  if (!causal) return {normed(q), normed(k)};
  const Double shared = normed((q + k) / 2);
  return {shared, shared};
}

/// Of one head.
struct Centroids {
  Double directions, means;

  Centroids(const Layer& held, std::int64_t head) {
    const Parameter &sums = held.parameter("sums"), &counts = held.parameter("counts");
    const std::int64_t clusters = counts.count() / kHeads;
    directions.resize(clusters, kHead);
    means.resize(clusters, kHead);
    double total = 0;
    for (std::int64_t c = 0; c < clusters; ++c) total += double(counts.get(0, head * clusters + c));
    for (std::int64_t c = 0; c < clusters; ++c) {
      const std::int64_t at = head * clusters + c;
      const double smoothed =
          (double(counts.get(0, at)) + 1e-5) / (total + double(clusters) * 1e-5);
      for (std::int64_t i = 0; i < kHead; ++i) {
        directions(c, i) = double(sums.get(0, at * kHead + i));
        means(c, i) = directions(c, i) / (smoothed * total);
      }
      directions.row(c).normalize();
    }
  }
};

using Positions = std::vector<std::int64_t>;

/// Of one side of a head.
struct Membership {
  std::vector<Positions> members;  // of each cluster
  Positions nearest;               // cluster of each item, -1 for padding

  Membership(const Double& items, const Centroids& centroids, std::int64_t window, const Seen& seen)
      : nearest(std::size_t(items.rows()), -1) {
    const Double scores = centroids.directions * items.transpose();
    Positions all;
    for (std::int64_t t = 0; t < items.rows(); ++t) {
      if (!seen.empty() && !seen[std::size_t(t)]) continue;
      all.push_back(t);
      Eigen::Index best = 0;
      scores.col(t).maxCoeff(&best);
      nearest[std::size_t(t)] = best;
    }
    for (std::int64_t c = 0; c < scores.rows(); ++c) {
      Positions own = all;
      std::stable_sort(own.begin(), own.end(),
                       [&](std::int64_t a, std::int64_t b) { return scores(c, a) > scores(c, b); });
      own.resize(std::min(own.size(), std::size_t(window)));
      std::sort(own.begin(), own.end());
      members.push_back(own);
    }
  }
};

struct HeadResult {
  Double o;
  double distances = 0;  // squared, of all items
  std::int64_t uncovered = 0;
};

/// With members as they are, so that it can be differentiated.
HeadResult attend(const Items& items, const Double& v, const Membership& queries,
                  const Membership& keys, const Centroids& centroids, bool causal) {
  HeadResult r{Double::Zero(v.rows(), v.cols())};
  Positions covers(std::size_t(v.rows()), 0);
  for (std::size_t c = 0; c < queries.members.size(); ++c) {
    for (const std::int64_t t : queries.members[c]) {
      double sum = 0;
      Eigen::RowVectorXd out = Eigen::RowVectorXd::Zero(v.cols());
      for (const std::int64_t j : keys.members[c]) {
        if (causal && j > t) continue;
        const double logit = items.queries.row(t).dot(items.keys.row(j));
        const double weight = std::exp(logit / std::sqrt(double(kHead)));
        sum += weight;
        out += weight * v.row(j);
      }
      r.o.row(t) += out / sum;
      ++covers[std::size_t(t)];
    }
  }
  const auto add_distance = [&](const Double& x, const Membership& of, std::int64_t t) {
    const std::int64_t nearest = of.nearest[std::size_t(t)];
    if (nearest >= 0) r.distances += (x.row(t) - centroids.means.row(nearest)).squaredNorm();
  };
  for (std::int64_t t = 0; t < v.rows(); ++t) {
    const std::int64_t times = covers[std::size_t(t)];
    if (times > 0) r.o.row(t) /= double(times);
    r.uncovered += times == 0 && queries.nearest[std::size_t(t)] >= 0;
    add_distance(items.queries, queries, t);
    if (!causal) add_distance(items.keys, keys, t);
  }
  return r;
}

/// One head of one example, and the slopes of sum(dout o) + scale * loss by central differences.
struct DefinedHead {
  Double q, k, v, dout;
  bool causal;
  Centroids centroids;
  Membership queries, keys;

  DefinedHead(const Layer& held, const AttentionInput& in, std::int64_t head, std::int64_t window,
              bool causal_, const Seen& seen)
      : q(head_of(in.q, head)),
        k(head_of(in.k, head)),
        v(head_of(in.v, head)),
        dout(head_of(in.dout, head)),
        causal(causal_),
        centroids(held, head),
        queries(items_of(q, k, causal).queries, centroids, window, seen),
        keys(items_of(q, k, causal).keys, centroids, window, seen) {}

  HeadResult result() const {
    return attend(items_of(q, k, causal), v, queries, keys, centroids, causal);
  }
  double objective(double loss_of_distance) const {
    const HeadResult r = result();
    return dout.cwiseProduct(r.o).sum() + loss_of_distance * r.distances;
  }
  Double slopes(Double DefinedHead::*input, double loss_of_distance) {
    constexpr double kStep = 1e-5;
    Double& x = this->*input;
    Double slope(x.rows(), x.cols());
    for (std::int64_t i = 0; i < x.size(); ++i) {
      const double before = x.data()[i];
      x.data()[i] = before + kStep;
      const double high = objective(loss_of_distance);
      x.data()[i] = before - kStep;
      const double low = objective(loss_of_distance);
      x.data()[i] = before;
      slope.data()[i] = (high - low) / (2 * kStep);
    }
    return slope;
  }
};

/// What a squared distance weighs in the loss of one position.
double weight_of_distance(bool causal) { return 0.5 / double(kWidth * (causal ? 1 : 2)); }

std::vector<std::int64_t> as_positions(std::span<const std::int32_t> members) {
  return {members.begin(), members.end()};
}

struct Sizes {
  std::int64_t clusters, window;
};

struct Case {
  std::int64_t clusters, window, length;
  bool causal = false, is_padded = false;
  std::string text() const {
    return std::to_string(clusters) + " clusters of " + std::to_string(window) + ", length " +
           std::to_string(length) + (causal ? ", causal" : "") + (is_padded ? ", padded" : "");
  }
};

std::vector<Case> cases(const std::vector<std::int64_t>& lengths) {
  std::vector<Case> all;
  for (const std::int64_t length : lengths) {
    for (const Sizes& sizes :
         {Sizes{1, 0}, Sizes{3, 0}, Sizes{3, 5}, Sizes{5, 2}, Sizes{2, 1000}}) {
      for (const bool causal : {false, true}) {
        for (const bool is_padded : {false, true}) {
          all.push_back({sizes.clusters, sizes.window, length, causal, is_padded});
        }
      }
    }
  }
  return all;
}

TEST(RoutingAttentionTest, IsTheDefinition) {
  std::int64_t uncovered = 0;
  for (const Case& c : cases({1, 12, 40})) {
    if (c.is_padded && c.length < 12) continue;
    SCOPED_TRACE(c.text());
    const Layer held = layer_of(config(c.clusters, c.window));
    const RoutingAttention& layer = *held.layer;
    const AttentionInput in(c.length, c.length, kWidth);
    const Seen seen = c.is_padded ? some_padding(c.length) : Seen();
    const auto kept = layer.make_activations();
    Pass pass = training_pass();
    Mat o, expected(c.length, kWidth);
    layer.forward(pass, in.q, in.k, in.v, mask_of(c.causal, seen), *kept, o);
    double distances = 0;
    std::int64_t missed = 0;
    for (std::int64_t head = 0; head < kHeads; ++head) {
      const std::int64_t window = layer.sizes_of(c.length, c.causal).window;
      const DefinedHead defined(held, in, head, window, c.causal, seen);
      std::size_t cluster = 0;
      layer.visit_clusters(
          *kept, head, c.length, c.causal,
          [&](std::span<const std::int32_t> queries, std::span<const std::int32_t> keys) {
            EXPECT_EQ(as_positions(queries), defined.queries.members[cluster]);
            EXPECT_EQ(as_positions(keys), defined.keys.members[cluster]);
            ++cluster;
          });
      EXPECT_EQ(std::int64_t(cluster), c.clusters);
      const HeadResult r = defined.result();
      expected.middleCols(head * kHead, kHead) = r.o.cast<float>();
      distances += r.distances;
      missed += r.uncovered;
    }
    expect_close(o, expected, "o");
    EXPECT_EQ(layer.uncovered(*kept), missed);
    uncovered += missed;
    const double loss = weight_of_distance(c.causal) * distances;
    EXPECT_GT(loss, 0);
    EXPECT_NEAR(pass.extra_loss, loss, 1e-5 * loss);
  }
  EXPECT_GT(uncovered, 0) << "every query was covered: nothing was tested of those that are not";
}

TEST(RoutingAttentionTest, GradientsAreSlopesOfTheDefinition) {
  constexpr double kScale = 0.7;
  for (const Case& c : cases({7})) {
    SCOPED_TRACE(c.text());
    Layer held = layer_of(config(c.clusters, c.window));
    const RoutingAttention& layer = *held.layer;
    const AttentionInput in(c.length, c.length, kWidth);
    const Seen seen = c.is_padded ? some_padding(c.length) : Seen();
    Pass pass = training_pass();
    pass.loss_scale = float(kScale);
    const AttentionResult ours = run_attention(layer, pass, in, mask_of(c.causal, seen));
    AttentionResult expected = ours;
    for (std::int64_t head = 0; head < kHeads; ++head) {
      const std::int64_t window = layer.sizes_of(c.length, c.causal).window;
      DefinedHead defined(held, in, head, window, c.causal, seen);
      const double loss = kScale * weight_of_distance(c.causal);
      const auto put = [&](Double DefinedHead::*input, Mat& to) {
        to.middleCols(head * kHead, kHead) = defined.slopes(input, loss).cast<float>();
      };
      put(&DefinedHead::q, expected.dq);
      put(&DefinedHead::k, expected.dk);
      put(&DefinedHead::v, expected.dv);
    }
    expect_same(ours, expected);
  }
}

/// Gradient of rows that were normed, head by head.
Mat norm_backward(const Mat& x, const Mat& dy) {
  Mat dx(x.rows(), x.cols());
  for (std::int64_t head = 0; head < kHeads; ++head) {
    const Double own = head_of(x, head), y = normed(own), dout = head_of(dy, head);
    for (std::int64_t t = 0; t < x.rows(); ++t) {
      const Eigen::RowVectorXd centred = (own.row(t).array() - own.row(t).mean()).matrix();
      const double deviation = std::sqrt(centred.squaredNorm() / double(kHead) + 1e-6);
      const double mean = dout.row(t).mean(), along = dout.row(t).dot(y.row(t)) / double(kHead);
      const Eigen::RowVectorXd of_row = dout.row(t) - along * y.row(t);
      dx.row(t).segment(head * kHead, kHead) =
          ((of_row.array() - mean) / deviation).matrix().cast<float>();
    }
  }
  return dx;
}

Mat normed_heads(const Mat& x) {
  Mat y(x.rows(), x.cols());
  for (std::int64_t head = 0; head < kHeads; ++head) {
    y.middleCols(head * kHead, kHead) = normed(head_of(x, head)).cast<float>();
  }
  return y;
}

/// Where heads are shared, it has some: what it makes of them is what the whole layer does, and
/// columns of others stay.
TEST(RoutingAttentionTest, SomeHeadsOfALayerAreWhatTheyAreInAllOfThem) {
  ModelConfig c = config(4);
  set_field(c, "routing_commitment", 0);  // whose share is of the own heads
  const Layer whole = layer_of(c);
  auto some = std::make_unique<RoutingAttention>(c);
  some->take_heads({1, kHeads});
  const Layer part(std::move(some));
  for (const auto& [name, of_head] :
       {std::pair<std::string, std::int64_t>{"sums", 4 * kHead}, {"counts", 4}}) {
    ASSERT_EQ(part.parameter(name).count(), (kHeads - 1) * of_head);
    std::copy_n(whole.parameter(name).values() + of_head, (kHeads - 1) * of_head,
                part.parameter(name).values());
  }
  const std::int64_t n = 40, own = kWidth - kHead;
  const AttentionInput in(n, n, kWidth);
  for (const bool causal : {false, true}) {
    expect_last_heads(*part.layer, *whole.layer, kHead, training_pass(), in, {.causal = causal});
  }
  const float* of_whole = whole.parameter("sums").gradient + 4 * kHead;
  const float* of_part = part.parameter("sums").gradient;
  EXPECT_TRUE(std::equal(of_part, of_part + (kHeads - 1) * 4 * kHead, of_whole));
  EXPECT_TRUE(decode_attention(*part.layer, in).rightCols(own) ==
              decode_attention(*whole.layer, in).rightCols(own));
}

/// One cluster of everything, several groups of queries long.
TEST(RoutingAttentionTest, OneClusterIsFullAttentionOfNormedItems) {
  const Layer held = layer_of(config(1));
  for (const std::int64_t length : {2, 64, 65, 150}) {
    for (const bool causal : {false, true}) {
      SCOPED_TRACE(std::to_string(length) + (causal ? " causal" : ""));
      const AttentionInput in(length, length, kWidth);
      const Mat shared = (in.q + in.k) / 2;
      AttentionInput items = in;
      items.q = normed_heads(causal ? shared : in.q);
      items.k = normed_heads(causal ? shared : in.k);
      AttentionResult expected = define_attention(items, kHeads, {.causal = causal});
      if (causal) {
        const Mat both = expected.dq + expected.dk;
        expected.dq = expected.dk = norm_backward(shared, both) / 2;
      } else {
        expected.dq = norm_backward(in.q, expected.dq);
        expected.dk = norm_backward(in.k, expected.dk);
      }
      expect_same(run_attention(*held.layer, training_pass(), in, {.causal = causal}), expected);
    }
  }
}

TEST(RoutingAttentionTest, OfEquallyNearItemsTheEarlierGoFirst) {
  const Layer held = layer_of(config(4));
  // Directions of one number each: scores of equal items are equal to the last bit.
  Parameter& sums = held.parameter("sums");
  for (std::int64_t i = 0; i < sums.count(); ++i) {
    sums.set(0, i, i / kHead % 4 == i % kHead ? 1.0f : 0.0f);
  }
  AttentionInput in(10, 10, kWidth);
  for (Mat* m : {&in.q, &in.k}) *m = m->row(0).replicate(10, 1).eval();
  const auto kept = held.layer->make_activations();
  for (const bool causal : {false, true}) {
    Pass pass = training_pass();
    Mat o;
    held.layer->forward(pass, in.q, in.k, in.v, {.causal = causal}, *kept, o);
    const std::vector<std::int64_t> first = {0, 1, 2};
    held.layer->visit_clusters(
        *kept, 1, 10, causal,
        [&](std::span<const std::int32_t> queries, std::span<const std::int32_t> keys) {
          EXPECT_EQ(as_positions(queries), first);
          EXPECT_EQ(as_positions(keys), first);
        });
    EXPECT_EQ(held.layer->uncovered(*kept), kHeads * 7);
    EXPECT_EQ(o.bottomRows(7).cwiseAbs().maxCoeff(), 0);
  }
}

TEST(RoutingAttentionTest, SizesAreSharesUnlessGiven) {
  const auto window = [](std::int64_t clusters, std::int64_t given, std::int64_t length) {
    return RoutingAttention(config(clusters, given)).sizes_of(length, true).window;
  };
  EXPECT_EQ(window(8, 0, 4096), 512);
  EXPECT_EQ(window(8, 0, 4097), 513);
  EXPECT_EQ(window(8, 0, 3), 1);
  EXPECT_EQ(window(8, 100, 4096), 100);
  EXPECT_EQ(window(8, 100, 64), 64);
}

// -- what later positions change ------------------------------------------------------------------

/// Clusters of a head as causal attention leaves them to a query: members up to itself.
std::vector<Positions> visible_members(const RoutingAttention& layer, const Activations& kept,
                                       std::int64_t head, std::int64_t length, std::int64_t query) {
  std::vector<Positions> all;
  layer.visit_clusters(kept, head, length, true,
                       [&](std::span<const std::int32_t> queries, std::span<const std::int32_t>) {
                         if (std::find(queries.begin(), queries.end(), query) == queries.end())
                           return;
                         Positions past = as_positions(queries);
                         past.erase(std::upper_bound(past.begin(), past.end(), query), past.end());
                         all.push_back(past);
                       });
  return all;
}

/// Later values never enter. Later items do so by taking others' places alone: where a query's
/// clusters keep their members up to it, its result stays.
TEST(RoutingAttentionTest, LaterPositionsTakePlacesAndNothingElse) {
  const std::int64_t length = 30;
  for (const std::int64_t clusters : {1, 4}) {
    const Layer held = layer_of(config(clusters));
    const RoutingAttention& layer = *held.layer;
    const AttentionInput in(length, length, kWidth);
    const auto kept = layer.make_activations(), kept_after = layer.make_activations();
    const AttentionMask mask{.causal = true};
    Pass pass = evaluation_pass();
    Mat o, after;
    layer.forward(pass, in.q, in.k, in.v, mask, *kept, o);
    int evicted = 0;
    for (std::int64_t j = 3; j < length; ++j) {
      AttentionInput other = in;
      other.v.row(j).setConstant(9);
      layer.forward(pass, other.q, other.k, other.v, mask, *kept_after, after);
      EXPECT_TRUE(after.topRows(j) == o.topRows(j)) << j;
      other.q.row(j) = -in.q.row(j);
      other.k.row(j) = -in.k.row(j);
      layer.forward(pass, other.q, other.k, other.v, mask, *kept_after, after);
      if (clusters == 1) {
        EXPECT_FALSE(after.row(j) == o.row(j)) << j;
      }
      for (std::int64_t head = 0; head < kHeads; ++head) {
        for (std::int64_t t = 0; t < j; ++t) {
          const bool stays = visible_members(layer, *kept, head, length, t) ==
                             visible_members(layer, *kept_after, head, length, t);
          evicted += !stays;
          if (!stays) continue;
          const Mat difference = (after - o).block(t, head * kHead, 1, kHead);
          EXPECT_LE(difference.cwiseAbs().maxCoeff(), 1e-5f) << "query " << t << ", later " << j;
        }
      }
    }
    EXPECT_EQ(evicted > 0, clusters > 1) << "membership knows later positions";
  }
}

// -- centroids ------------------------------------------------------------------------------------

Mat flat(const Mat& m) { return Eigen::Map<const Mat>(m.data(), 1, m.size()); }

TEST(RoutingAttentionTest, CentroidsAreRunningMeansOfWhatIsNearest) {
  const std::int64_t clusters = 5, length = 17, examples = 2;
  for (const bool causal : {false, true}) {
    ModelConfig c = config(clusters);
    set_field(c, "routing_decay", 0.9);
    Layer held = layer_of(c);
    const AttentionInput in(examples * length, examples * length, kWidth);
    Seen seen = some_padding(length);
    seen.insert(seen.end(), std::size_t(length), 1);
    Mat counts = Mat::Zero(kHeads, clusters), sums = Mat::Zero(kHeads * clusters, kHead);
    for (std::int64_t head = 0; head < kHeads; ++head) {
      const Centroids centroids(held, head);
      const Items items = items_of(head_of(in.q, head), head_of(in.k, head), causal);
      const auto add = [&](const Double& x) {
        const Membership of(x, centroids, 1, seen);
        for (std::int64_t t = 0; t < x.rows(); ++t) {
          const std::int64_t nearest = of.nearest[std::size_t(t)];
          if (nearest < 0) continue;
          counts(head, nearest) += 1;
          sums.row(head * clusters + nearest) += x.row(t).cast<float>();
        }
      };
      add(items.queries);
      if (!causal) add(items.keys);
    }
    Pass pass = training_pass(examples);
    run_attention(*held.layer, pass, in, mask_of(causal, seen));
    EXPECT_TRUE(held.gradient("counts") == flat(counts));
    expect_close(held.gradient("sums"), flat(sums), "sums");
    // Gradients of several pieces of a batch add up; nothing else learns.
    run_attention(*held.layer, pass, in, mask_of(causal, seen));
    EXPECT_TRUE(held.gradient("counts") == 2 * flat(counts));
    for (const OptimizerKind kind : {OptimizerKind::adafactor, OptimizerKind::adam}) {
      std::vector<Mat> before;
      for (const Parameter* p : held.parameters) before.push_back(p->matrix());
      TrainConfig training;
      training.optimizer = kind;
      training.weight_decay = 0.1;
      const auto optimizer = make_optimizer(training, held.parameters);
      EXPECT_TRUE(optimizer->slots().empty());
      optimizer->update(1, /*learning_rate=*/5);
      for (std::size_t i = 0; i < before.size(); ++i) {
        const Parameter& p = *held.parameters[i];
        EXPECT_EQ(p.mean_decay, 0.9);
        const Mat expected = 0.9f * before[i] + 0.1f * held.gradient(p.name);
        expect_close(p.matrix(), expected, p.name);
      }
    }
  }
}

/// Items come to lie around their means, and are then drawn there by the loss.
TEST(RoutingAttentionTest, CentroidsFindGroups) {
  const std::int64_t clusters = 3, length = 90;
  ModelConfig c = config(clusters);
  set_field(c, "routing_decay", 0.8);
  Layer held = layer_of(c);
  AttentionInput in(length, length, kWidth);
  // Three directions, each with a little noise.
  for (std::int64_t t = clusters; t < length; ++t) {
    in.q.row(t) = in.q.row(t % clusters) + 0.02f * in.q.row(t);
  }
  in.k = in.q;
  TrainConfig training;
  const auto optimizer = make_optimizer(training, held.parameters);
  double first = 0, last = 0;
  for (std::int64_t step = 1; step <= 40; ++step) {
    held.zero_gradients();
    Pass pass = training_pass();
    const auto kept = held.layer->make_activations();
    AttentionResult r;
    held.layer->forward(pass, in.q, in.k, in.v, {.causal = true}, *kept, r.o);
    held.layer->backward(pass, in.q, in.k, in.v, {.causal = true}, *kept, in.dout, r.dq, r.dk,
                         r.dv);
    (step == 1 ? first : last) = pass.extra_loss;
    optimizer->update(step, 0.1);
  }
  EXPECT_LT(last, 0.5 * first);
}

TEST(RoutingAttentionTest, TheLossIsAddedOnceAndOnlyInTraining) {
  const Layer held = layer_of(config(3));
  const RoutingAttention& layer = *held.layer;
  const AttentionInput in(20, 20, kWidth);
  const AttentionMask mask{.causal = true};
  const auto kept = layer.make_activations();
  Pass evaluation = evaluation_pass(), pass = training_pass();
  Mat o, again;
  layer.forward(evaluation, in.q, in.k, in.v, mask, *kept, o);
  EXPECT_EQ(evaluation.extra_loss, 0);
  layer.forward(pass, in.q, in.k, in.v, mask, *kept, again);
  EXPECT_TRUE(again == o);
  const double once = pass.extra_loss;
  EXPECT_GT(once, 0);
  layer.forward(pass, in.q, in.k, in.v, mask, *kept, again);
  EXPECT_EQ(pass.extra_loss, 2 * once);
  pass.recomputes = true;
  layer.forward(pass, in.q, in.k, in.v, mask, *kept, again);
  EXPECT_EQ(pass.extra_loss, 2 * once);
  EXPECT_TRUE(again == o);
  // Without a scale there is nothing to learn from it, without a weight no loss.
  ModelConfig c = config(3);
  set_field(c, "routing_commitment", 0);
  const Layer free = layer_of(c);
  Pass plain = training_pass(), scaled = training_pass();
  scaled.loss_scale = 1;
  expect_same(run_attention(layer, plain, in, mask), run_attention(*free.layer, scaled, in, mask));
  const AttentionResult drawn = run_attention(layer, scaled, in, mask);
  EXPECT_FALSE(drawn.dq == run_attention(layer, plain, in, mask).dq);
  EXPECT_TRUE(drawn.dv == run_attention(layer, plain, in, mask).dv);
}

TEST(RoutingAttentionTest, ALayerOnItsOwnStartsFromWhatAModelStartsFrom) {
  const ModelConfig c = config(4);
  const TrainedLayer<RoutingAttention> held(std::make_unique<RoutingAttention>(c), c.seed,
                                            /*bias_range=*/0);
  const AttentionInput in(30, 30, kWidth);
  const RoutingAttention alone(c);
  EXPECT_TRUE(alone.forward(in.q, in.k, in.v, true) == held.layer->forward(in.q, in.k, in.v, true));
  EXPECT_TRUE(decode_attention(alone, in) == decode_attention(*held.layer, in));
}

TEST(RoutingAttentionTest, ThreadsChangeNoBit) {
  const std::int64_t length = 70, examples = 3;
  const AttentionInput in(examples * length, examples * length, kWidth);
  for (const bool causal : {false, true}) {
    std::vector<AttentionResult> results;
    std::vector<Mat> sums;
    for (const int threads : {1, 2, 3}) {
      set_gemm_threads(threads);
      Layer held = layer_of(config(4));
      Pass pass = training_pass(examples);
      pass.loss_scale = 1;
      pass.dropout = 0.1f;
      results.push_back(run_attention(*held.layer, pass, in, {.causal = causal}));
      sums.push_back(held.gradient("sums"));
    }
    set_gemm_threads(1);
    for (std::size_t i = 1; i < results.size(); ++i) {
      EXPECT_TRUE(results[i].o == results[0].o);
      EXPECT_TRUE(results[i].dq == results[0].dq);
      EXPECT_TRUE(results[i].dk == results[0].dk);
      EXPECT_TRUE(results[i].dv == results[0].dv);
      EXPECT_TRUE(sums[i] == sums[0]);
    }
  }
}

// -- decoding -------------------------------------------------------------------------------------

/// Each item joins the cluster of the nearest centroid and looks at the latest of that cluster.
Mat define_decode(const Layer& held, const AttentionInput& in, std::int64_t window) {
  Mat o(in.q.rows(), kWidth);
  for (std::int64_t head = 0; head < kHeads; ++head) {
    const Centroids centroids(held, head);
    const Double items = items_of(head_of(in.q, head), head_of(in.k, head), true).keys;
    const Double v = head_of(in.v, head);
    std::vector<Positions> joined(std::size_t(centroids.directions.rows()));
    for (std::int64_t t = 0; t < items.rows(); ++t) {
      Eigen::Index nearest = 0;
      (centroids.directions * items.row(t).transpose()).col(0).maxCoeff(&nearest);
      Positions& members = joined[std::size_t(nearest)];
      members.push_back(t);
      if (std::int64_t(members.size()) > window) members.erase(members.begin());
      double sum = 0;
      Eigen::RowVectorXd out = Eigen::RowVectorXd::Zero(kHead);
      for (const std::int64_t j : members) {
        const double weight = std::exp(items.row(t).dot(items.row(j)) / std::sqrt(double(kHead)));
        sum += weight;
        out += weight * v.row(j);
      }
      o.row(t).segment(head * kHead, kHead) = (out / sum).cast<float>();
    }
  }
  return o;
}

TEST(RoutingAttentionTest, AStepLooksAtTheLatestOfTheNearestCluster) {
  const std::int64_t length = 50;
  const AttentionInput in(length, length, kWidth);
  for (const Sizes& sizes : {Sizes{1, 0}, Sizes{4, 0}, Sizes{4, 3}, Sizes{7, 1000}}) {
    SCOPED_TRACE(std::to_string(sizes.clusters) + " clusters of " + std::to_string(sizes.window));
    const Layer held = layer_of(config(sizes.clusters, sizes.window));
    const std::int64_t most = held.layer->sizes_of(length, true).window;
    const Mat decoded = decode_attention(*held.layer, in);
    expect_close(decoded, define_decode(held, in, most), "o");
    const Mat parallel = held.layer->forward(in.q, in.k, in.v, true);
    if (sizes.clusters == 1) {
      expect_close(decoded, parallel, "one cluster");
    } else {
      // The approximation is one.
      EXPECT_GT((decoded - parallel).cwiseAbs().maxCoeff(), 0.01f);
    }
  }
}

TEST(RoutingAttentionTest, ACacheHoldsClustersAndForgetsThem) {
  const std::int64_t length = 30, clusters = 4;
  const Layer held = layer_of(config(clusters));
  const RoutingAttention& layer = *held.layer;
  const AttentionInput in(length, length, kWidth);
  const auto cache = layer.make_cache(1, length);
  Barrier barrier(1);
  Mat decoded[2] = {Mat(length, kWidth), Mat(length, kWidth)};
  const auto context = [&](std::int64_t t) {
    return StepContext{find_kernel_set("simd"), barrier, 0, 1, 1, t, nullptr};
  };
  const auto step = [&](std::int64_t t, std::int64_t row, float* o) {
    layer.step(context(t), *cache, in.q.row(row).data(), in.k.row(row).data(), in.v.row(row).data(),
               o);
  };
  for (Mat& o : decoded) {
    for (std::int64_t t = 0; t < length; ++t) step(t, t, o.row(t).data());
  }
  EXPECT_TRUE(decoded[0] == decoded[1]);
  cache->pretend(context(0), length - 1, 7, "some");
  Mat o(1, kWidth);
  step(length - 1, 0, o.data());
  EXPECT_TRUE(o.allFinite());
  EXPECT_GT((o - in.v.row(0)).cwiseAbs().maxCoeff(), 0.1f);

  // Keys, values and scores of 8 slots a cluster; a count of a cluster; centroids and an item.
  for (const int tokens : {1, 3}) {
    const std::uint64_t slots = std::uint64_t(tokens) * kHeads * clusters * 8;
    const std::uint64_t expected = 4 * slots * (2 * kHead + 1) +
                                   8 * std::uint64_t(tokens) * kHeads * clusters +
                                   4 * kWidth * (clusters + std::uint64_t(tokens));
    EXPECT_EQ(layer.cache_bytes(tokens, length), expected);
  }
}

// -- prices ---------------------------------------------------------------------------------------

TEST(RoutingAttentionTest, ComputesWhatItSays) {
  const Gemm& gemm = counted_gemm();
  for (const Case& c : {Case{4, 0, 40}, Case{4, 0, 43}, Case{20, 9, 40}, Case{3, 1000, 30}}) {
    for (const bool causal : {false, true}) {
      const std::int64_t length = c.length;
      const Layer held = layer_of(config(c.clusters, c.window));
      const RoutingAttention& layer = *held.layer;
      const AttentionInput in(length, length, kWidth);
      const AttentionMask mask{.causal = causal};
      const AttentionWork work = layer.work(length, causal);
      const auto kept = layer.make_activations();
      Pass pass{.gemm = gemm, .training = true};
      AttentionResult r;
      multiplied_flops = 0;
      layer.forward(pass, in.q, in.k, in.v, mask, *kept, r.o);
      const auto forward = double(multiplied_flops);
      multiplied_flops = 0;
      layer.backward(pass, in.q, in.k, in.v, mask, *kept, in.dout, r.dq, r.dk, r.dv);
      const auto backward = double(multiplied_flops);
      double pairs = 0, choice = 0;
      for (std::int64_t head = 0; head < kHeads; ++head) {
        layer.visit_clusters(
            *kept, head, length, causal,
            [&](std::span<const std::int32_t> queries, std::span<const std::int32_t> keys) {
              for (const std::int32_t t : queries) {
                for (const std::int32_t j : keys) pairs += !causal || j <= t;
              }
              // Every item, a query and a key or both in one, with the centroid.
              choice += 2 * double(kHead) * double(length) * (causal ? 1 : 2);
            });
      }
      EXPECT_EQ(work.pairs, pairs);
      EXPECT_EQ(work.choice, choice);
      EXPECT_EQ(layer.work_of(*kept, length, causal).pairs, pairs);
      if (causal) {
        // The triangle of a group is computed whole.
        EXPECT_GE(forward, work.forward_flops(kHead));
        continue;
      }
      EXPECT_EQ(forward, work.forward_flops(kHead));
      // Four products of a pair, and its score once more.
      EXPECT_EQ(backward, 10 * double(kHead) * pairs);
    }
  }
}

/// attention.md's rows for one head of 64 at 4096 positions, but with one product of an item and a
/// centroid where queries and keys have one each.
TEST(RoutingAttentionTest, AStepReadsItsClusterAndTheCentroids) {
  ModelConfig c = config(64);
  c.d_model = 64;
  c.n_heads = 1;
  const Phase many = total(RoutingAttention(c).step_cost(1, 4096));
  EXPECT_EQ(many.bytes, 48.0 * 1024);
  EXPECT_EQ(many.flops, 4 * 64 * 64 + 2 * 64 * 64);
  set_field(c, "routing_clusters", 8);
  set_field(c, "routing_window", 512);
  const Phase few = total(RoutingAttention(c).step_cost(1, 4096));
  EXPECT_EQ(few.bytes, 258.0 * 1024);
  EXPECT_EQ(few.flops, 4 * 512 * 64 + 2 * 8 * 64);
  // Before a cluster is full, and for several sequences: centroids are read once.
  EXPECT_EQ(total(RoutingAttention(c).step_cost(1, 80)).bytes, 4 * (2 * 10 + 8) * 64);
  EXPECT_EQ(total(RoutingAttention(c).step_cost(3, 4096)).bytes, 3 * 256.0 * 1024 + 2 * 1024);
}

TEST(RoutingAttentionTest, ActivationsHoldWhatTheySay) {
  for (const std::int64_t window : {0, 50}) {
    ModelConfig c = config(7, window);
    c.max_length = 200;
    const Layer held = layer_of(c);
    const AttentionInput in(c.max_length, c.max_length, kWidth);
    RoutingAttention::Kept kept;
    Pass pass = training_pass();
    Mat o;
    for (const bool causal : {false, true}) {
      held.layer->forward(pass, in.q, in.k, in.v, {.causal = causal}, kept, o);
      const double numbers = double(kept.chosen.size() + kept.normalizers.size());
      const double said = held.layer->activation_floats() * double(c.max_length);
      if (causal) {
        EXPECT_LT(numbers, said);
      } else {
        EXPECT_NEAR(numbers, said, 1e-6 * said);
      }
    }
  }
}

TEST(RoutingAttentionTest, BadKnobsAreNamed) {
  const auto message_of = [](const std::string& knob, const std::string& value) {
    ModelConfig c = config(4);
    set_field(c, knob, value);
    try {
      validate(c);
    } catch (const UserError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  for (const auto& [knob, value, other] : std::vector<std::array<std::string, 3>>{
           {"routing_clusters", "0", "routing_clusters 0"},
           {"routing_clusters", "513", "max_length 512"},
           {"routing_window", "-1", "routing_window -1"},
           {"routing_decay", "0", "routing_decay 0"},
           {"routing_decay", "1.5", "routing_decay 1.5"},
           {"routing_commitment", "-0.5", "routing_commitment -0.5"},
           {"n_heads", "24", "d_model 24 with n_heads 24"}}) {
    const std::string message = message_of(knob, value);
    EXPECT_NE(message.find(knob + " " + value), std::string::npos) << message;
    EXPECT_NE(message.find(other), std::string::npos) << message;
  }
  EXPECT_EQ(message_of("routing_clusters", "512"), "no error");
  EXPECT_EQ(message_of("routing_decay", "1"), "no error");
  // Probabilities are softmax's; other normalisers are knobs of other attentions.
  EXPECT_THROW(require_relevant(config(4), "normaliser"), UserError);
}

}  // namespace
}  // namespace scaling
