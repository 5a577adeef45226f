// Chunks and rounds to points, recall of every head to records.
#include "experiments/attention/recall_study.h"

#include "experiments/attention/recall.h"
#include "experiments/instruments/child_process.h"
#include "experiments/study/counts.h"
#include "kernels/check.h"

namespace scaling {
namespace {

constexpr double kDistributionSeconds = 20;  // for the plan only

std::string value_of(const Settings& settings, const std::string& name) {
  for (const auto& [setting, value] : settings) {
    if (setting == name) return value;
  }
  return "";
}

}  // namespace

StudyInfo RecallStudy::info() const {
  return {.name = "recall",
          .program = "attention_recall",
          .about = "measures how much of exact attention LSH attention sees",
          .folder = "attention",
          .example = "attention/attention_recall.cfg",
          .timed = false,
          .quick = "a shorter sequence"};
}

std::vector<Point> RecallStudy::points(const RowFile& file, const RunOptions& options) {
  const std::vector<ModelRow> rows = model_rows(file);
  if (rows.size() != 1) {
    file.refuse(rows.back().name, "chunks and rounds are varied of one row; leave one");
  }
  require_known_rows(options.rows, {rows.front().name}, file.experiment);
  row_ = rows.front();
  if (knobs_.length < 2) throw UserError("--length " + print_value(knobs_.length) + " is below 2");
  const auto chunks = parse_counts("chunks", knobs_.chunks);
  const auto rounds = parse_counts("rounds", knobs_.rounds);
  std::vector<Point> points;
  for (const std::string distribution : kDistributions) {
    for (const std::int64_t chunk : chunks) {
      for (const std::int64_t round : rounds) {
        const std::string c = std::to_string(chunk), r = std::to_string(round);
        Point point;
        point.row = point.against = distribution + "_c" + c + "_r" + r;
        point.threads = options.threads.front();
        point.seed = row_.model.seed;
        for (const std::string& knob : field_names()) {
          if (knob == "d_model" || knob == "n_heads" || knob == "seed" ||
              knob.rfind("lsh_", 0) == 0) {
            point.settings.emplace_back(knob, knob == "lsh_chunk"    ? c
                                              : knob == "lsh_rounds" ? r
                                                                     : get_field(row_.model, knob));
          }
        }
        const Settings more = {{"attention", "lsh"},
                               {"causal", "true"},
                               {"quick", print_value(options.quick)},
                               {"length", print_value(knobs_.length)},
                               {"distribution", distribution}};
        point.settings.insert(point.settings.end(), more.begin(), more.end());
        point.flags = {{"chunks", c}, {"rounds", r}};
        point.seconds = kDistributionSeconds / double(chunks.size() * rounds.size());
        points.push_back(std::move(point));
      }
    }
  }
  return points;
}

std::vector<std::vector<std::size_t>> RecallStudy::groups(
    std::span<const Point* const> points) const {
  std::vector<std::vector<std::size_t>> groups;
  std::string last;
  for (std::size_t i = 0; i < points.size(); ++i) {
    const std::string distribution = value_of(points[i]->settings, "distribution");
    if (groups.empty() || distribution != last) groups.emplace_back();
    groups.back().push_back(i);
    last = distribution;
  }
  return groups;
}

void RecallStudy::measure(std::span<const Point* const> group, Sink& sink) {
  std::vector<ModelConfig> models;
  for (const Point* point : group) {
    ModelConfig model = row_.model;
    for (const char* knob : {"attention", "lsh_chunk", "lsh_rounds"}) {
      set_field(model, knob, value_of(point->settings, knob));
    }
    models.push_back(model);
  }
  const std::string distribution = value_of(group.front()->settings, "distribution");
  sink.live("recall, " + distribution);
  const nlohmann::json found = in_child([&]() -> nlohmann::json {
    nlohmann::json all;
    for (const Recall& r :
         measure_recall(distribution, knobs_.length, models, group.front()->threads)) {
      all.push_back({{"density", r.density}, {"recall", r.recall}});
    }
    return all;
  });
  for (std::size_t i = 0; i < group.size(); ++i) {
    const auto values = [&](const char* metric) {
      return found[i][metric].get<std::vector<double>>();
    };
    sink.close(*group[i], {{.name = "density", .unit = "1", .values = values("density")},
                           {.name = "recall", .unit = "1", .values = values("recall")}});
  }
}

}  // namespace scaling
