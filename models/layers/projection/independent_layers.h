// The projections that are four alike and independent blocks.
#pragma once

#include "models/layers/parts/dense_product.h"
#include "models/layers/parts/local_dense.h"
#include "models/layers/parts/low_rank_dense.h"
#include "models/layers/parts/module_knobs.h"
#include "models/layers/parts/mult_modular_dense.h"
#include "models/layers/parts/multiplicative_dense.h"
#include "models/layers/projection/independent.h"
#include "models/layers/traits.h"

namespace scaling {

class DenseProjection : public IndependentProjection<DenseProduct> {
 public:
  static constexpr Traits kTraits{.is_dense = true};
  explicit DenseProjection(const ModelConfig& config);
};

struct LowRankProjectionKnobs {
  std::int64_t projection_rank = 64;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("projection_rank", k.projection_rank, "rank of the low_rank projection",
          Trait{.is_size = true});
  }
};

class LowRankProjection : public IndependentProjection<LowRankDense> {
 public:
  using Options = LowRankProjectionKnobs;
  static void validate(const ModelConfig& config);
  static void shrink(ModelConfig& config) { set_field(config, "projection_rank", 24); }
  explicit LowRankProjection(const ModelConfig& config);
};

class LocalProjection : public IndependentProjection<LocalDense>,
                        public CutIntoModules<ModuleKnobs> {
 public:
  explicit LocalProjection(const ModelConfig& config);
};

class MultiplicativeProjection : public IndependentProjection<MultiplicativeDense>,
                                 public CutIntoModules<ModuleKnobs> {
 public:
  explicit MultiplicativeProjection(const ModelConfig& config);
};

class MultModularProjection : public IndependentProjection<MultModularDense>,
                              public CutIntoModules<ModuleKnobs> {
 public:
  explicit MultModularProjection(const ModelConfig& config);
};

}  // namespace scaling
