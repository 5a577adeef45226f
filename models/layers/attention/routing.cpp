// Heads of all examples are shared among the threads, each in buffers of one thread; what centroids
// are means of is added up head by head. Decoding is in routing_step.cpp.
#include "models/layers/attention/routing.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>

#include "kernels/check.h"
#include "kernels/parallel.h"
#include "models/config_checks.h"
#include "models/initialize.h"

namespace scaling {
namespace {

/// Smooths counts, so that a cluster that nothing is near has a mean (the released code's).
constexpr double kCountEpsilon = 1e-5;

/// first: the layer's head that is the first of `heads`.
template <class M>
auto rows_of(M& all, std::int64_t pair, std::int64_t first, std::int64_t heads, std::int64_t length,
             std::int64_t d) {
  return all.block(pair / heads * length, (first + pair % heads) * d, length, d);
}

/// The values of a parameter, or what they start from if it has no memory.
std::vector<float> values_of(const Parameter& p, std::uint64_t seed) {
  if (p.data != nullptr) return {p.vector(), p.vector() + p.count()};
  std::vector<float> initial(std::size_t(p.count()));
  draw_values(seed, p.name, p.init, 0, p.count(), initial.data());
  return initial;
}

}  // namespace

void RoutingAttention::validate(const ModelConfig& config) {
  const auto knobs = config.options<RoutingKnobs>();
  const std::int64_t clusters = knobs.routing_clusters, d = config.d_head();
  require_positive("routing_clusters", clusters);
  require_not_negative("routing_window", knobs.routing_window);
  if (clusters > config.max_length) {
    throw UserError("routing_clusters " + std::to_string(clusters) + " exceeds max_length " +
                    std::to_string(config.max_length) +
                    ", and there are no more positions for them to share; give fewer");
  }
  if (!(knobs.routing_decay > 0 && knobs.routing_decay <= 1)) {
    throw UserError("routing_decay " + print_value(knobs.routing_decay) +
                    " is not above 0 and at most 1; the paper's is 0.999");
  }
  if (!(knobs.routing_commitment >= 0)) {
    throw UserError("routing_commitment " + print_value(knobs.routing_commitment) +
                    " is negative, and would drive items from their centroids; give 0 or more");
  }
  if (d < 2) {
    throw UserError("d_model " + std::to_string(config.d_model) + " with n_heads " +
                    std::to_string(config.n_heads) +
                    " leaves the routing attention one number a head, which its layer norm makes "
                    "0; give fewer heads");
  }
}

void RoutingAttention::shrink(ModelConfig& config) {
  set_field(config, "routing_clusters", 3);
  set_field(config, "routing_window", 0);
}

RoutingAttention::RoutingAttention(const ModelConfig& config)
    : RoutingAttention(config, config.options<RoutingKnobs>()) {}

RoutingAttention::RoutingAttention(const ModelConfig& config, const RoutingKnobs& knobs)
    : heads_(config.n_heads),
      all_heads_(config.n_heads),
      d_head_(config.d_head()),
      max_length_(config.max_length),
      clusters_(knobs.routing_clusters),
      window_(knobs.routing_window),
      commitment_(knobs.routing_commitment),
      seed_(config.seed) {
  SCALING_CHECK(clusters_ > 0 && window_ >= 0);
  declare_centroids(knobs.routing_decay);
}

void RoutingAttention::declare_centroids(double decay) {
  sums_ = Parameter::make_vector("sums", heads_ * clusters_ * d_head_,
                                 {Initializer::Kind::normal, 1}, {heads_, clusters_, d_head_});
  counts_ = Parameter::make_vector("counts", heads_ * clusters_, {Initializer::Kind::constant, 1},
                                   {heads_, clusters_});
  sums_.mean_decay = counts_.mean_decay = decay;
}

void RoutingAttention::take_heads(Range heads) {
  SCALING_CHECK(heads_ == all_heads_ && heads.begin >= 0 && heads.size() > 0);
  SCALING_CHECK(heads.end <= all_heads_);
  first_ = heads.begin;
  heads_ = heads.size();
  declare_centroids(sums_.mean_decay);
}

void RoutingAttention::visit_parameters(const ParameterVisitor& visit) {
  visit(sums_);
  visit(counts_);
}

std::unique_ptr<Activations> RoutingAttention::make_activations() const {
  return std::make_unique<Kept>();
}

std::int64_t RoutingAttention::window_of(std::int64_t length) const {
  const std::int64_t share = (length + clusters_ - 1) / clusters_;
  return std::min(length, window_ > 0 ? window_ : share);
}

RoutingSizes RoutingAttention::sizes_of(std::int64_t length, bool causal) const {
  return {length, clusters_, window_of(length), causal};
}

/// Sums at length 1; nothing is near one that is zero.
void RoutingAttention::make_directions(Mat& directions) const {
  const std::vector<float> sums = values_of(sums_, seed_);
  directions = Eigen::Map<const Mat>(sums.data(), heads_ * clusters_, d_head_);
  for (std::int64_t row = 0; row < directions.rows(); ++row) {
    const float length = directions.row(row).norm();
    if (length > 0) directions.row(row) *= 1 / length;
  }
}

void RoutingAttention::make_means(Mat& means) const {
  const std::vector<float> sums = values_of(sums_, seed_), counts = values_of(counts_, seed_);
  means = Eigen::Map<const Mat>(sums.data(), heads_ * clusters_, d_head_);
  for (std::int64_t head = 0; head < heads_; ++head) {
    const float* of_head = counts.data() + head * clusters_;
    const double total = std::accumulate(of_head, of_head + clusters_, 0.0);
    const double smoothing = total / (total + double(clusters_) * kCountEpsilon);
    for (std::int64_t c = 0; c < clusters_; ++c) {
      const double count = (double(of_head[c]) + kCountEpsilon) * smoothing;
      means.row(head * clusters_ + c) *= float(1 / count);
    }
  }
}

RoutingCall RoutingAttention::call_of(const Pass& pass, const AttentionMask& mask, Kept& kept,
                                      std::int64_t pair, std::int64_t length) const {
  const RoutingSizes sizes = sizes_of(length, mask.causal);
  const std::int64_t head = pair % heads_;
  const double numbers = double(heads_ * d_head_ * sizes.sides());  // of a position
  return {.pass = pass,
          .stream = kept.stream,
          .index = pair,
          .sizes = sizes,
          .seen = mask.keys ? mask.keys + pair / heads_ * length : nullptr,
          .directions = kept.directions.data() + head * clusters_ * d_head_,
          .means = pass.training ? kept.means.data() + head * clusters_ * d_head_ : nullptr,
          .commitment = commitment_ / numbers,
          .decisions = kept.chosen.data() + pair * sizes.decisions(),
          .normalizers = kept.normalizers.data() + pair * sizes.places()};
}

void RoutingAttention::forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                               const AttentionMask& mask, Activations& kept, Mat& o) const {
  const std::int64_t length = pass.length(q), pairs = pass.examples * heads_;
  SCALING_CHECK(q.rows() == pass.examples * length && k.rows() == q.rows() && v.rows() == q.rows());
  SCALING_CHECK(length <= std::numeric_limits<std::int32_t>::max());
  SCALING_CHECK(q.cols() == all_heads_ * d_head_ && k.cols() == q.cols() && v.cols() == q.cols());
  auto& own = static_cast<Kept&>(kept);
  own.take_stream(pass);
  const RoutingSizes sizes = sizes_of(length, mask.causal);
  const auto decisions = std::size_t(pairs * sizes.decisions());
  if (pass.recalls_decisions()) {
    SCALING_CHECK(own.chosen.size() == decisions);
  } else {
    own.chosen.resize(decisions);
  }
  own.normalizers.resize(std::size_t(pairs * sizes.places()));
  own.losses.assign(std::size_t(pairs), 0.0);
  own.uncovered.assign(std::size_t(pairs), 0);
  if (own.scratch.size() < std::size_t(pairs)) own.scratch.resize(std::size_t(pairs));
  make_directions(own.directions);
  if (pass.training) make_means(own.means);
  o.resize(q.rows(), q.cols());
  parallel_for(pairs, [&](std::int64_t begin, std::int64_t end) {
    RoutingHead& head = own.scratch[std::size_t(begin)];
    for (std::int64_t pair = begin; pair < end; ++pair) {
      const auto of = [&](auto& all) {
        return rows_of(all, pair, first_, heads_, length, d_head_);
      };
      const RoutingCall call = call_of(pass, mask, own, pair, length);
      head.load(call, of(q), of(k));
      if (!pass.recalls_decisions()) head.choose(call);
      if (pass.training) own.losses[std::size_t(pair)] = head.distance_loss(call);
      head.forward(call, of(v));
      own.uncovered[std::size_t(pair)] = head.uncovered(call);
      of(o) = head.o();
    }
  });
  if (pass.training && !pass.recomputes) {
    pass.extra_loss += std::accumulate(own.losses.begin(), own.losses.end(), 0.0);
  }
}

