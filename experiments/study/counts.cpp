// Text to counts, with one message for whatever is wrong.
#include "experiments/study/counts.h"

#include <algorithm>

#include "experiments/decode/options.h"
#include "experiments/study/row_text.h"
#include "kernels/check.h"
#include "kernels/team.h"

namespace scaling {

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

int parse_one_thread_count(const std::string& text) {
  const std::vector<int> counts = parse_threads(text);
  if (counts.size() != 1 || counts.front() > available_threads()) {
    throw UserError("--threads " + text + ": give one number from 1 to " +
                    std::to_string(available_threads()) + ", or all");
  }
  return counts.front();
}

}  // namespace scaling
