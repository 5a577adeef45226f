// The list, and what all tasks have in common when one is made.
#include "models/tasks/catalog.h"

#include <utility>

#include "kernels/check.h"
#include "models/knobs.h"
#include "models/tasks/causal.h"
#include "models/tasks/denoising.h"
#include "models/tasks/gap_sentences.h"
#include "models/tasks/glue.h"
#include "models/tasks/masked.h"
#include "models/tasks/numbers.h"
#include "models/tasks/pairs.h"
#include "models/tasks/span_corruption.h"
#include "models/tasks/text_task.h"

namespace scaling {
namespace {

struct Entry {
  const char* name;
  /// Throws UserError for knobs of the task that do not fit.
  Needs (*needs)(const TrainConfig&);
  /// text: null if the needs have none.
  std::unique_ptr<Task> (*make)(const TrainConfig&, std::int64_t vocab_size,
                                std::unique_ptr<TextStore> text);
};

template <Numbers::Kind kind, bool has_source>
constexpr Entry numbers(const char* name) {
  return {name, [](const TrainConfig& c) { return needs_of_numbers(kind, has_source, c); },
          [](const TrainConfig& c, std::int64_t, std::unique_ptr<TextStore>) {
            return make_numbers(kind, has_source, c);
          }};
}

constexpr Entry kTasks[] = {
    {"causal", needs_of_causal, make_causal},
    {"span_corruption", needs_of_span_corruption, make_span_corruption},
    {"masked", needs_of_masked, make_masked},
    {"denoising", needs_of_denoising, make_denoising},
    {"gap_sentences", needs_of_gap_sentences, make_gap_sentences},
    {"glue_mnli", needs_of_glue, make_glue},
    {"glue_qnli", needs_of_glue, make_glue},
    {"glue_sst2", needs_of_glue, make_glue},
    {"glue_qqp", needs_of_glue, make_glue},
    {"glue_mrpc", needs_of_glue, make_glue},
    {"glue_rte", needs_of_glue, make_glue},
    {"glue_cola", needs_of_glue, make_glue},
    {"glue_stsb", needs_of_glue, make_glue},
    {"pairs", needs_of_pairs, make_pairs},
    numbers<Numbers::Kind::copy, false>("copy"),
    numbers<Numbers::Kind::addition, false>("addition"),
    numbers<Numbers::Kind::copy, true>("copy_pairs"),
    numbers<Numbers::Kind::addition, true>("addition_pairs"),
};

const Entry& entry_of(const std::string& name) {
  for (const Entry& entry : kTasks) {
    if (name == entry.name) return entry;
  }
  refuse_choice("task", name, task_names());
}

}  // namespace

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kTasks) names.emplace_back(entry.name);
  return names;
}

Needs needs_of(const TrainConfig& config) {
  const Entry& entry = entry_of(config.task);
  config.validate();
  Needs needs = entry.needs(config);
  if (needs.text && config.corpus.empty()) {
    throw UserError("corpus is empty; name a file, a folder or a glob, or say generated");
  }
  return needs;
}

std::unique_ptr<Task> make_task(const TrainConfig& config, std::int64_t vocab_size,
                                const std::string& cache_folder, const ReadWatch& watch) {
  const Needs needs = needs_of(config);
  if (vocab_size < needs.least_vocab_size) {
    throw UserError("vocab_size " + std::to_string(vocab_size) + " has no room for the task " +
                    config.task + " at this " + needs.length_knobs + "; set vocab_size " +
                    std::to_string(needs.least_vocab_size) + " or more");
  }
  std::unique_ptr<TextStore> text;
  if (needs.text) {
    text = std::make_unique<TextStore>(config, *needs.text, vocab_size, cache_folder, watch);
  }
  return entry_of(config.task).make(config, vocab_size, std::move(text));
}

std::string data_identity(const TrainConfig& config, std::int64_t vocab_size,
                          const std::string& cache_folder, const ReadWatch& watch) {
  const Needs needs = needs_of(config);
  if (!needs.text) {
    return make_task(config, vocab_size, cache_folder)->identity(Purpose::comparison);
  }
  return text_identity(config, needs, vocab_size, cache_folder, watch);
}

}  // namespace scaling
