// Text to lists and back, with one message for whatever is wrong.
#include "experiments/study/counts.h"

#include <algorithm>
#include <sstream>

#include "kernels/check.h"
#include "kernels/team.h"

namespace scaling {
namespace {

constexpr int kMaxThreads = 1024;

/// -1 for what is none or has more than nine digits.
std::int64_t whole_number(const std::string& text) {
  const bool digits = text.find_first_not_of("0123456789") == std::string::npos;
  return digits && text.size() < 10 ? std::stoll(text) : -1;
}

template <class T>
std::vector<T> ascending(std::vector<T> counts) {
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

}  // namespace

std::vector<std::string> split_at_commas(const std::string& text) {
  std::vector<std::string> parts;
  std::istringstream in(text);
  for (std::string part; std::getline(in, part, ',');) {
    if (!part.empty()) parts.push_back(part);
  }
  return parts;
}

std::vector<std::int64_t> parse_counts(const std::string& flag, const std::string& text,
                                       std::int64_t least) {
  std::vector<std::int64_t> counts;
  for (const std::string& part : split_at_commas(text)) {
    counts.push_back(whole_number(part));
    if (counts.back() < least) {
      throw UserError("--" + flag + " has '" + part + "', which is no whole number of at least " +
                      std::to_string(least) + "; write e.g. 2,4,8");
    }
  }
  if (counts.empty()) throw UserError("--" + flag + " is empty; write numbers, e.g. 2,4,8");
  return ascending(counts);
}

std::vector<int> parse_threads(const std::string& text) {
  std::vector<int> counts;
  for (const std::string& part : split_at_commas(text)) {
    counts.push_back(part == "all" ? available_threads() : int(whole_number(part)));
    if (counts.back() < 1 || counts.back() > kMaxThreads) {
      throw UserError("'" + part + "' is no number of threads; give 1 to " +
                      std::to_string(kMaxThreads) + ", or all");
    }
  }
  if (counts.empty()) throw UserError("--threads is empty; give numbers or all, e.g. 1,all");
  return ascending(counts);
}

}  // namespace scaling
