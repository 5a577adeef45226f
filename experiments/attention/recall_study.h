// How much of exact attention LSH attention sees, over chunk lengths and rounds of hashing.
#pragma once

#include <string>
#include <vector>

#include "experiments/instruments/model_row.h"
#include "experiments/study/study.h"

namespace scaling {

struct RecallKnobs {
  int length = 4096;
  std::string rounds = "1,2,4,8", chunks = "16,32,64,128,256";

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("length", k.length, "positions", Trait{.quick = "1024"});
    visit("rounds", k.rounds, "rounds of hashing");
    visit("chunks", k.chunks, "positions a chunk");
  }
};

class RecallStudy : public Study {
 public:
  StudyInfo info() const override;
  void flags(Knobs& knobs) override { knobs.add(knobs_); }
  std::vector<KnobInfo> row_knobs() const override { return model_row_knobs(); }
  /// <distribution>_c<chunk>_r<rounds> of the file's one row.
  std::vector<Point> points(const RowFile& file, const RunOptions& options) override;
  /// All settings of a distribution, whose exact probabilities they share.
  std::vector<std::vector<std::size_t>> groups(std::span<const Point* const> points) const override;
  void measure(std::span<const Point* const> group, Sink& sink) override;
  Metric closing(const Point&) const override { return {.name = "recall", .unit = "1"}; }

 private:
  RecallKnobs knobs_;
  ModelRow row_;
};

}  // namespace scaling
