// Writes and, after an interruption, trims a curve's table.
#include "experiments/training/curve_csv.h"

#include <cerrno>
#include <cmath>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "kernels/check.h"

namespace scaling {
namespace {

/// Behind the step.
struct Column {
  const char* name;
  const char* format;  ///< in the table
  double (*value)(const TrainReport&);
  bool evaluated = false;  ///< there is none at other steps
};
const Column kColumns[] = {
    {"seconds", "%.3f", [](const TrainReport& r) { return r.seconds; }},
    {"loss", "%.7g", [](const TrainReport& r) { return r.loss; }},
    {"log_perplexity", "%.7g", [](const TrainReport& r) { return r.evaluation->log_perplexity; },
     true},
    {"accuracy", "%.6g", [](const TrainReport& r) { return r.evaluation->accuracy; }, true},
    {"sequence_accuracy", "%.6g",
     [](const TrainReport& r) { return r.evaluation->sequence_accuracy; }, true},
    {"bits_per_byte", "%.7g", [](const TrainReport& r) { return r.evaluation->bits_per_byte; },
     true},
    {"tokens_per_s", "%.6g", [](const TrainReport& r) { return r.tokens_per_s; }},
    {"learning_rate", "%.6g", [](const TrainReport& r) { return r.learning_rate; }},
};

/// Four to a digit, the first of them its highest bit; the last digit is filled up with 0.
std::string hex_digits(const std::vector<bool>& bits) {
  constexpr std::size_t kBits = 4;
  std::string digits;
  for (std::size_t first = 0; first < bits.size(); first += kBits) {
    std::size_t digit = 0;
    for (std::size_t i = first; i < first + kBits; ++i) {
      digit = 2 * digit + std::size_t(i < bits.size() && bits[i]);
    }
    digits += "0123456789abcdef"[digit];
  }
  return digits;
}

[[noreturn]] void refuse(const std::string& path) {
  throw UserError("the curve '" + path + "' cannot be written (" + std::strerror(errno) +
                  "); free space or choose another folder with --results DIR");
}

}  // namespace

nlohmann::ordered_json evaluation_config(const std::string& data, const TrainReport& report,
                                         const std::vector<SetEvaluation>& sets) {
  nlohmann::ordered_json config = {{"data", data}, {"step", report.step}};
  for (const Column& column : kColumns) config[column.name] = column.value(report);
  config.erase("log_perplexity");
  for (const auto& [set, evaluation] : sets) {
    config[set.prefix + "accuracy" + set.suffix] = evaluation.accuracy;
    config[set.prefix + "sequence_accuracy" + set.suffix] = evaluation.sequence_accuracy;
    for (const Score& score : evaluation.scores) {
      if (std::isfinite(score.value)) config[set.prefix + score.name + set.suffix] = score.value;
    }
    if (evaluation.right.empty()) continue;
    config["items"] = evaluation.right.size();
    config["right"] = hex_digits(evaluation.right);
  }
  return config;
}

CurveCsv::CurveCsv(const std::string& path, std::int64_t step) : path_(path) {
  std::string kept = "step";
  for (const Column& column : kColumns) kept += std::string(",") + column.name;
  kept += '\n';
  if (step > 0) {
    std::ifstream in(path);
    std::string line;
    std::getline(in, line);  // the header
    // A line without its end may be a cut number.
    while (std::getline(in, line) && !in.eof()) {
      if (std::strtoll(line.c_str(), nullptr, 10) <= step) kept += line + "\n";
    }
  }
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  // Beside it first: a full disk must not cost the lines that were there.
  const std::string partial = path + ".partial";
  file_.open(partial);
  file_ << kept << std::flush;
  if (!file_ || std::rename(partial.c_str(), path.c_str()) != 0) refuse(path);
}

void CurveCsv::append(const TrainReport& report) {
  file_ << report.step;
  for (const Column& column : kColumns) {
    char text[32] = "";
    if (report.evaluation || !column.evaluated) {
      std::snprintf(text, sizeof text, column.format, column.value(report));
    }
    file_ << ',' << text;
  }
  file_ << '\n' << std::flush;
  if (!file_) refuse(path_);
}

}  // namespace scaling
