// Where a curve's tokenised text is kept.
#pragma once

#include <string>

#include "models/train_config.h"

namespace scaling {

/// Folder of tokenised corpora: the config's, or cache/ in scratch.
std::string cache_folder(const TrainConfig& train, const std::string& scratch);

}  // namespace scaling
