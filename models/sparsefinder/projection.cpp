// Draws, losses and their slopes, Adam; everything small, so in double precision.
#include "models/sparsefinder/projection.h"

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "kernels/check.h"
#include "kernels/random.h"
#include "models/knobs.h"
#include "models/layers/parts/normals.h"

namespace scaling {
namespace {

/// Streams of a seed. Those of triples are counted from kTriples on.
constexpr std::uint64_t kInitial = 1, kOrder = 2, kRandomMap = 3, kTriples = 16;

/// The first n of a random order of `values`.
void shuffle_first(std::vector<std::int32_t>& values, std::size_t n, Rng& random) {
  for (std::size_t i = 0; i < n; ++i) {
    const std::size_t other = i + random.below(std::uint32_t(values.size() - i));
    std::swap(values[i], values[other]);
  }
}

/// Adam with its usual constants.
class AdamOfMap {
 public:
  AdamOfMap(const ProjectionMap& map, double rate)
      : m_(ProjectionMap::Zero(map.rows(), map.cols())), v_(m_), rate_(rate) {}
  void update(const ProjectionMap& gradient, ProjectionMap& map) {
    constexpr double kFirst = 0.9, kSecond = 0.999, kEpsilon = 1e-8;
    ++step_;
    m_ = kFirst * m_ + (1 - kFirst) * gradient;
    v_ = kSecond * v_ + (1 - kSecond) * gradient.cwiseAbs2();
    const double first = 1 - std::pow(kFirst, step_), second = 1 - std::pow(kSecond, step_);
    map.array() -= rate_ * (m_.array() / first) / ((v_.array() / second).sqrt() + kEpsilon);
  }

