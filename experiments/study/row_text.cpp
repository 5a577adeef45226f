// From the text of a row to its name and settings.
#include "experiments/study/row_text.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>

#include "experiments/study/provenance.h"
#include "kernels/check.h"

namespace scaling {
namespace {

bool is_word(const std::string& name, const std::string& others) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [&others](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || others.find(c) != std::string::npos;
  });
}

}  // namespace

RowText parse_row_text(const std::string& text) {
  RowText row;
  const std::size_t colon = text.find(':');
  std::istringstream(text.substr(0, colon)) >> row.name;
  if (!is_word(row.name, "_.-")) {
    throw UserError("'" + text + "' has no row name; write 'row = name: knob=value knob=value'");
  }
  std::istringstream words(colon == std::string::npos ? "" : text.substr(colon + 1));
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) {
      throw UserError("row '" + row.name + "' has '" + word + "', which is not knob=value");
    }
    row.settings.emplace_back(word.substr(0, equals), word.substr(equals + 1));
  }
  return row;
}

void check_experiment_name(const std::string& name) {
  if (!is_word(name, "_")) {
    throw UserError("the experiment's name '" + name +
                    "' names a file, so use letters, digits and _ only");
  }
}

std::string joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

std::string portable_path(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  const std::string relative = fs::relative(path, source_dir(), error).string();
  if (!error && !relative.empty() && relative.rfind("..", 0) != 0) return relative;
  fs::path last = fs::path(path).lexically_normal();
  if (!last.has_filename()) last = last.parent_path();
  return last.filename().string();
}

}  // namespace scaling
