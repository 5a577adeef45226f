// Number by number: each model knows where it keeps its own.
#include "models/transformer/copy_weights.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/check.h"

namespace scaling {

void copy_weights(Transformer& from, Transformer& to) {
  const std::vector<Parameter*> sources = from.parameters(), targets = to.parameters();
  SCALING_CHECK(sources.size() == targets.size());
  for (std::size_t p = 0; p < sources.size(); ++p) {
    const Parameter& source = *sources[p];
    SCALING_CHECK(source.name == targets[p]->name && source.rows == targets[p]->rows &&
                  source.cols == targets[p]->cols);
    for (std::int64_t i = 0; i < source.rows; ++i) {
      for (std::int64_t j = 0; j < source.cols; ++j) targets[p]->set(i, j, source.get(i, j));
    }
  }
}

}  // namespace scaling
