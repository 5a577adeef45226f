// Sizes, estimates and their texts.
#include "experiments/decode/plan.h"

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "experiments/decode/decode_candidate.h"
#include "experiments/decode/decode_metrics.h"
#include "experiments/instruments/interleave.h"
#include "experiments/study/progress.h"
#include "kernels/check.h"

namespace scaling {
namespace {

// For estimates only: bytes a second when weights are drawn, and when a token reads them.
constexpr double kDrawRate = 1.0e9, kReadRate = 30e9;

std::string reason_unavailable(const std::string& kernels) {
  try {
    find_kernel_set(kernels);
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}

double measure_seconds(const Row& row, const Transformer& model, const ProtocolSettings& settings) {
  const Phase read = total(model.held_token_cost(row.batch, middle_length(row), row.source_length));
  const int tokens =
      settings.tokens + (settings.kind == Protocol::paper ? settings.warm_up_tokens : 0);
  const double token_seconds = read.bytes / kReadRate;
  if (settings.kind == Protocol::paper) return settings.min_decodes * tokens * token_seconds;
  double decode_seconds = tokens * token_seconds;
  if (token_seconds > kLongToken) {  // a reading of the ceilings takes seven passes
    decode_seconds += (tokens - settings.dropped + 1) * 7 *
                      std::min(read.bytes, double(kMaxCeilingBytes)) / kReadRate;
  }
  return std::max(settings.min_decodes * decode_seconds, settings.budget_seconds);
}

std::string numbers(const std::vector<int>& values) {
  std::string text;
  for (const int value : values) {
    if (!text.empty()) text += ',';
    text += std::to_string(value);
  }
  return text;
}

std::string phase_text(const char* name, const Phase& phase) {
  char text[128];
  std::snprintf(text, sizeof text, "  %s: %.0f weights read, %s, %.3f GFLOP\n", name, phase.weights,
                readable_bytes(phase.bytes).c_str(), phase.flops / 1e9);
  return text;
}

}  // namespace

Plan make_plan(const Experiment& experiment, const std::vector<Row>& rows, const Options& options,
               const Provenance& provenance, const RecordFile* file) {
  const ProtocolSettings settings = settings_for(options);
  Plan plan;
  for (const Row& row : rows) {
    PlannedRow planned;
    planned.row = row;
    try {
      planned.model = std::make_unique<Transformer>(row.model);
    } catch (const UserError& error) {
      throw UserError(options.config + ": row '" + row.name + "': " + error.what());
    }
    planned.unavailable = reason_unavailable(row.kernels);
    planned.bytes = planned.model->held_bytes() + cache_bytes(row, *planned.model);
    planned.load_seconds = double(planned.bytes) / kDrawRate;
    planned.measure_seconds = measure_seconds(row, *planned.model, settings);
    for (const int threads : options.threads) {
      const std::string key = record_base(experiment, row, options, threads, provenance).key;
      const bool finished = file && !options.force && file->finished(key);
      (finished ? planned.finished : planned.to_do).push_back(threads);
    }
    plan.push_back(std::move(planned));
  }
  return plan;
}

double estimated_seconds(const Plan& plan) {
  double seconds = 0;
  for (const PlannedRow& row : plan) {
    if (row.to_do.empty() || !row.unavailable.empty()) continue;
    seconds += row.load_seconds + row.measure_seconds * double(row.to_do.size());
  }
  return seconds;
}

std::string plan_text(const Experiment& experiment, const Plan& plan, const Options& options) {
  std::ostringstream text;
  text << experiment.name << (experiment.title.empty() ? "" : ": ") << experiment.title << "\n"
       << "protocol " << name_of(options.protocol) << (options.quick ? ", quick" : "")
       << "; at most about " << readable_seconds(estimated_seconds(plan)) << "\n";
  for (const PlannedRow& row : plan) {
    text << "  " << row.row.name << ": ";
    if (!row.unavailable.empty()) {
      text << "skipped, " << row.unavailable << "\n";
      continue;
    }
    if (!row.finished.empty()) {
      text << numbers(row.finished) << " threads already measured; --force repeats. ";
    }
    if (!row.to_do.empty()) {
      text << numbers(row.to_do) << " threads, " << readable_bytes(double(row.bytes)) << ", "
           << row.model->blocks() << " of " << row.model->config().decoder_layers << " blocks, "
           << readable_seconds(row.load_seconds + row.measure_seconds * double(row.to_do.size()));
    }
    text << "\n";
  }
  return text.str();
}

std::string cost_text(const Plan& plan) {
  std::ostringstream text;
  for (const PlannedRow& planned : plan) {
    const Row& row = planned.row;
    const Transformer& model = *planned.model;
    text << row.name << " (against " << row.against << ")\n ";
    for (const auto& [name, value] : settings_of(row)) text << " " << name << "=" << value;
    text << "\n  parameters " << model.parameter_count() << ", held "
         << readable_bytes(double(model.held_bytes())) << " in " << model.blocks() << " of "
         << model.config().decoder_layers << " blocks, caches "
         << readable_bytes(double(cache_bytes(row, model))) << "\n";
    const std::int64_t length = middle_length(row);
    text << phase_text("token", total(model.token_cost(row.batch, length, row.source_length)))
         << phase_text("block", total(model.block_cost(row.batch, length, row.source_length)));
  }
  return text.str();
}

}  // namespace scaling
