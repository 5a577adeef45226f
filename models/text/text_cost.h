// What decoding the texts of a file has cost, noted beside it.
#pragma once

#include <cstdint>
#include <string>

namespace scaling {

struct TextCost {
  std::uint64_t texts = 0;
  std::int64_t tokens = 0;
  double seconds = 0;  ///< of the decoder's steps, without what read the source or the prompt
};

/// Adds it to <path>.cost.json, whose rate the scorers record beside their scores. What another
/// number of threads has cost is forgotten. Throws UserError if the file cannot be written.
void add_text_cost(const std::string& path, const TextCost& cost, int threads);
/// Of a file that begins anew.
void forget_text_cost(const std::string& path);

}  // namespace scaling
