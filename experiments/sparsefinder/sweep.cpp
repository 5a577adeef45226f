// Heads learn beside one another, sequences are scored beside one another.
#include "experiments/sparsefinder/sweep.h"

#include <algorithm>
#include <set>

#include "experiments/study/interrupt.h"
#include "kernels/check.h"
#include "kernels/parallel.h"
#include "kernels/random.h"
#include "models/sparsefinder/simulators.h"

namespace scaling {
namespace {

/// Sequences between two questions whether the run is to end.
constexpr std::int64_t kChunk = 16;
/// Streams of a seed.
constexpr std::uint64_t kPoints = 0x706f696e7473, kSequence = 0x73657175656e;

/// body(i) for i in [0, n), chunk after chunk.
template <class Body>
void for_each_watched(const std::string& what, std::int64_t n, const SweepWatch& watch,
                      Body&& body) {
  for (std::int64_t first = 0; first < n; first += kChunk) {
    check_interrupt();
    const std::int64_t size = std::min(kChunk, n - first);
    parallel_for(size, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = first + begin; i < first + end; ++i) body(i);
    });
    watch(what, first + size, n);
  }
}

std::uint64_t seed_of(std::uint64_t seed, std::int64_t sequence, std::int64_t head) {
  const auto bits = random_bits(seed, kSequence + std::uint64_t(head), std::uint64_t(sequence));
  return std::uint64_t(bits[0]) << 32 | bits[1];
}

/// Distances of pairs, of which those of small densities are found by order.
float threshold_of(std::vector<float>& distances, double density) {
  const auto place = std::size_t(density * double(distances.size() - 1));
  std::nth_element(distances.begin(), distances.begin() + std::ptrdiff_t(place), distances.end());
  return distances[place];
}

/// Squared distances of legal pairs: drawn, `points` of them.
std::vector<float> draw_distances(const std::vector<Mat>& q, const std::vector<Mat>& k, bool causal,
                                  std::int64_t points, Rng& random) {
  std::vector<float> distances;
  for (std::int64_t i = 0; i < points; ++i) {
    const std::size_t sequence = random.below(std::uint32_t(q.size()));
    const std::int64_t n = q[sequence].rows();
    std::int64_t query = std::int64_t(random.below(std::uint32_t(n)));
    std::int64_t key = std::int64_t(random.below(std::uint32_t(n)));
    if (causal && key > query) std::swap(query, key);
    distances.push_back((q[sequence].row(query) - k[sequence].row(key)).squaredNorm());
  }
  return distances;
}

/// Rows drawn with replacement from queries and keys pooled.
Mat draw_points(const std::vector<Mat>& q, const std::vector<Mat>& k, std::int64_t points,
                Rng& random) {
  Mat drawn(points, q.front().cols());
  for (std::int64_t i = 0; i < points; ++i) {
    const auto& from = random.below(2) == 0 ? q : k;
    const Mat& sequence = from[random.below(std::uint32_t(from.size()))];
    drawn.row(i) = sequence.row(std::int64_t(random.below(std::uint32_t(sequence.rows()))));
  }
  return drawn;
}

/// The values that methods of a source and a predictor want of a parameter.
std::set<double> values_of(const std::vector<Method>& methods, Source source, Predictor predictor,
                           const std::string& parameter, std::int64_t positions,
                           std::int64_t points) {
  std::set<double> values;
  for (const Method& method : methods) {
    if (method.source != source || method.predictor != predictor) continue;
    for (const Configuration& one : configurations(method, positions, points)) {
      if (one.parameter == parameter) values.insert(one.value);
    }
  }
  return values;
}

ProjectionMap learn_map(const std::vector<HeadSequence>& sequences, Source source,
                        const SweepSettings& settings, HeadModel& model) {
  ProjectionSettings learning = settings.projection;
  switch (source) {
    case Source::none:
      return {};
    case Source::random:
      return random_projection(sequences.front().q.cols(), learning.rank, learning.seed);
    case Source::pca:
      return pca_projection(sequences, learning.rank);
    case Source::pairwise:
      learning.loss = ProjectionLoss::pairwise;
      break;
    case Source::per_query:
      learning.loss = ProjectionLoss::per_query;
      break;
  }
  LearntProjection learnt = learn_projection(sequences, learning);
  model.first_loss = learnt.losses.front();
  model.last_loss = learnt.losses.back();
  return std::move(learnt.map);
}

