// Flags to options, rows and settings to the parts that their records share.
#include "experiments/attention/long_sequence_plan.h"

#include <boost/program_options.hpp>
#include <sstream>

#include "experiments/study/counts.h"
#include "experiments/study/fingerprint.h"
#include "experiments/study/flags.h"
#include "kernels/check.h"

namespace scaling {
namespace {

namespace po = boost::program_options;

constexpr const char* kLengths = "512,1024,2048,4096,8192,16384,32768,65536";
constexpr const char* kQuickLengths = "512,1024,2048,4096,8192";
constexpr const char* kRecallRounds = "1,2,4,8";
constexpr const char* kRecallChunks = "16,32,64,128,256";
constexpr int kRecallLength = 4096, kQuickRecallLength = 1024;
constexpr int kRepeats = 9, kQuickRepeats = 3;
constexpr double kSeconds = 60, kQuickSeconds = 6, kStepLimit = 60;

/// Knobs that change what an attention core is.
const std::vector<std::string> kCoreKnobs = {"d_model",           "n_heads",          "attention",
                                             "lsh_chunk",         "lsh_rounds",       "lsh_buckets",
                                             "lsh_chunks_before", "lsh_chunks_after", "seed"};

po::options_description own_flags() {
  po::options_description flags("long_sequence measures attention cores against length", 100);
  auto add = flags.add_options();
  add("config", po::value<std::string>(), "the experiment, a file of experiments/configs");
  add("lengths", po::value<std::string>(), "positions; default 512 to 65536, with --quick to 8192");
  add("threads", po::value<std::string>()->default_value("all"), "one number of threads, or all");
  add("repeats", po::value<int>(), "of a length, at most; default 9, with --quick 3");
  add("time-budget", po::value<double>(),
      "seconds for the repeats of a length; default 60, with --quick 6");
  add("step-limit", po::value<double>()->default_value(kStepLimit),
      "seconds: a training step expected to take longer is skipped");
  add("recall-length", po::value<std::string>(), "positions; default 4096, with --quick 1024");
  add("recall-rounds", po::value<std::string>()->default_value(kRecallRounds), "rounds of hashing");
  add("recall-chunks", po::value<std::string>()->default_value(kRecallChunks), "positions a chunk");
  add("results", po::value<std::string>(), "folder of records; default results/local/<machine>");
  add("force", "measure finished rows again");
  add("quick", "fewer lengths and repeats");
  add("dry-run", "print what would be measured; measure nothing");
  add("help", "this text");
  return flags;
}

LongSequenceOptions from_values(const po::variables_map& values) {
  LongSequenceOptions options;
  options.help = values.count("help") > 0;
  if (options.help) return options;
  const auto text = [&values](const char* flag, const std::string& otherwise = "") {
    return text_of(values, flag, otherwise);
  };
  options.config = config_of(values, "attention/long_sequence.cfg");
  options.quick = values.count("quick") > 0;
  options.force = values.count("force") > 0;
  options.dry_run = values.count("dry-run") > 0;
  options.results = text("results");
  options.threads = parse_one_thread_count(text("threads"));
  options.lengths =
      parse_counts("lengths", text("lengths", options.quick ? kQuickLengths : kLengths), 2);
  options.repeats = values.count("repeats") ? values["repeats"].as<int>()
                    : options.quick         ? kQuickRepeats
                                            : kRepeats;
  options.seconds = values.count("time-budget") ? values["time-budget"].as<double>()
                    : options.quick             ? kQuickSeconds
                                                : kSeconds;
  options.step_limit = values["step-limit"].as<double>();
  if (options.repeats < 1 || !(options.seconds > 0) || !(options.step_limit > 0)) {
    std::ostringstream message;
    message << "--repeats " << options.repeats << ", --time-budget " << options.seconds
            << ", --step-limit " << options.step_limit
            << ": give at least one repeat and positive numbers of seconds";
    throw UserError(message.str());
  }
  const int recall_length = options.quick ? kQuickRecallLength : kRecallLength;
  options.recall_length =
      parse_counts("recall-length", text("recall-length", std::to_string(recall_length)), 2).back();
  options.recall_rounds = parse_counts("recall-rounds", text("recall-rounds"));
  options.recall_chunks = parse_counts("recall-chunks", text("recall-chunks"));
  options.overrides = given_knobs(values, row_knobs());
  return options;
}

std::string command_of(const LongSequenceOptions& options) {
  std::ostringstream command;
  command << "long_sequence --config " << portable_path(options.config) << " --threads "
          << options.threads << (options.quick ? " --quick" : "");
  for (const auto& [knob, value] : options.overrides) command << " --" << knob << " " << value;
  return command.str();
}

Record shared_record(const Experiment& experiment, const ModelConfig& model,
                     const LongSequenceOptions& options, const Provenance& provenance) {
  Record r;
  r.experiment = experiment.name;
  r.threads = options.threads;
  for (const std::string& knob : kCoreKnobs) r.config[knob] = typed_value(get_field(model, knob));
  r.config["causal"] = true;
  r.config["quick"] = options.quick;
  r.command = command_of(options);
  r.seed = model.seed;
  r.provenance = provenance;
  r.date = utc_date();
  return r;
}

void set_key(Record& r) {
  r.key = fingerprint(r.row + "|" + std::to_string(r.threads) + "|" + r.config.dump() + "|" +
                      r.provenance.machine + "|" + r.provenance.commit +
                      (r.provenance.dirty ? "|" + r.provenance.program : ""));
}

}  // namespace

LongSequenceOptions parse_long_sequence_options(int argc, const char* const* argv) {
  return from_values(parse_flags(argc, argv, {own_flags(), knob_flags(row_knobs())}));
}

std::string long_sequence_help() { return help_of({own_flags(), knob_flags(row_knobs())}); }

Record core_record(const Experiment& experiment, const Row& row, std::int64_t length,
                   const LongSequenceOptions& options, const Provenance& provenance) {
  Record r = shared_record(experiment, row.model, options, provenance);
  const std::string suffix = "_l" + std::to_string(length);
  r.row = row.name + suffix;
  r.against = row.against + suffix;
  r.config["length"] = length;
  r.config["dropout"] = 0;
  r.config["repeats"] = options.repeats;
  r.config["time_budget"] = options.seconds;
  std::ostringstream flags;
  flags << " --lengths " << length << " --repeats " << options.repeats << " --time-budget "
        << options.seconds << " --step-limit " << options.step_limit;
  r.command += flags.str();
  set_key(r);
  return r;
}

Record recall_record(const Experiment& experiment, const ModelConfig& model,
                     const std::string& distribution, const LongSequenceOptions& options,
                     const Provenance& provenance) {
  Record r = shared_record(experiment, model, options, provenance);
  const std::string chunk = std::to_string(model.lsh_chunk);
  const std::string rounds = std::to_string(model.lsh_rounds);
  r.row = distribution + "_c" + chunk + "_r" + rounds;
  r.against = r.row;
  r.config["length"] = options.recall_length;
  r.config["distribution"] = distribution;
  r.command += " --recall-length " + std::to_string(options.recall_length) + " --recall-chunks " +
               chunk + " --recall-rounds " + rounds;
  set_key(r);
  return r;
}

}  // namespace scaling
