// Rows to groups at every depth and batch; one process for the memory of each row, one for the
// steps of a group, one for each pair of gradients.
#include "experiments/stacks/stack_study.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "experiments/instruments/child_process.h"
#include "experiments/stacks/stack_measure.h"
#include "experiments/study/counts.h"
#include "kernels/check.h"
#include "kernels/gemm.h"
#include "kernels/gemm_rate.h"

namespace scaling {
namespace {

constexpr std::int64_t kProductSize = 2048, kQuickProductSize = 512;
constexpr int kSeeds = 3, kQuickSeeds = 1;
// For estimates only: FLOP/s of a step, seconds to set a row up, steps that are not timed.
constexpr double kRate = 120e9, kSetUpSeconds = 0.5;
constexpr int kFurtherSteps = 3;

const ModelRow& named(const std::vector<ModelRow>& rows, const std::string& name) {
  return *std::find_if(rows.begin(), rows.end(),
                       [&name](const ModelRow& row) { return row.name == name; });
}

ModelRow at_point(ModelRow row, std::int64_t depth, std::int64_t batch) {
  const std::string suffix = "_d" + std::to_string(depth) + "_b" + std::to_string(batch);
  row.name += suffix;
  row.against += suffix;
  row.model.decoder_layers = depth;
  row.model.blocks = 0;
  row.batch = batch;
  return row;
}

StackGroup::Kind kind_of(const RowFile& file, const ModelRow& reference) {
  const std::string stack = get_field(reference.model, "residual_stack");
  if (stack == "plain") return StackGroup::Kind::steps;
  if (stack == "reversible_stored") return StackGroup::Kind::gradients;
  file.refuse(reference.name, "others are compared with it, but it has residual_stack " + stack +
                                  "; compare steps with plain, gradients with reversible_stored");
}

/// (depth, batch), each once.
std::vector<std::pair<std::int64_t, std::int64_t>> sweep(const ModelRow& reference,
                                                         StackGroup::Kind kind,
                                                         const StackKnobs& knobs) {
  std::vector<std::pair<std::int64_t, std::int64_t>> found;
  for (const std::int64_t depth : parse_counts("depths", knobs.depths)) {
    found.emplace_back(depth, reference.batch);
  }
  const std::vector<std::int64_t> batches = parse_counts("batches", knobs.batches);
  if (kind == StackGroup::Kind::gradients) return found;
  for (const std::int64_t batch : batches) {
    const std::pair<std::int64_t, std::int64_t> own(reference.model.decoder_layers, batch);
    if (std::find(found.begin(), found.end(), own) == found.end()) found.push_back(own);
  }
  return found;
}

std::vector<StackGroup> groups_of(const RowFile& file, const std::vector<std::string>& wanted,
                                  const StackKnobs& knobs) {
  const std::vector<ModelRow> rows = model_rows(file);
  std::vector<std::string> known, references;
  for (const ModelRow& row : rows) known.push_back(row.name);
  require_known_rows(wanted, known, file.experiment);
  for (const ModelRow& row : rows) {
    if (!is_wanted(wanted, row.name)) continue;
    if (!row.model.decoder_only()) {
      file.refuse(row.name, "it has an encoder; give encoder_layers = 0");
    }
    if (std::find(references.begin(), references.end(), row.against) == references.end()) {
      references.push_back(row.against);
    }
  }
  std::vector<StackGroup> groups;
  for (const std::string& name : references) {
    const ModelRow& reference = named(rows, name);
    const StackGroup::Kind kind = kind_of(file, reference);
    for (const auto& [depth, batch] : sweep(reference, kind, knobs)) {
      StackGroup group{kind, at_point(reference, depth, batch), {}};
      for (const ModelRow& row : rows) {
        const bool is_oracle = kind == StackGroup::Kind::gradients && row.name == name;
        if (row.against == name && !is_oracle && is_wanted(wanted, row.name)) {
          group.rows.push_back(at_point(row, depth, batch));
        }
      }
      if (!group.rows.empty()) groups.push_back(std::move(group));
    }
  }
  if (groups.empty()) {
    throw UserError("nothing is left to measure: --rows names only what others are compared with");
  }
  return groups;
}

Metric value(const char* name, const char* unit, double number) {
  return {.name = name, .unit = unit, .values = {number}};
}

}  // namespace

StudyInfo StackStudy::info() const {
  return {.name = "stacks",
          .program = "reversibility",
          .about = "measures what reversible stacks save and cost",
          .folder = "stacks",
          .example = "stacks/reversibility.cfg",
          .quick = "fewer depths, batches and steps"};
}

std::vector<Point> StackStudy::points(const RowFile& file, const RunOptions& options) {
  if (knobs_.repeats < 1) {
    throw UserError("--repeats is " + std::to_string(knobs_.repeats) + " but must be at least 1");
  }
  quick_ = options.quick;
  groups_ = groups_of(file, options.rows, knobs_);
  std::vector<Point> points;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (std::size_t r = 0; r < groups_[g].rows.size(); ++r) {
      const ModelRow& row = groups_[g].rows[r];
      const std::string depth = std::to_string(row.model.decoder_layers);
      const std::string batch = std::to_string(row.batch);
      Point point;
      point.row = row.name;
      point.against = row.against;
      point.threads = options.threads.front();
      point.seed = row.model.seed;
      point.settings = settings_of(row);
      point.settings.emplace_back("quick", print_value(quick_));
      point.settings.emplace_back("repeats", print_value(knobs_.repeats));
      // The row's own name, without the point.
      point.flags = {{"rows", row.name.substr(0, row.name.rfind("_d"))},
                     {"depths", depth},
                     {"batches", batch},
                     {"decoder_layers", depth}};
      const double flops =
          Transformer(row.model).training_flops(row.batch, 0, row.model.max_length);
      point.seconds = kSetUpSeconds + flops / kRate * (knobs_.repeats + kFurtherSteps);
      places_[point.row] = {g, r};
      points.push_back(std::move(point));
    }
  }
  return points;
}

