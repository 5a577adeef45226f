// Where a training run went wrong: which parameter is the first with a NaN or an infinity.
#pragma once

#include <string>
#include <vector>

#include "models/parameter.h"

namespace scaling {

/// Parameters are in training storage; of those that are frozen only the values count.
bool values_are_finite(const std::vector<Parameter*>& parameters);
bool gradients_are_finite(const std::vector<Parameter*>& parameters);

/// A phrase such as "the values of decoder.1.feed_forward.w1 are not finite": the first parameter
/// whose values are not; else the last whose gradient is not, since backward passes go from the
/// last to the first and carry the trouble along. Empty if all is finite.
std::string what_is_not_finite(const std::vector<Parameter*>& parameters);

}  // namespace scaling
