// Command line to Options, and back to a command.
#include "experiments/decode/options.h"

#include <sstream>

#include "experiments/study/counts.h"
#include "experiments/study/flags.h"
#include "kernels/check.h"

namespace scaling {
namespace {

namespace po = boost::program_options;

constexpr double kSteadyBudget = 20, kQuickBudget = 4;

po::options_description own_options() {
  po::options_description flags("decode_time measures one experiment, row by row", 100);
  auto add = flags.add_options();
  add("config", po::value<std::string>(), "the experiment, a file of experiments/configs/decode");
  add("rows", po::value<std::string>(), "only these rows, a,b,c");
  add("threads", po::value<std::string>()->default_value("1,all"), "thread counts, e.g. 1,2,all");
  add("protocol", po::value<std::string>()->default_value("steady"),
      "steady: until the median is known to 2 %; paper: 4 + 12 tokens, six times, with --quick "
      "three");
  add("results", po::value<std::string>(), "folder of records; default results/local/<machine>");
  add("time-budget", po::value<double>(),
      "seconds of measuring per row and thread count; default 20, with --quick 4");
  add("force", "measure finished rows again");
  add("quick", "fewer decodes, smaller budget");
  add("pin", "bind each thread to a processor");
  add("dry-run", "print rows, sizes and costs; measure nothing");
  add("where", "print the folder of records and stop");
  add("help", "this text");
  return flags;
}

po::options_description knob_options() {
  po::options_description flags("Knobs, for all rows, over the config's", 100);
  auto add = flags.add_options();
  ModelConfig defaults;
  ModelConfig::fields(defaults, [&add](const char* name, auto&, const char* help) {
    add(name, po::value<std::string>(), help);
  });
  add("batch", po::value<std::string>(), "sequences decoded at once");
  add("context", po::value<std::string>(), "cached positions before the first measured token");
  add("source_length", po::value<std::string>(), "encoder positions");
  add("kernels", po::value<std::string>(), "kernel set");
  add("own_threads", po::value<std::string>(), "the library uses its own threads");
  return flags;
}

Protocol parse_protocol(const std::string& name) {
  if (name == "steady") return Protocol::steady;
  if (name == "paper") return Protocol::paper;
  throw UserError("there is no protocol '" + name + "'; known are: steady, paper");
}

Options from_values(const po::variables_map& values) {
  Options options;
  options.help = values.count("help") > 0;
  options.results = text_of(values, "results");
  options.where = values.count("where") > 0;
  if (options.help || options.where) return options;
  options.config = config_of(values, "decode/table1_800m.cfg");
  options.rows = split_at_commas(text_of(values, "rows"));
  options.threads = parse_threads(values["threads"].as<std::string>());
  options.protocol = parse_protocol(values["protocol"].as<std::string>());
  options.force = values.count("force") > 0;
  options.quick = values.count("quick") > 0;
  options.pin = values.count("pin") > 0;
  options.dry_run = values.count("dry-run") > 0;
  options.time_budget = values.count("time-budget") ? values["time-budget"].as<double>()
                        : options.quick             ? kQuickBudget
                                                    : kSteadyBudget;
  if (!(options.time_budget > 0)) {
    throw UserError("--time-budget is " + std::to_string(options.time_budget) +
                    " but must be a positive number of seconds");
  }
  options.overrides = given_knobs(values, row_knobs());
  return options;
}

}  // namespace

Options parse_options(int argc, const char* const* argv) {
  return from_values(parse_flags(argc, argv, {own_options(), knob_options()}));
}

std::string help_text() { return help_of({own_options(), knob_options()}); }

std::string command_of(const Options& options, const std::string& row, int threads) {
  std::ostringstream command;
  command << "decode_time --config " << portable_path(options.config) << " --rows " << row
          << " --threads " << threads;
  if (options.protocol == Protocol::paper) command << " --protocol paper";
  if (options.quick) command << " --quick";
  if (options.time_budget != (options.quick ? kQuickBudget : kSteadyBudget)) {
    command << " --time-budget " << options.time_budget;
  }
  if (options.pin) command << " --pin";
  for (const auto& [name, value] : options.overrides) command << " --" << name << " " << value;
  return command.str();
}

}  // namespace scaling
