// A text file that grows by a line at a time and is continued where it ended.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace scaling {

/// What the lines were made of stands in a file of its own, <path>.made_of, so that a later program
/// continues them and never mixes two runs.
class LineFile {
 public:
  /// made_of: one line for people; differs where lines would. A last line without its end is taken
  /// off. Throws UserError if the file holds lines made of something else, or cannot be written.
  LineFile(const std::string& path, const std::string& made_of);

  std::uint64_t lines() const { return lines_; }
  /// line: without line ends. On its way to the disk when this returns; throws UserError.
  void add(const std::string& line);

 private:
  void require() const;

  std::string path_;
  std::ofstream out_;
  std::uint64_t lines_ = 0;
};

}  // namespace scaling
