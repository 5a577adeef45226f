// Log-perplexity curves: figures 1, 3, 5 and 7, Table 4's and Table 8's are configs of this study.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "experiments/study/study.h"
#include "experiments/training/curve_run.h"

namespace scaling {

struct TrainingFlags {
  std::string scratch;
  bool resume = false, check = false, decode_check = false;
  std::int64_t decode_tokens = 16384;

  template <class Self, class Visitor>
  static void fields(Self& f, Visitor&& visit) {
    const Trait no_key{.in_key = InKey::no};
    visit("scratch", f.scratch,
          "folder of checkpoints and tokenised corpora; default: that of the records", no_key);
    visit("resume", f.resume,
          "go on also with checkpoints that another program has begun (records say so)", no_key);
    visit("check", f.check,
          "one step of every row: does it fit, how long does it take; records nothing", no_key);
    visit("decode_check", f.decode_check,
          "evaluate a curve's last weights also through the decode path, in f32 and bf16", no_key);
    visit(
        "decode_tokens", f.decode_tokens,
        "held-out tokens of --decode_check, in whole examples; 0: all that curves are evaluated on",
        no_key);
  }
};

/// A point is a curve with one seed. Curves are known by settings and text, not by row, so that one
/// that two figures share is trained once.
class TrainingStudy : public Study {
 public:
  StudyInfo info() const override;
  void flags(Knobs& knobs) override { knobs.add(flags_); }
  std::vector<KnobInfo> row_knobs() const override { return curve_knobs(); }
  /// Seed after seed, so that every row has one seed before any has two.
  std::vector<Point> points(const RowFile& file, const RunOptions& options) override;
  std::string details(std::span<const Point> points) const override;
  std::optional<int> instead(std::span<const Point> points) override;
  std::vector<std::vector<std::size_t>> groups(std::span<const Point* const> points) const override;
  void measure(std::span<const Point* const> group, Sink& sink) override;
  Metric closing(const Point& point) const override;
  std::vector<std::string> needed(const Point& point) const override;
  Settings added_settings() const override { return {{"init", ""}}; }
  bool counts(const std::string& setting, const Settings& all) const override;
  std::string portable(const std::string& knob, const std::string& value) const override;
  std::string interrupted() const override;

 private:
  Curve curve_of(const Point& point) const;
  std::string cache_of(const Curve& curve) const;
  std::string checkpoints_of(const Point& point) const;

  TrainingFlags flags_;
  bool force_ = false;
  std::string experiment_, scratch_;  ///< scratch_: folder; empty where nothing is to be written
  std::vector<Curve> curves_;
  mutable std::vector<const Point*> queue_;  ///< of this run, in its order

  // What an interruption tells of.
  std::unique_ptr<CurveRun> run_;
  bool was_finished_ = false;
};

}  // namespace scaling
