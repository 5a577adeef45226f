// Boost reads the flags; what is wrong is said in our words.
#include "experiments/study/run_options.h"

#include <algorithm>
#include <boost/program_options.hpp>
#include <sstream>

#include "experiments/study/counts.h"
#include "experiments/study/row_text.h"
#include "experiments/study/study.h"
#include "kernels/check.h"

namespace scaling {
namespace {

namespace po = boost::program_options;

constexpr std::size_t kFewestDigits = 7;

std::string with_defaults(const KnobInfo& knob) {
  std::string help = knob.help;
  if (!knob.initial.empty() && knob.initial != "false") help += "; default " + knob.initial;
  if (knob.trait.quick) help += std::string("; with --quick ") + knob.trait.quick;
  return help;
}

/// Flags that are off until they are given take no value.
bool is_switch(const KnobInfo& knob) { return knob.initial == "false"; }

std::vector<po::options_description> groups_of(Study& study) {
  const StudyInfo info = study.info();
  po::options_description common(std::string(info.program) + " " + info.about, 100);
  auto add = common.add_options();
  const auto text = [] { return po::value<std::string>(); };
  if (info.example) add("config", text(), "the experiment, a file of experiments/configs");
  add("rows", text(), "only these rows, a,b,c");
  add("threads", text(),
      (std::string(info.one_thread_count ? "one number of threads, or all" : "e.g. 1,2,all") +
       "; default " + info.threads)
          .c_str());
  Knobs own;
  study.flags(own);
  for (const KnobInfo& knob : own.info()) {
    if (is_switch(knob)) {
      add(knob.name.c_str(), knob.help.c_str());
    } else {
      add(knob.name.c_str(), text(), with_defaults(knob).c_str());
    }
  }
  add("results", text(), "folder of records; default results/local/<machine>");
  add("force", "measure what is finished again");
  if (info.quick) add("quick", info.quick);
  add("accept", text(), "commits, a,b, whose results count as if this program had measured them");
  add("shard", text(), "K/N: only the points that fall to part K of N, K from 0 on");
  add("dry-run", "print what would be measured; measure nothing");
  add("where", "print the folder of records and stop");
  add("help", "this text");
  std::vector<po::options_description> groups = {common};
  const std::vector<KnobInfo> knobs = study.row_knobs();
  if (!knobs.empty()) {
    groups.emplace_back("Knobs, for all rows, over the config's", 100);
    for (const KnobInfo& knob : knobs) {
      groups.back().add_options()(knob.name.c_str(), text(), knob.help.c_str());
    }
  }
  return groups;
}

po::variables_map parse(const std::vector<po::options_description>& groups, int argc,
                        const char* const* argv) {
  po::options_description all;
  for (const po::options_description& group : groups) all.add(group);
  po::variables_map values;
  try {
    const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    const po::positional_options_description none;
    po::store(po::command_line_parser(argc, argv).options(all).positional(none).style(style).run(),
              values);
  } catch (const po::unknown_option& error) {
    std::string known;
    for (const auto& flag : all.options()) known += " --" + flag->long_name();
    throw UserError("there is no flag '" + error.get_option_name() + "'; known are:" + known);
  } catch (const po::error& error) {
    throw UserError(std::string(error.what()) + "; --help lists the flags");
  }
  return values;
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
  const po::variables_map values = parse(groups_of(study), argc, argv);
  const auto text = [&values](const std::string& flag, const std::string& otherwise = "") {
    return values.count(flag) ? values[flag].as<std::string>() : otherwise;
  };
  RunOptions options;
  options.help = values.count("help") > 0;
  options.where = values.count("where") > 0;
  options.results = text("results");
  if (options.help || options.where) return options;
  if (info.example && text("config").empty()) {
    throw UserError(std::string("no experiment was given; add --config FILE, e.g. ") +
                    "experiments/configs/" + info.example);
  }
  options.config = text("config");
  options.rows = split_at_commas(text("rows"));
  const std::string threads = text("threads", info.threads);
  options.threads = info.one_thread_count ? std::vector<int>{parse_one_thread_count(threads)}
                                          : parse_threads(threads);
  options.force = values.count("force") > 0;
  options.quick = values.count("quick") > 0;
  options.dry_run = values.count("dry-run") > 0;
  if (values.count("accept")) options.accept = parse_commits(text("accept"));
  if (values.count("shard")) parse_shard(text("shard"), options);
  Knobs own;
  study.flags(own);
  for (const KnobInfo& knob : own.info()) {
    if (values.count(knob.name)) {
      options.given.emplace_back(knob.name, is_switch(knob) ? "true" : text(knob.name));
      own.set(knob.name, options.given.back().second);
    } else if (options.quick && knob.trait.quick) {
      own.set(knob.name, knob.trait.quick);
    }
  }
  for (const KnobInfo& knob : study.row_knobs()) {
    if (values.count(knob.name)) options.overrides.emplace_back(knob.name, text(knob.name));
  }
  return options;
}

std::string help_of(Study& study) {
  std::ostringstream text;
  const auto groups = groups_of(study);
  for (std::size_t i = 0; i < groups.size(); ++i) text << (i > 0 ? "\n" : "") << groups[i];
  return text.str();
}

}  // namespace scaling
