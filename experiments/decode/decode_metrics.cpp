// From samples and costs to records.
#include "experiments/decode/decode_metrics.h"

#include <cmath>
#include <cstdio>

#include "experiments/decode/decode_candidate.h"
#include "experiments/study/fingerprint.h"

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

void add_note(std::string& note, const std::string& more) {
  if (!more.empty()) note += (note.empty() ? "" : "; ") + more;
}

/// One value a kept decode, each metric in its own column.
struct Columns {
  std::vector<double> token_ms, block_ms, token_floor, block_floor, token_efficiency,
      block_efficiency;
  std::vector<double> rows_touched, read, fma;
  PerPart<std::vector<double>> seat_ms, seat_floor;
};

Columns columns_of(const Row& row, const Transformer& model, const Samples& samples) {
  const std::int64_t length = middle_length(row);
  const Cost token_cost = model.token_cost(row.batch, length, row.source_length);
  const Cost block_cost = model.block_cost(row.batch, length, row.source_length);
  const PerPart<Cost> seat_costs = model.block_cost_by_part(row.batch, length, row.source_length);
  const auto missing = double(model.config().decoder_layers - model.blocks());
  Columns c;
  const auto token_ms = [&](const Part& p) {
    return 1e3 * (p.times.token_seconds + missing * p.times.block_seconds);
  };
  const auto block_ms = [](const Part& p) { return 1e3 * p.times.block_seconds; };
  const auto floor_ms = [](const Part& p, const Cost& cost) {
    return 1e3 *
           floor_seconds(cost, p.ceilings.read_bytes_per_second, p.ceilings.fma_flops_per_second);
  };
  for (const Sample& sample : samples.kept) {
    const auto add = [&sample](std::vector<double>& column, const auto& value) {
      column.push_back(sample.median(value));
    };
    add(c.token_ms, token_ms);
    add(c.block_ms, block_ms);
    add(c.token_floor, [&](const Part& p) { return floor_ms(p, token_cost); });
    add(c.block_floor, [&](const Part& p) { return floor_ms(p, block_cost); });
    add(c.token_efficiency, [&](const Part& p) { return floor_ms(p, token_cost) / token_ms(p); });
    add(c.block_efficiency, [&](const Part& p) { return floor_ms(p, block_cost) / block_ms(p); });
    add(c.read, [](const Part& p) { return p.ceilings.read_bytes_per_second / 1e9; });
    add(c.fma, [](const Part& p) { return p.ceilings.fma_flops_per_second / 1e9; });
    c.rows_touched.push_back(sample.rows_touched);
    for (std::size_t seat = 0; seat < kParts; ++seat) {
      if (seat_costs[seat].empty()) continue;
      add(c.seat_ms[seat], [seat](const Part& p) { return 1e3 * p.times.seat_seconds[seat]; });
      add(c.seat_floor[seat], [&](const Part& p) { return floor_ms(p, seat_costs[seat]); });
    }
  }
  return c;
}

/// Collects records that differ in metric, value and status.
class Writer {
 public:
  explicit Writer(const Record& base) : base_(base) {}
  void measured(const std::string& metric, const char* unit, const std::vector<double>& values,
                Status status) {
    Record r = base_;
    r.metric = metric;
    r.unit = unit;
    r.status = status;
    r.set(summarize(values));
    records_.push_back(r);
  }
  void counted(const char* metric, const char* unit, double value) {
    measured(metric, unit, {value}, Status::ok);
  }
  std::vector<Record> take() { return std::move(records_); }

 private:
  const Record base_;
  std::vector<Record> records_;
};

std::string notes_of(const Row& row, const Transformer& model, const Samples& samples,
                     double precision) {
  std::string note;
  if (!model.config().encoder) add_note(note, "encoder output drawn at random");
  if (row.context) add_note(note, "keys and values of the context drawn at random");
  if (model.blocks() < model.config().decoder_layers) {
    add_note(note, std::to_string(model.blocks()) + " of " +
                       std::to_string(model.config().decoder_layers) +
                       " blocks held, token = blocks x block + rest");
  }
  if (samples.by_token) add_note(note, "each token between ceilings of its own");
  if (samples.restless) {
    add_note(note,
             "restless machine: decodes kept although the ceilings before and after differed "
             "by more than 5 %");
  }
  const double uncertainty = uncertainty_of(samples);
  if (!std::isfinite(uncertainty)) {
    add_note(note, std::to_string(samples.kept.size()) + " decodes, too few for a 95 % interval");
  } else if (uncertainty > precision) {
    add_note(note, "confidence interval " + percent(uncertainty));
  }
  return note;
}

/// The larger 95 % interval of the two efficiencies' medians, as a share of them.
double uncertainty_of_efficiency(const Columns& c) {
  return std::max(relative_uncertainty(c.token_efficiency),
                  relative_uncertainty(c.block_efficiency));
}

