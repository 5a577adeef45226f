// One number with all it takes to repeat it, as one line of JSON in a file that only grows.
#pragma once

#include <cmath>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "experiments/study/provenance.h"
#include "experiments/study/statistics.h"
#include "kernels/ceilings.h"

namespace scaling {

enum class Status { ok, failed, skipped, scaled_down, extrapolated, untrusted };
const char* name_of(Status status);

struct Record {
  std::string experiment, row, against;
  /// Kind of experiment; part of it in the report; heading; beginning of ids. Empty in records of
  /// before there were studies.
  std::string study, section, title, id;
  int threads = 0;
  std::string metric, unit;
  double value = std::nan("");  ///< not a number (null in the file) where nothing was measured
  int repeats = 0;
  double spread = 0, low = 0, high = 0;  ///< half the interquartile range; the quartiles
  Status status = Status::ok;
  std::string note;
  nlohmann::ordered_json config = nlohmann::ordered_json::object();
  std::string command;  ///< repeats the row
  std::uint64_t seed = 0;
  std::string key;        ///< of all records of one point, machine and code (identity.h)
  std::string sources;    ///< the code it comes from (identity.h); empty in older records
  Ceilings ceilings;      ///< 0: not measured beside this number
  Provenance provenance;  ///< commit, dirty, compiler, flags, native, cpu, cores are written
  std::string date;
  /// What the value was made of, {"columns": [...], "rows": [[...], ...], "group": ...}, group
  /// alike where rows took turns; null in most.
  nlohmann::ordered_json samples = nullptr;

  void set(const Summary& s) {
    value = s.median;
    repeats = s.repeats;
    spread = s.spread;
    low = s.low;
    high = s.high;
  }

  /// visit(name, member) of what every record has, in the order of its line.
  template <class Self, class Visitor>
  static void fields(Self& r, Visitor&& visit) {
    visit("experiment", r.experiment);
    visit("row", r.row);
    visit("against", r.against);
    visit("threads", r.threads);
    visit("metric", r.metric);
    visit("value", r.value);
    visit("unit", r.unit);
    visit("repeats", r.repeats);
    visit("spread", r.spread);
    visit("low", r.low);
    visit("high", r.high);
    visit("status", r.status);
    visit("note", r.note);
    visit("config", r.config);
    visit("command", r.command);
    visit("seed", r.seed);
    visit("commit", r.provenance.commit);
    visit("dirty", r.provenance.dirty);
    visit("compiler", r.provenance.compiler);
    visit("flags", r.provenance.flags);
    visit("native", r.provenance.native);
    visit("cpu", r.provenance.cpu);
    visit("cores", r.provenance.cores);
    visit("key", r.key);
    visit("ceilings", r.ceilings);
    visit("date", r.date);
  }
  /// Behind those, of what records of before there were studies lack.
  template <class Self, class Visitor>
  static void study_fields(Self& r, Visitor&& visit) {
    visit("study", r.study);
    visit("section", r.section);
    visit("title", r.title);
    visit("id", r.id);
    visit("sources", r.sources);
  }
};

/// A knob's text as a number or a truth value where it is one.
nlohmann::ordered_json typed_value(const std::string& text);

std::string to_line(const Record& record);
/// Throws UserError if the line is not JSON or lacks what a record must have; the message has no
/// place in it.
Record from_line(const std::string& line);

/// The folder that takes a run's records: `chosen`, or results/local/<machine> of the project if it
/// is empty. Makes the folder; throws UserError if it cannot be made or written.
std::string prepare_results_dir(const std::string& chosen, const std::string& machine);

/// An experiment's file of records. Reading refuses a file that has a line it does not understand;
/// no whole line is ever rewritten.
class RecordFile {
 public:
  /// Reads <dir>/<experiment>.jsonl if it exists. A record without the end of its line, which a
  /// kill or a full disk leaves as the last one, is cut off the file, and standard error says so.
  /// Throws UserError naming file and line for any other unreadable line or one of another
  /// experiment.
  RecordFile(const std::string& dir, const std::string& experiment);

  /// Reads the file again if other processes have appended to it since; throws likewise. A record
  /// without its end is left alone: another process may be writing it.
  void read_again();

  /// Appends all lines in one write and waits until the disk has them. Throws UserError if it
  /// cannot; the file is then as it was.
  void append(const std::vector<Record>& records);

  const std::string& path() const { return path_; }
  const std::vector<Record>& records() const { return records_; }

 private:
  /// Returns whether the last line had its end; one without is not among the records.
  bool read();
  void drop_unfinished_line();

  std::string path_, experiment_;
  std::uintmax_t bytes_ = 0;  ///< of the file, as far as records_ has it
  std::vector<Record> records_;
};

}  // namespace scaling
