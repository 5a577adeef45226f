// The text of the knob `attention`: which attention each block has, and which each of its heads.
//
//   full                                     every block's
//   full,banded                              blocks in turn: the first, third, ... have full
//   window:window_width=33,full              a knob of its own, before the config's
//   window+full                              heads in equal runs: the first half have window
#pragma once

#include <string>
#include <vector>

#include "models/knobs.h"

namespace scaling {

/// One attention of the text and the knobs that it sets for itself alone.
struct NamedAttention {
  std::string name;
  Settings own = {};
};

/// What shares the heads of one block; mostly one.
using HeadAttentions = std::vector<NamedAttention>;

/// Of blocks in turn; never empty, nor is any of them. Names and knobs are not looked up. Throws
/// UserError where nothing stands between two separators, or a knob has no value or two.
std::vector<HeadAttentions> parse_attentions(const std::string& text);
/// The text that parse_attentions reads back.
std::string print_attentions(const std::vector<HeadAttentions>& all);

}  // namespace scaling