const ModelRow& StackStudy::row_of(const Point& point) const {
  return group_of(point).rows[places_.at(point.row).row];
}

Metric StackStudy::closing(const Point& point) const {
  if (group_of(point).kind == StackGroup::Kind::steps) return {.name = "step_ms", .unit = "ms"};
  return {.name = "gradient_error", .unit = "1"};
}

std::vector<std::vector<std::size_t>> StackStudy::groups(
    std::span<const Point* const> points) const {
  std::map<std::size_t, std::vector<std::size_t>> found;
  for (std::size_t i = 0; i < points.size(); ++i) {
    found[places_.at(points[i]->row).group].push_back(i);
  }
  std::vector<std::vector<std::size_t>> groups;
  for (const auto& [group, indices] : found) groups.push_back(indices);
  return groups;
}

const StackStudy::Library& StackStudy::library(int threads) {
  if (library_) return *library_;
  const nlohmann::json found = in_child([&]() -> nlohmann::json {
    set_gemm_threads(threads);
    const std::string name = find_gemm("auto").name;
    return {{"name", name},
            {"gflops", best_gemm_gflops(quick_ ? kQuickProductSize : kProductSize, threads)}};
  });
  return library_.emplace(Library{found["name"], found["gflops"]});
}

void StackStudy::measure(std::span<const Point* const> group, Sink& sink) {
  std::string names;
  for (const Point* point : group) names += (names.empty() ? "" : ", ") + point->row;
  sink.live(names);
  if (group_of(*group.front()).kind == StackGroup::Kind::steps) {
    measure_steps(group, sink);
  } else {
    measure_gradients(group, sink);
  }
}

void StackStudy::measure_steps(std::span<const Point* const> group, Sink& sink) {
  const Library& best = library(group.front()->threads);
  const StackSetting setting = {best.name, group.front()->threads};
  std::vector<ModelRow> rows;
  std::vector<nlohmann::json> memories;
  for (const Point* point : group) {
    rows.push_back(row_of(*point));
    // Read as JSON, whose names are those of the metrics.
    memories.push_back(
        in_child([&] { return nlohmann::json(measure_stack_memory(rows.back(), setting)); }));
  }
  const auto steps = in_child([&] {
                       return nlohmann::json(measure_stack_steps(rows, setting, knobs_.repeats));
                     }).get<StackSteps>();
  for (std::size_t i = 0; i < group.size(); ++i) {
    std::vector<Metric> metrics;
    for (const auto& [name, bytes] : memories[i].items()) {
      // The peak is none where the system does not tell.
      if (bytes.is_number()) metrics.push_back(value(name.c_str(), "B", bytes.get<double>()));
    }
    metrics.push_back(value("step_flops", "FLOP", steps.flops[i]));
    metrics.push_back(value("gemm_gflops", "GFLOP/s", best.gflops));
    Metric mfu{.name = "mfu", .unit = "1"}, ms = closing(*group[i]);
    for (const double seconds : steps.seconds[i]) {
      ms.values.push_back(1e3 * seconds);
      mfu.values.push_back(1e-9 * steps.flops[i] / seconds / best.gflops);
    }
    metrics.push_back(std::move(mfu));
    metrics.push_back(std::move(ms));
    char text[96];
    std::snprintf(text, sizeof text, " keeps %s, %.4g ms",
                  readable_bytes(memories[i]["stack_bytes"].get<double>()).c_str(),
                  summarize(metrics.back().values).median);
    sink.close(*group[i], metrics, {.config = {{"gemm", best.name}}, .line = group[i]->row + text});
  }
}

void StackStudy::measure_gradients(std::span<const Point* const> group, Sink& sink) {
  const Library& best = library(group.front()->threads);
  const StackSetting setting = {best.name, group.front()->threads};
  const int seeds = quick_ ? kQuickSeeds : kSeeds;
  for (const Point* point : group) {
    const auto errors = in_child([&] {
                          return nlohmann::json(measure_stack_errors(
                              row_of(*point), group_of(*point).reference, setting, seeds));
                        }).get<StackErrors>();
    Metric error = closing(*point);
    error.values = errors.gradient;
    char text[48];
    std::snprintf(text, sizeof text, " off by %.2g", summarize(error.values).median);
    sink.close(
        *point,
        {{.name = "reconstruction_error", .unit = "1", .values = errors.reconstruction}, error},
        {.config = {{"gemm", best.name}}, .line = point->row + text});
  }
}

}  // namespace scaling
