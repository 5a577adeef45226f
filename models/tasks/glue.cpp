// Rows of tables as questions and their answers.
#include "models/tasks/glue.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "models/tasks/choices.h"
#include "models/tasks/glue_tasks.h"
#include "models/tasks/metrics.h"
#include "models/tasks/text_task.h"
#include "models/text/corpus.h"
#include "models/text/permutation.h"
#include "models/text/table.h"
#include "models/text/tokenizer.h"

namespace scaling {
namespace {

/// Lengths of sources are multiples of it, unless that would be more than `length`.
constexpr std::int64_t kPadTo = 8;
/// Of the rows of so many batches those of like lengths train together, which pads them less.
constexpr std::uint64_t kPooled = 16;
/// A vocabulary of another program's may begin every text with a piece of its own.
constexpr std::int64_t kOpeningPieces = 1;
constexpr double kMostLanguageWeight = 100;

struct Question {
  std::vector<int> source;
  GlueLabel label;
};

struct Questions {
  std::vector<Question> all;
  std::uint64_t cut = 0;  // prompts that were longer than `length`
};

std::string labels_of(const GlueTask& task) {
  if (task.has_numbers()) return "numbers from 0 to " + task.answers.back().words;
  std::string all;
  for (const GlueTask::Answer& answer : task.answers) {
    all += (all.empty() ? "'" : ", '") + answer.label + "'";
  }
  return all;
}

/// name: a file or a glob.
Questions read_questions(const GlueTask& task, const std::string& name, const Tokenizer& tokenizer,
                         std::int64_t length) {
  std::vector<std::string> columns;
  for (const GlueTask::Part& part : task.parts) columns.push_back(part.column);
  columns.push_back(task.label_column);
  Questions questions;
  std::vector<std::string> fields;
  for (const std::string& path : Corpus(name).paths()) {
    TableReader table(path, columns, task.header);
    while (table.next(fields)) {
      const std::optional<GlueLabel> label = label_of(task, fields.back());
      if (!label) {
        table.refuse("'" + fields.back() + "' is no label of task " + task.name +
                     ", whose labels are " + labels_of(task) +
                     "; mend the line or delete it, or name the task whose file this is");
      }
      fields.pop_back();
      Question& question = questions.all.emplace_back();
      question.label = *label;
      tokenizer.encode(prompt_of(task, fields), question.source);
      if (std::int64_t(question.source.size()) <= length) continue;
      question.source.resize(std::size_t(length));
      ++questions.cut;
    }
  }
  if (questions.all.empty()) {
    throw UserError("'" + name + "' has no row for task " + task.name +
                    "; give one of GLUE's own files, with labels");
  }
  return questions;
}

class Glue : public Task, public Answers {
 public:
  Glue(const TrainConfig& config, std::int64_t vocab_size, std::unique_ptr<TextStore> text)
      : config_(config),
        needs_(needs_of_glue(config)),
        task_(glue_task(config.task)),
        vocab_size_(vocab_size),
        text_(std::move(text)),
        trained_(read_questions(task_, config.corpus, text_->tokenizer(), config.length)),
        held_out_(read_questions(task_, config.validation, text_->tokenizer(), config.length)),
        evaluated_(std::min(held_out_.all.size(),
                            std::size_t(config.evaluate_batches) * std::size_t(config.batch))) {
    for (const GlueTask::Answer& answer : task_.answers) {
      std::vector<int>& ids = answers_.emplace_back();
      text_->tokenizer().encode(answer.words, ids);
      target_length_ = std::max(target_length_, std::int64_t(ids.size()));
    }
    SCALING_CHECK(target_length_ <= needs_.trained.input);
    by_length_.resize(evaluated_);
    std::iota(by_length_.begin(), by_length_.end(), std::size_t(0));
    std::stable_sort(by_length_.begin(), by_length_.end(), [this](std::size_t a, std::size_t b) {
      return padded_length(evaluated(a)) < padded_length(evaluated(b));
    });
  }

  void train_batch(std::int64_t step, std::int64_t piece, std::int64_t pieces,
                   Batch& out) const override {
    SCALING_CHECK(step >= 0 && piece >= 0 && piece < pieces);
    const std::int64_t first = config_.batch * piece / pieces;
    const std::int64_t last = config_.batch * (piece + 1) / pieces;
    const std::uint64_t count = trained_.all.size();
    std::vector<Row> rows;
    std::vector<const Question*> pool;
    std::uint64_t pool_begin = 0;  // example
    for (std::int64_t i = first; i < last; ++i) {
      const auto example = std::uint64_t(step * config_.batch + i);
      if (pool.empty() || example == pool_begin + pool.size()) {
        pool_begin = example - example % count % pool_size();
        pool = pool_of(pool_begin);
      }
      const Question& question = *pool[example - pool_begin];
      rows.push_back({&question, question.label.answer});
    }
    fill(rows, out, config_.language_weight);
  }