/// One head's model of one source.
HeadModel learn_head(const std::vector<HeadSequence>& sequences, Source source,
                     const std::vector<Method>& methods, const SweepSettings& settings) {
  HeadModel model;
  model.map = learn_map(sequences, source, settings, model);
  if (source == Source::none) return model;
  std::vector<Mat> q, k, both;
  for (const HeadSequence& sequence : sequences) {
    q.push_back(projected(sequence.q, model.map));
    k.push_back(projected(sequence.k, model.map));
  }
  const std::int64_t n = q.front().rows(), points = settings.cluster_points;
  Rng random(settings.projection.seed, kPoints);
  const Mat pool = draw_points(q, k, points, random);
  std::vector<float> distances =
      draw_distances(q, k, sequences.front().gold.causal, 16 * points, random);
  for (const double density :
       values_of(methods, source, Predictor::distance, "density", n, points)) {
    model.thresholds[density] = threshold_of(distances, density);
  }
  for (const double clusters :
       values_of(methods, source, Predictor::kmeans, "clusters", n, points)) {
    model.centroids[clusters] =
        learn_centroids(pool, std::int64_t(clusters), settings.cluster_rounds, settings.seed);
  }
  const auto routes = values_of(methods, source, Predictor::sim_routing, "clusters", n, points);
  for (std::size_t i = 0; !routes.empty() && i < q.size(); ++i) {
    both.emplace_back(2 * n, q[i].cols());
    both.back() << q[i], k[i];
  }
  for (const double clusters : routes) {
    model.routing[clusters] =
        learn_routing_centroids(both, std::int64_t(clusters), settings.routing_decay,
                                settings.routing_rounds, settings.seed);
  }
  return model;
}

/// Of the predictors that compute all values of a parameter at once.
template <class T>
std::vector<T> values_as(const std::vector<Configuration>& wanted) {
  std::vector<T> values;
  for (const Configuration& one : wanted) values.push_back(T(one.value));
  return values;
}

}  // namespace

std::map<Source, std::vector<HeadModel>> learn_heads(const TeacherPlan& plan,
                                                     const std::vector<SequenceHeads>& sequences,
                                                     const std::vector<Method>& methods,
                                                     const SweepSettings& settings,
                                                     const SweepWatch& watch) {
  SCALING_CHECK(!sequences.empty());
  require_sound(settings.projection, plan.d_head());
  if (settings.cluster_points < 1) {
    throw UserError("--cluster_points " + std::to_string(settings.cluster_points) +
                    " leaves nothing to learn clusters from; give 1 or more");
  }
  std::set<Source> sources;
  for (const Method& method : methods) {
    if (method.source != Source::none) sources.insert(method.source);
  }
  std::map<Source, std::vector<HeadModel>> models;
  const std::int64_t heads = plan.heads();
  for (const Source source : sources) models[source].resize(std::size_t(heads));
  if (sources.empty()) return models;
  // Heads one by one in memory: of each its gold graphs are there for all sources.
  for_each_watched("heads that learn", heads, watch, [&](std::int64_t head) {
    std::vector<GoldGraph> gold;
    for (const SequenceHeads& sequence : sequences) {
      gold.push_back(gold_graph(plan.queries(sequence, head), plan.keys(sequence, head),
                                plan.causal(), *plan.normaliser()));
    }
    std::vector<HeadSequence> own;
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      own.push_back({plan.queries(sequences[i], head), plan.keys(sequences[i], head), gold[i]});
    }
    for (const Source source : sources) {
      SweepSettings of_head = settings;
      of_head.seed = of_head.projection.seed = seed_of(settings.seed, -1, head);
      models.at(source)[std::size_t(head)] = learn_head(own, source, methods, of_head);
    }
  });
  return models;
}

Sweep::Sweep(const TeacherPlan& plan, const std::vector<SequenceHeads>& sequences,
             const std::map<Source, std::vector<HeadModel>>& models, const SweepSettings& settings,
             const SweepWatch& watch)
    : plan_(plan), sequences_(sequences), models_(models), settings_(settings) {
  SCALING_CHECK(!sequences.empty());
  const std::int64_t heads = plan.heads();
  gold_.resize(sequences.size() * std::size_t(heads));
  for_each_watched("gold graphs", std::int64_t(sequences.size()), watch, [&](std::int64_t i) {
    const SequenceHeads& sequence = sequences_[std::size_t(i)];
    for (std::int64_t head = 0; head < heads; ++head) {
      gold_[std::size_t(i * heads + head)] =
          gold_graph(plan_.queries(sequence, head), plan_.keys(sequence, head), plan_.causal(),
                     *plan_.normaliser());
    }
  });
}

const GoldGraph& Sweep::gold(std::int64_t sequence, std::int64_t head) const {
  return gold_[std::size_t(sequence * plan_.heads() + head)];
}

double Sweep::gold_sparsity(std::int64_t head) const {
  double sum = 0;
  const auto n = std::int64_t(sequences_.size());
  for (std::int64_t i = 0; i < n; ++i) {
    const GoldGraph& own = gold(i, head);
    sum += 1 - double(own.pairs()) / double(legal_pairs(own.positions, own.causal));
  }
  return sum / double(n);
}

double Sweep::gold_sparsity() const {
  double sum = 0;
  for (std::int64_t head = 0; head < plan_.heads(); ++head) sum += gold_sparsity(head);
  return sum / double(plan_.heads());
}

