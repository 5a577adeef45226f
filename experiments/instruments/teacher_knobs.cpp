// Names, places and what the places hold.
#include "experiments/instruments/teacher_knobs.h"

#include <array>
#include <filesystem>

#include "experiments/study/provenance.h"
#include "kernels/arena.h"
#include "kernels/check.h"
#include "models/tasks/catalog.h"
#include "models/training/initial_weights.h"

namespace scaling {

namespace fs = std::filesystem;

std::string TeacherKnobs::called() const {
  if (name.find('/') != std::string::npos) {
    throw UserError("--name '" + name + "' names files in the results' folder; leave out '/'");
  }
  if (!name.empty()) return name;
  const std::string folder = fs::path(checkpoint).parent_path().filename().string();
  return folder.empty() ? "teacher" : folder;
}

std::string TeacherKnobs::cache_folder(const std::string& results) const {
  return cache.empty() ? (fs::path(results) / "cache").string() : cache;
}

Settings teacher_settings(const Knobs& flags, const TeacherKnobs& knobs, const TeacherPlan& plan,
                          const std::string& results, const RunOptions& options) {
  Settings all;
  for (const auto& [knob, value] : flags.all()) {
    all.emplace_back(knob, portable_place(knob, value));
  }
  all.emplace_back("quick", print_value(options.quick));
  Settings contents = added_content_settings();
  if (!options.dry_run) {
    contents = {{"teacher", content_of(knobs.checkpoint)},
                {"data", data_identity(plan.train(), plan.model().vocab_size,
                                       knobs.cache_folder(results))}};
  }
  all.insert(all.end(), contents.begin(), contents.end());
  return all;
}

Settings added_content_settings() { return {{"teacher", ""}, {"data", ""}}; }

std::vector<SequenceHeads> held_out_heads(const TeacherKnobs& knobs, const TeacherPlan& plan,
                                          const std::string& results, std::int64_t sequences,
                                          int threads, Sink& sink) {
  require_memory(plan.bytes(sequences), "queries and keys of all sequences",
                 "give fewer --sequences, or a smaller --length");
  const Teacher teacher(plan, knobs.cache_folder(results), threads);
  return teacher.heads(Teacher::Part::held_out, sequences, [&](std::int64_t done) {
    sink.live("held-out sequences: " + std::to_string(done) + " of " + std::to_string(sequences));
  });
}

std::string portable_place(const std::string& knob, const std::string& value) {
  constexpr std::array places = {"checkpoint", "corpus", "validation", "cache", "dump", "models"};
  for (const char* place : places) {
    if (knob == place && !value.empty()) return portable_path(value);
  }
  return value;
}

}  // namespace scaling
