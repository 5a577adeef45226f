// Tab-separated tables row by row, as GLUE's files come: nothing is quoted, so that a quotation
// mark is a character like any other.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "models/text/byte_source.h"

namespace scaling {

/// A byte order mark and the CR of a line that ends in CR LF belong to no field; empty lines are
/// passed over, whatever is no UTF-8 stays as it is. The file may be compressed.
class TableReader {
 public:
  static constexpr std::size_t kLongestLine = std::size_t(1) << 20;  ///< bytes

  /// wanted: columns by name. header: the columns of a file that has no header line; empty: its
  /// first line names them. Throws UserError naming file and line if the file cannot be read, is
  /// empty or lacks a column (lists those that it has).
  TableReader(const std::string& path, const std::vector<std::string>& wanted,
              std::vector<std::string> header = {});

  /// The wanted fields of the next row, in the order in which they were named; false at the end.
  /// Throws UserError naming file and line for a row with another number of fields than columns and
  /// for a line of more than kLongestLine.
  bool next(std::vector<std::string>& fields);
  /// Throws UserError: file and line of the row read last, then this.
  [[noreturn]] void refuse(const std::string& reason) const;

 private:
  /// Into line_; false at the end.
  bool read_line();

  std::string path_;
  ByteReader in_;
  std::vector<std::string> header_;
  std::vector<std::size_t> places_;  // of the wanted columns
  std::string line_;
  std::uint64_t number_ = 0;  // of line_, from 1
};

}  // namespace scaling