/// Why the row's times should not be believed, or nothing.
std::string doubts_of(const Columns& c, const Samples& samples) {
  std::string doubts;
  // Too few decodes for an interval are no reason for doubt by themselves: notes_of says so.
  const double uncertainty = uncertainty_of_efficiency(c);
  if (std::isfinite(uncertainty) ? uncertainty > kMaxEfficiencyUncertainty : samples.restless) {
    add_note(doubts, std::string(samples.restless ? "the ceilings before and after disagreed too "
                                                    "often, and "
                                                  : "") +
                         "the median efficiency is uncertain by more than " +
                         percent(kMaxEfficiencyUncertainty));
  }
  const double efficiency =
      std::max(summarize(c.token_efficiency).median, summarize(c.block_efficiency).median);
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

std::string key_of(const Row& row, const Options& options, int threads, const Provenance& p) {
  std::string text = row.name + "|" + row.against;
  for (const auto& [name, value] : settings_of(row)) text += "|" + name + "=" + value;
  text += std::string("|") + name_of(options.protocol) + (options.quick ? "|quick" : "") +
          (options.pin ? "|pin" : "") + "|" + std::to_string(threads) + "|" + p.machine + "|" +
          p.commit;
  // A dirty tree has no name of its own; the program made from it has.
  if (p.dirty) text += "|" + p.program;
  return fingerprint(text);
}

}  // namespace

Record record_base(const Experiment& experiment, const Row& row, const Options& options,
                   int threads, const Provenance& provenance) {
  Record r;
  r.experiment = experiment.name;
  r.row = row.name;
  r.against = row.against;
  r.threads = threads;
  for (const auto& [name, value] : settings_of(row)) r.config[name] = typed_value(value);
  r.config["protocol"] = name_of(options.protocol);
  r.config["quick"] = options.quick;
  r.config["pin"] = options.pin;
  r.command = command_of(options, row.name, threads);
  r.seed = row.model.seed;
  r.key = key_of(row, options, threads, provenance);
  r.provenance = provenance;
  r.date = utc_date();
  return r;
}

std::vector<Record> decode_records(const Record& base, const Row& row, Transformer& model,
                                   const Samples& samples, double precision,
                                   const std::string& note) {
  const Columns c = columns_of(row, model, samples);
  const std::string doubts = doubts_of(c, samples);
  const bool partial = model.blocks() < model.config().decoder_layers;
  const Status block_status = !doubts.empty() ? Status::untrusted
                              : partial       ? Status::scaled_down
                                              : Status::ok;
  const Status token_status = !doubts.empty() ? Status::untrusted
                              : partial       ? Status::extrapolated
                                              : Status::ok;
  Record shared = base;
  shared.config["blocks_held"] = model.blocks();
  shared.note = doubts;
  add_note(shared.note, notes_of(row, model, samples, precision));
  add_note(shared.note, note);
  shared.ceilings = {summarize(c.read).median * 1e9, summarize(c.fma).median * 1e9};
  const Phase token = total(model.token_cost(row.batch, middle_length(row), row.source_length));
  const Phase block = total(model.block_cost(row.batch, middle_length(row), row.source_length));

  Writer write(shared);
  write.counted("parameters", "weights", double(model.parameter_count()));
  write.counted("held_parameters", "weights", held_parameters(model));
  write.counted("blocks_held", "blocks", double(model.blocks()));
  write.counted("token_weights_read", "weights", token.weights);
  write.counted("block_weights_read", "weights", block.weights);
  write.counted("token_bytes", "B", token.bytes);
  write.counted("block_bytes", "B", block.bytes);
  write.counted("token_flops", "FLOP", token.flops);
  write.counted("block_flops", "FLOP", block.flops);
  write.counted("discarded_pairs", "decodes", double(samples.set_aside.size()));
  write.measured("rows_touched", "rows", c.rows_touched, Status::ok);
  write.measured("read_gbps", "GB/s", c.read, Status::ok);
  write.measured("fma_gflops", "GFLOP/s", c.fma, Status::ok);
  for (std::size_t seat = 0; seat < kParts; ++seat) {
    if (c.seat_ms[seat].empty()) continue;
    const std::string name = kPartNames[seat];
    write.measured("seat." + name + ".ms", "ms", c.seat_ms[seat], block_status);
    write.measured("seat." + name + ".floor_ms", "ms", c.seat_floor[seat], block_status);
  }
  write.measured("block_floor_ms", "ms", c.block_floor, block_status);
  write.measured("block_efficiency", "1", c.block_efficiency, block_status);
  write.measured("token_floor_ms", "ms", c.token_floor, token_status);
  write.measured("token_efficiency", "1", c.token_efficiency, token_status);
  write.measured("block_ms", "ms", c.block_ms, block_status);
  write.measured(kClosingMetric, "ms", c.token_ms, token_status);
  return write.take();
}

Record missing_record(const Record& base, Status status, const std::string& why) {
  Record r = base;
  r.metric = kClosingMetric;
  r.unit = "ms";
  r.status = status;
  r.note = why;
  return r;
}

}  // namespace scaling