void RoutingAttention::backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                                const AttentionMask& mask, Activations& kept, const Mat& do_,
                                Mat& dq, Mat& dk, Mat& dv) const {
  const std::int64_t length = pass.length(q), pairs = pass.examples * heads_;
  auto& own = static_cast<Kept&>(kept);
  const RoutingSizes sizes = sizes_of(length, mask.causal);
  SCALING_CHECK(own.chosen.size() == std::size_t(pairs * sizes.decisions()));
  SCALING_CHECK(own.means.rows() == heads_ * clusters_);
  SCALING_CHECK(do_.rows() == q.rows() && do_.cols() == q.cols());
  for (Mat* d : {&dq, &dk, &dv}) d->resize(q.rows(), q.cols());
  parallel_for(pairs, [&](std::int64_t begin, std::int64_t end) {
    RoutingHead& head = own.scratch[std::size_t(begin)];
    for (std::int64_t pair = begin; pair < end; ++pair) {
      const auto of = [&](auto& all) {
        return rows_of(all, pair, first_, heads_, length, d_head_);
      };
      const RoutingCall call = call_of(pass, mask, own, pair, length);
      head.load(call, of(q), of(k));
      head.backward(call, of(v), of(do_));
      of(dq) = head.dq();
      of(dk) = head.dk(call);
      of(dv) = head.dv();
    }
  });
  if (sums_.gradient == nullptr || counts_.gradient == nullptr) return;
  // A head's examples one after another: threads change no bit.
  parallel_for(heads_, [&](std::int64_t begin, std::int64_t end) {
    RoutingHead& scratch = own.scratch[std::size_t(begin)];
    for (std::int64_t head = begin; head < end; ++head) {
      for (std::int64_t pair = head; pair < pairs; pair += heads_) {
        const auto of = [&](auto& all) {
          return rows_of(all, pair, first_, heads_, length, d_head_);
        };
        const RoutingCall call = call_of(pass, mask, own, pair, length);
        scratch.load(call, of(q), of(k));
        scratch.add_statistics(call, counts_.gradient + head * clusters_,
                               sums_.gradient + head * clusters_ * d_head_);
      }
    }
  });
}

