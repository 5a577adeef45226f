// How well answers agree with the truth, by the definitions of scikit-learn and SciPy. Truth and
// what is told have one entry an example.
#pragma once

#include <cstddef>
#include <span>

namespace scaling {

/// Share of the examples that are told rightly; 0 of none.
double share_right(std::span<const std::size_t> truth, std::span<const std::size_t> told);

/// Of class 1: 2 hits / (2 hits + false alarms + misses). 0 if it never is and never is told.
double f1_of_class_1(std::span<const std::size_t> truth, std::span<const std::size_t> told);

/// Correlation of two classes, 0 and 1, from -1 to 1 (Matthews 1975). 0 if either side has only one
/// of them.
double matthews_correlation(std::span<const std::size_t> truth, std::span<const std::size_t> told);

/// Not a number if either side is constant.
double pearson_correlation(std::span<const double> truth, std::span<const double> told);

/// Pearson's of the ranks, where equal values share the mean of theirs.
double spearman_correlation(std::span<const double> truth, std::span<const double> told);

}  // namespace scaling
