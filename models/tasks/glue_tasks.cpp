// The table, and how a row is read by it.
#include "models/tasks/glue_tasks.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

#include "kernels/check.h"

namespace scaling {
namespace {

constexpr double kLargestNumber = 5, kStepsOfOne = 5;

/// "0.0", "0.2", ..., "5.0".
std::vector<GlueTask::Answer> fifths() {
  std::vector<GlueTask::Answer> all;
  for (int tenths = 0; tenths <= 10 * int(kLargestNumber); tenths += 2) {
    all.push_back({"", std::to_string(tenths / 10) + "." + std::to_string(tenths % 10)});
  }
  return all;
}

}  // namespace

const std::vector<GlueTask>& glue_tasks() {
  using Measure = GlueTask::Measure;
  static const std::vector<GlueTask> all = {
      {.name = "glue_mnli",
       .opening = "mnli",
       .parts = {{"hypothesis", "sentence2"}, {"premise", "sentence1"}},
       .label_column = "gold_label",
       .answers = {{"entailment", "entailment"},
                   {"neutral", "neutral"},
                   {"contradiction", "contradiction"}}},
      {.name = "glue_qnli",
       .opening = "qnli",
       .parts = {{"question", "question"}, {"sentence", "sentence"}},
       .label_column = "label",
       .answers = {{"entailment", "entailment"}, {"not_entailment", "not_entailment"}}},
      {.name = "glue_sst2",
       .opening = "sst2",
       .parts = {{"sentence", "sentence"}},
       .label_column = "label",
       .answers = {{"0", "negative"}, {"1", "positive"}}},
      {.name = "glue_qqp",
       .opening = "qqp",
       .parts = {{"question1", "question1"}, {"question2", "question2"}},
       .label_column = "is_duplicate",
       .answers = {{"0", "not_duplicate"}, {"1", "duplicate"}},
       .measure = Measure::f1},
      {.name = "glue_mrpc",
       .opening = "mrpc",
       .parts = {{"sentence1", "#1 String"}, {"sentence2", "#2 String"}},
       .label_column = "Quality",
       .answers = {{"0", "not_equivalent"}, {"1", "equivalent"}},
       .measure = Measure::f1},
      {.name = "glue_rte",
       .opening = "rte",
       .parts = {{"sentence1", "sentence1"}, {"sentence2", "sentence2"}},
       .label_column = "label",
       .answers = {{"entailment", "entailment"}, {"not_entailment", "not_entailment"}}},
      {.name = "glue_cola",
       .opening = "cola",
       .parts = {{"sentence", "sentence"}},
       .label_column = "label",
       .answers = {{"0", "unacceptable"}, {"1", "acceptable"}},
       .measure = Measure::matthews,
       .in_paper = false,
       .header = {"source", "label", "mark", "sentence"}},
      {.name = "glue_stsb",
       .opening = "stsb",
       .parts = {{"sentence1", "sentence1"}, {"sentence2", "sentence2"}},
       .label_column = "score",
       .answers = fifths(),
       .measure = Measure::correlations,
       .in_paper = false}};
  return all;
}

const GlueTask& glue_task(const std::string& name) {
  const std::vector<GlueTask>& all = glue_tasks();
  const auto at = std::find_if(all.begin(), all.end(),
                               [&name](const GlueTask& task) { return task.name == name; });
  SCALING_CHECK(at != all.end());
  return *at;
}

std::string prompt_of(const GlueTask& task, const std::vector<std::string>& fields) {
  SCALING_CHECK(fields.size() == task.parts.size());
  std::string prompt = task.opening;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    prompt += " " + task.parts[i].name + ": " + fields[i];
  }
  return prompt;
}

std::optional<GlueLabel> label_of(const GlueTask& task, const std::string& field) {
  if (task.has_numbers()) {
    double value = 0;
    const char* end = field.data() + field.size();
    const auto [stop, error] = std::from_chars(field.data(), end, value);
    if (error != std::errc() || stop != end || !(value >= 0 && value <= kLargestNumber)) return {};
    // Of two fifths as near the even one, as in T5.
    return GlueLabel{std::size_t(std::nearbyint(value * kStepsOfOne)), value};
  }
  for (std::size_t i = 0; i < task.answers.size(); ++i) {
    if (field == task.answers[i].label) return GlueLabel{i, double(i)};
  }
  return {};
}

double value_of(const GlueTask& task, std::size_t answer) {
  SCALING_CHECK(answer < task.answers.size());
  return task.has_numbers() ? double(answer) / kStepsOfOne : double(answer);
}

}  // namespace scaling
