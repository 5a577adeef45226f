// What makes two results the same result: of a study, of the same settings, of the same code, on
// the same machine.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/study/point.h"
#include "experiments/study/provenance.h"

namespace scaling {

class Study;

/// Names the code that a study's numbers come from: git's ids of the folders that it is made of and
/// the flags it is compiled with, or, where one of the folders is edited, git is absent or the
/// program has layers of its own, the program itself.
std::string sources_of(const std::string& study_folder, const Provenance& provenance);

class Identity {
 public:
  /// The study outlives this. accept: commits whose results count whatever their code; and, of what
  /// is not timed, whatever the machine.
  Identity(Study& study, const Provenance& provenance, std::vector<std::string> accept);

  /// Study, settings that count and differ from their defaults, threads, seed; where rows are
  /// known by name, the row and the one it is compared with. The same on every machine.
  std::string text(const Point& point) const;
  /// Key of one point's records: that text, the machine and the code, hashed.
  std::string key(const Point& point) const;
  /// Whether the record says something about this point that holds here. Settings are compared,
  /// not keys: a record that lacks a knob was made with its default, and knobs that do not matter
  /// to the row are passed over.
  bool holds(const Record& record, const Point& point) const;
  /// Whether the point was measured to its end.
  bool is_finished(const std::vector<Record>& records, const Point& point) const;

  const Study& study() const { return study_; }
  const Provenance& provenance() const { return provenance_; }
  const std::string& sources() const { return sources_; }

 private:
  Settings counted(const Settings& all) const;
  bool is_accepted(const Record& record) const;

  const Study& study_;
  const std::map<std::string, KnobInfo> known_;
  const Provenance provenance_;
  const std::string sources_;
  const std::vector<std::string> accept_;
};

}  // namespace scaling
