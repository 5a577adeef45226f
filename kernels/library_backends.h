// What each library's files offer to library_threads.cpp.
#pragma once

#include <string>

namespace scaling {

void set_eigen_threads(int threads);
std::string eigen_description();
void set_openblas_threads(int threads);
std::string openblas_description();
void set_onednn_threads(int threads);
std::string onednn_description();

}  // namespace scaling
