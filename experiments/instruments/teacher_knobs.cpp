// Names, places and what the places hold.
#include "experiments/instruments/teacher_knobs.h"

#include <array>
#include <filesystem>

#include "experiments/study/provenance.h"
#include "models/tasks/catalog.h"
#include "models/training/initial_weights.h"

namespace scaling {

namespace fs = std::filesystem;

std::string TeacherKnobs::called() const {
  if (!name.empty()) return name;
  const std::string folder = fs::path(checkpoint).parent_path().filename().string();
  return folder.empty() ? "teacher" : folder;
}

std::string TeacherKnobs::cache_folder(const std::string& results) const {
  return cache.empty() ? (fs::path(results) / "cache").string() : cache;
}

Settings content_settings(const TeacherKnobs& knobs, const TeacherPlan& plan,
                          const std::string& results, bool dry_run) {
  if (dry_run) return added_content_settings();
  return {
      {"teacher", content_of(knobs.checkpoint)},
      {"data", data_identity(plan.train(), plan.model().vocab_size, knobs.cache_folder(results))}};
}

Settings added_content_settings() { return {{"teacher", ""}, {"data", ""}}; }

std::string portable_place(const std::string& knob, const std::string& value) {
  constexpr std::array places = {"checkpoint", "corpus", "validation", "cache", "dump", "models"};
  for (const char* place : places) {
    if (knob == place && !value.empty()) return portable_path(value);
  }
  return value;
}

}  // namespace scaling
