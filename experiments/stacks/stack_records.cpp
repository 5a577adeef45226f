// One process for the memory of each row, one for the steps of a group, one for each pair of
// gradients.
#include "experiments/stacks/stack_records.h"

#include <cmath>
#include <utility>

#include "experiments/instruments/child_process.h"
#include "experiments/stacks/stack_measure.h"
#include "kernels/gemm.h"
#include "kernels/gemm_rate.h"

namespace scaling {
namespace {

constexpr std::int64_t kProductSize = 2048, kQuickProductSize = 512;
constexpr int kSeeds = 3, kQuickSeeds = 1;

}  // namespace

Library fastest_library(int threads, bool quick) {
  const nlohmann::json found = in_child([threads, quick]() -> nlohmann::json {
    set_gemm_threads(threads);
    const std::string name = find_gemm("auto").name;
    return {{"name", name},
            {"gflops", best_gemm_gflops(quick ? kQuickProductSize : kProductSize, threads)}};
  });
  return {found["name"], found["gflops"]};
}

StackMeasurement::StackMeasurement(const Experiment& experiment, const StackOptions& options,
                                   const Provenance& provenance, Library library)
    : experiment_(experiment),
      options_(options),
      provenance_(provenance),
      library_(std::move(library)) {}

std::vector<Record> StackMeasurement::measure(const StackGroup& group) const {
  return group.kind == StackGroup::Kind::steps ? measure_steps(group) : measure_gradients(group);
}

std::vector<Record> StackMeasurement::failures(const StackGroup& group,
                                               const std::string& why) const {
  std::vector<Record> records;
  for (const Row& row : group.rows) {
    Record failed = record(row, closing_metric(group.kind), "", {});
    failed.value = std::nan("");
    failed.status = Status::failed;
    failed.note = why;
    records.push_back(failed);
  }
  return records;
}

Record StackMeasurement::record(const Row& row, const std::string& metric, const std::string& unit,
                                const std::vector<double>& values) const {
  Record r = stack_record(experiment_, row, options_, provenance_);
  r.config["gemm"] = library_.name;
  r.metric = metric;
  r.unit = unit;
  r.set(summarize(values));
  return r;
}

std::vector<Record> StackMeasurement::measure_steps(const StackGroup& group) const {
  const StackSetting setting = {library_.name, options_.threads};
  std::vector<Record> records;
  for (const Row& row : group.rows) {
    // Read as JSON, whose names are those of the metrics.
    const nlohmann::json memory =
        in_child([&] { return nlohmann::json(measure_stack_memory(row, setting)); });
    for (const auto& [metric, value] : memory.items()) {
      // The peak is none where the system does not tell.
      if (value.is_number()) records.push_back(record(row, metric, "B", {value.get<double>()}));
    }
  }
  const auto steps =
      in_child([&] {
        return nlohmann::json(measure_stack_steps(group.rows, setting, options_.repeats));
      }).get<StackSteps>();
  for (std::size_t i = 0; i < group.rows.size(); ++i) {
    const Row& row = group.rows[i];
    std::vector<double> ms, mfu;
    for (const double seconds : steps.seconds[i]) {
      ms.push_back(1e3 * seconds);
      mfu.push_back(1e-9 * steps.flops[i] / seconds / library_.gflops);
    }
    records.push_back(record(row, "step_flops", "FLOP", {steps.flops[i]}));
    records.push_back(record(row, "gemm_gflops", "GFLOP/s", {library_.gflops}));
    records.push_back(record(row, "mfu", "1", mfu));
    records.push_back(record(row, closing_metric(group.kind), "ms", ms));
  }
  return records;
}

std::vector<Record> StackMeasurement::measure_gradients(const StackGroup& group) const {
  const StackSetting setting = {library_.name, options_.threads};
  const int seeds = options_.quick ? kQuickSeeds : kSeeds;
  std::vector<Record> records;
  for (const Row& row : group.rows) {
    const auto errors =
        in_child([&] {
          return nlohmann::json(measure_stack_errors(row, group.reference, setting, seeds));
        }).get<StackErrors>();
    records.push_back(record(row, "reconstruction_error", "1", errors.reconstruction));
    records.push_back(record(row, closing_metric(group.kind), "1", errors.gradient));
  }
  return records;
}

}  // namespace scaling
