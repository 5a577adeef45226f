// GLUE's tasks (Wang et al. 2018) as text to text: what a row of each of their files says, and the
// words that stand for its label, as T5 has them (Raffel et al. 2020, appendix D), whose strings
// the paper's code takes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

namespace scaling {

struct GlueTask {
  /// "name: field" of the prompt.
  struct Part {
    std::string name, column;
  };
  struct Answer {
    std::string label;  ///< in the file; empty where labels are numbers
    std::string words;  ///< what is told for it
  };
  /// GLUE's own, beside the share of right answers: nothing, F1 of the second answer, Matthews'
  /// correlation of the two, or Pearson's and Spearman's of numbers.
  enum class Measure { accuracy, f1, matthews, correlations };

  std::string name;     ///< of models/tasks/catalog.cpp
  std::string opening;  ///< first word of the prompt
  std::vector<Part> parts;
  std::string label_column;
  /// No words begin with those of another, so that their probabilities are of different texts.
  std::vector<Answer> answers;
  Measure measure = Measure::accuracy;
  bool in_paper = true;                  ///< among those of the paper's Table 3
  std::vector<std::string> header = {};  ///< columns of files that have no header line

  /// Similarities from 0 to 5, told to the nearest fifth.
  bool has_numbers() const { return measure == Measure::correlations; }
};

/// Every one; those of the paper first.
const std::vector<GlueTask>& glue_tasks();
/// By its name, which is one of them.
const GlueTask& glue_task(const std::string& name);

/// "rte sentence1: A B. sentence2: C." fields: one for each part, in their order.
std::string prompt_of(const GlueTask& task, const std::vector<std::string>& fields);

struct GlueLabel {
  std::size_t answer = 0;
  double value = 0;  ///< of a number, not rounded; else the answer's place
};
/// Of a field of the label column; nothing if it is no label of the task.
std::optional<GlueLabel> label_of(const GlueTask& task, const std::string& field);
/// What is said by answer `answer`: GlueLabel::value, but of a number the nearest fifth.
double value_of(const GlueTask& task, std::size_t answer);

}  // namespace scaling
