// How much of exact attention LSH attention sees, over chunk lengths and rounds of hashing.
#pragma once

#include <memory>

#include "experiments/study/study.h"

namespace scaling {

/// Points are <distribution>_c<chunk>_r<rounds> of the file's one row.
std::unique_ptr<Study> make_recall_study();

}  // namespace scaling
