// What is written at a point of a curve: a line of its table, which pandas reads as it is, and the
// config of a record.
#pragma once

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "models/training/trainer.h"

namespace scaling {

/// What one of the task's validation sets says.
struct SetEvaluation {
  ValidationSet set;
  Evaluation evaluation;
};

/// Config of an evaluation's record: data, what its text is known by, then the table's columns but
/// log_perplexity, which is the record's value, then the scores of a task with answers, `items`,
/// how many questions it asked, and `right`, hexadecimal digits whose bits, the highest of the
/// first digit first, say which of them were answered rightly, and the accuracies on sets behind
/// the first.
nlohmann::ordered_json evaluation_config(const std::string& data, const TrainReport& report,
                                         const std::vector<SetEvaluation>& sets);

/// step,seconds,loss,log_perplexity,accuracy,sequence_accuracy,bits_per_byte,tokens_per_s,
/// learning_rate; the middle four are empty where nothing was evaluated. Lines are on disk when
/// append() returns.
class CurveCsv {
 public:
  /// Keeps the whole lines of an older file up to `step`, so that a continued curve has each step
  /// once. Throws UserError if the file cannot be written.
  CurveCsv(const std::string& path, std::int64_t step);

  void append(const TrainReport& report);

 private:
  const std::string path_;
  std::ofstream file_;
};

}  // namespace scaling
