// Lines cut at their tabs.
#include "models/text/table.h"

#include <algorithm>
#include <utility>

#include "kernels/check.h"

namespace scaling {
namespace {

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char c : line) {
    if (c == '\t') {
      fields.emplace_back();
    } else {
      fields.back().push_back(c);
    }
  }
  return fields;
}

std::string listed(const std::vector<std::string>& names) {
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "'" : ", '") + name + "'";
  return all;
}

}  // namespace

TableReader::TableReader(const std::string& path, const std::vector<std::string>& wanted,
                         std::vector<std::string> header)
    : path_(path), in_(path), header_(std::move(header)) {
  in_.skip_byte_order_mark();
  if (header_.empty()) {
    if (!read_line()) {
      throw UserError("'" + path_ + "' is empty; give a table whose first line names its columns");
    }
    header_ = fields_of(line_);
  }
  for (const std::string& name : wanted) {
    const auto at = std::find(header_.begin(), header_.end(), name);
    if (at == header_.end()) {
      refuse("no column '" + name + "' among " + listed(header_) +
             "; give a table with labels whose first line names the columns " + listed(wanted));
    }
    places_.push_back(std::size_t(at - header_.begin()));
  }
}

bool TableReader::next(std::vector<std::string>& fields) {
  if (!read_line()) return false;
  std::vector<std::string> all = fields_of(line_);
  if (all.size() != header_.size()) {
    refuse("a row of " + std::to_string(all.size()) + " fields where there are " +
           std::to_string(header_.size()) + " columns (" + listed(header_) +
           "); mend the line or delete it");
  }
  fields.clear();
  for (const std::size_t place : places_) fields.push_back(all[place]);
  return true;
}

void TableReader::refuse(const std::string& reason) const {
  throw UserError(path_ + ":" + std::to_string(number_) + ": " + reason);
}

bool TableReader::read_line() {
  do {
    if (in_.peek() < 0) return false;
    ++number_;
    line_.clear();
    for (int c = in_.peek(); c >= 0 && c != '\n'; c = in_.peek()) {
      if (line_.size() == kLongestLine) {
        refuse("a line of more than " + std::to_string(kLongestLine) +
               " bytes; give a table with one row a line");
      }
      line_.push_back(static_cast<char>(c));
      in_.take();
    }
    if (in_.peek() >= 0) in_.take();
    if (!line_.empty() && line_.back() == '\r') line_.pop_back();
  } while (line_.empty());
  return true;
}

}  // namespace scaling
