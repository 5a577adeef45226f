// Predictions inside the model's own forward.
#include "experiments/sparsefinder/online.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace scaling {
namespace {

class PredictedGraphs : public AttentionGraphs {
 public:
  PredictedGraphs(const TeacherPlan& plan, std::int64_t width, GlobalTokens globals,
                  const HeadPredictor& predict)
      : plan_(plan),
        added_(window_graph(plan.length(), width)),
        predict_(predict),
        scores_(std::size_t(plan.heads())) {
    add_globals(added_, globals);
  }

  void begin(std::int64_t sequence) { sequence_ = sequence; }
  GraphScores mean() const { return mean_of(scores_); }

  HeadGraph graph(std::int64_t attention, std::int64_t head, const Mat& q, const Mat& k) override {
    const std::int64_t own = attention * plan_.model().n_heads + head;
    Prediction predicted = predict_(sequence_, own, q, k);
    HeadGraph graph = std::move(predicted.graph);
    graph |= added_;
    keep_legal(graph, plan_.causal());
    const GoldGraph gold = gold_graph(q, k, plan_.causal(), *plan_.normaliser());
    scores_[std::size_t(own)] = score_graph(gold, graph, predicted.operations, predicted.buckets);
    return graph;
  }

 private:
  const TeacherPlan& plan_;
  HeadGraph added_;
  const HeadPredictor& predict_;
  std::int64_t sequence_ = 0;
  std::vector<GraphScores> scores_;  // of the sequence at hand; a thread writes its heads'
};

class GoldGraphs : public AttentionGraphs {
 public:
  explicit GoldGraphs(const TeacherPlan& plan) : plan_(plan) {}

  HeadGraph graph(std::int64_t, std::int64_t, const Mat& q, const Mat& k) override {
    return gold_graph(q, k, plan_.causal(), *plan_.normaliser()).graph();
  }

 private:
  const TeacherPlan& plan_;
};

}  // namespace

std::vector<OnlineSequence> run_online(const TeacherPlan& plan, const Teacher& teacher,
                                       std::int64_t sequences, std::int64_t width,
                                       GlobalTokens globals, const HeadPredictor& predict,
                                       const std::function<void(std::int64_t)>& done) {
  PredictedGraphs graphs(plan, width, globals, predict);
  std::vector<OnlineSequence> all;
  teacher.losses(
      sequences, &graphs, [&](std::int64_t sequence) { graphs.begin(sequence); },
      [&](std::int64_t sequence, const CrossEntropy& loss) {
        all.push_back({loss, graphs.mean()});
        done(sequence + 1);
      });
  return all;
}

double gold_logits_moved(const TeacherPlan& plan, const Teacher& teacher, std::int64_t sequences,
                         const std::function<void(std::int64_t)>& done) {
  GoldGraphs graphs(plan);
  double farthest = 0;
  teacher.logits(
      sequences, graphs, [&](std::int64_t sequence, const Mat& all, const Mat& of_graphs) {
        const float apart = (all - of_graphs).cwiseAbs().maxCoeff<Eigen::PropagateNaN>();
        const double share = double(apart / all.cwiseAbs().maxCoeff());
        farthest =
            std::isnan(share) ? std::numeric_limits<double>::infinity() : std::max(farthest, share);
        done(sequence + 1);
      });
  return farthest;
}

double stratum_of(double sparsity) {
  double found = 0;
  for (const double low : kStrata) found = sparsity >= low ? low : found;
  return found;
}

std::vector<const SweepPoint*> online_points(const std::vector<SweepPoint>& points,
                                             double gold_sparsity) {
  const auto best_where = [&points](const auto& is_wanted) {
    const SweepPoint* best = nullptr;
    for (const SweepPoint& point : points) {
      if (!is_wanted(point.mean.sparsity)) continue;
      if (!best || point.mean.recall > best->mean.recall) best = &point;
    }
    return best;
  };
  std::vector<const SweepPoint*> chosen;
  const auto add = [&chosen](const SweepPoint* point) {
    if (point && std::find(chosen.begin(), chosen.end(), point) == chosen.end()) {
      chosen.push_back(point);
    }
  };
  for (const double stratum : kStrata) {
    add(best_where([stratum](double sparsity) { return stratum_of(sparsity) == stratum; }));
  }
  add(best_where([gold_sparsity](double sparsity) { return sparsity >= gold_sparsity; }));
  // The least sparse says least.
  if (chosen.size() > std::size(kStrata)) chosen.erase(chosen.begin());
  return chosen;
}

double log_perplexity(const std::vector<OnlineSequence>& sequences) {
  double loss = 0, weight = 0;
  for (const OnlineSequence& one : sequences) {
    loss += one.loss.loss;
    weight += one.loss.weight;
  }
  return loss / weight;
}

}  // namespace scaling
