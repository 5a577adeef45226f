// The tokenizer that a checkpoint's model was trained with.
#pragma once

#include <memory>
#include <string>

#include "models/text/tokenizer.h"
#include "models/training/checkpoint.h"

namespace scaling {

/// given: a SentencePiece model, in place of the checkpoint's; empty: that which it carries, or in
/// a file of an earlier program the one that its run used, from there or beside the checkpoint.
/// Throws UserError if there is none, or no fitting one.
std::unique_ptr<Tokenizer> tokenizer_of(const std::string& checkpoint, const CheckpointInfo& info,
                                        const std::string& given);

}  // namespace scaling
