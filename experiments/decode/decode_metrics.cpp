// From trials and costs to metrics.
#include "experiments/decode/decode_metrics.h"

#include <cmath>
#include <cstdio>

#include "kernels/libraries.h"

namespace scaling {
namespace {

// Above this the floor is not a floor: something is measured or counted wrongly.
constexpr double kMaxEfficiency = 1.03;
constexpr double kMaxEfficiencyUncertainty = 0.05;  // of the median, 95 % interval

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

/// One value a kept decode, each metric in its own vector.
struct Measured {
  std::vector<double> token_ms, block_ms, token_floor, block_floor, token_efficiency,
      block_efficiency;
  std::vector<double> rows_touched, read, fma;
  PerPart<std::vector<double>> part_ms, part_floor;
};

Measured measured(const DecodeModel& decoded, const Trials& trials) {
  const Cost token_cost = decoded.token_cost(), block_cost = decoded.block_cost();
  const PerPart<Cost> part_costs = decoded.block_cost_by_part();
  const auto missing = double(decoded.row.model.decoder_layers - decoded.model->blocks());
  Measured m;
  const auto token_ms = [missing](const Part& p) {
    return 1e3 * (p.values[kTokenSeconds] + missing * p.values[kBlockSeconds]);
  };
  const auto block_ms = [](const Part& p) { return 1e3 * p.values[kBlockSeconds]; };
  const auto floor_ms = [](const Part& p, const Cost& cost) {
    return 1e3 *
           floor_seconds(cost, p.ceilings.read_bytes_per_second, p.ceilings.fma_flops_per_second);
  };
  for (const Sample& sample : trials.kept) {
    const auto add = [&sample](std::vector<double>& values, const auto& value) {
      values.push_back(sample.median(value));
    };
    add(m.token_ms, token_ms);
    add(m.block_ms, block_ms);
    add(m.token_floor, [&](const Part& p) { return floor_ms(p, token_cost); });
    add(m.block_floor, [&](const Part& p) { return floor_ms(p, block_cost); });
    add(m.token_efficiency, [&](const Part& p) { return floor_ms(p, token_cost) / token_ms(p); });
    add(m.block_efficiency, [&](const Part& p) { return floor_ms(p, block_cost) / block_ms(p); });
    add(m.read, [](const Part& p) { return p.ceilings.read_bytes_per_second / 1e9; });
    add(m.fma, [](const Part& p) { return p.ceilings.fma_flops_per_second / 1e9; });
    m.rows_touched.push_back(sample.column(kRowsTouched));
    for (std::size_t part = 0; part < kParts; ++part) {
      if (part_costs[part].empty()) continue;
      add(m.part_ms[part], [part](const Part& p) { return 1e3 * p.values[kPartSeconds + part]; });
      add(m.part_floor[part], [&](const Part& p) { return floor_ms(p, part_costs[part]); });
    }
  }
  return m;
}

std::string notes_of(const DecodeModel& decoded, const Trials& trials, double precision) {
  const DecodeRow& row = decoded.row;
  std::string note;
  if (!row.model.encoder) add_note(note, "encoder output drawn at random");
  if (row.decode.context) add_note(note, "keys and values of the context drawn at random");
  if (decoded.model->blocks() < row.model.decoder_layers) {
    add_note(note, std::to_string(decoded.model->blocks()) + " of " +
                       std::to_string(row.model.decoder_layers) +
                       " blocks held, token = blocks x block + rest");
  }
  if (trials.by_part) add_note(note, "each token between ceilings of its own");
  if (trials.unstable) {
    add_note(note,
             "unstable machine: decodes kept although the ceilings before and after differed "
             "by more than 5 %");
  }
  const double uncertainty = uncertainty_of(trials, kDecisiveColumns);
  if (!std::isfinite(uncertainty)) {
    add_note(note, std::to_string(trials.kept.size()) + " decodes, too few for a 95 % interval");
  } else if (uncertainty > precision) {
    add_note(note, "confidence interval " + percent(uncertainty));
  }
  return note;
}

/// Why the row's times should not be believed, or nothing.
std::string doubts_of(const Measured& m, const Trials& trials) {
  std::string doubts;
  // Too few decodes for an interval are no reason for doubt by themselves: notes_of says so.
  const double uncertainty =
      std::max(relative_uncertainty(m.token_efficiency), relative_uncertainty(m.block_efficiency));
  if (std::isfinite(uncertainty) ? uncertainty > kMaxEfficiencyUncertainty : trials.unstable) {
    add_note(doubts, std::string(trials.unstable ? "the ceilings before and after disagreed too "
                                                   "often, and "
                                                 : "") +
                         "the median efficiency is uncertain by more than " +
                         percent(kMaxEfficiencyUncertainty));
  }
  const double efficiency =
      std::max(summarize(m.token_efficiency).median, summarize(m.block_efficiency).median);
  if (efficiency > kMaxEfficiency) {
    add_note(doubts, "faster than its floor (efficiency " + percent(efficiency) + ")");
  }
  return doubts;
}

double held_parameters(Transformer& model) {
  double count = 0;
  model.visit_parameters([&count](Parameter& parameter) { count += double(parameter.count()); });
  return count;
}

std::string line_of(const Measured& m, Status status, const std::string& note) {
  char text[160];
  std::snprintf(text, sizeof text, ": token %.4g ms, block %.4g ms (%.0f %% of its floor), %s",
                summarize(m.token_ms).median, summarize(m.block_ms).median,
                100 * summarize(m.block_efficiency).median, name_of(status));
  return text + (note.empty() ? "" : ": " + note);
}

}  // namespace

DecodeNumbers decode_numbers(const DecodeModel& decoded, const Trials& trials, double precision) {
  Transformer& model = *decoded.model;
  const Measured m = measured(decoded, trials);
  const std::string doubts = doubts_of(m, trials);
  const bool partial = model.blocks() < decoded.row.model.decoder_layers;
  const auto status_if = [&](Status partial_status) {
    return !doubts.empty() ? Status::untrusted : partial ? partial_status : Status::ok;
  };
  const Status block_status = status_if(Status::scaled_down);
  const Status token_status = status_if(Status::extrapolated);
  const Phase token = total(decoded.token_cost()), block = total(decoded.block_cost());

  DecodeNumbers numbers;
  numbers.extra.config["blocks_held"] = model.blocks();
  numbers.extra.ceilings = {summarize(m.read).median * 1e9, summarize(m.fma).median * 1e9};
  numbers.extra.note = doubts;
  add_note(numbers.extra.note, notes_of(decoded, trials, precision));
  add_note(numbers.extra.note, library_description(decoded.row.decode.kernels));
  numbers.extra.line = line_of(m, token_status, numbers.extra.note);

  std::vector<Metric>& all = numbers.metrics;
  all = {{"parameters", "weights", {double(model.parameter_count())}},
         {"held_parameters", "weights", {held_parameters(model)}},
         {"blocks_held", "blocks", {double(model.blocks())}},
         {"token_weights_read", "weights", {token.weights}},
         {"block_weights_read", "weights", {block.weights}},
         {"token_bytes", "B", {token.bytes}},
         {"block_bytes", "B", {block.bytes}},
         {"token_flops", "FLOP", {token.flops}},
         {"block_flops", "FLOP", {block.flops}},
         {"discarded_pairs", "decodes", {double(trials.rejected.size())}},
         {"rows_touched", "rows", m.rows_touched},
         {"read_gbps", "GB/s", m.read},
         {"fma_gflops", "GFLOP/s", m.fma}};
  for (std::size_t part = 0; part < kParts; ++part) {
    if (m.part_ms[part].empty()) continue;
    const std::string name = std::string("part.") + kPartNames[part];
    all.push_back({name + ".ms", "ms", m.part_ms[part], block_status});
    all.push_back({name + ".floor_ms", "ms", m.part_floor[part], block_status});
  }
  all.push_back({"block_floor_ms", "ms", m.block_floor, block_status});
  all.push_back({"block_efficiency", "1", m.block_efficiency, block_status});
  all.push_back({"token_floor_ms", "ms", m.token_floor, token_status});
  all.push_back({"token_efficiency", "1", m.token_efficiency, token_status});
  all.push_back({"block_ms", "ms", m.block_ms, block_status});
  all.push_back({kTokenMs, "ms", m.token_ms, token_status});
  return numbers;
}

}  // namespace scaling
