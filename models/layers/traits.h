// What the catalog's users ask of an entry, so that nobody has to know it by its name.
#pragma once

namespace scaling {

/// Whether a decode step of a sequence is its forward in evaluation, or comes near it; what is
/// approximate has a test of its own that says how. none: every position depends on later ones,
/// whatever the mask, so that the layer neither decodes nor learns what is causal.
enum class StepIs { exact, approximate, none };

struct Traits {
  /// The plain form of its component, which controls are made of; of projections also what an
  /// encoder has whatever the config says. One entry of each component that has such a form.
  bool is_dense = false;
  const char* d_ff_multiple_of = nullptr;  ///< the knob, if there is one
  bool can_start_dense = false;  ///< of feed-forwards: whether Pass::all_neurons means anything
  StepIs step = StepIs::exact;
  /// Of attentions: whether a query meets some keys one by one. Where it is false no pair is scored
  /// or has a weight of its own.
  bool has_graph = true;
  /// Of attentions: whether one can have some of a layer's heads, others the rest
  /// (SelfAttention::take_heads).
  bool shares_heads = false;
  bool has_streams = false;  ///< of attentions: whether AttentionMask::streams may be more than 1
};

}  // namespace scaling
