// Text to counts, with one message for whatever is wrong.
#include "experiments/study/counts.h"

#include <algorithm>

#include "experiments/study/row_text.h"
#include "kernels/check.h"
#include "kernels/team.h"

namespace scaling {

constexpr int kMaxThreads = 1024;

std::vector<std::int64_t> parse_counts(const std::string& flag, const std::string& text,
                                       std::int64_t least) {
  std::vector<std::int64_t> counts;
  for (const std::string& part : split_at_commas(text)) {
    const bool digits = part.find_first_not_of("0123456789") == std::string::npos;
    const std::int64_t count = digits && part.size() < 10 ? std::stoll(part) : -1;
    if (count < least) {
      throw UserError("--" + flag + " has '" + part + "', which is no whole number of at least " +
                      std::to_string(least) + "; write e.g. 2,4,8");
    }
    counts.push_back(count);
  }
  if (counts.empty()) throw UserError("--" + flag + " is empty; write numbers, e.g. 2,4,8");
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

std::vector<int> parse_threads(const std::string& text) {
  std::vector<int> counts;
  for (const std::string& part : split_at_commas(text)) {
    int count = 0;
    if (part == "all") {
      count = available_threads();
    } else if (part.find_first_not_of("0123456789") == std::string::npos && part.size() < 6) {
      count = std::stoi(part);
    }
    if (count < 1 || count > kMaxThreads) {
      throw UserError("'" + part + "' is no number of threads; give 1 to " +
                      std::to_string(kMaxThreads) + ", or all");
    }
    counts.push_back(count);
  }
  if (counts.empty()) throw UserError("--threads is empty; give numbers or all, e.g. 1,all");
  std::sort(counts.begin(), counts.end());
  counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  return counts;
}

int parse_one_thread_count(const std::string& text) {
  const std::vector<int> counts = parse_threads(text);
  if (counts.size() != 1 || counts.front() > available_threads()) {
    throw UserError("--threads " + text + ": give one number from 1 to " +
                    std::to_string(available_threads()) + ", or all");
  }
  return counts.front();
}

}  // namespace scaling
