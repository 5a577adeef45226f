// A kind of experiment: what its points are and how they are measured. run_study does the rest.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "experiments/study/point.h"
#include "experiments/study/row_file.h"
#include "experiments/study/run_options.h"
#include "experiments/study/sink.h"

namespace scaling {

struct StudyInfo {
  const char* name;               ///< in records and identities
  const char* program;            ///< in commands
  const char* about;              ///< after the program's name in --help
  const char* folder;             ///< of experiments/, whose code counts
  const char* example = nullptr;  ///< one of its configs below experiments/configs; null: has none
  const char* threads = "all";    ///< default of --threads
  bool one_thread_count = true;   ///< --threads takes one number, not a list
  bool rows_count = true;         ///< two rows of the same settings are two points
  bool by_seed = false;           ///< points of a row differ in their seed, not in their threads
  bool timed = true;              ///< two processes on one machine would disturb each other
  const char* quick = nullptr;    ///< help of --quick; null: has no such flag
};

class Study {
 public:
  using Points = std::span<const Point* const>;

  virtual ~Study() = default;
  virtual StudyInfo info() const = 0;
  /// Adds the study's own flags: options that outlive the run.
  virtual void flags(Knobs&) {}
  /// What a row, the file's common part or the command line may set.
  virtual std::vector<KnobInfo> row_knobs() const { return {}; }
  /// What the file and the flags ask for, in the order to measure it: shapes only, no memory to
  /// speak of, and no threads, since some studies fork later. Throws UserError for anything
  /// inconsistent. A study without configs gets an empty file with its own name.
  virtual std::vector<Point> points(const RowFile& file, const RunOptions& options) = 0;
  /// More of --dry-run than the plan.
  virtual std::string details(std::span<const Point>) const { return ""; }
  /// What is done with the points in place of measuring them, as a trial of each: its exit status.
  virtual std::optional<int> instead(std::span<const Point>) { return std::nullopt; }
  /// Points to measure together, as indices; default: each alone.
  virtual std::vector<std::vector<std::size_t>> groups(Points points) const;
  /// Measures a group: closes, fails, skips or leaves each point of it. May throw UserError, which
  /// fails those that are still open, and Interrupted.
  virtual void measure(Points group, Sink& sink) = 0;
  /// Name and unit of the number that is written last: a point is finished if it is there.
  virtual Metric closing(const Point& point) const = 0;
  /// Names of further numbers that a finished point has, as a flag of the run asks for.
  virtual std::vector<std::string> needed(const Point&) const { return {}; }

  /// Settings of points that are no knobs of a row, with the value that records without them were
  /// made with.
  virtual Settings added_settings() const { return {}; }
  /// Whether a setting matters beside the others: those of a layer that a row does not have do not.
  virtual bool counts(const std::string& /*setting*/, const Settings& /*all*/) const {
    return true;
  }
  /// A knob's value as commands state it.
  virtual std::string portable(const std::string& /*knob*/, const std::string& value) const {
    return value;
  }
  /// Said after an interruption, in place of what holds for all.
  virtual std::string interrupted() const { return ""; }
};

/// Study::groups: points that are alike in key(point) together, ascending by it.
template <class Key>
std::vector<std::vector<std::size_t>> groups_by(Study::Points points, const Key& key) {
  std::map<decltype(key(*points[0])), std::vector<std::size_t>> found;
  for (std::size_t i = 0; i < points.size(); ++i) found[key(*points[i])].push_back(i);
  std::vector<std::vector<std::size_t>> groups;
  for (auto& [alike, indices] : found) groups.push_back(std::move(indices));
  return groups;
}

inline constexpr int kExitFailedRows = 1;
inline constexpr int kExitUserError = 2;
inline constexpr int kExitInterrupted = 130;

/// Runs `body` with signals watched; its result is the exit status. UserError: the sentence and 2.
/// Interrupted: 130. Out of memory or anything else that was thrown: the reason and 1.
int run_experiment(const std::function<int()>& body);

/// A driver's main: the exit status. 0: everything is measured or skipped with a reason; 1: some
/// points failed; 2: a mistake of the user's, said in a sentence; 130: interrupted.
int run_study(Study& study, int argc, const char* const* argv);

}  // namespace scaling
