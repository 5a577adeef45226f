// (positions, features) in memory.
#pragma once

#include <Eigen/Core>
#include <vector>

namespace scaling {

using Mat = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
/// Aligned as a Mat is: the order in which Eigen adds up follows the alignment, so that sums over a
/// plain vector, which has that of malloc, would have other last bits wherever it lies.
using Floats = std::vector<float, Eigen::aligned_allocator<float>>;

}  // namespace scaling
