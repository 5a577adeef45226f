// What the catalog's users ask of an entry, so that nobody has to know it by its name.
#pragma once

namespace scaling {

/// How a decode step relates to a forward in evaluation.
enum class StepIs { exact, approximate };

struct Traits {
  /// The plain form of its component: what an encoder and cross-attention use whatever the config
  /// says, and what controls are made of. One entry of each component that has such a form.
  bool is_dense = false;
  const char* d_ff_multiple_of = nullptr;  ///< the knob, if there is one
  StepIs step = StepIs::exact;
};

}  // namespace scaling
