// Attentions against the length of the sequence: time and memory between the projections.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/attention/core_measure.h"
#include "experiments/instruments/model_row.h"
#include "experiments/study/study.h"

namespace scaling {

struct LongSequenceKnobs {
  std::string lengths = "512,1024,2048,4096,8192,16384,32768,65536";
  int repeats = 9;
  double time_budget = 60;
  double step_limit = 60;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("lengths", k.lengths, "positions", Trait{.quick = "512,1024,2048,4096,8192"});
    visit("repeats", k.repeats, "of a length, at most", Trait{.quick = "3"});
    visit("time-budget", k.time_budget, "seconds for the repeats of a length", Trait{.quick = "6"});
    visit("step-limit", k.step_limit, "seconds: a training step expected to take longer is skipped",
          Trait{.in_key = InKey::no});
  }
};

class LongSequenceStudy : public Study {
 public:
  StudyInfo info() const override;
  void flags(Knobs& knobs) override { knobs.add(knobs_); }
  std::vector<KnobInfo> row_knobs() const override { return model_row_knobs(); }
  /// Length after length; the name of a point is <row>_l<length>.
  std::vector<Point> points(const RowFile& file, const RunOptions& options) override;
  /// All rows of a length.
  std::vector<std::vector<std::size_t>> groups(std::span<const Point* const> points) const override;
  /// In a process of its own. A row whose shorter lengths say that this one would take too long or
  /// too much memory is skipped.
  void measure(std::span<const Point* const> group, Sink& sink) override;
  Metric closing(const Point&) const override { return {.name = "step_ms", .unit = "ms"}; }

 private:
  struct Subject {
    ModelRow row;
    std::int64_t length = 0;
    Point point;
  };

  double planned_seconds(const ModelConfig& model, std::int64_t length, std::size_t rows) const;
  const Subject& subject_of(const Point& point) const { return subjects_.at(point.row); }
  /// Empty if the point can be measured.
  std::string reason_to_skip(const Subject& subject, Sink& sink) const;

  LongSequenceKnobs knobs_;
  bool quick_ = false;
  std::map<std::string, Subject> subjects_;  ///< by the point's name
};

/// Settings of a row that its attention is made of, then whether it is causal.
Settings attention_settings(const ModelConfig& model);

}  // namespace scaling