  std::int64_t validation_batches() const override {
    const std::int64_t examples = config_.batch / config_.accumulate;
    return (std::int64_t(evaluated_) + examples - 1) / examples;
  }

  /// The last batch is filled up with weight 0.
  void validation_batch(std::size_t set, std::int64_t index, Batch& out) const override {
    SCALING_CHECK(set == 0 && index >= 0 && index < validation_batches());
    const std::int64_t examples = config_.batch / config_.accumulate;
    std::vector<Row> rows;
    for (std::int64_t i = index * examples; i < (index + 1) * examples; ++i) {
      const bool is_counted = i < std::int64_t(evaluated_);
      const std::size_t at = is_counted ? std::size_t(i) : evaluated_ - 1;
      const Question& question = evaluated(by_length_[at]);
      rows.push_back({&question, question.label.answer, is_counted});
    }
    fill(rows, out);
  }

  std::string identity(Purpose purpose) const override {
    return text_identity(config_, needs_, vocab_size_, *text_, purpose);
  }

  std::string description() const override {
    const double examples = double(config_.steps) * double(config_.batch);
    char epochs[32];
    std::snprintf(epochs, sizeof epochs, "%.3g", examples / double(trained_.all.size()));
    return task_.name + (task_.in_paper ? "" : " (not one of the paper's)") + ", " +
           plural(trained_.all.size(), "example") + " to train on (" +
           std::to_string(trained_.cut) + " cut at " + std::to_string(config_.length) +
           " tokens), " + std::to_string(held_out_.all.size()) + " to evaluate on (" +
           std::to_string(evaluated_) + " used, " + std::to_string(held_out_.cut) + " cut); " +
           plural(std::uint64_t(config_.steps), "step") + " make " + epochs + " epochs";
  }

  const TextStore* text() const override { return text_.get(); }
  const Answers* answers() const override { return this; }

  std::size_t questions() const override { return evaluated_; }
  std::size_t choices() const override { return answers_.size(); }

  std::vector<std::vector<std::size_t>> groups(std::size_t most) const override {
    SCALING_CHECK(most > 0);
    std::map<std::int64_t, std::vector<std::size_t>> by_length;
    std::vector<std::vector<std::size_t>> all;
    for (std::size_t i = 0; i < questions(); ++i) {
      std::vector<std::size_t>& alike = by_length[padded_length(evaluated(i))];
      alike.push_back(i);
      if (alike.size() < most) continue;
      all.push_back(std::move(alike));
      alike.clear();
    }
    for (auto& [length, alike] : by_length) {
      if (!alike.empty()) all.push_back(std::move(alike));
    }
    return all;
  }

  void ask(std::span<const std::size_t> asked, std::size_t choice, Batch& out) const override {
    SCALING_CHECK(choice < choices());
    std::vector<Row> rows;
    for (const std::size_t question : asked) {
      SCALING_CHECK(question < questions());
      rows.push_back({&evaluated(question), choice});
    }
    fill(rows, out);
  }

  bool is_right(std::size_t question, std::size_t choice) const override {
    return evaluated(question).label.answer == choice;
  }

  std::vector<Score> scores(std::span<const std::size_t> chosen) const override {
    SCALING_CHECK(chosen.size() == questions());
    std::vector<std::size_t> truth;
    std::vector<double> values, told;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      truth.push_back(evaluated(i).label.answer);
      values.push_back(evaluated(i).label.value);
      told.push_back(value_of(task_, chosen[i]));
    }
    std::vector<Score> all = {{"label_accuracy", share_right(truth, chosen)}};
    switch (task_.measure) {
      case GlueTask::Measure::accuracy:
        break;
      case GlueTask::Measure::f1:
        all.push_back({"f1", f1_of_class_1(truth, chosen)});
        break;
      case GlueTask::Measure::matthews:
        all.push_back({"matthews", matthews_correlation(truth, chosen)});
        break;
      case GlueTask::Measure::correlations:
        all.push_back({"pearson", pearson_correlation(values, told)});
        all.push_back({"spearman", spearman_correlation(values, told)});
        break;
    }
    return all;
  }

 private:
  struct Row {
    const Question* question;
    std::size_t answer;  // that is told
    bool is_counted = true;
  };

  /// Of its source, where it stands alone.
  std::int64_t padded_length(const Question& question) const {
    const auto length = std::max<std::int64_t>(1, std::int64_t(question.source.size()));
    return std::min(config_.length, (length + kPadTo - 1) / kPadTo * kPadTo);
  }

  std::uint64_t pool_size() const { return kPooled * std::uint64_t(config_.batch); }

