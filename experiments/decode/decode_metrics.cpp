// From trials and costs to metrics.
#include "experiments/decode/decode_metrics.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>

#include "experiments/instruments/interleave.h"
#include "kernels/libraries.h"

namespace scaling {
namespace {

constexpr double kMaxEfficiencyUncertainty = 0.05;  // of the median, 95 % interval
constexpr const char* kBlockMs = "block_ms";
constexpr const char *kBlockEfficiency = "block_efficiency", *kTokenEfficiency = "token_efficiency";

std::string percent(double share) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f %%", 100 * share);
  return text;
}

/// One value a kept decode: the median of value(part) over its parts.
template <class Value>
Metric each(const Trials& trials, const std::string& name, const char* unit, const Value& value,
            Status status = Status::ok) {
  Metric metric{name, unit, {}, status};
  for (const Sample& sample : trials.kept) metric.values.push_back(sample.median(value));
  return metric;
}

/// The same of floor over time, each the decode's own median: what its samples give a reader.
template <class Floor, class Time>
Metric efficiency(const Trials& trials, const char* name, const Floor& floor, const Time& time,
                  Status status) {
  Metric metric{name, "1", {}, status};
  for (const Sample& sample : trials.kept) {
    metric.values.push_back(sample.median(floor) / sample.median(time));
  }
  return metric;
}

double block_ms(const Part& p) { return 1e3 * p.values[kBlockSeconds]; }

/// Milliseconds of a token of the whole model: blocks that are not held take what held ones take.
auto token_ms_of(const DecodeModel& decoded) {
  const auto missing = double(decoded.row.model.decoder_layers - decoded.model->blocks());
  return [missing](const Part& p) {
    return 1e3 * (p.values[kTokenSeconds] + missing * p.values[kBlockSeconds]);
  };
}

/// Milliseconds of both floors of a cost, which outlives them, under a part's own ceilings.
auto floor_ms(const Cost& cost) {
  return [&cost](const Part& p) {
    return 1e3 *
           floor_seconds(cost, p.ceilings.read_bytes_per_second, p.ceilings.fma_flops_per_second);
  };
}
auto overlap_ms(const Cost& cost) {
  return [&cost](const Part& p) {
    return 1e3 *
           overlap_seconds(cost, p.ceilings.read_bytes_per_second, p.ceilings.fma_flops_per_second);
  };
}

/// Times, floors and their ratios, kTokenMs last.
std::vector<Metric> times_of(const DecodeModel& decoded, const Trials& trials) {
  const bool missing = decoded.model->blocks() < decoded.row.model.decoder_layers;
  const Status of_block = missing ? Status::scaled_down : Status::ok;
  const Status of_token = missing ? Status::extrapolated : Status::ok;
  const auto token_ms = token_ms_of(decoded);
  const PerPart<Cost> parts = decoded.count(&Transformer::block_cost_by_part);
  const Cost block = decoded.count(&Transformer::block_cost);
  const Cost token = decoded.count(&Transformer::token_cost);
  std::vector<Metric> times;
  for (std::size_t part = 0; part < kParts; ++part) {
    if (parts[part].empty()) continue;
    const std::string name = std::string("part.") + kPartNames[part];
    const auto part_ms = [part](const Part& p) { return 1e3 * p.values[kPartSeconds + part]; };
    times.push_back(each(trials, name + ".ms", "ms", part_ms, of_block));
    times.push_back(each(trials, name + ".floor_ms", "ms", floor_ms(parts[part]), of_block));
  }
  times.push_back(each(trials, "block_overlap_floor_ms", "ms", overlap_ms(block), of_block));
  times.push_back(
      efficiency(trials, "block_overlap_efficiency", overlap_ms(block), block_ms, of_block));
  times.push_back(each(trials, "token_overlap_floor_ms", "ms", overlap_ms(token), of_token));
  times.push_back(
      efficiency(trials, "token_overlap_efficiency", overlap_ms(token), token_ms, of_token));
  times.push_back(each(trials, "block_floor_ms", "ms", floor_ms(block), of_block));
  times.push_back(efficiency(trials, kBlockEfficiency, floor_ms(block), block_ms, of_block));
  times.push_back(each(trials, "token_floor_ms", "ms", floor_ms(token), of_token));
  times.push_back(efficiency(trials, kTokenEfficiency, floor_ms(token), token_ms, of_token));
  times.push_back(each(trials, kBlockMs, "ms", block_ms, of_block));
  times.push_back(each(trials, kTokenMs, "ms", token_ms, of_token));
  return times;
}

/// Barriers that a block passes in each of its parts: counted, whatever is doubted of times.
std::vector<Metric> barriers_of(const DecodeModel& decoded, const Trials& trials) {
  std::vector<Metric> counts;
  const PerPart<Cost> parts = decoded.count(&Transformer::block_cost_by_part);
  for (std::size_t part = 0; part < kParts; ++part) {
    if (parts[part].empty()) continue;
    counts.push_back(each(trials, std::string("part.") + kPartNames[part] + ".barriers", "barriers",
                          [part](const Part& p) { return p.values[kPartBarriers + part]; }));
  }
  return counts;
}

const std::vector<double>& values_of(const std::vector<Metric>& metrics, const char* name) {
  return std::find_if(metrics.begin(), metrics.end(),
                      [name](const Metric& metric) { return metric.name == name; })
      ->values;
}

double median_of(const std::vector<Metric>& metrics, const char* name) {
  return summarize(values_of(metrics, name)).median;
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
std::string doubts_of(const std::vector<Metric>& times, bool unstable) {
  std::string doubts;
  double uncertainty = 0, efficiency = 0;
  for (const char* name : {kTokenEfficiency, kBlockEfficiency}) {
    uncertainty = std::max(uncertainty, relative_uncertainty(values_of(times, name)));
    efficiency = std::max(efficiency, median_of(times, name));
  }
  // Too few decodes for an interval are no reason for doubt by themselves: notes_of says so.
  if (std::isfinite(uncertainty) ? uncertainty > kMaxEfficiencyUncertainty : unstable) {
    add_note(doubts, std::string(unstable ? "the ceilings before and after disagreed too often, "
                                            "and "
                                          : "") +
                         "the median efficiency is uncertain by more than " +
                         percent(kMaxEfficiencyUncertainty));
  }
  if (efficiency > kMaxEfficiency) {
    add_note(doubts, "faster than its floor (efficiency " + percent(efficiency) + ")");
  }
  return doubts;
}

/// Six digits, which is more than any of these numbers is known to; null: unknown.
nlohmann::ordered_json rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return std::strtod(text, nullptr);
}

/// [bytes, FLOPs, how many there are], so that floors can be made again at any rates.
nlohmann::ordered_json phases_of(const Cost& cost) {
  std::map<std::pair<double, double>, int> counts;
  for (const Phase& phase : cost) ++counts[{phase.bytes, phase.flops}];
  auto phases = nlohmann::ordered_json::array();
  for (const auto& [phase, count] : counts) phases.push_back({phase.first, phase.second, count});
  return phases;
}

/// A line a decode, of long tokens a line a token, rejected ones too: what every median and
/// interval is made of.
nlohmann::ordered_json samples_of(const DecodeModel& decoded, const Trials& trials) {
  const auto token_ms = token_ms_of(decoded);
  std::vector<std::pair<const Sample*, bool>> all;
  for (const Sample& sample : trials.kept) all.emplace_back(&sample, true);
  for (const Sample& sample : trials.rejected) all.emplace_back(&sample, false);
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.first->round < b.first->round; });
  const Cost block = decoded.count(&Transformer::block_cost);
  const Cost token = decoded.count(&Transformer::token_cost);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& [sample, kept] : all) {
    for (const Part& part : sample->parts) {
      nlohmann::ordered_json row = {sample->round,
                                    rounded(sample->began + part.values[kBegan]),
                                    kept ? 1 : 0,
                                    rounded(token_ms(part)),
                                    rounded(block_ms(part)),
                                    rounded(floor_ms(token)(part)),
                                    rounded(floor_ms(block)(part)),
                                    rounded(overlap_ms(token)(part)),
                                    rounded(overlap_ms(block)(part)),
                                    rounded(part.ceilings.read_bytes_per_second / 1e9),
                                    rounded(part.ceilings.fma_flops_per_second / 1e9)};
      for (std::size_t c = kReadBefore; c <= kHugePages; ++c) {
        row.push_back(rounded(part.values[c]));
      }
      row.push_back(rounded(1e9 * part.values[kLoadApart]));
      auto tokens = nlohmann::ordered_json::array();
      for (std::size_t c = kTokens; c < part.values.size(); ++c) {
        tokens.push_back(rounded(1e3 * part.values[c]));
      }
      row.push_back(std::move(tokens));
      rows.push_back(std::move(row));
    }
  }
  return {{"columns",
           {"round",
            "at_s",
            "kept",
            kTokenMs,
            kBlockMs,
            "token_floor_ms",
            "block_floor_ms",
            "token_overlap_floor_ms",
            "block_overlap_floor_ms",
            "read_gbps",
            "fma_gflops",
            "read_before_gbps",
            "state_read_gbps",
            "barrier_us",
            "steal",
            "pressure",
            "switches",
            "load",
            "huge_pages",
            "load_apart_ns",
            "held_tokens_ms"}},
          {"rows", std::move(rows)},
          {"phases", {{"token", phases_of(token)}, {"block", phases_of(block)}}}};
}

