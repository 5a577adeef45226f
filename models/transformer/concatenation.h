// The joint sequence of a decoder that has no cross-attention: each example's encoder rows, padding
// dropped, directly followed by its own (paper 5.2).
#pragma once

#include <cstdint>
#include <vector>

#include "models/matrix.h"

namespace scaling {

class Concatenation {
 public:
  /// seen: (examples * source length), 0 where the source is padding.
  void set(const std::vector<std::uint8_t>& seen, std::int64_t examples,
           std::int64_t target_length);

  /// encoded: (examples * source length, width), target: (examples * target length, d) -> joint:
  /// (examples * (source length + target length), d), of encoded the d columns from `first` on.
  /// What padding left free is zero rows behind.
  void join(const Mat& encoded, std::int64_t first, const Mat& target, Mat& joint) const;
  /// The ids of the joint rows, 0 where there are none.
  void join_ids(const std::vector<int>& source, const std::vector<int>& target,
                std::vector<int>& joint) const;
  /// The target's rows of a joint sequence.
  void strip(const Mat& joint, Mat& target) const;
  /// Backward of strip: djoint is zero but for the target's rows.
  void strip_backward(const Mat& dtarget, Mat& djoint) const;
  /// Backward of join: adds to these columns of dencoded; dtarget is overwritten.
  void join_backward(const Mat& djoint, std::int64_t first, Mat& dencoded, Mat& dtarget) const;

 private:
  std::int64_t joint_rows_ = 0;
  std::vector<std::int64_t> source_at_;  // of every encoder row: its joint row, -1 for padding
  std::vector<std::int64_t> target_at_;
};

}  // namespace scaling
