// A .cfg file: what an experiment is called and its rows, each with all its settings.
//
//   experiment = table1_800m             # names the results; default: the file's name
//   title = one line for the report
//   id = t1                              # begins the names of its numbers in summary.json
//   section = tables                     # of the report; default: that of the study
//   d_ff = 4096                          # any knob, for all rows
//   row = baseline
//   row = ff: feed_forward=sparse sparsity=64 d_lowrank=64
//
// Row over file, command line over both; a size given anywhere beats the `shape` it belongs to.
#pragma once

#include <istream>
#include <string>
#include <vector>

#include "models/knobs.h"

namespace scaling {

struct FileRow {
  std::string name;
  Settings settings;  ///< in the order to apply them, later ones winning: `shape`, file, row, flags
  std::vector<std::string> own = {};  ///< knobs that the row itself sets
};

struct RowFile {
  std::string path, experiment, title, id, section;
  std::vector<FileRow> rows;

  /// Throws UserError with file and row before the reason.
  [[noreturn]] void refuse(const std::string& row, const std::string& why) const;
};

/// knobs: what may be set beside experiment, title, id, section and row. overrides: the command
/// line's. Throws UserError naming the file (and the row) for what is unknown (lists the known),
/// there twice or unreadable, for an odd experiment's name and for no rows.
RowFile parse_row_file(std::istream& in, const std::string& path,
                       const std::vector<KnobInfo>& knobs, const Settings& overrides);
RowFile read_row_file(const std::string& path, const std::vector<KnobInfo>& knobs,
                      const Settings& overrides);

/// Whether a row was asked for: by its name, or because no row was.
bool is_wanted(const std::vector<std::string>& wanted, const std::string& row);
/// Throws UserError that lists the known rows if one that is wanted is none of them.
void require_known_rows(const std::vector<std::string>& wanted,
                        const std::vector<std::string>& known, const std::string& experiment);

}  // namespace scaling
