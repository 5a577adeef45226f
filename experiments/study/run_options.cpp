// Flags that all studies have, a study's own and its rows' knobs, to options.
#include "experiments/study/run_options.h"

#include <cstdio>

#include "experiments/study/counts.h"
#include "experiments/study/flags.h"
#include "experiments/study/study.h"
#include "kernels/check.h"
#include "kernels/team.h"

namespace scaling {
namespace {

constexpr std::size_t kFewestDigits = 7;

std::vector<FlagGroup> groups_of(Study& study) {
  const StudyInfo info = study.info();
  FlagGroup common{std::string(info.program) + " " + info.about, {}};
  const auto add = [&common](const char* name, const std::string& help, bool is_switch = false) {
    common.flags.push_back({name, help, is_switch});
  };
  if (info.example) add("config", "the experiment, a file of experiments/configs");
  add("rows", "only these rows, a,b,c");
  add("threads",
      std::string(info.one_thread_count ? "one number of threads, or all" : "e.g. 1,2,all") +
          "; default " + info.threads);
  Knobs own;
  study.flags(own);
  for (const Flag& flag : flags_of(own)) common.flags.push_back(flag);
  add("results", "folder of records; default results/local/<machine>");
  add("force", "measure what is finished again", true);
  if (info.quick) add("quick", info.quick, true);
  add("accept", "commits, a,b, whose results count as if this program had measured them");
  add("shard", "K/N: only every N-th row and seed, from the K-th on, K from 0");
  add("dry-run", "print what would be measured; measure nothing", true);
  add("where", "print the folder of records and stop", true);
  add("help", "this text", true);
  FlagGroup knobs{"Knobs, for all rows, over the config's", {}};
  for (const KnobInfo& knob : study.row_knobs()) knobs.flags.push_back({knob.name, knob.help});
  if (knobs.flags.empty()) return {common};
  return {common, knobs};
}

void parse_shard(const std::string& text, RunOptions& options) {
  const std::size_t slash = text.find('/');
  try {
    if (slash == std::string::npos) throw UserError("");
    parse_value("--shard", text.substr(0, slash), options.shard);
    parse_value("--shard", text.substr(slash + 1), options.shards);
    if (options.shard >= options.shards) throw UserError("");
  } catch (const UserError&) {
    throw UserError("--shard " + text + ": write K/N, K from 0 to N - 1, e.g. 0/4");
  }
}

std::vector<std::string> parse_commits(const std::string& text) {
  std::vector<std::string> commits = split_at_commas(text);
  for (const std::string& commit : commits) {
    if (commit.size() < kFewestDigits ||
        commit.find_first_not_of("0123456789abcdef") != std::string::npos) {
      throw UserError("--accept has '" + commit + "', which is no commit of at least " +
                      std::to_string(kFewestDigits) + " digits");
    }
  }
  return commits;
}

}  // namespace

RunOptions parse_run_options(Study& study, int argc, const char* const* argv) {
  const StudyInfo info = study.info();
  const std::map<std::string, std::string> given = parse_flags(argc, argv, groups_of(study));
  const auto text = [&given](const std::string& flag, const std::string& otherwise = "") {
    const auto at = given.find(flag);
    return at == given.end() ? otherwise : at->second;
  };
  RunOptions options;
  options.help = given.count("help") > 0;
  options.where = given.count("where") > 0;
  // A script's empty variable is no wish for everything.
  for (const char* flag : {"rows", "results"}) {
    if (given.count(flag) && split_at_commas(given.at(flag)).empty()) {
      throw UserError(std::string("--") + flag + " '" + given.at(flag) +
                      "' names nothing; name some, or leave it out");
    }
  }
  options.results = text("results");
  if (options.help || options.where) return options;
  options.config = text("config");
  if (info.example && options.config.empty()) {
    throw UserError(std::string("no experiment was given; add --config FILE, e.g. ") +
                    "experiments/configs/" + info.example);
  }
  options.rows = split_at_commas(text("rows"));
  const std::string threads = text("threads", info.threads);
  options.threads = parse_threads(threads);
  if (info.one_thread_count &&
      (options.threads.size() != 1 || options.threads.front() > available_threads())) {
    throw UserError("--threads " + threads + ": give one number from 1 to " +
                    std::to_string(available_threads()) + ", or all");
  }
  if (const int most = options.threads.back(), all = available_threads(); most > all) {
    std::fprintf(stderr, "note: %d threads take turns on the %d processors that there are\n", most,
                 all);
  }
  options.force = given.count("force") > 0;
  options.quick = given.count("quick") > 0;
  options.dry_run = given.count("dry-run") > 0;
  options.accept = parse_commits(text("accept"));
  if (given.count("shard")) parse_shard(text("shard"), options);
  Knobs own;
  study.flags(own);
  for (const KnobInfo& knob : own.info()) {
    if (given.count(knob.name)) {
      options.given.emplace_back(knob.name, text(knob.name));
      own.set(knob.name, text(knob.name));
    } else if (options.quick && knob.trait.quick) {
      own.set(knob.name, knob.trait.quick);
    }
  }
  for (const KnobInfo& knob : study.row_knobs()) {
    if (given.count(knob.name)) options.overrides.emplace_back(knob.name, text(knob.name));
  }
  return options;
}

std::string help_of(Study& study) { return help_of(groups_of(study)); }

}  // namespace scaling