double held_parameters(Transformer& model) {
  double count = 0;
  model.visit_parameters([&count](Parameter& parameter) { count += double(parameter.count()); });
  return count;
}

}  // namespace

DecodeNumbers decode_numbers(const DecodeModel& decoded, const Trials& trials, double precision) {
  Transformer& model = *decoded.model;
  std::vector<Metric> times = times_of(decoded, trials);
  DecodeNumbers numbers;
  Extra& extra = numbers.extra;
  extra.note = doubts_of(times, trials.unstable);
  if (!extra.note.empty()) {
    for (Metric& time : times) time.status = Status::untrusted;
  }
  add_note(extra.note, notes_of(decoded, trials, precision));
  add_note(extra.note, library_description(decoded.row.decode.kernels));
  const Metric read = each(trials, "read_gbps", "GB/s",
                           [](const Part& p) { return p.ceilings.read_bytes_per_second / 1e9; });
  const Metric fma = each(trials, "fma_gflops", "GFLOP/s",
                          [](const Part& p) { return p.ceilings.fma_flops_per_second / 1e9; });
  extra.samples = samples_of(decoded, trials);
  extra.config["blocks_held"] = model.blocks();
  extra.ceilings = {summarize(read.values).median * 1e9, summarize(fma.values).median * 1e9};
  char text[160];
  std::snprintf(text, sizeof text, ": token %.4g ms, block %.4g ms (%.0f %% of its floor), %s",
                median_of(times, kTokenMs), median_of(times, kBlockMs),
                100 * median_of(times, kBlockEfficiency), name_of(times.back().status));
  extra.line = text + (extra.note.empty() ? "" : ": " + extra.note);

  const Phase token = total(decoded.count(&Transformer::token_cost));
  const Phase block = total(decoded.count(&Transformer::block_cost));
  numbers.metrics = {
      {"parameters", "weights", {double(model.parameter_count())}},
      {"held_parameters", "weights", {held_parameters(model)}},
      {"blocks_held", "blocks", {double(model.blocks())}},
      {"token_weights_read", "weights", {token.weights}},
      {"block_weights_read", "weights", {block.weights}},
      {"token_bytes", "B", {token.bytes}},
      {"block_bytes", "B", {block.bytes}},
      {"token_flops", "FLOP", {token.flops}},
      {"block_flops", "FLOP", {block.flops}},
      {"discarded_pairs", "decodes", {double(trials.rejected.size())}},
      each(trials, "rows_touched", "rows", [](const Part& p) { return p.values[kRowsTouched]; }),
      read,
      fma};
  for (Metric& count : barriers_of(decoded, trials)) numbers.metrics.push_back(std::move(count));
  numbers.metrics.insert(numbers.metrics.end(), times.begin(), times.end());
  return numbers;
}

}  // namespace scaling
