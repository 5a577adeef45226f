// Flags to options, rows to groups at every depth and batch.
#include "experiments/stacks/stack_plan.h"

#include <algorithm>
#include <utility>

#include "experiments/decode/decode_metrics.h"
#include "experiments/study/counts.h"
#include "experiments/study/fingerprint.h"
#include "experiments/study/flags.h"
#include "kernels/check.h"

namespace scaling {
namespace {

namespace po = boost::program_options;

constexpr const char* kDepths = "2,4,8,12,16,24";
constexpr const char* kBatches = "1,2,4,8,16";
constexpr const char* kQuickDepths = "2,4,8";
constexpr const char* kQuickBatches = "1,2,4";
constexpr int kRepeats = 7, kQuickRepeats = 3;

po::options_description own_flags() {
  const auto with_default = [](const char* what, const std::string& full,
                               const std::string& quick) {
    return std::string(what) + "; default " + full + ", with --quick " + quick;
  };
  po::options_description flags("reversibility measures what reversible stacks save and cost", 100);
  auto add = flags.add_options();
  add("config", po::value<std::string>(), "the experiment, a file of experiments/configs");
  add("rows", po::value<std::string>(), "only these rows, a,b,c");
  add("depths", po::value<std::string>(),
      with_default("decoder blocks", kDepths, kQuickDepths).c_str());
  add("batches", po::value<std::string>(),
      with_default("sequences", kBatches, kQuickBatches).c_str());
  add("threads", po::value<std::string>()->default_value("all"), "one number of threads, or all");
  add("repeats", po::value<int>(),
      with_default("timed steps", std::to_string(kRepeats), std::to_string(kQuickRepeats)).c_str());
  add("results", po::value<std::string>(), "folder of records; default results/local/<machine>");
  add("force", "measure finished rows again");
  add("quick", "fewer depths, batches and steps");
  add("dry-run", "print what would be measured; measure nothing");
  add("help", "this text");
  return flags;
}

StackOptions from_values(const po::variables_map& values) {
  StackOptions options;
  options.help = values.count("help") > 0;
  if (options.help) return options;
  const auto text = [&values](const char* flag, const std::string& otherwise = "") {
    return text_of(values, flag, otherwise);
  };
  options.config = config_of(values, "stacks/reversibility.cfg");
  options.quick = values.count("quick") > 0;
  options.force = values.count("force") > 0;
  options.dry_run = values.count("dry-run") > 0;
  options.rows = split_at_commas(text("rows"));
  options.depths = parse_counts("depths", text("depths", options.quick ? kQuickDepths : kDepths));
  options.batches =
      parse_counts("batches", text("batches", options.quick ? kQuickBatches : kBatches));
  options.threads = parse_one_thread_count(text("threads", "all"));
  options.results = text("results");
  options.repeats = values.count("repeats") ? values["repeats"].as<int>()
                    : options.quick         ? kQuickRepeats
                                            : kRepeats;
  if (options.repeats < 1) {
    throw UserError("--repeats is " + std::to_string(options.repeats) + " but must be at least 1");
  }
  options.overrides = given_knobs(values, row_knobs());
  return options;
}

const Row& named(const Experiment& experiment, const std::string& name) {
  return *std::find_if(experiment.rows.begin(), experiment.rows.end(),
                       [&name](const Row& row) { return row.name == name; });
}

Row at_point(Row row, std::int64_t depth, std::int64_t batch) {
  const std::string suffix = "_d" + std::to_string(depth) + "_b" + std::to_string(batch);
  row.name += suffix;
  row.against += suffix;
  row.model.decoder_layers = depth;
  row.model.blocks = 0;
  row.batch = int(batch);
  return row;
}

StackGroup::Kind kind_of(const Row& reference) {
  const std::string& stack = reference.model.residual_stack;
  if (stack == "plain") return StackGroup::Kind::steps;
  if (stack == "reversible_stored") return StackGroup::Kind::gradients;
  throw UserError("row '" + reference.name +
                  "', which others are compared with, has residual_stack " + stack +
                  "; compare steps with plain, gradients with reversible_stored");
}

/// (depth, batch), each once.
std::vector<std::pair<std::int64_t, std::int64_t>> points_of(const Row& reference,
                                                             const StackOptions& options) {
  std::vector<std::pair<std::int64_t, std::int64_t>> points;
  for (const std::int64_t depth : options.depths) points.emplace_back(depth, reference.batch);
  if (kind_of(reference) == StackGroup::Kind::gradients) return points;
  for (const std::int64_t batch : options.batches) {
    const std::pair<std::int64_t, std::int64_t> point(reference.model.decoder_layers, batch);
    if (std::find(points.begin(), points.end(), point) == points.end()) points.push_back(point);
  }
  return points;
}

}  // namespace

StackOptions parse_stack_options(int argc, const char* const* argv) {
  return from_values(parse_flags(argc, argv, {own_flags(), knob_flags(row_knobs())}));
}

std::string stack_help() { return help_of({own_flags(), knob_flags(row_knobs())}); }

std::vector<StackGroup> stack_groups(const Experiment& experiment, const StackOptions& options) {
  const std::vector<Row> rows = select_rows(experiment, options.rows);
  std::vector<std::string> references;
  for (const Row& row : rows) {
    if (!row.model.decoder_only()) {
      throw UserError("row '" + row.name + "' has an encoder; give encoder_layers = 0");
    }
    if (std::find(references.begin(), references.end(), row.against) == references.end()) {
      references.push_back(row.against);
    }
  }
  std::vector<StackGroup> groups;
  for (const std::string& name : references) {
    const Row& reference = named(experiment, name);
    for (const auto& [depth, batch] : points_of(reference, options)) {
      StackGroup group;
      group.kind = kind_of(reference);
      group.reference = at_point(reference, depth, batch);
      for (const Row& row : rows) {
        const bool is_oracle = group.kind == StackGroup::Kind::gradients && row.name == name;
        if (row.against == name && !is_oracle) group.rows.push_back(at_point(row, depth, batch));
      }
      if (!group.rows.empty()) groups.push_back(std::move(group));
    }
  }
  if (groups.empty()) {
    throw UserError("nothing is left to measure: --rows names only what others are compared with");
  }
  return groups;
}

const char* closing_metric(StackGroup::Kind kind) {
  return kind == StackGroup::Kind::steps ? "step_ms" : "gradient_error";
}

Record stack_record(const Experiment& experiment, const Row& row, const StackOptions& options,
                    const Provenance& provenance) {
  Options shared;
  shared.config = options.config;
  shared.quick = options.quick;
  Record r = record_base(experiment, row, shared, options.threads, provenance);
  r.config.erase("protocol");
  r.config.erase("pin");
  r.config["repeats"] = options.repeats;
  r.key = fingerprint(r.key + "|" + std::to_string(options.repeats));
  const std::string depth = std::to_string(row.model.decoder_layers);
  const std::string batch = std::to_string(row.batch);
  // The row's own name, without the point.
  const std::string name = row.name.substr(0, row.name.rfind("_d"));
  r.command = "reversibility --config " + portable_path(options.config) + " --rows " + name +
              " --depths " + depth + " --batches " + batch + " --threads " +
              std::to_string(options.threads) + (options.quick ? " --quick" : "") + " --repeats " +
              std::to_string(options.repeats);
  for (const auto& [knob, value] : options.overrides) {
    if (knob != "decoder_layers") r.command += " --" + knob + " " + value;
  }
  r.command += " --decoder_layers " + depth;
  return r;
}

}  // namespace scaling