AttentionWork RoutingAttention::work(std::int64_t length, bool causal) const {
  const RoutingSizes sizes = sizes_of(length, causal);
  const double window = double(sizes.window);
  const double of_cluster = causal ? window * (window + 1) / 2 : window * window;
  return {.pairs = double(heads_ * clusters_) * of_cluster,
          .choice = 2 * double(heads_ * d_head_ * clusters_) * double(length * sizes.sides())};
}

double RoutingAttention::activation_floats() const {
  const RoutingSizes sizes = sizes_of(max_length_, /*causal=*/false);
  const double numbers = double(sizes.decisions() + sizes.places());
  return double(heads_) * numbers / double(max_length_);
}

double RoutingAttention::thread_floats(std::int64_t length) const {
  return RoutingHead::floats(sizes_of(length, /*causal=*/false), d_head_);
}

std::int64_t RoutingAttention::uncovered(const Activations& kept) const {
  const std::vector<std::int64_t>& of_pairs = static_cast<const Kept&>(kept).uncovered;
  return std::accumulate(of_pairs.begin(), of_pairs.end(), std::int64_t(0));
}

void RoutingAttention::visit_clusters(const Activations& kept, std::int64_t pair,
                                      std::int64_t length, bool causal,
                                      const ClusterVisitor& visit) const {
  const RoutingSizes sizes = sizes_of(length, causal);
  SCALING_CHECK(std::int64_t(kept.chosen.size()) >= (pair + 1) * sizes.decisions());
  const std::int32_t* decisions = kept.chosen.data() + pair * sizes.decisions();
  for (std::int64_t c = 0; c < clusters_; ++c) {
    const auto members = [&](std::int64_t side) {
      const std::int32_t* first = decisions + sizes.members_at(side, c);
      const std::int32_t* last = std::find(first, first + sizes.window, -1);
      return std::span<const std::int32_t>(first, last);
    };
    visit(members(0), members(sizes.sides() - 1));
  }
}

}  // namespace scaling
