// A teacher whose attention predicts by itself: the model's weights under an attention of the
// catalog that computes nothing for the pairs which one configuration leaves out.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "experiments/sparsefinder/sweep.h"

namespace scaling {

/// Whether there is one: for the three predictors from projections, none or the first position
/// being global; none by ranks among all positions for a teacher that is causal.
bool is_native(const TeacherPlan& plan, const Method& method, GlobalTokens globals);

/// heads: what every head learnt of the method's source. For evaluation and decoding.
std::unique_ptr<Transformer> make_native_model(const TeacherPlan& plan, const Method& method,
                                               const std::vector<HeadModel>& heads,
                                               const Configuration& configuration,
                                               std::int64_t width, GlobalTokens globals);

/// A checkpoint of it without an optimiser's state, with the teacher's vocabulary and task. Throws
/// UserError if it cannot be written.
void write_native_model(const TeacherPlan& plan, Transformer& model, const std::string& path);

}  // namespace scaling