  /// Rows that are trained on from an example on that begins a pool: an epoch's next, in an order
  /// drawn for the epoch, up to its end. They are sorted by length, dealt to batches, and batches
  /// shuffled, so that lengths do not rise; one that other rows begin or end stays where it is.
  std::vector<const Question*> pool_of(std::uint64_t begin) const {
    const std::uint64_t count = trained_.all.size(), epoch = begin / count, first = begin % count;
    const std::uint64_t key = key_of_epoch(config_.data_seed, EpochDraws::order, epoch);
    const Permutation drawn(count, key);
    std::vector<const Question*> sorted;
    for (std::uint64_t i = first; i < std::min(count, first + pool_size()); ++i) {
      sorted.push_back(&trained_.all[drawn(i)]);
    }
    std::stable_sort(sorted.begin(), sorted.end(), [this](const Question* a, const Question* b) {
      return padded_length(*a) < padded_length(*b);
    });
    const auto batch = std::uint64_t(config_.batch);
    const std::uint64_t ahead =
        std::min<std::uint64_t>(sorted.size(), (batch - begin % batch) % batch);
    const std::uint64_t whole = (sorted.size() - ahead) / batch;
    const Permutation order(whole, key ^ (first + 1));
    std::vector<const Question*> pool = sorted;
    for (std::uint64_t b = 0; b < whole; ++b) {
      std::copy_n(sorted.begin() + std::ptrdiff_t(ahead + b * batch), batch,
                  pool.begin() + std::ptrdiff_t(ahead + order(b) * batch));
    }
    return pool;
  }

  /// language_weight > 0: prompts are told behind the answers.
  void fill(std::span<const Row> rows, Batch& out, double language_weight = 0) const {
    SCALING_CHECK(!rows.empty());
    std::int64_t longest = 0;
    for (const Row& row : rows) longest = std::max(longest, padded_length(*row.question));
    out.examples = std::int64_t(rows.size());
    out.source_length = longest;
    out.input_length = target_length_ + (language_weight > 0 ? longest : 0);
    out.source.assign(std::size_t(out.examples * out.source_length), 0);
    out.target.assign(std::size_t(out.examples * out.input_length), 0);
    out.weights.assign(out.target.size(), 0.0f);
    out.causal = needs_.causal;
    out.bytes = 0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::vector<int>& source = rows[i].question->source;
      std::copy(source.begin(), source.end(),
                out.source.begin() + std::int64_t(i) * out.source_length);
      const std::vector<int>& told = answers_[rows[i].answer];
      const std::int64_t first = std::int64_t(i) * out.input_length;
      std::copy(told.begin(), told.end(), out.target.begin() + first);
      if (!rows[i].is_counted) continue;
      std::fill_n(out.weights.begin() + first, told.size(), 1.0f);
      for (const int id : told) out.bytes += text_->tokenizer().bytes_of(id);
      if (language_weight > 0 && !source.empty()) {
        const std::int64_t behind = first + std::int64_t(told.size());
        std::copy(source.begin(), source.end(), out.target.begin() + behind);
        std::fill_n(out.weights.begin() + behind, source.size(),
                    float(language_weight * double(told.size()) / double(source.size())));
      }
    }
    shift_right(out.target, out.examples, out.input);
  }

  /// The question at this place of those that are evaluated.
  const Question& evaluated(std::size_t at) const {
    return held_out_.all[at * held_out_.all.size() / evaluated_];
  }

  const TrainConfig config_;
  const Needs needs_;
  const GlueTask& task_;
  const std::int64_t vocab_size_;
  const std::unique_ptr<TextStore> text_;
  const Questions trained_, held_out_;
  const std::size_t evaluated_;         // of held_out_
  std::vector<std::size_t> by_length_;  // those, the shortest first
  std::vector<std::vector<int>> answers_;
  std::int64_t target_length_ = 0;  // tokens of the longest answer
};

}  // namespace

Needs needs_of_glue(const TrainConfig& config) {
  std::size_t longest = 0;
  for (const GlueTask::Answer& answer : glue_task(config.task).answers) {
    longest = std::max(longest, answer.words.size());
  }
  // No tokenizer makes more pieces of a text than it has bytes.
  require_within("language_weight", config.language_weight, 0, kMostLanguageWeight);
  const Lengths evaluated{config.length, std::int64_t(longest) + kOpeningPieces};
  Lengths trained = evaluated;
  if (config.language_weight > 0) trained.input += config.length;
  return {.text = TextStore::Layout::table,
          .trained = trained,
          .evaluated = evaluated,
          .length_knobs = "length"};
}

std::unique_ptr<Task> make_glue(const TrainConfig& config, std::int64_t vocab_size,
                                std::unique_ptr<TextStore> text) {
  if (text->is_generated() || config.validation.empty()) {
    throw UserError("task " + config.task + " has corpus '" + config.corpus + "' and validation '" +
                    config.validation +
                    "', but learns from GLUE's own files; give two of them, such as --corpus "
                    "train.tsv --validation dev.tsv");
  }
  return std::make_unique<Glue>(config, vocab_size, std::move(text));
}

}  // namespace scaling
