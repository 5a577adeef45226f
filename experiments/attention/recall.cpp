// Exact probabilities of one head at a time, and who of those keys is in a query's view.
#include "experiments/attention/recall.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numbers>

#include "experiments/study/counts.h"
#include "experiments/study/interrupt.h"
#include "kernels/check.h"
#include "kernels/gemm.h"
#include "kernels/parallel.h"
#include "kernels/random.h"
#include "models/knobs.h"
#include "models/layers/attention/lsh.h"

namespace scaling {
namespace {

constexpr float kCentreShare = 0.75f;

class Normals {
 public:
  Normals(std::uint64_t seed, std::uint64_t stream) : random_(seed, stream) {}
  float next() {
    const float radius = std::sqrt(-2 * std::log(random_.uniform(0, 1)));
    return radius * std::cos(2 * std::numbers::pi_v<float> * random_.uniform(0, 1));
  }
  std::int64_t below(std::int64_t n) { return random_.below(std::uint32_t(n)); }
  void fill(Mat& m) {
    for (std::int64_t i = 0; i < m.size(); ++i) m.data()[i] = next();
  }

 private:
  Rng random_;
};

/// Shared queries and keys (length, d_head) of one head.
Mat draw_head(const std::string& distribution, std::int64_t length, std::int64_t d,
              std::uint64_t seed, std::int64_t head) {
  Normals normals(seed, std::uint64_t(head) + 1);
  Mat qk(length, d);
  normals.fill(qk);
  if (distribution == kDistributions[0]) return qk;
  Mat centres(std::max<std::int64_t>(1, length / kClusterSize), d);
  normals.fill(centres);
  for (std::int64_t t = 0; t < length; ++t) {
    qk.row(t) = std::sqrt(kCentreShare) * centres.row(normals.below(centres.rows())) +
                std::sqrt(1 - kCentreShare) * qk.row(t);
  }
  return qk;
}

/// Row t: softmax over positions before t, the rest zero.
Mat exact_probabilities(const Mat& qk) {
  const Mat keys = qk.rowwise().normalized();
  Mat p = qk * keys.transpose();
  for (std::int64_t t = 0; t < p.rows(); ++t) {
    Eigen::Map<Eigen::ArrayXf> row(p.row(t).data(), p.cols());
    if (t > 0) {
      const float largest = row.head(t).maxCoeff();
      row.head(t) = (row.head(t) - largest).exp();
      row.head(t) /= row.head(t).sum();
    }
    row.tail(p.cols() - t).setZero();
  }
  return p;
}

/// Adds one head's mass and pairs that any round has brought into view.
void add_recall(const LshAttention& lsh, const LshAttention::Kept& kept, std::int64_t head,
                const Mat& p, double* recall, double* density) {
  const std::int64_t length = p.rows();
  std::vector<bool> met(std::size_t(length * length));
  double mass = 0, pairs = 0;
  lsh.visit_views(kept, head, length, nullptr, [&](auto queries, auto keys) {
    for (const std::int32_t t : queries) {
      for (const std::int32_t key : keys) {
        if (key >= t) break;
        auto is_met = met[std::size_t(t * length + key)];
        if (is_met) continue;
        is_met = true;
        mass += double(p(t, key));
        ++pairs;
      }
    }
  });
  *recall = mass / double(length - 1);
  *density = pairs / (double(length) * double(length - 1) / 2);
}

}  // namespace

std::vector<Recall> measure_recall(const std::string& distribution, std::int64_t length,
                                   const std::vector<ModelConfig>& settings, int threads) {
  const std::vector<std::string> known(std::begin(kDistributions), std::end(kDistributions));
  if (std::find(known.begin(), known.end(), distribution) == known.end()) {
    throw UserError("there is no distribution '" + distribution + "'; known are: " + joined(known));
  }
  SCALING_CHECK(!settings.empty() && length >= 2);
  set_gemm_threads(threads);
  const std::int64_t heads = settings.front().n_heads, d = settings.front().d_head();
  Mat qk(length, heads * d), o;
  parallel_for(heads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t head = begin; head < end; ++head) {
      qk.middleCols(head * d, d) = draw_head(distribution, length, d, settings.front().seed, head);
    }
  });
  std::vector<std::unique_ptr<LshAttention>> layers;
  std::vector<LshAttention::Kept> kept(settings.size());
  std::vector<Recall> found(settings.size());
  for (std::size_t i = 0; i < settings.size(); ++i) {
    check_interrupt();
    SCALING_CHECK(settings[i].n_heads == heads && settings[i].d_head() == d);
    layers.push_back(std::make_unique<LshAttention>(settings[i]));
    Pass pass = evaluation_pass();
    layers[i]->forward(pass, qk, qk, qk, {.causal = true}, kept[i], o);
    kept[i].scratch.clear();
    found[i].recall.resize(std::size_t(heads));
    found[i].density.resize(std::size_t(heads));
  }
  check_interrupt();
  parallel_for(heads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t head = begin; head < end; ++head) {
      const Mat p = exact_probabilities(qk.middleCols(head * d, d));
      for (std::size_t i = 0; i < settings.size(); ++i) {
        add_recall(*layers[i], kept[i], head, p, &found[i].recall[std::size_t(head)],
                   &found[i].density[std::size_t(head)]);
      }
    }
  });
  return found;
}

}  // namespace scaling
