// Rows of a .cfg file as text: "ff: feed_forward=sparse sparsity=64".
#pragma once

#include <string>
#include <vector>

#include "models/knobs.h"

namespace scaling {

struct RowText {
  std::string name;
  Settings settings;
};

/// Throws UserError for a missing or odd name and for a word that is not knob=value.
RowText parse_row_text(const std::string& text);

/// Throws UserError unless the name can name a file: letters, digits and _.
void check_experiment_name(const std::string& name);

/// "a, b, c".
std::string joined(const std::vector<std::string>& names);

/// "a,b,c" -> its parts that are not empty.
std::vector<std::string> split_at_commas(const std::string& text);

/// Below the project's folder where it is, so that records hold no one's home; else its last part.
std::string portable_path(const std::string& path);

}  // namespace scaling
