// Command line to TrainingOptions, and back to a command.
#include "experiments/training/training_options.h"

#include <filesystem>
#include <sstream>

#include "experiments/study/counts.h"
#include "experiments/study/flags.h"
#include "experiments/study/provenance.h"
#include "experiments/study/results_dir.h"
#include "kernels/check.h"

namespace scaling {
namespace {

namespace po = boost::program_options;

po::options_description own_options() {
  po::options_description flags("perplexity trains one curve after another and records them", 100);
  auto add = flags.add_options();
  add("config", po::value<std::string>(), "the experiment, a file of experiments/configs/training");
  add("rows", po::value<std::string>(), "only these rows, a,b,c");
  add("seeds", po::value<std::string>(), "seeds, 1,2,3, in place of the config's");
  add("threads", po::value<std::string>()->default_value("all"), "threads, a number or all");
  add("results", po::value<std::string>(), "folder of records; default results/local/<machine>");
  add("scratch", po::value<std::string>(),
      "folder of checkpoints and tokenised corpora; default: that of the records");
  add("resume", "go on also with checkpoints that another commit has begun (records say so)");
  add("force", "train again from the start, finished or begun");
  add("dry-run", "print curves, sizes and times; train nothing");
  add("check", "one step of every row: does it fit, how long does it take; records nothing");
  add("where", "print the folder of records and stop");
  add("help", "this text");
  return flags;
}

po::options_description knob_options() {
  po::options_description flags("Knobs, for all rows, over the config's", 100);
  auto add = flags.add_options();
  for (const auto& [knob, help] : curve_knobs()) {
    add(knob.c_str(), po::value<std::string>(), help.c_str());
  }
  add("solve", po::value<std::string>(),
      "none or match_parameters, in place of every row's own; rows of equal reads keep theirs");
  return flags;
}

TrainingOptions from_values(const po::variables_map& values) {
  TrainingOptions options;
  const auto text = [&values](const char* flag) { return text_of(values, flag); };
  options.help = values.count("help") > 0;
  options.where = values.count("where") > 0;
  options.results = text("results");
  options.scratch = text("scratch");
  if (options.help || options.where) return options;
  options.config = config_of(values, "training/fig1_mini.cfg");
  options.rows = split_at_commas(text("rows"));
  if (values.count("seeds")) options.seeds = parse_seeds(text("seeds"));
  const std::vector<int> threads = parse_threads(text("threads"));
  if (threads.size() != 1) {
    throw UserError("--threads is " + text("threads") +
                    " but a curve trains with one number of threads; give one, or all");
  }
  options.threads = threads.front();
  options.force = values.count("force") > 0;
  options.resume = values.count("resume") > 0;
  options.dry_run = values.count("dry-run") > 0;
  options.check = values.count("check") > 0;
  if (options.force && options.resume) {
    throw UserError("--force starts anew and --resume goes on; give one of them");
  }
  std::vector<std::string> knobs;
  for (const auto& [knob, help] : curve_knobs()) knobs.push_back(knob);
  knobs.push_back("solve");
  options.overrides = given_knobs(values, knobs);
  return options;
}

}  // namespace

TrainingOptions parse_training_options(int argc, const char* const* argv) {
  return from_values(parse_flags(argc, argv, {own_options(), knob_options()}));
}

std::string training_help() { return help_of({own_options(), knob_options()}); }

std::string prepare_scratch_dir(const TrainingOptions& options, const std::string& results,
                                const std::string& machine) {
  namespace fs = std::filesystem;
  if (!options.scratch.empty()) return prepare_results_dir(options.scratch, machine);
  std::error_code error;
  const bool published =
      fs::equivalent(results, fs::path(source_dir()) / "results" / "published", error);
  // Checkpoints are large and no one's results; those of local runs are others, whose points the
  // published records would lack.
  if (!published) return results;
  const fs::path local = fs::path(source_dir()) / "results" / "local" / machine / "published";
  return prepare_results_dir(local.string(), machine);
}

bool is_path(const std::string& knob) {
  return knob == "corpus" || knob == "validation" || knob == "cache";
}

std::string portable_value(const std::string& knob, const std::string& value) {
  return is_path(knob) && !value.empty() ? portable_path(value) : value;
}

std::string command_of(const TrainingOptions& options, const std::string& row, std::uint64_t seed) {
  std::ostringstream command;
  command << "perplexity --config " << portable_path(options.config) << " --rows " << row
          << " --seeds " << seed << " --threads " << options.threads;
  for (const auto& [name, value] : options.overrides) {
    command << " --" << name << " " << portable_value(name, value);
  }
  return command.str();
}

}  // namespace scaling
