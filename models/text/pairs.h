// Pairs of a source and its target, such as a sentence and its translation: two files line by line,
// or two strings of one JSON object.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/text/document_cutter.h"

namespace scaling {

/// Path of the targets beside a file of sources: train.de of train.en, where the ending is "de" or
/// ".de"; what is compressed keeps its .gz or .zst behind that. Throws UserError naming both files
/// if there is no such file, or it is the sources' own.
std::string other_side(const std::string& path, const std::string& ending);

/// Line after line of both files, each a document: a source, then its target. A line ends with a
/// line feed, a carriage return before it belongs to the end. Returns the number of pairs. Throws
/// UserError naming file and line if one file has more lines than the other (with both numbers), or
/// a line has no text; what came before has been passed on by then.
std::uint64_t read_line_pairs(const std::string& sources, const std::string& targets,
                              DocumentCutter& document);

/// The same of a JSON lines file: the source is the first string under one of the keys of an
/// object, the target that under target_key, whichever comes first; lines of white space are passed
/// over. Throws UserError naming the line that is no such object or lacks one of the texts.
std::uint64_t read_json_pairs(const std::string& path, const std::vector<std::string>& keys,
                              const std::string& target_key, DocumentCutter& document);

/// Sources alone, of a file of either kind (by its ending), in memory. Throws UserError as these.
std::vector<std::string> read_sources(const std::string& path,
                                      const std::vector<std::string>& keys);

}  // namespace scaling
