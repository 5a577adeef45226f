// Blocks by part: "q", "k", "v", "o".
#include "models/layers/projection/independent_layers.h"

#include "models/config_checks.h"

namespace scaling {
namespace {

std::int64_t modules_of(const ModelConfig& c) { return c.options<ModuleKnobs>().modules; }

}  // namespace

DenseProjection::DenseProjection(const ModelConfig& c)
    : IndependentProjection([&](const std::string& part) {
        return DenseProduct(part, part + "_bias", c.d_model, c.d_model);
      }) {}

void LowRankProjection::validate(const ModelConfig& config) {
  require_positive("projection_rank", config.options<LowRankProjectionKnobs>().projection_rank);
}

LowRankProjection::LowRankProjection(const ModelConfig& c)
    : IndependentProjection([&](const std::string& part) {
        const std::int64_t rank = c.options<LowRankProjectionKnobs>().projection_rank;
        return LowRankDense(part, c.d_model, rank, c.d_model);
      }) {}

LocalProjection::LocalProjection(const ModelConfig& c)
    : IndependentProjection([&](const std::string& part) {
        return LocalDense(part + ".w", part + ".bias", c.d_model, modules_of(c));
      }) {}

MultiplicativeProjection::MultiplicativeProjection(const ModelConfig& c)
    : IndependentProjection([&](const std::string& part) {
        return MultiplicativeDense(part, c.d_model, modules_of(c), c.d_model);
      }) {}

MultModularProjection::MultModularProjection(const ModelConfig& c)
    : IndependentProjection([&](const std::string& part) {
        return MultModularDense(part, c.d_model, modules_of(c));
      }) {}

}  // namespace scaling
