// Who meets whom in an evaluation, said by someone else than the attention: what a model is worth
// when pairs are left out.
#pragma once

#include "models/matrix.h"
#include "models/sparsefinder/graph.h"

namespace scaling {

/// For Pass::graphs.
class AttentionGraphs {
 public:
  virtual ~AttentionGraphs() = default;
  /// The pairs of one head that are not left out, of those that the mask allows; a query without
  /// any gets zeros. attention: of the decoder's self-attentions, from 0 on, in the order of their
  /// forwards. q, k: (positions, d_head), after the projection and before any scaling. Asked by
  /// several threads at a time, once a head and pass.
  virtual HeadGraph graph(std::int64_t attention, std::int64_t head, const Mat& q,
                          const Mat& k) = 0;
};

}  // namespace scaling
