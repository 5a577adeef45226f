// A .cfg file of an experiment as text: its name, settings for all rows, and rows.
#pragma once

#include <fstream>
#include <istream>
#include <string>
#include <vector>

#include "experiments/study/row_text.h"

namespace scaling {

struct CfgFile {
  std::string experiment;  ///< the file's name if it says none
  std::string title;
  Settings settings;              ///< those of `knobs` that it has, in their order
  std::vector<std::string> rows;  ///< as they are written, at least one

  /// The setting's text, or `fallback`.
  std::string setting(const std::string& name, const std::string& fallback) const;
};

/// knobs: what may stand in it beside experiment, title and row. Throws UserError for a knob that
/// is none of them (lists the known), one that is there twice, an odd experiment's name, no rows.
CfgFile parse_cfg(std::istream& in, const std::string& file, const std::vector<std::string>& knobs);

/// The open file, for reading; `folder`: where the project has such, said if it cannot be read.
std::ifstream open_cfg(const std::string& file, const char* folder);

}  // namespace scaling
