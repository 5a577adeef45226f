// Nothing is timed that does not decode like the definition.
#pragma once

#include "models/config.h"
#include "models/layer.h"

namespace scaling {

/// How far a kernel set may be from `ref` in a decode step of the small model (shrunk).
struct ReferenceTolerance {
  double logits;      ///< largest difference, as a share of the largest logit
  double selections;  ///< share of the feed-forward's rows in which two choices may differ
};
/// Sums in another order: 2e-5, and one choice in 200, for candidates that differ by less than
/// that. Sets that round activations to bf16, with bf16 weights: 2 % and 3 %. Right sets were seen
/// to need 1e-6 and, rounding, 0.5 %.
ReferenceTolerance tolerance_of(const KernelSet& kernels, WeightType type);

/// Decodes a few tokens of the small model of config (shrunk) with `kernels` on the team, `tokens`
/// sequences at once, and with `ref` on one thread, from the same weights and ids. Selections are
/// compared first, and logits as long as those agree. Throws UserError that begins with `what` and
/// names the set, the weight type and the first difference if they are further apart than
/// tolerance_of says. A library's threads are the caller's to set.
void require_like_ref(const std::string& what, const ModelConfig& config, const KernelSet& kernels,
                      int tokens, Team& team);

}  // namespace scaling
