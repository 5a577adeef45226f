// Text, model and trainer as for a curve, without its records.
#include "experiments/training/trial.h"

#include <filesystem>

#include "experiments/study/interrupt.h"
#include "kernels/gemm.h"
#include "kernels/team.h"
#include "models/tasks/catalog.h"

namespace scaling {
namespace {

struct TemporaryFolder {
  explicit TemporaryFolder(const std::string& name) : path(name) { remove(); }
  ~TemporaryFolder() { remove(); }
  void remove() const {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  const std::string& path;
};

}  // namespace

std::unique_ptr<Transformer> allocate_for_training(const ModelConfig& config, int threads) {
  auto model = std::make_unique<Transformer>(config);
  Team team(threads);
  model->allocate_for_training(team);
  return model;
}

double try_steps(Curve curve, std::int64_t steps, int threads, const std::string& cache,
                 const std::string& folder, const std::function<void(const TrainReport&)>& report) {
  curve.train.steps = curve.train.evaluate_every = curve.train.checkpoint_every = steps;
  curve.train.evaluate_batches = 1;
  const TemporaryFolder checkpoints(folder);
  set_gemm_threads(threads);
  const std::unique_ptr<Task> task = make_task(curve.train, curve.model.vocab_size, cache,
                                               [](std::uint64_t) { check_interrupt(); });
  const std::unique_ptr<Transformer> model = allocate_for_training(curve.model, threads);
  Trainer trainer(*model, *task, curve.train, checkpoints.path);
  if (!trainer.run(report, [] { return interrupt_arrived(); })) throw Interrupted{};
  return trainer.flops_per_step();
}

}  // namespace scaling
