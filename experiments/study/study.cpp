// From a command line to records: plan, what is finished, group after group, what went wrong.
#include "experiments/study/study.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <map>
#include <new>
#include <set>
#include <utility>

#include "experiments/study/interrupt.h"
#include "kernels/check.h"

namespace scaling {
namespace {

/// One process a machine, held until this one ends.
void keep_machine_to_itself() {
  const std::string path =
      (std::filesystem::temp_directory_path() / "scaling_timed_shard.lock").string();
  int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);  // another user's
  if (file < 0) {
    throw UserError("cannot open '" + path + "' (" + std::strerror(errno) +
                    "), which keeps timed studies of one machine apart; delete it, or have its "
                    "owner do so");
  }
  if (::flock(file, LOCK_EX | LOCK_NB) == 0) return;
  throw UserError("another shard of a timed study runs on this machine (it holds '" + path +
                  "'), and both would be slower; run it elsewhere, or one after the other");
}

class Run {
 public:
  Run(Study& study, const RunOptions& options)
      : study_(study),
        info_(study.info()),
        options_(options),
        identity_(study, read_provenance(), options.accept) {}

  int run() {
    const std::string& machine = identity_.provenance().machine;
    if (options_.where) {
      std::printf("%s\n", prepare_results_dir(options_.results, machine).c_str());
      return 0;
    }
    if (info_.example) {
      file_ = read_row_file(options_.config, study_.row_knobs(), options_.overrides);
    } else {
      file_.experiment = info_.name;
    }
    points_ = study_.points(file_, options_);
    require_different();
    if (options_.shards > 1) keep_shard();
    if (options_.dry_run) {
      const std::string plan = plan_text({}) + study_.details(points_);
      std::fputs(plan.c_str(), stdout);
      return 0;
    }
    if (const std::optional<int> status = study_.instead(points_)) return *status;
    if (identity_.provenance().is_stale) {
      std::fputs(
          "note: this program was built from other sources than the checkout has now; its records "
          "will count as of an edited tree, until `./build.sh release drivers` has built it anew\n",
          stderr);
    }
    RecordFile records(prepare_results_dir(options_.results, machine), file_.experiment);
    if (info_.timed && options_.shards > 1) keep_machine_to_itself();
    const int status = measure(records);
    std::printf("records: %s\n", records.path().c_str());
    return status;
  }

 private:
  /// Results are known by settings, so two points with the same ones would be one.
  void require_different() const {
    std::map<std::string, std::string> names;
    for (const Point& point : points_) {
      const auto [at, is_new] = names.try_emplace(identity_.text(point), point.row);
      if (is_new) continue;
      throw UserError("rows '" + at->second + "' and '" + point.row +
                      "' have the same settings and would be one; drop one of them (--rows) or "
                      "change a knob of one");
    }
  }

  /// Dealt in turn, in the plan's order, which the same flags make everywhere. A row's points of
  /// one seed stay together: they differ in threads alone, and may share a model.
  void keep_shard() {
    std::map<std::pair<std::string, std::uint64_t>, std::uint64_t> places;
    std::erase_if(points_, [&](const Point& point) {
      const std::uint64_t next = places.size();
      const auto found = places.try_emplace({point.row, point.seed}, next).first;
      return found->second % options_.shards != options_.shard;
    });
  }

  int measure(RecordFile& records) {
    std::vector<const Point*> open;
    std::set<const Point*> finished;
    for (const Point& point : points_) {
      if (!options_.force && identity_.is_finished(records.records(), point)) {
        finished.insert(&point);
      } else {
        open.push_back(&point);
      }
    }
    std::fputs(plan_text(finished).c_str(), stdout);
    std::fflush(stdout);
    Progress progress(seconds_without(finished));
    Sink sink(identity_, options_, file_, records, progress);
    try {
      measure(open, sink);
    } catch (const Interrupted&) {
      const std::string more = study_.interrupted();
      progress.done(more.empty() ? "interrupted: what is finished is kept in " + records.path() +
                                       "; the same command continues with the rest"
                                 : more,
                    0);
      return kExitInterrupted;
    }
    return sink.complete() ? 0 : kExitFailedRows;
  }

