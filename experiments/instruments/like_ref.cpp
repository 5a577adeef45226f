// Two decoders over one small model, step by step.
#include "experiments/instruments/like_ref.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "kernels/check.h"
#include "kernels/random.h"
#include "models/transformer/decoder.h"

namespace scaling {
namespace {

// Steps of one decode: convolutions remember two tokens. Several, since one ends where choices
// differ.
constexpr int kDecodes = 6, kSteps = 3;
constexpr std::int64_t kSourceLength = 5;

/// Away from their initial 1e-6, 1 and 0, so that a bias that is left out shows.
void shake_vectors(Transformer& model) {
  Rng rng(11);
  model.visit_parameters([&](Parameter& p) {
    for (std::int64_t i = 0; p.is_vector && i < p.cols; ++i) {
      p.set(0, i, p.get(0, i) + rng.uniform(-0.3f, 0.3f));
    }
  });
}

std::vector<int> draw_ids(Rng& rng, std::int64_t n, std::int64_t vocab_size) {
  std::vector<int> ids;
  for (std::int64_t i = 0; i < n; ++i) {
    ids.push_back(1 + int(rng.below(std::uint32_t(vocab_size - 1))));
  }
  return ids;
}

struct Step {
  std::vector<std::vector<std::int32_t>> rows;  // touched in each block
  std::vector<float> logits;
};

/// kDecodes of kSteps, one after another, of the same ids whoever decodes.
std::vector<Step> decode(const Transformer& model, const KernelSet& kernels, int tokens,
                         Team& team) {
  const std::int64_t vocab_size = model.config().vocab_size;
  Rng rng(3);
  const Mat encoded = model.encode(draw_ids(rng, kSourceLength, vocab_size));
  Decoder decoder(model, kernels, team, tokens, kSteps, kSourceLength);
  std::vector<Step> steps;
  std::vector<int> next;
  for (int number = 0; number < kDecodes; ++number) {
    decoder.begin(encoded);
    for (int i = 0; i < kSteps; ++i) {
      decoder.step(draw_ids(rng, tokens, vocab_size), next);
      steps.push_back({decoder.touched_rows(), decoder.logits()});
    }
  }
  return steps;
}

/// What has been compared so far.
class Comparison {
 public:
  Comparison(const std::string& what, const KernelSet& kernels, WeightType type)
      : what_(what), kernels_(kernels), type_(type), tolerance_(tolerance_of(kernels, type)) {}

  /// Whether the same rows were chosen.
  bool rows(const Step& ours, const Step& expected) {
    for (std::size_t block = 0; block < expected.rows.size(); ++block) {
      const std::vector<std::int32_t>&a = ours.rows[block], &b = expected.rows[block];
      std::vector<std::int32_t> missing;
      std::set_difference(b.begin(), b.end(), a.begin(), a.end(), std::back_inserter(missing));
      chosen_ += b.size();
      differing_ += missing.size();
    }
    return ours.rows == expected.rows;
  }

  void logits(const Step& ours, const Step& expected) {
    float largest = 0;
    for (const float logit : expected.logits) largest = std::max(largest, std::abs(logit));
    for (std::size_t i = 0; i < expected.logits.size(); ++i) {
      const double a = double(ours.logits[i]), b = double(expected.logits[i]);
      // So written that what is not a number fails.
      if (std::abs(a - b) <= tolerance_.logits * double(largest)) continue;
      char text[160];
      std::snprintf(text, sizeof text, "logit %zu is %g where ref's is %g, of %g at most", i, a, b,
                    double(largest));
      refuse(text);
    }
    compared_ = true;
  }

  void conclude() const {
    const double share = chosen_ > 0 ? double(differing_) / double(chosen_) : 0;
    if (compared_ && share <= tolerance_.selections) return;
    refuse(std::to_string(differing_) + " of " + std::to_string(chosen_) +
           " rows of the feed-forward are chosen otherwise");
  }

 private:
  [[noreturn]] void refuse(const std::string& difference) const {
    throw UserError(what_ + ": kernel set '" + kernels_.name + "' with " + name_of(type_) +
                    " weights does not decode like ref (" + difference +
                    "), so nothing was timed; choose another set, and report this with the "
                    "processor's name");
  }

  const std::string& what_;
  const KernelSet& kernels_;
  const WeightType type_;
  const ReferenceTolerance tolerance_;
  std::size_t chosen_ = 0, differing_ = 0;
  bool compared_ = false;
};

}  // namespace

ReferenceTolerance tolerance_of(const KernelSet& kernels, WeightType type) {
  if (kernels.rounds(type)) return {2e-2, 3e-2};
  return {2e-5, 5e-3};
}

void require_like_ref(const std::string& what, const ModelConfig& config, const KernelSet& kernels,
                      int tokens, Team& team) {
  Transformer model(shrunk(config));
  Team alone(1);
  model.allocate(alone, kernels.dense_layout(config.weight_type));
  shake_vectors(model);
  const std::vector<Step> ours = decode(model, kernels, tokens, team);
  const std::vector<Step> expected = decode(model, ref_kernels(), tokens, alone);
  Comparison comparison(what, kernels, config.weight_type);
  for (std::size_t first = 0; first < ours.size(); first += kSteps) {
    // From a different choice to the end of its decode everything may differ.
    for (std::size_t i = first; i < first + kSteps; ++i) {
      if (!comparison.rows(ours[i], expected[i])) break;
      comparison.logits(ours[i], expected[i]);
    }
  }
  comparison.conclude();
}

}  // namespace scaling
