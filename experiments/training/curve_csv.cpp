// Writes and, after an interruption, trims a curve's table.
#include "experiments/training/curve_csv.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "kernels/check.h"

namespace scaling {
namespace {

constexpr const char* kHeader =
    "step,seconds,loss,log_perplexity,accuracy,sequence_accuracy,bits_per_byte,tokens_per_s,"
    "learning_rate\n";

[[noreturn]] void refuse(const std::string& path) {
  throw UserError("the curve '" + path + "' cannot be written (" + std::strerror(errno) +
                  "); free space or choose another folder with --results DIR");
}

}  // namespace

CurveCsv::CurveCsv(const std::string& path, std::int64_t step) : path_(path) {
  std::string kept = kHeader;
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
  file_ = std::fopen(partial.c_str(), "w");
  if (!file_) refuse(path);
  if (std::fputs(kept.c_str(), file_) < 0 || std::fflush(file_) != 0 ||
      std::rename(partial.c_str(), path.c_str()) != 0) {
    std::fclose(file_);
    refuse(path);
  }
}

CurveCsv::~CurveCsv() { std::fclose(file_); }

void CurveCsv::append(const TrainReport& r) {
  char evaluation[128] = ",,,";
  if (r.evaluation) {
    std::snprintf(evaluation, sizeof evaluation, "%.7g,%.6g,%.6g,%.7g",
                  r.evaluation->log_perplexity, r.evaluation->accuracy,
                  r.evaluation->sequence_accuracy, r.evaluation->bits_per_byte);
  }
  const int written =
      std::fprintf(file_, "%lld,%.3f,%.7g,%s,%.6g,%.6g\n", static_cast<long long>(r.step),
                   r.seconds, r.loss, evaluation, r.tokens_per_s, r.learning_rate);
  if (written < 0 || std::fflush(file_) != 0) refuse(path_);
}

}  // namespace scaling