  void measure(std::vector<const Point*> open, Sink& sink) {
    std::erase_if(open, [&sink](const Point* point) {
      if (point->unavailable.empty()) return false;
      sink.skip(*point, point->unavailable);
      return true;
    });
    for (const std::vector<std::size_t>& indices : study_.groups(open)) {
      check_interrupt();
      std::vector<const Point*> group;
      for (const std::size_t i : indices) {
        // Another process may have measured it since the plan was made.
        if (options_.force || !sink.is_finished(*open[i])) {
          group.push_back(open[i]);
        } else {
          sink.say(name_of(study_, *open[i]) + ": measured by another process meanwhile",
                   open[i]->seconds);
        }
      }
      if (group.empty()) continue;
      std::string why = "it was not measured, and no reason was given";
      try {
        study_.measure(group, sink);
      } catch (const UserError& error) {
        why = error.what();
      }
      for (const Point* point : group) {
        if (!sink.is_settled(*point)) sink.fail(*point, why);
      }
    }
  }

  /// Estimate of the points that are not finished.
  double seconds_without(const std::set<const Point*>& finished) const {
    double seconds = 0;
    for (const Point& point : points_) {
      if (!finished.count(&point) && point.unavailable.empty()) seconds += point.seconds;
    }
    return seconds;
  }

  /// "1,2 threads", "seeds 1,2".
  std::string names_of(const std::vector<const Point*>& points) const {
    std::string text;
    for (const Point* point : points) {
      if (!text.empty()) text += ',';
      text += info_.by_seed ? std::to_string(point->seed) : std::to_string(point->threads);
    }
    return info_.by_seed ? "seeds " + text : text + (text == "1" ? " thread" : " threads");
  }

  std::string plan_text(const std::set<const Point*>& finished) const {
    std::vector<std::string> rows;
    std::map<std::string, std::vector<const Point*>> done, open;
    for (const Point& point : points_) {
      if (std::find(rows.begin(), rows.end(), point.row) == rows.end()) rows.push_back(point.row);
      (finished.count(&point) ? done : open)[point.row].push_back(&point);
    }
    std::string text = file_.experiment + (file_.title.empty() ? "" : ": ") + file_.title + "\n" +
                       std::to_string(points_.size() - finished.size()) + " measurements, about " +
                       readable_seconds(seconds_without(finished)) +
                       (info_.timed ? ", twice that at most where the machine is restless" : "") +
                       "\n";
    for (const std::string& row : rows) {
      text += "  " + row + ": ";
      if (const auto& points = done[row]; !points.empty()) {
        text += names_of(points) + " already measured; --force repeats";
        if (!open[row].empty()) text += ". ";
      }
      if (const auto& points = open[row]; !points.empty()) {
        double own = 0;
        for (const Point* point : points) own += point->seconds;
        const Point& first = *points.front();
        text += names_of(points) + ", " +
                (!first.unavailable.empty()
                     ? "skipped, " + first.unavailable
                     : first.plan + (first.plan.empty() ? "" : ", ") + readable_seconds(own));
      }
      text += "\n";
    }
    return text;
  }

  Study& study_;
  const StudyInfo info_;
  const RunOptions& options_;
  const Identity identity_;
  RowFile file_;
  std::vector<Point> points_;
};

}  // namespace

std::vector<std::vector<std::size_t>> Study::groups(std::span<const Point* const> points) const {
  std::vector<std::vector<std::size_t>> alone;
  for (std::size_t i = 0; i < points.size(); ++i) alone.push_back({i});
  return alone;
}

int run_experiment(const std::function<int()>& body) {
  watch_interrupts();
  try {
    return body();
  } catch (const UserError& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return kExitUserError;
  } catch (const Interrupted&) {
    std::fprintf(stderr, "interrupted before anything was measured\n");
    return kExitInterrupted;
  } catch (const std::bad_alloc&) {
    std::fprintf(
        stderr,
        "error: memory ran out; finished rows are kept, free memory and repeat the command\n");
    return 1;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}

int run_study(Study& study, int argc, const char* const* argv) {
  return run_experiment([&] {
    const RunOptions options = parse_run_options(study, argc, argv);
    if (options.help) {
      std::fputs(help_of(study).c_str(), stdout);
      return 0;
    }
    return Run(study, options).run();
  });
}

}  // namespace scaling