 private:
  ProjectionMap m_, v_;
  double rate_;
  int step_ = 0;
};

void require_positive_setting(const char* name, double value) {
  if (value > 0) return;
  throw UserError(std::string(name) + " of the projection is " + print_value(value) +
                  " but must be above 0; give a larger one");
}

/// Loss of a sequence under a map; adds its gradient to `gradient`.
double loss_of(const HeadSequence& sequence, const ProjectionSettings& settings,
               std::span<const Triple> triples, const ProjectionMap& map, ProjectionMap& gradient) {
  const Eigen::MatrixXd q = sequence.q.cast<double>(), k = sequence.k.cast<double>();
  ProjectedRows dq, dk;
  const double loss =
      projection_loss(settings.loss, settings.margin, triples, q * map, k * map, &dq, &dk);
  gradient += q.transpose() * dq + k.transpose() * dk;
  return loss;
}

}  // namespace

void require_sound(const ProjectionSettings& s, std::int64_t d_head) {
  if (s.rank < 1 || s.rank > d_head) {
    throw UserError("rank " + std::to_string(s.rank) + " of the projection is not within 1 and " +
                    std::to_string(d_head) + ", the width of a head; choose one that is");
  }
  require_positive_setting("margin", s.margin);
  require_positive_setting("learning rate", s.learning_rate);
  require_positive_setting("clip", s.clip);
  require_positive_setting("batch", double(s.batch));
  require_positive_setting("epochs", double(s.epochs));
}

std::vector<Triple> draw_triples(const GoldGraph& gold, std::uint64_t seed, std::uint64_t stream) {
  std::vector<Triple> triples;
  std::vector<std::int32_t> positives, negatives;
  Rng random(seed, stream);
  for (std::int64_t i = 0; i < gold.positions; ++i) {
    const auto own = gold.keys_of(i);
    positives.assign(own.begin(), own.end());
    negatives.clear();
    const auto legal = std::int32_t(legal_keys(gold.positions, i, gold.causal).end);
    std::size_t next = 0;
    for (std::int32_t key = 0; key < legal; ++key) {
      if (next < positives.size() && positives[next] == key) {
        ++next;
      } else {
        negatives.push_back(key);
      }
    }
    const std::size_t n = std::min(positives.size(), negatives.size());
    shuffle_first(negatives, n, random);
    if (n < positives.size()) shuffle_first(positives, n, random);
    for (std::size_t t = 0; t < n; ++t) {
      triples.push_back({std::int32_t(i), positives[t], negatives[t]});
    }
  }
  return triples;
}

double projection_loss(ProjectionLoss loss, double margin, std::span<const Triple> triples,
                       const ProjectedRows& q, const ProjectedRows& k, ProjectedRows* dq,
                       ProjectedRows* dk) {
  SCALING_CHECK((dq == nullptr) == (dk == nullptr));
  if (dq) {
    dq->setZero(q.rows(), q.cols());
    dk->setZero(k.rows(), k.cols());
  }
  const std::int64_t rank = q.cols();
  const auto apart = [rank](const double* a, const double* b) {
    double sum = 0;
    for (std::int64_t c = 0; c < rank; ++c) sum += (a[c] - b[c]) * (a[c] - b[c]);
    return sum;
  };
  const auto row_of = [rank](auto& rows, std::int64_t row) { return rows.data() + row * rank; };
  const bool by_query = loss == ProjectionLoss::per_query;
  const double share =
      triples.empty() ? 0 : 1 / (by_query ? double(q.rows()) : double(triples.size()));
  double sum = 0;
  for (std::size_t begin = 0; begin < triples.size();) {
    std::size_t end = begin + 1;
    while (by_query && end < triples.size() && triples[end].query == triples[begin].query) ++end;
    const double* const query = row_of(q, triples[begin].query);
    double inside = margin;
    for (std::size_t t = begin; t < end; ++t) {
      inside += apart(query, row_of(k, triples[t].positive)) -
                apart(query, row_of(k, triples[t].negative));
    }
    if (inside > 0) {
      sum += inside;
      for (std::size_t t = begin; dq && t < end; ++t) {
        const double* const positive = row_of(k, triples[t].positive);
        const double* const negative = row_of(k, triples[t].negative);
        double* const d_query = row_of(*dq, triples[t].query);
        double* const d_positive = row_of(*dk, triples[t].positive);
        double* const d_negative = row_of(*dk, triples[t].negative);
        for (std::int64_t c = 0; c < rank; ++c) {
          d_positive[c] -= 2 * share * (query[c] - positive[c]);
          d_negative[c] += 2 * share * (query[c] - negative[c]);
          // dq' = 2 (q' - k'_P) - 2 (q' - k'_N), from which q' falls out.
          d_query[c] += 2 * share * (negative[c] - positive[c]);
        }
      }
    }
    begin = end;
  }
  return share * sum;
}

LearntProjection learn_projection(std::span<const HeadSequence> sequences,
                                  const ProjectionSettings& settings) {
  SCALING_CHECK(!sequences.empty());
  require_sound(settings, sequences.front().q.cols());
  const std::int64_t d = sequences.front().q.cols();
  LearntProjection learnt;
  learnt.map.resize(d, settings.rank);
  Rng initial(settings.seed, kInitial);
  const float bound = 1 / std::sqrt(float(d));
  for (std::int64_t i = 0; i < learnt.map.size(); ++i) {
    learnt.map.data()[i] = double(initial.uniform(-bound, bound));
  }
  AdamOfMap adam(learnt.map, settings.learning_rate);
  Rng orders(settings.seed, kOrder);
  std::vector<std::int32_t> order(sequences.size());
  ProjectionMap gradient;
  for (std::int64_t epoch = 0; epoch < settings.epochs; ++epoch) {
    std::iota(order.begin(), order.end(), 0);
    shuffle_first(order, order.size(), orders);
    double sum = 0;
    for (std::size_t first = 0; first < order.size(); first += std::size_t(settings.batch)) {
      const std::size_t last = std::min(order.size(), first + std::size_t(settings.batch));
      gradient.setZero(d, settings.rank);
      for (std::size_t i = first; i < last; ++i) {
        const auto index = std::size_t(order[i]);
        const std::uint64_t stream =
            kTriples + std::uint64_t(epoch) * sequences.size() + std::uint64_t(index);
        const auto triples = draw_triples(sequences[index].gold, settings.seed, stream);
        sum += loss_of(sequences[index], settings, triples, learnt.map, gradient);
      }
      gradient /= double(last - first);
      const double norm = gradient.norm();
      if (norm > settings.clip) gradient *= settings.clip / norm;
      adam.update(gradient, learnt.map);
    }
    learnt.losses.push_back(sum / double(sequences.size()));
  }
  return learnt;
}

ProjectionMap random_projection(std::int64_t d_head, std::int64_t rank, std::uint64_t seed) {
  std::vector<float> values(std::size_t(d_head * rank));
  draw_normals(seed, kRandomMap, 0, std::int64_t(values.size()), values.data());
  const double factor = 1 / std::sqrt(double(rank));
  return factor * Eigen::Map<const Eigen::MatrixXf>(values.data(), d_head, rank).cast<double>();
}

ProjectionMap pca_projection(std::span<const HeadSequence> sequences, std::int64_t rank) {
  SCALING_CHECK(!sequences.empty());
  const std::int64_t d = sequences.front().q.cols();
  SCALING_CHECK(rank >= 1 && rank <= d);
  Eigen::MatrixXd squares = Eigen::MatrixXd::Zero(d, d);
  Eigen::VectorXd sum = Eigen::VectorXd::Zero(d);
  double n = 0;
  for (const HeadSequence& sequence : sequences) {
    for (const HeadSlice* rows : {&sequence.q, &sequence.k}) {
      const Eigen::MatrixXd x = rows->cast<double>();
      squares += x.transpose() * x;
      sum += x.colwise().sum().transpose();
      n += double(x.rows());
    }
  }
  const Eigen::VectorXd mean = sum / n;
  const Eigen::MatrixXd covariance = squares / n - mean * mean.transpose();
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(covariance);
  ProjectionMap map(d, rank);
  for (std::int64_t axis = 0; axis < rank; ++axis) {
    map.col(axis) = solver.eigenvectors().col(d - 1 - axis);  // of the largest value: the last
    std::int64_t largest = 0;
    map.col(axis).cwiseAbs().maxCoeff(&largest);
    if (map(largest, axis) < 0) map.col(axis) = -map.col(axis);
  }
  return map;
}

Mat projected(const HeadSlice& x, const ProjectionMap& map) {
  return (x.cast<double>() * map).cast<float>();
}

}  // namespace scaling
