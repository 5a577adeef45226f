// Probabilities over layers x heads x queries x keys, what they say of each head, and arrays as
// files that NumPy reads.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "models/sparsefinder/gold.h"

namespace scaling {

/// Of one head on one sequence.
struct HeadStatistics {
  double support = 0;   ///< keys of a query whose probability is not zero, a mean
  double diagonal = 0;  ///< probability that a query gives itself, a mean
  double local = 0;     ///< that it gives keys at most `reach` before or after it
  double first = 0;     ///< that it gives the first key
};

/// gold: of every head of one sequence, layer after layer. reach: of `local`. Throws UserError if
/// the heads are not as many in each of the layers.
std::vector<HeadStatistics> head_statistics(std::span<const GoldGraph> gold, std::int64_t layers,
                                            std::int64_t reach);

/// (layers, heads, queries, keys), row-major, of one sequence.
std::vector<float> attention_tensor(std::span<const GoldGraph> gold);

/// values: of that shape, row-major. Throws UserError if the file cannot be written.
void write_npy(const std::string& path, const std::vector<std::size_t>& shape,
               const std::vector<float>& values);
/// The shape comes with it. Throws UserError if there is no such file of floats.
std::vector<float> read_npy(const std::string& path, std::vector<std::size_t>& shape);

}  // namespace scaling