std::vector<Prediction> Sweep::predict(const Method& method,
                                       const std::vector<Configuration>& wanted,
                                       const HeadSlice& queries, const HeadSlice& keys,
                                       std::int64_t sequence, std::int64_t head) const {
  const std::int64_t n = plan_.length();
  if (method.predictor == Predictor::oracle) {
    Mat scores;
    head_scores(queries, keys, scores);
    return oracle_graphs(scores, plan_.causal(), values_as<std::int64_t>(wanted));
  }
  if (method.predictor == Predictor::random_graph) {
    return random_graphs(n, values_as<float>(wanted), seed_of(settings_.seed, sequence, head));
  }
  if (method.source == Source::none) {
    return predict_each(method, wanted, Mat(), Mat(), sequence, head);
  }
  const HeadModel& model = models_.at(method.source)[std::size_t(head)];
  const Mat q = projected(queries, model.map), k = projected(keys, model.map);
  if (method.predictor != Predictor::distance) {
    return predict_each(method, wanted, q, k, sequence, head);
  }
  std::vector<float> thresholds;
  for (const Configuration& one : wanted) {
    thresholds.push_back(one.parameter == "density" ? model.thresholds.at(one.value)
                                                    : float(one.value));
  }
  return predict_by_distance(q, k, thresholds);
}

std::vector<Prediction> Sweep::predict_each(const Method& method,
                                            const std::vector<Configuration>& wanted, const Mat& q,
                                            const Mat& k, std::int64_t sequence,
                                            std::int64_t head) const {
  const std::int64_t n = plan_.length();
  const std::uint64_t seed = seed_of(settings_.seed, sequence, head);
  const auto model = [&]() -> const HeadModel& {
    return models_.at(method.source)[std::size_t(head)];
  };
  std::vector<Prediction> all;
  for (const Configuration& one : wanted) {
    const auto value = std::int64_t(one.value);
    switch (method.predictor) {
      case Predictor::distance:
      case Predictor::oracle:
      case Predictor::random_graph:
        SCALING_CHECK(false);  // computed for all values at once
        break;
      case Predictor::quantization:
        all.push_back(predict_by_quantization(q, k, value));
        break;
      case Predictor::kmeans:
        all.push_back(predict_by_clusters(q, k, model().centroids.at(one.value), one.nearest));
        break;
      case Predictor::sim_window:
        all.push_back({HeadGraph(n), 0});
        break;
      case Predictor::sim_longformer:
        all.push_back(sim_longformer(n, value, seed));
        break;
      case Predictor::sim_bigbird:
        all.push_back(sim_bigbird(n, value, head, seed));
        break;
      case Predictor::sim_reformer:
        all.push_back(sim_reformer(q, k, value, seed));
        break;
      case Predictor::sim_routing:
        all.push_back(sim_routing(q, k, model().routing.at(one.value)));
        break;
    }
  }
  return all;
}

std::vector<SweepPoint> Sweep::run(const Method& method, const SweepWatch& watch) const {
  const std::int64_t heads = plan_.heads(), n = plan_.length();
  const auto sequences = std::int64_t(sequences_.size());
  const std::vector<Configuration> wanted = configurations(method, n, settings_.cluster_points);
  const std::vector<std::int64_t> widths = window_widths(method, n);
  const std::size_t points = wanted.size() * widths.size();
  // (sequences, heads, points)
  std::vector<GraphScores> found(std::size_t(sequences * heads) * points);
  const auto at = [&](std::int64_t sequence, std::int64_t head) {
    return found.data() + std::size_t(sequence * heads + head) * points;
  };
  for_each_watched(method.name, sequences, watch, [&](std::int64_t sequence) {
    for (std::int64_t head = 0; head < heads; ++head) {
      WindowScorer scorer(gold(sequence, head), settings_.globals, widths);
      GraphScores* to = at(sequence, head);
      const SequenceHeads& of = sequences_[std::size_t(sequence)];
      for (Prediction& one :
           predict(method, wanted, plan_.queries(of, head), plan_.keys(of, head), sequence, head)) {
        const auto scores = scorer.score(std::move(one));
        to = std::copy(scores.begin(), scores.end(), to);
      }
    }
  });
  std::vector<SweepPoint> all;
  std::vector<GraphScores> some;
  for (std::size_t p = 0; p < points; ++p) {
    SweepPoint point;
    point.configuration = wanted[p / widths.size()];
    point.width = widths[p % widths.size()];
    for (std::int64_t i = 0; i < sequences; ++i) {
      some.clear();
      for (std::int64_t head = 0; head < heads; ++head) some.push_back(at(i, head)[p]);
      point.sequences.push_back(mean_of(some));
    }
    for (std::int64_t head = 0; head < heads; ++head) {
      some.clear();
      for (std::int64_t i = 0; i < sequences; ++i) some.push_back(at(i, head)[p]);
      point.heads.push_back(mean_of(some));
    }
    point.mean = mean_of(point.sequences);
    all.push_back(std::move(point));
  }
  return all;
}

}  // namespace scaling
