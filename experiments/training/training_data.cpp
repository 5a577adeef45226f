// One folder for all curves, unless the config names another.
#include "experiments/training/training_data.h"

#include <filesystem>

namespace scaling {

std::string cache_folder(const TrainConfig& train, const std::string& scratch) {
  return train.cache.empty() ? (std::filesystem::path(scratch) / "cache").string() : train.cache;
}

}  // namespace scaling
