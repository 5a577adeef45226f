// Where a study's numbers go: the one writer of records.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "experiments/study/identity.h"
#include "experiments/study/progress.h"
#include "experiments/study/row_file.h"
#include "experiments/study/run_options.h"

namespace scaling {

/// Lent to Study::measure(). What a call records is on disk when it returns.
class Sink {
 public:
  /// All of it outlives this.
  Sink(const Identity& identity, const RunOptions& options, const RowFile& file,
       RecordFile& records, Progress& progress);

  /// Numbers of a point that is not finished yet.
  void add(const Point& point, const std::vector<Metric>& metrics, const Extra& extra = {});
  /// A point's last numbers, the closing metric at the end; says so.
  void close(const Point& point, const std::vector<Metric>& metrics, const Extra& extra = {});
  /// Records the reason. A reason that is on record as the last word about the point is only said.
  void fail(const Point& point, const std::string& why);
  void skip(const Point& point, const std::string& why, const Extra& extra = {});
  /// Records nothing, but the run does not count as complete.
  void leave(const Point& point, const std::string& why);

  /// Records nothing: what finishes the point is on record already.
  void settle(const Point& point, const std::string& why);

  /// Everything on record about a point, the oldest first, other processes' numbers too.
  std::vector<Record> earlier(const Point& point);
  bool is_finished(const Point& point);
  bool holds(const Record& record, const Point& point) const {
    return identity_.holds(record, point);
  }
  /// Takes records over as they are.
  void append(const std::vector<Record>& records) { records_.append(records); }
  /// What a point's records share.
  Record base(const Point& point, const Extra& extra = {}) const;

  /// Shown on terminals only, until something else is.
  void live(const std::string& text) { progress_.live(text); }
  /// A line that stays; `seconds` of the estimate are done with it.
  void say(const std::string& text, double seconds = 0) { progress_.done(text, seconds); }
  /// A better estimate of what is left.
  void expect(double seconds_left) { progress_.expect(seconds_left); }
  bool on_terminal() const { return progress_.on_terminal(); }

  const RecordFile& file() const { return records_; }
  /// Closed, failed, skipped or left in this run.
  bool is_settled(const Point& point) const { return settled_.count(&point) > 0; }
  bool complete() const { return complete_; }

 private:
  void give_up(const Point& point, Status status, const std::string& why, const Extra& extra);

  const Identity& identity_;
  const Study& study_;
  const RunOptions& options_;
  const RowFile& row_file_;
  RecordFile& records_;
  Progress& progress_;
  std::set<const Point*> settled_;
  bool complete_ = true;
};

/// "ff, 2 threads", or with its seed where the study's points differ in that.
std::string name_of(const Study& study, const Point& point);

}  // namespace scaling
