// What reversible stacks save in memory and cost in time against depth and batch, and what becomes
// of gradients if their backward pass decides anew.
#pragma once

#include <memory>

#include "experiments/study/study.h"

namespace scaling {

/// Rows against a plain stack get steps, at every depth with their own batch and at every batch
/// with their own decoder_layers; rows against a stored one get gradients at every depth. Refuses
/// rows against a stack that is neither, with an encoder, or with an impossible depth or batch. The
/// name of a point is <row>_d<depth>_b<batch>.
std::unique_ptr<Study> make_stack_study();

}  // namespace scaling
