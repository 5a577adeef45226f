// Rows to weights, these to files and to statistics of every head.
#include "experiments/attention/patterns_study.h"

#include <filesystem>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>
#include <xtensor/xnpy.hpp>

#include "experiments/attention/core_measure.h"
#include "experiments/attention/core_rows.h"
#include "experiments/attention/weights.h"
#include "experiments/instruments/held_attention.h"
#include "experiments/study/interrupt.h"
#include "kernels/check.h"
#include "models/layers/catalog.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

constexpr double kPointSeconds = 0.2;  // for the plan only
/// All weights of a row are in memory, and in a file.
constexpr int kMostPositions = 1024;

struct PatternsKnobs {
  int length = 64;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("length", k.length, "positions");
  }
};

std::vector<double> values_of(const xt::xtensor<double, 2>& of_heads) {
  return std::vector<double>(of_heads.begin(), of_heads.end());
}

class PatternsStudy : public ModelStudy {
 public:
  StudyInfo info() const override {
    return {.name = "attention_patterns",
            .program = "attention_patterns",
            .about = "writes who sees whom in each attention",
            .folder = "attention",
            .example = "attention/attention_patterns.cfg",
            .timed = false};
  }
  void flags(Knobs& knobs) override { knobs.add(knobs_); }
  std::vector<KnobInfo> row_knobs() const override { return core_row_knobs(); }

  std::vector<Point> points(const RowFile& file, const RunOptions& options) override {
    if (knobs_.length < 1 || knobs_.length > kMostPositions) {
      throw UserError("--length " + print_value(knobs_.length) + " is not from 1 to " +
                      std::to_string(kMostPositions) +
                      ", the most of which every pair is written; choose a smaller one");
    }
    const std::vector<CoreFileRow> rows = core_rows(file);
    require_known_rows(options.rows, names_of(rows), file.experiment);
    std::vector<Point> points;
    for (const CoreFileRow& row : rows) {
      if (!is_wanted(options.rows, row.name)) continue;
      if (!chosen_entry(row.model, "attention").traits.has_graph) {
        file.refuse(row.name, "attention " + row.model.attention +
                                  " scores no pair, so that there is no graph; leave it out");
      }
      Point point =
          point_of(row, options.threads.front(), attention_settings(row.model, row.causal),
                   {{"decoder_layers", print_value(row.model.decoder_layers)},
                    {"length", print_value(knobs_.length)}});
      point.flags = {{"rows", row.name}};
      point.seconds = kPointSeconds;
      rows_[row.name] = {row.model, row.causal};
      points.push_back(std::move(point));
    }
    return points;
  }

  void measure(Points group, Sink& sink) override {
    const fs::path records = sink.file().path();
    const fs::path folder = records.parent_path() / "patterns" / records.stem();
    for (const Point* point : group) {
      check_interrupt();
      const CoreRow& row = rows_.at(point->row);
      const Weights weights = attention_weights(row.model, row.causal, knobs_.length);
      const WeightStatistics found = statistics_of(weights, row.causal);
      try {
        fs::create_directories(folder);
        const auto path = [&](const char* what) {
          return (folder / (point->row + "." + what + ".npy")).string();
        };
        xt::dump_npy(path("graph"), graph_of(weights));
        xt::dump_npy(path("weights"), weights);
        xt::dump_npy(path("density"), found.density);
        xt::dump_npy(path("entropy"), found.entropy);
        xt::dump_npy(path("distance"), found.distance);
      } catch (const std::runtime_error& error) {
        throw UserError("'" + folder.string() + "' cannot be written (" + error.what() +
                        "); give another folder by --results");
      }
      sink.close(*point, {{"distance", "positions", values_of(found.distance)},
                          {"entropy", "nats", values_of(found.entropy)},
                          {"density", "1", values_of(found.density)}});
    }
  }

  Metric closing(const Point&) const override { return {.name = "density", .unit = "1"}; }

 private:
  PatternsKnobs knobs_;
  std::map<std::string, CoreRow> rows_;  ///< by the point's name
};

}  // namespace

std::unique_ptr<Study> make_patterns_study() { return std::make_unique<PatternsStudy>(); }

}  // namespace scaling
