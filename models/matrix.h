// (positions, features) in memory.
#pragma once

#include <Eigen/Core>

namespace scaling {

using Mat = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

}  // namespace scaling
