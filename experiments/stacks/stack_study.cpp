// Rows to points at every depth and batch; one process for the memory of each row, one for the
// steps of a group, one for each pair of gradients.
#include "experiments/stacks/stack_study.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <optional>
#include <utility>

#include "experiments/instruments/child_process.h"
#include "experiments/instruments/model_row.h"
#include "experiments/stacks/stack_measure.h"
#include "experiments/study/counts.h"
#include "kernels/check.h"
#include "kernels/gemm.h"
#include "kernels/gemm_rate.h"
#include "models/transformer/transformer.h"

namespace scaling {
namespace {

constexpr std::int64_t kProductSize = 2048, kQuickProductSize = 512;
constexpr int kSeeds = 3, kQuickSeeds = 1;
// For estimates only: FLOP/s of a step, seconds to set a row up, steps that are not timed.
constexpr double kRate = 120e9, kSetUpSeconds = 0.5;
constexpr int kFurtherSteps = 3;

struct StackKnobs {
  std::string depths = "2,4,8,12,16,24", batches = "1,2,4,8,16";
  int repeats = 7;
  std::int64_t whole_blocks = 0;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("depths", k.depths, "decoder blocks", Trait{.quick = "2,4,8"});
    visit("batches", k.batches, "sequences", Trait{.quick = "1,2,4"});
    visit("repeats", k.repeats, "timed steps", Trait{.quick = "3"});
    visit(
        "whole_blocks", k.whole_blocks,
        "decoder blocks of the model that these depths are a part of: a report extrapolates to so "
        "many; 0: none");
  }
};

/// steps: memory and time of a training step. gradients: distance from those of the reference.
enum class Kind { steps, gradients };

/// A row at one depth and batch, and what it is compared with.
struct StackPoint {
  Kind kind;
  ModelRow row, reference;
  std::size_t group;  ///< alike for those of one reference, depth and batch
};

ModelRow at_point(ModelRow row, std::int64_t depth, std::int64_t batch) {
  const std::string suffix = "_d" + std::to_string(depth) + "_b" + std::to_string(batch);
  row.name += suffix;
  row.against += suffix;
  row.model.decoder_layers = depth;
  row.model.blocks = 0;
  row.batch = batch;
  return row;
}

Kind kind_of(const RowFile& file, const ModelRow& reference) {
  switch (reference.model.residual_stack) {
    case ResidualStack::plain:
      return Kind::steps;
    case ResidualStack::reversible_stored:
      return Kind::gradients;
    case ResidualStack::reversible:
      break;
  }
  file.refuse(reference.name, "others are compared with it, but it has residual_stack " +
                                  print_value(reference.model.residual_stack) +
                                  "; compare steps with plain, gradients with reversible_stored");
}

/// What the wanted rows are compared with, each once.
std::vector<ModelRow> references_of(const RowFile& file, const std::vector<ModelRow>& rows,
                                    const std::vector<std::string>& wanted) {
  require_known_rows(wanted, names_of(rows), file.experiment);
  std::vector<ModelRow> references;
  for (const ModelRow& row : rows) {
    if (!is_wanted(wanted, row.name)) continue;
    if (!row.model.decoder_only()) {
      file.refuse(row.name, "it has an encoder; give encoder_layers = 0");
    }
    const auto is_its = [&row](const ModelRow& other) { return other.name == row.against; };
    if (std::none_of(references.begin(), references.end(), is_its)) {
      references.push_back(*std::find_if(rows.begin(), rows.end(), is_its));
    }
  }
  return references;
}

/// (depth, batch), each once.
std::vector<std::pair<std::int64_t, std::int64_t>> sweep(const ModelRow& reference, Kind kind,
                                                         const StackKnobs& knobs) {
  std::vector<std::pair<std::int64_t, std::int64_t>> found;
  for (const std::int64_t depth : parse_counts("depths", knobs.depths)) {
    found.emplace_back(depth, reference.batch);
  }
  const std::vector<std::int64_t> batches = parse_counts("batches", knobs.batches);
  if (kind == Kind::gradients) return found;
  for (const std::int64_t batch : batches) {
    const std::pair<std::int64_t, std::int64_t> own(reference.model.decoder_layers, batch);
    if (std::find(found.begin(), found.end(), own) == found.end()) found.push_back(own);
  }
  return found;
}

class StackStudy : public ModelStudy {
 public:
  StudyInfo info() const override {
    return {.name = "stacks",
            .program = "reversibility",
            .about = "measures what reversible stacks save and cost",
            .folder = "stacks",
            .example = "stacks/reversibility.cfg",
            .quick = "fewer depths, batches and steps"};
  }
  void flags(Knobs& knobs) override { knobs.add(knobs_); }

  std::vector<Point> points(const RowFile& file, const RunOptions& options) override {
    if (knobs_.repeats < 1) {
      throw UserError("--repeats is " + std::to_string(knobs_.repeats) + " but must be at least 1");
    }
    if (knobs_.whole_blocks < 0) {
      throw UserError("--whole_blocks is " + std::to_string(knobs_.whole_blocks) +
                      " but must be a number of blocks, or 0 for no such model");
    }
    quick_ = options.quick;
    const std::vector<ModelRow> rows = model_rows(file);
    std::vector<Point> points;
    std::size_t group = 0;
    for (const ModelRow& reference : references_of(file, rows, options.rows)) {
      const Kind kind = kind_of(file, reference);
      for (const auto& [depth, batch] : sweep(reference, kind, knobs_)) {
        ++group;
        for (const ModelRow& row : rows) {
          const bool is_oracle = kind == Kind::gradients && row.name == reference.name;
          if (row.against != reference.name || is_oracle || !is_wanted(options.rows, row.name)) {
            continue;
          }
          const StackPoint one{kind, at_point(row, depth, batch), at_point(reference, depth, batch),
                               group};
          points.push_back(point_at(one, row.name, options.threads.front()));
          stacks_.emplace(one.row.name, one);
        }
      }
    }
    if (points.empty()) {
      throw UserError(
          "nothing is left to measure: --rows names only what others are compared with");
    }
    return points;
  }

