// Hard against soft selections by a twin of the trained model.
#include "models/training/selections.h"

#include <algorithm>
#include <memory>

#include "kernels/check.h"
#include "kernels/gemm.h"
#include "kernels/team.h"
#include "models/layers/catalog.h"
#include "models/transformer/copy_weights.h"

namespace scaling {
namespace {

// The twin takes weights and gradients once more.
constexpr std::int64_t kMostParameters = 64'000'000;
constexpr std::int64_t kMostBatches = 10;

struct Measured {
  double loss = 0, weight = 0, entropy = 0;
};

/// Sums over the first validation batches. Soft: a training pass without selections' noise and
/// dropout; positions of fixed_base still lose the digits that training drops.
Measured measure(Transformer& model, const Task& task, const Gemm& gemm, bool soft) {
  // Stored, so that the entropies of every block can be seen.
  const std::unique_ptr<Transformer::Kept> kept = model.make_activations(true);
  const std::int64_t batches = std::min(kMostBatches, task.validation_batches());
  Measured sum;
  int entropies = 0;
  Batch batch;
  for (std::int64_t i = 0; i < batches; ++i) {
    task.validation_batch(0, i, batch);
    Pass pass{gemm};
    pass.training = soft;
    pass.seed = model.config().seed;
    const CrossEntropy loss = model.loss_of(pass, batch, *kept);
    sum.loss += loss.loss;
    sum.weight += loss.weight;
    for (const double entropy : model.decoder().selection_entropies(kept->decoder)) {
      sum.entropy += entropy;
      ++entropies;
    }
  }
  sum.entropy /= std::max(entropies, 1);
  return sum;
}

}  // namespace

SelectionNumbers diagnose_selections(Transformer& model, const Task& task, const Gemm& gemm,
                                     int threads) {
  const ModelConfig& config = model.config();
  const bool learned = chosen_entry(config, "feed_forward").selects_softly(config);
  if (!learned || config.encoder_layers > 0 || model.parameter_count() > kMostParameters) return {};
  ModelConfig soft = config;
  set_field(soft, "hard_probability", 0);
  set_field(soft, "selection_noise", 0);
  Transformer twin(soft);
  try {
    Team team(threads);
    twin.allocate_for_training(team);
  } catch (const UserError&) {
    return {};  // the curve is done: it is not lost for want of memory for a diagnosis
  }
  set_gemm_threads(threads);
  copy_weights(model, twin);
  const Measured with_hard = measure(model, task, gemm, false);
  const Measured with_soft = measure(twin, task, gemm, true);
  return {with_hard.loss / with_hard.weight - with_soft.loss / with_soft.weight, with_soft.entropy};
}

}  // namespace scaling
