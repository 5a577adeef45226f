// Decode times of an experiment's rows: tables, sweeps and peers are configs of this one study.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "experiments/decode/decode_candidate.h"
#include "experiments/study/study.h"

namespace scaling {

struct DecodeFlags {
  DecodeProtocol protocol = DecodeProtocol::steady;
  double time_budget = 20;
  bool pin = false;

  template <class Self, class Visitor>
  static void fields(Self& f, Visitor&& visit) {
    visit("protocol", f.protocol,
          "steady: until the median is known to 2 %; paper: 4 + 12 tokens, six times, with --quick "
          "three");
    visit("time-budget", f.time_budget, "seconds of measuring per row and thread count",
          Trait{.quick = "4", .in_key = InKey::no});
    visit("pin", f.pin, "bind each thread to a processor");
  }
};

class DecodeStudy : public Study {
 public:
  StudyInfo info() const override;
  void flags(Knobs& knobs) override { knobs.add(flags_); }
  std::vector<KnobInfo> row_knobs() const override { return decode_row_knobs(); }
  std::vector<Point> points(const RowFile& file, const RunOptions& options) override;
  /// Every row's knobs, parameter counts, bytes and costs.
  std::string details(std::span<const Point> points) const override;
  /// Rows that memory holds together, each at all its thread counts.
  std::vector<std::vector<std::size_t>> groups(std::span<const Point* const> points) const override;
  /// Nothing is timed that does not decode like ref.
  void measure(std::span<const Point* const> group, Sink& sink) override;
  Metric closing(const Point& point) const override;
  bool counts(const std::string& setting, const Settings& all) const override {
    return is_relevant(setting, all);
  }

 private:
  using Points = std::span<const Point* const>;
  struct Open {
    DecodeModel model;
    Points points;  ///< of the row
  };

  Point point_of(const DecodeModel& model, int threads, bool quick) const;
  double measure_seconds(const DecodeModel& model) const;
  /// Throws UserError if the kernels that these points of one row would run do not agree.
  void compare_with_ref(Points points, Sink& sink);
  /// Takes the row's model and allocates it; throws UserError if it does not fit.
  DecodeModel load(const std::string& row, Sink& sink);
  void measure(const std::vector<Open>& open, int threads, Sink& sink);
  Team& team(int threads);

  DecodeFlags flags_;
  Protocol protocol_;
  int most_threads_ = 1;
  std::map<std::string, DecodeModel> models_;  ///< by row, until it is its turn
  std::map<Settings, std::string> compared_;   ///< with ref: what was wrong
  std::map<int, std::unique_ptr<Team>> teams_;
};

}  // namespace scaling