  /// Points of one reference, depth and batch.
  std::vector<std::vector<std::size_t>> groups(Points points) const override {
    return groups_by(points, [this](const Point& point) { return stack_of(point).group; });
  }

  Metric closing(const Point& point) const override {
    if (stack_of(point).kind == Kind::steps) return {.name = "step_ms", .unit = "ms"};
    return {.name = "gradient_error", .unit = "1"};
  }

  /// In processes of their own, so that nothing stays behind.
  void measure(Points group, Sink& sink) override {
    std::string names;
    for (const Point* point : group) names += (names.empty() ? "" : ", ") + point->row;
    sink.live(names);
    if (stack_of(*group.front()).kind == Kind::steps) {
      measure_steps(group, sink);
    } else {
      measure_gradients(group, sink);
    }
  }

 private:
  /// row: its name without depth and batch.
  Point point_at(const StackPoint& one, const std::string& row, int threads) const {
    const std::string depth = print_value(one.row.model.decoder_layers);
    Settings how = {{"quick", print_value(quick_)}, {"repeats", print_value(knobs_.repeats)}};
    if (knobs_.whole_blocks) how.emplace_back("whole_blocks", print_value(knobs_.whole_blocks));
    Point point = point_of(one.row, threads, settings_of(one.row), how);
    point.flags = {{"rows", row},
                   {"depths", depth},
                   {"batches", print_value(one.row.batch)},
                   {"decoder_layers", depth}};
    point.seconds = kSetUpSeconds + step_flops(one.row) / kRate * (knobs_.repeats + kFurtherSteps);
    return point;
  }

  static double step_flops(const ModelRow& row) {
    return Transformer(row.model).training_flops(row.batch, 0, row.model.max_length);
  }

  const StackPoint& stack_of(const Point& point) const { return stacks_.at(point.row); }

  /// The fastest linked library for products, and its rate on a large one: the ceiling of mfu.
  /// Libraries are compared only if there is something to measure.
  const std::pair<std::string, double>& library(int threads) {
    if (!library_) {
      library_ = in_child([&]() -> std::pair<std::string, double> {
        set_gemm_threads(threads);
        const std::string name = fastest_gemm(512, 512, 512).name;
        return {name, best_gemm_gflops(quick_ ? kQuickProductSize : kProductSize, threads)};
      });
    }
    return *library_;
  }

  void measure_steps(Points group, Sink& sink) {
    const int threads = group.front()->threads;
    const auto& [gemm, gflops] = library(threads);
    std::vector<ModelRow> rows;
    std::vector<std::vector<Metric>> found;
    for (const Point* point : group) {
      rows.push_back(stack_of(*point).row);
      found.push_back(
          in_child([&, &gemm = gemm] { return measure_stack_memory(rows.back(), gemm, threads); }));
    }
    const auto seconds = in_child(
        [&, &gemm = gemm] { return measure_stack_steps(rows, gemm, threads, knobs_.repeats); });
    for (std::size_t i = 0; i < group.size(); ++i) {
      std::vector<Metric>& metrics = found[i];
      const double flops = step_flops(rows[i]), stack_bytes = metrics.back().values.front();
      Metric mfu{.name = "mfu", .unit = "1"}, ms = closing(*group[i]);
      for (const double s : seconds[i]) {
        ms.values.push_back(1e3 * s);
        mfu.values.push_back(1e-9 * flops / s / gflops);
      }
      metrics.insert(
          metrics.end(),
          {{"step_flops", "FLOP", {flops}}, {"gemm_gflops", "GFLOP/s", {gflops}}, mfu, ms});
      char text[96];
      std::snprintf(text, sizeof text, " keeps %s, %.4g ms", readable_bytes(stack_bytes).c_str(),
                    summarize(ms.values).median);
      sink.close(*group[i], metrics, {.config = {{"gemm", gemm}}, .line = group[i]->row + text});
    }
  }

  void measure_gradients(Points group, Sink& sink) {
    const int threads = group.front()->threads, seeds = quick_ ? kQuickSeeds : kSeeds;
    const std::string& gemm = library(threads).first;
    for (const Point* point : group) {
      const StackPoint& one = stack_of(*point);
      const std::vector<Metric> errors = in_child(
          [&] { return measure_stack_errors(one.row, one.reference, gemm, threads, seeds); });
      char text[48];
      std::snprintf(text, sizeof text, " off by %.2g", summarize(errors.back().values).median);
      sink.close(*point, errors, {.config = {{"gemm", gemm}}, .line = point->row + text});
    }
  }

  StackKnobs knobs_;
  bool quick_ = false;
  std::map<std::string, StackPoint> stacks_;  ///< by the point's name
  std::optional<std::pair<std::string, double>> library_;
};

}  // namespace

std::unique_ptr<Study> make_stack_study() { return std::make_unique<StackStudy>(); }

}  // namespace scaling
