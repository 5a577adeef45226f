// Settings as sorted text, and the comparison of a record's with a point's.
#include "experiments/study/identity.h"

#include <algorithm>

#include "experiments/study/study.h"

namespace scaling {
namespace {

/// As the record's config has it.
std::string as_json(const std::string& text) { return typed_value(text).dump(); }

std::string text_of(const nlohmann::ordered_json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

/// Flags have hyphens where the settings of records have underscores.
std::string setting_name(std::string flag) {
  std::replace(flag.begin(), flag.end(), '-', '_');
  return flag;
}

std::map<std::string, KnobInfo> known_settings(Study& study) {
  std::map<std::string, KnobInfo> known;
  for (const KnobInfo& knob : study.row_knobs()) known.emplace(knob.name, knob);
  Knobs own;
  study.flags(own);
  for (const KnobInfo& knob : own.info()) known.emplace(setting_name(knob.name), knob);
  for (const auto& [name, value] : study.added_settings()) {
    known.emplace(name, KnobInfo{name, "", value, {}});
  }
  known.emplace("quick", KnobInfo{"quick", "", "false", {}});
  return known;
}

}  // namespace

std::string sources_of(const std::string& study_folder, const Provenance& provenance) {
  const std::vector<std::string> parts = {"kernels",
                                          "models",
                                          "experiments/study",
                                          "experiments/instruments",
                                          "experiments/" + study_folder,
                                          "CMakeLists.txt"};
  const std::string ids = provenance.is_of_tree ? git_ids(parts) : "";
  if (ids.empty()) return provenance.program;
  return fingerprint(ids + provenance.flags + (provenance.native ? "native" : "portable"));
}

Identity::Identity(Study& study, const Provenance& provenance, std::vector<std::string> accept)
    : study_(study),
      known_(known_settings(study)),
      provenance_(provenance),
      sources_(sources_of(study.info().folder, provenance)),
      accept_(std::move(accept)) {}

Settings Identity::counted(const Settings& all) const {
  Settings kept;
  for (const auto& [name, value] : all) {
    const auto at = known_.find(name);
    if (at != known_.end() &&
        (at->second.trait.in_key != InKey::text || as_json(at->second.initial) == as_json(value))) {
      continue;
    }
    if (study_.counts(name, all)) kept.emplace_back(name, as_json(value));
  }
  std::sort(kept.begin(), kept.end());
  return kept;
}

std::string Identity::text(const Point& point) const {
  const StudyInfo info = study_.info();
  std::string text = info.name;
  if (info.rows_count) text += "|" + point.row + "|" + point.against;
  for (const auto& [name, value] : counted(point.settings)) text += "|" + name + "=" + value;
  return text + "|" + std::to_string(point.threads) + "|" + std::to_string(point.seed);
}

std::string Identity::key(const Point& point) const {
  return fingerprint(text(point) + "|" + provenance_.cpu + "|" + std::to_string(provenance_.cores) +
                     "|" + sources_);
}

bool Identity::is_accepted(const Record& record) const {
  const std::string& commit = record.provenance.commit;
  return !record.provenance.dirty &&
         std::any_of(accept_.begin(), accept_.end(), [&commit](const std::string& accepted) {
           return commit.rfind(accepted, 0) == 0 || accepted.rfind(commit, 0) == 0;
         });
}

bool Identity::holds(const Record& record, const Point& point) const {
  const StudyInfo info = study_.info();
  if (record.threads != point.threads || record.seed != point.seed) return false;
  if (info.rows_count && (record.row != point.row || record.against != point.against)) {
    return false;
  }
  if (!record.study.empty() && record.study != info.name) return false;
  const bool same_machine =
      record.provenance.cpu == provenance_.cpu && record.provenance.cores == provenance_.cores;
  const bool accepted = is_accepted(record);
  if (!same_machine && !(accepted && !info.timed)) return false;
  if (record.sources != sources_ && !accepted) return false;
  Settings theirs;
  for (const auto& [name, value] : record.config.items()) {
    // What was noted on the way, as the library that was chosen, is no setting.
    if (known_.count(name) || find_setting(point.settings, name)) {
      theirs.emplace_back(name, text_of(value));
    }
  }
  return counted(theirs) == counted(point.settings);
}

bool Identity::is_finished(const std::vector<Record>& records, const Point& point) const {
  std::vector<std::string> metrics = study_.needed(point);
  metrics.push_back(study_.closing(point).name);
  return std::all_of(metrics.begin(), metrics.end(), [&](const std::string& metric) {
    // The newest, as plots/records.py has it: what has failed since then is to be repeated.
    const auto newest = std::find_if(records.rbegin(), records.rend(), [&](const Record& r) {
      return r.metric == metric && r.status != Status::skipped && holds(r, point);
    });
    return newest != records.rend() && newest->status != Status::failed;
  });
}

}  // namespace scaling
