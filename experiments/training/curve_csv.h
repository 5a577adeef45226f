// One curve as a table that grows while it trains; pandas reads it as it is.
#pragma once

#include <cstdio>
#include <string>

#include "models/training/trainer.h"

namespace scaling {

/// step,seconds,loss,log_perplexity,accuracy,sequence_accuracy,bits_per_byte,tokens_per_s,
/// learning_rate; the middle four are empty where nothing was evaluated. Lines are on disk when
/// append() returns.
class CurveCsv {
 public:
  /// Keeps the whole lines of an older file up to `step`, so that a continued curve has each step
  /// once. Throws UserError if the file cannot be written.
  CurveCsv(const std::string& path, std::int64_t step);
  ~CurveCsv();
  CurveCsv(const CurveCsv&) = delete;
  CurveCsv& operator=(const CurveCsv&) = delete;

  void append(const TrainReport& report);

 private:
  const std::string path_;
  std::FILE* file_;
};

}  // namespace scaling
