// Chunks and rounds to points, recall of every head to records.
#include "experiments/attention/recall_study.h"

#include "experiments/attention/recall.h"
#include "experiments/instruments/child_process.h"
#include "experiments/instruments/held_attention.h"
#include "experiments/instruments/model_row.h"
#include "experiments/study/counts.h"
#include "kernels/check.h"

namespace scaling {
namespace {

constexpr double kDistributionSeconds = 20;  // for the plan only

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

class RecallStudy : public ModelStudy {
 public:
  StudyInfo info() const override {
    return {.name = "recall",
            .program = "attention_recall",
            .about = "measures how much of exact attention LSH attention sees",
            .folder = "attention",
            .example = "attention/attention_recall.cfg",
            .timed = false,
            .quick = "a shorter sequence"};
  }
  void flags(Knobs& knobs) override { knobs.add(knobs_); }

  std::vector<Point> points(const RowFile& file, const RunOptions& options) override {
    const std::vector<ModelRow> rows = model_rows(file);
    if (rows.size() != 1) {
      file.refuse(rows.back().name, "chunks and rounds are varied of one row; leave one");
    }
    require_known_rows(options.rows, {rows.front().name}, file.experiment);
    if (knobs_.length < 2)
      throw UserError("--length " + print_value(knobs_.length) + " is below 2");
    const auto chunks = parse_counts("chunks", knobs_.chunks);
    const auto rounds = parse_counts("rounds", knobs_.rounds);
    std::vector<Point> points;
    for (std::size_t d = 0; d < std::size(kDistributions); ++d) {
      for (const std::int64_t chunk : chunks) {
        for (const std::int64_t round : rounds) {
          const std::string c = std::to_string(chunk), r = std::to_string(round);
          ModelRow row = rows.front();
          row.name = row.against = std::string(kDistributions[d]) + "_c" + c + "_r" + r;
          set_field(row.model, "attention", "lsh");
          set_field(row.model, "lsh_chunk", c);
          set_field(row.model, "lsh_rounds", r);
          Point point = point_of(row, options.threads.front(), attention_settings(row.model),
                                 {{"quick", print_value(options.quick)},
                                  {"length", print_value(knobs_.length)},
                                  {"distribution", kDistributions[d]}});
          point.flags = {{"chunks", c}, {"rounds", r}};
          point.seconds = kDistributionSeconds / double(chunks.size() * rounds.size());
          subjects_[point.row] = {d, row.model};
          points.push_back(std::move(point));
        }
      }
    }
    return points;
  }

  /// All settings of a distribution, whose exact probabilities they share.
  std::vector<std::vector<std::size_t>> groups(Points points) const override {
    return groups_by(points, [this](const Point& p) { return subjects_.at(p.row).distribution; });
  }

  void measure(Points group, Sink& sink) override {
    std::vector<ModelConfig> models;
    for (const Point* point : group) models.push_back(subjects_.at(point->row).model);
    const std::string distribution = kDistributions[subjects_.at(group.front()->row).distribution];
    sink.live("recall, " + distribution);
    const std::vector<Recall> found = in_child([&] {
      return measure_recall(distribution, knobs_.length, models, group.front()->threads);
    });
    for (std::size_t i = 0; i < group.size(); ++i) {
      sink.close(*group[i], {{"density", "1", found[i].density}, {"recall", "1", found[i].recall}});
    }
  }

  Metric closing(const Point&) const override { return {.name = "recall", .unit = "1"}; }

 private:
  struct Subject {
    std::size_t distribution;  ///< index
    ModelConfig model;
  };

  RecallKnobs knobs_;
  std::map<std::string, Subject> subjects_;  ///< by the point's name
};

}  // namespace

std::unique_ptr<Study> make_recall_study() { return std::make_unique<RecallStudy>(); }

}  // namespace scaling
