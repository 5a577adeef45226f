// Lists as text: names, whole numbers, thread counts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace scaling {

/// "a,b,c" -> its parts that are not empty.
std::vector<std::string> split_at_commas(const std::string& text);

/// "512,2,8" -> {2, 8, 512}: ascending, each once. Throws UserError naming the flag for what is no
/// whole number of at least `least`, or has more than nine digits.
std::vector<std::int64_t> parse_counts(const std::string& flag, const std::string& text,
                                       std::int64_t least = 1);

/// "1,all" -> {1, processors this process may use}: ascending, each once; throws UserError.
std::vector<int> parse_threads(const std::string& text);

}  // namespace scaling
