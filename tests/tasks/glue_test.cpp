// GLUE as text to text: prompts and answers against the literature's, files as they come, batches,
// and answers that are chosen by their probability.
#include "models/tasks/glue.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "kernels/gemm.h"
#include "kernels/team.h"
#include "models/tasks/catalog.h"
#include "models/tasks/glue_tasks.h"
#include "models/training/trainer.h"
#include "tests/helpers.h"
#include "tests/tasks/text_task_checks.h"

namespace scaling {
namespace {

constexpr std::int64_t kVocab = 260;

void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

TrainConfig config_for(const std::string& task, const Folder& folder) {
  TrainConfig config;
  config.task = task;
  config.corpus = folder / "train.tsv";
  config.validation = folder / "dev.tsv";
  config.batch = 6;
  config.length = 100;
  config.gemm = "eigen";
  config.optimizer = OptimizerKind::adam;
  config.schedule = Schedule::constant;
  config.learning_rate = 0.003;
  config.steps = 6;
  config.evaluate_every = 100;
  config.checkpoint_every = 100;
  config.evaluate_batches = 2;
  return config;
}

std::unique_ptr<Task> task_for(const TrainConfig& config, const Folder& folder) {
  return make_task(config, kVocab, folder / "cache");
}

/// Sentences of one letter, a (negative) or z (positive), of so many letters or, with 0, of 3 to 9.
std::string letters(int rows, int length) {
  std::string text = "sentence\tlabel\n";
  for (int row = 0; row < rows; ++row) {
    // Neither by turns nor all alike.
    const bool is_positive = row % 5 < 2;
    const int count = length > 0 ? length : 3 + row % 7;
    text += std::string(std::size_t(count), is_positive ? 'z' : 'a');
    text += "\t" + std::to_string(int(is_positive)) + "\n";
  }
  return text;
}

/// Texts of fixed length, so that no piece of a batch is shorter than another.
TrainConfig letters_config(const Folder& folder, int length = 6) {
  TrainConfig config = config_for("glue_sst2", folder);
  write_file(config.corpus, letters(40, length));
  write_file(config.validation, letters(17, length));
  return config;
}

std::string text_of(const std::vector<int>& ids, const Task& task) {
  return task.text()->tokenizer().decode(ids);
}

std::string source_of(const Batch& batch, std::int64_t example, const Task& task) {
  return text_of(example_of(batch.source, example, batch.source_length), task);
}

std::string target_of(const Batch& batch, std::int64_t example, const Task& task) {
  return text_of(example_of(batch.target, example, batch.input_length), task);
}

/// A row of a file as GLUE has it, and what T5 makes of it.
struct Known {
  std::string task, file, prompt, words;
};

/// Quotation marks, marks at the beginning and ends of lines are as in the files.
const std::vector<Known>& known() {
  static const std::vector<Known> all = {
      {"glue_mnli",
       "index\tsentence1\tsentence2\tgold_label\n0\tThe new rights are nice enough\tEveryone likes "
       "them \tneutral\n",
       "mnli hypothesis: Everyone likes them  premise: The new rights are nice enough", "neutral"},
      {"glue_qnli",
       "index\tquestion\tsentence\tlabel\n161\tHow many \"types\"?\tSeveral.\tnot_entailment\n",
       "qnli question: How many \"types\"? sentence: Several.", "not_entailment"},
      {"glue_sst2", "sentence\tlabel\nit 's a charming journey . \t1\n",
       "sst2 sentence: it 's a charming journey . ", "positive"},
      {"glue_qqp", "id\tquestion1\tquestion2\tis_duplicate\n59\tWhat is French?\tHow do I?\t0\n",
       "qqp question1: What is French? question2: How do I?", "not_duplicate"},
      {"glue_mrpc",
       "\xef\xbb\xbfQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\r\n1\t13\t14\tHe said so .\t\" So "
       "he said .\r\n",
       "mrpc sentence1: He said so . sentence2: \" So he said .", "equivalent"},
      {"glue_rte",
       "index\tsentence1\tsentence2\tlabel\n0\tNo weapons found.\tWeapons found.\tnot_entailment\n",
       "rte sentence1: No weapons found. sentence2: Weapons found.", "not_entailment"},
      {"glue_cola", "gj04\t0\t*\tThey drank the pub.\n", "cola sentence: They drank the pub.",
       "unacceptable"},
      {"glue_stsb",
       "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore\n"
       "0\tmain\tMSRvid\t2012\t0002\tnone\tnone\tA child rides.\tA young child rides.\t4.750\n",
       "stsb sentence1: A child rides. sentence2: A young child rides.", "4.8"}};
  return all;
}

TEST(GlueTasks, PromptsAndWordsAreT5s) {
  ASSERT_EQ(known().size(), glue_tasks().size());
  for (const Known& one : known()) {
    const Folder folder;
    TrainConfig config = config_for(one.task, folder);
    config.batch = 1;
    write_file(config.corpus, one.file);
    write_file(config.validation, one.file);
    const auto task = task_for(config, folder);
    Batch batch;
    for (const bool is_trained : {true, false}) {
      if (is_trained) {
        task->train_batch(0, 0, 1, batch);
      } else {
        task->validation_batch(0, 0, batch);
      }
      EXPECT_EQ(source_of(batch, 0, *task), one.prompt);
      EXPECT_EQ(target_of(batch, 0, *task), one.words);
      EXPECT_EQ(batch.bytes, double(one.words.size()));
    }
  }
}

TEST(GlueTasks, WordsOfEveryLabel) {
  const std::map<std::string, std::map<std::string, std::string>> words = {
      {"glue_mnli",
       {{"entailment", "entailment"}, {"neutral", "neutral"}, {"contradiction", "contradiction"}}},
      {"glue_qnli", {{"entailment", "entailment"}, {"not_entailment", "not_entailment"}}},
      {"glue_sst2", {{"0", "negative"}, {"1", "positive"}}},
      {"glue_qqp", {{"0", "not_duplicate"}, {"1", "duplicate"}}},
      {"glue_mrpc", {{"0", "not_equivalent"}, {"1", "equivalent"}}},
      {"glue_rte", {{"entailment", "entailment"}, {"not_entailment", "not_entailment"}}},
      {"glue_cola", {{"0", "unacceptable"}, {"1", "acceptable"}}}};
  for (const auto& [name, labels] : words) {
    const GlueTask& task = glue_task(name);
    EXPECT_EQ(task.answers.size(), labels.size()) << name;
    for (const auto& [label, told] : labels) {
      const auto found = label_of(task, label);
      ASSERT_TRUE(found.has_value()) << name << " " << label;
      EXPECT_EQ(task.answers[found->answer].words, told) << name;
      EXPECT_EQ(found->value, value_of(task, found->answer)) << name;
    }
    for (const char* bad : {"", "2", "-", "Entailment", "entailment ", "hidden"}) {
      EXPECT_FALSE(label_of(task, bad).has_value()) << name << " '" << bad << "'";
    }
  }
}

TEST(GlueTasks, SimilaritiesAreToldToTheNearestFifth) {
  const GlueTask& task = glue_task("glue_stsb");
  ASSERT_EQ(task.answers.size(), 26u);
  // Of two fifths as near, the even one.
  const std::map<std::string, std::string> words = {
      {"0", "0.0"},   {"5.000", "5.0"}, {"3.8", "3.8"}, {"3.89", "3.8"}, {"3.91", "4.0"},
      {"0.5", "0.4"}, {"0.7", "0.8"},   {"2.5", "2.4"}, {"3.5", "3.6"},  {"0.09", "0.0"}};
  for (const auto& [score, told] : words) {
    const auto found = label_of(task, score);
    ASSERT_TRUE(found.has_value()) << score;
    EXPECT_EQ(task.answers[found->answer].words, told) << score;
    EXPECT_EQ(found->value, std::stod(score));
    EXPECT_NEAR(value_of(task, found->answer), std::stod(told), 1e-12);
  }
  for (const char* bad : {"", "5.1", "-0.2", "nan", "inf", "3.8x", " 3.8", "1e9", "three"}) {
    EXPECT_FALSE(label_of(task, bad).has_value()) << bad;
  }
}

/// Else an answer's probability would be part of another's.
TEST(GlueTasks, NoAnswerBeginsWithAnother) {
  for (const GlueTask& task : glue_tasks()) {
    for (std::size_t a = 0; a < task.answers.size(); ++a) {
      EXPECT_FALSE(task.answers[a].words.empty());
      for (std::size_t b = 0; b < task.answers.size(); ++b) {
        EXPECT_EQ(task.answers[b].words.rfind(task.answers[a].words, 0) == 0, a == b)
            << task.name << ": " << task.answers[b].words;
      }
    }
  }
}

TEST(GlueTasks, AreThoseOfTheCatalog) {
  std::set<std::string> listed, tasks;
  for (const std::string& name : task_names()) {
    if (name.rfind("glue_", 0) == 0) listed.insert(name);
  }
  int in_paper = 0;
  for (const GlueTask& task : glue_tasks()) {
    tasks.insert(task.name);
    EXPECT_EQ("glue_" + task.opening, task.name);
    in_paper += task.in_paper;
  }
  EXPECT_EQ(listed, tasks);
  EXPECT_EQ(in_paper, 6);
  EXPECT_FALSE(glue_task("glue_cola").in_paper);
  EXPECT_FALSE(glue_task("glue_stsb").in_paper);
}

TEST(Glue, TargetsAreWordsWithoutAnEnd) {
  const Folder folder;
  const TrainConfig config = letters_config(folder, 0);
  const auto task = task_for(config, folder);
  const Needs needs = needs_of(config);
  Batch batch;
  for (std::int64_t step = 0; step < 10; ++step) {
    task->train_batch(step, 0, 1, batch);
    EXPECT_TRUE(batch.causal);
    EXPECT_EQ(batch.examples, 6);
    EXPECT_EQ(batch.input_length, 8);  // "negative", "positive"
    EXPECT_LE(batch.input_length, needs.trained.input);
    std::size_t longest = 0;
    for (std::int64_t e = 0; e < batch.examples; ++e) {
      const std::string source = source_of(batch, e, *task), target = target_of(batch, e, *task);
      longest = std::max(longest, source.size());
      EXPECT_EQ(target, source.back() == 'z' ? "positive" : "negative") << source;
      const std::vector<int> input = example_of(batch.input, e, 8);
      const std::vector<int> told = example_of(batch.target, e, 8);
      EXPECT_EQ(input.front(), 0);
      EXPECT_TRUE(std::equal(input.begin() + 1, input.end(), told.begin()));
      EXPECT_EQ(std::count(told.begin(), told.end(), 1), 0);
    }
    EXPECT_EQ(std::count(batch.weights.begin(), batch.weights.end(), 1.0f), 6 * 8);
    // Padded to the longest, in eights.
    EXPECT_EQ(batch.source_length, std::int64_t((longest + 7) / 8 * 8));
  }
}

/// GPT's auxiliary loss: the mean over the prompt's tokens weighs half of the mean over the
/// label's.
TEST(Glue, PromptsAreToldBehindLabels) {
  const Folder folder;
  TrainConfig config = letters_config(folder, 0);
  const auto plain = task_for(config, folder);
  const std::int64_t label = needs_of(config).trained.input;
  config.language_weight = 0.5;
  const auto task = task_for(config, folder);
  EXPECT_EQ(needs_of(config).trained.input, label + 100);
  Batch batch, without;
  for (std::int64_t step = 0; step < 5; ++step) {
    task->train_batch(step, 0, 1, batch);
    plain->train_batch(step, 0, 1, without);
    EXPECT_EQ(batch.source, without.source);
    EXPECT_EQ(batch.input_length, 8 + batch.source_length);
    EXPECT_LE(batch.input_length, needs_of(config).trained.input);
    for (std::int64_t e = 0; e < batch.examples; ++e) {
      const std::string source = source_of(batch, e, *task);
      const std::string words = target_of(without, e, *plain);
      EXPECT_EQ(target_of(batch, e, *task), words + source);
      const auto weights = batch.weights.begin() + e * batch.input_length;
      EXPECT_EQ(std::count(weights, weights + 8, 1.0f), 8);
      EXPECT_NEAR(std::accumulate(weights + 8, weights + batch.input_length, 0.0), 4, 1e-5);
      for (std::int64_t i = 8 + std::int64_t(source.size()); i < batch.input_length; ++i) {
        EXPECT_EQ(weights[i], 0.0f);
      }
    }
  }
  task->validation_batch(0, 0, batch);
  plain->validation_batch(0, 0, without);
  EXPECT_EQ(batch.target, without.target);
  EXPECT_EQ(task->identity(Purpose::comparison), plain->identity(Purpose::comparison));
  EXPECT_NE(task->identity(Purpose::resuming), plain->identity(Purpose::resuming));
  // As a driver tells it before it reads the text.
  EXPECT_EQ(data_identity(config, kVocab, folder / "cache", {}),
            task->identity(Purpose::comparison));
  config.language_weight = -1;
  expect_mentions(message_of([&] { needs_of(config); }), {"language_weight -1", "from 0 to 100"});
}

/// Of answers of several lengths the shorter are padded, without weight.
TEST(Glue, PaddingHasNoWeight) {
  const Folder folder;
  TrainConfig config = config_for("glue_mrpc", folder);
  config.batch = 2;
  const std::string header = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n";
  write_file(config.corpus, header + "1\t0\t0\tA\tB\n0\t0\t0\tC\tD\n");
  write_file(config.validation, contents(config.corpus));
  const auto task = task_for(config, folder);
  Batch batch;
  task->validation_batch(0, 0, batch);
  EXPECT_EQ(batch.input_length, 14);
  EXPECT_EQ(target_of(batch, 0, *task), "equivalent");
  EXPECT_EQ(target_of(batch, 1, *task), "not_equivalent");
  for (int i = 0; i < 28; ++i) {
    EXPECT_EQ(batch.weights[std::size_t(i)], i < 10 || i >= 14 ? 1.0f : 0.0f) << i;
    EXPECT_EQ(batch.target[std::size_t(i)] == 0, i >= 10 && i < 14) << i;
  }
  EXPECT_EQ(batch.bytes, 24);
}

TEST(Glue, LongPromptsAreCutAndThatIsSaid) {
  const Folder folder;
  TrainConfig config = letters_config(folder);
  config.length = 18;  // of 15 + 6
  const auto task = task_for(config, folder);
  Batch batch;
  task->train_batch(0, 0, 1, batch);
  EXPECT_EQ(batch.source_length, 18);
  EXPECT_EQ(source_of(batch, 0, *task).substr(0, 15), "sst2 sentence: ");
  EXPECT_EQ(source_of(batch, 0, *task).size(), 18u);
  expect_mentions(task->description(),
                  {"glue_sst2, 40 examples to train on (40 cut at 18 tokens)",
                   "17 to evaluate on (12 used, 17 cut)", "6 steps make 0.9 epochs"});
  EXPECT_EQ(task->description().find("paper"), std::string::npos);
  TrainConfig other = config_for("glue_cola", folder);
  write_file(other.corpus, "gj04\t1\t\tIt is.\n");
  write_file(other.validation, contents(other.corpus));
  expect_mentions(task_for(other, folder)->description(), {"not one of the paper's", "(0 cut"});
}

TEST(Glue, EveryEpochSeesEveryRowOnce) {
  const Folder folder;
  TrainConfig config = letters_config(folder);
  std::string text = "sentence\tlabel\n";
  for (int row = 0; row < 30; ++row) text += "row " + std::to_string(row + 10) + "\t0\n";
  write_file(config.corpus, text);
  const auto task = task_for(config, folder);
  std::set<std::vector<std::string>> orders;
  Batch batch;
  for (std::int64_t epoch = 0; epoch < 3; ++epoch) {
    std::vector<std::string> order;
    for (std::int64_t step = 5 * epoch; step < 5 * epoch + 5; ++step) {
      task->train_batch(step, 0, 1, batch);
      for (std::int64_t e = 0; e < 6; ++e) order.push_back(source_of(batch, e, *task));
    }
    EXPECT_EQ(std::set<std::string>(order.begin(), order.end()).size(), 30u);
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 3u);
}

/// One epoch is one pool: its batches are stretches of the rows by length, not in their order.
TEST(Glue, BatchesHoldRowsOfLikeLengths) {
  const Folder folder;
  TrainConfig config = letters_config(folder);
  config.length = 200;
  std::string text = "sentence\tlabel\n";
  for (int row = 0; row < 60; ++row)
    text += std::string(std::size_t(1 + row * 7 % 60 * 3), 'a') + "\t0\n";
  write_file(config.corpus, text);
  const auto task = task_for(config, folder);
  std::vector<std::pair<std::size_t, std::size_t>> ends;  // shortest and longest of each batch
  Batch batch;
  for (std::int64_t step = 0; step < 10; ++step) {
    task->train_batch(step, 0, 1, batch);
    std::size_t shortest = 1000, longest = 0;
    for (std::int64_t e = 0; e < batch.examples; ++e) {
      const std::size_t length = source_of(batch, e, *task).size();
      shortest = std::min(shortest, length);
      longest = std::max(longest, length);
    }
    EXPECT_LT(std::size_t(batch.source_length), longest + 8);
    ends.emplace_back(shortest, longest);
  }
  EXPECT_FALSE(std::is_sorted(ends.begin(), ends.end()));
  std::sort(ends.begin(), ends.end());
  for (std::size_t i = 1; i < ends.size(); ++i) {
    // Lengths that are padded alike are alike.
    EXPECT_LT(ends[i - 1].second, ends[i].first + 8);
  }
}

/// Where rows are no multiple of the batch, an epoch ends within one.
TEST(Glue, EveryEpochSeesEveryRowOnceWhateverTheBatch) {
  const Folder folder;
  TrainConfig config = letters_config(folder);
  config.batch = 4;
  config.length = 100;
  std::string text = "sentence\tlabel\n";
  for (int row = 0; row < 77; ++row) text += std::string(std::size_t(1 + row), 'a') + "\t0\n";
  write_file(config.corpus, text);
  const auto task = task_for(config, folder);
  std::vector<std::size_t> lengths;
  Batch batch;
  for (std::int64_t step = 0; step < 2 * 77 / 4 + 1; ++step) {
    task->train_batch(step, 0, 1, batch);
    for (std::int64_t e = 0; e < batch.examples; ++e) {
      lengths.push_back(source_of(batch, e, *task).size());
    }
  }
  for (int epoch = 0; epoch < 2; ++epoch) {
    const auto begin = lengths.begin() + 77 * epoch;
    EXPECT_EQ(std::set<std::size_t>(begin, begin + 77).size(), 77u) << epoch;
  }
}

TEST(Glue, EvaluationSpreadsOverTheRowsAndIsFilledUp) {
  const Folder folder;
  TrainConfig config = letters_config(folder);
  std::string text = "sentence\tlabel\n";
  for (int row = 0; row < 24; ++row) text += "row " + std::to_string(row + 10) + "\t0\n";
  write_file(config.validation, text);
  const auto seen = [&] {
    const auto task = task_for(config, folder);
    std::vector<std::string> rows;
    Batch batch, one;
    for (std::int64_t index = 0; index < task->validation_batches(); ++index) {
      task->validation_batch(0, index, batch);
      EXPECT_EQ(batch.examples, config.batch / config.accumulate);
      for (std::int64_t e = 0; e < batch.examples; ++e) {
        const auto first = batch.weights.begin() + e * batch.input_length;
        const double weight = std::accumulate(first, first + batch.input_length, 0.0);
        EXPECT_TRUE(weight == 0 || weight == 8) << weight;
        if (weight > 0) rows.push_back(source_of(batch, e, *task));
      }
    }
    // The same questions, one by one.
    EXPECT_EQ(task->answers()->questions(), rows.size());
    for (std::size_t i = 0; i < rows.size(); ++i) {
      task->answers()->ask(std::span(&i, 1), 1, one);
      EXPECT_EQ(one.examples, 1);
      EXPECT_EQ(source_of(one, 0, *task), rows[i]);
      EXPECT_EQ(target_of(one, 0, *task), "positive");
      EXPECT_EQ(std::count(one.weights.begin(), one.weights.end(), 1.0f), 8);
    }
    return rows;
  };
  const std::vector<std::string> half = seen();  // 12 of 24
  ASSERT_EQ(half.size(), 12u);
  EXPECT_EQ(half[0], "sst2 sentence: row 10");
  EXPECT_EQ(half[1], "sst2 sentence: row 12");
  EXPECT_EQ(half[11], "sst2 sentence: row 32");
  config.evaluate_batches = 100;
  config.batch = 10;
  config.accumulate = 2;
  EXPECT_EQ(seen().size(), 24u);  // in batches of five
}

/// Every question once, none padded further than alone, and a batch of them is them one by one.
TEST(Glue, GroupsOfQuestionsAreTheQuestions) {
  const Folder folder;
  TrainConfig config = config_for("glue_stsb", folder);
  config.length = 56;  // the longest are cut
  std::string text = "sentence1\tsentence2\tscore\n";
  for (int row = 0; row < 30; ++row) {
    text += std::string(std::size_t(1 + row), 'a') + "\tb\t" + std::to_string(row % 6) + "\n";
  }
  write_file(config.corpus, text);
  write_file(config.validation, text);
  config.evaluate_batches = 100;
  const auto task = task_for(config, folder);
  const Answers& answers = *task->answers();
  ASSERT_EQ(answers.questions(), 30u);
  ASSERT_EQ(answers.choices(), 26u);
  for (const std::size_t most : {1u, 4u, 100u}) {
    std::multiset<std::size_t> asked;
    std::size_t largest = 0;
    Batch together, alone;
    for (const std::vector<std::size_t>& group : answers.groups(most)) {
      ASSERT_FALSE(group.empty());
      largest = std::max(largest, group.size());
      asked.insert(group.begin(), group.end());
      for (const std::size_t choice : {std::size_t(0), std::size_t(25)}) {
        answers.ask(group, choice, together);
        ASSERT_EQ(together.examples, std::int64_t(group.size()));
        for (std::size_t i = 0; i < group.size(); ++i) {
          answers.ask(std::span(&group[i], 1), choice, alone);
          ASSERT_EQ(alone.source_length, together.source_length);
          ASSERT_EQ(alone.input_length, together.input_length);
          const auto at = std::int64_t(i);
          EXPECT_EQ(alone.source, example_of(together.source, at, together.source_length));
          EXPECT_EQ(alone.input, example_of(together.input, at, together.input_length));
          EXPECT_EQ(alone.target, example_of(together.target, at, together.input_length));
          const auto first = together.weights.begin() + at * together.input_length;
          EXPECT_TRUE(std::equal(alone.weights.begin(), alone.weights.end(), first));
        }
      }
    }
    EXPECT_LE(largest, most);
    EXPECT_EQ(asked.size(), 30u);
    for (std::size_t i = 0; i < 30; ++i) EXPECT_EQ(asked.count(i), 1u) << i;
  }
  EXPECT_LT(answers.groups(100).size(), 6u);  // so that something goes together
  // Row 7 has the score 1, the fifth fifth.
  EXPECT_TRUE(answers.is_right(7, 5));
  EXPECT_FALSE(answers.is_right(7, 4));
}

TEST(Glue, ExamplesAreAFunctionOfSeedAndIndex) {
  const Folder folder;
  TrainConfig config = letters_config(folder);
  std::string text = "sentence\tlabel\n";
  for (int row = 0; row < 40; ++row) text += "row " + std::to_string(row + 10) + "\t1\n";
  write_file(config.corpus, text);
  expect_function_of_index(config, kVocab, folder);
}

TEST(Glue, WhatIsReadIsPartOfTheIdentity) {
  const Folder folder;
  const TrainConfig config = letters_config(folder);
  write_file(folder / "other.tsv", letters(20, 5));
  expect_knobs_in_identity(
      config, kVocab, folder,
      {{"length", "50"}, {"corpus", folder / "other.tsv"}, {"validation", folder / "other.tsv"}});
}

TEST(Glue, SeveralFilesAreOneText) {
  const Folder folder;
  TrainConfig config = letters_config(folder);
  write_file(folder / "train_2.tsv", "label\tsentence\n1\tzzzzzz\n");  // columns change places
  config.corpus = folder / "train*.tsv";
  expect_mentions(task_for(config, folder)->description(), {"41 examples to train on"});
}

TEST(Glue, RefusesWhatIsNoneOfItsFiles) {
  const Folder folder;
  TrainConfig config = letters_config(folder);
  const auto refusal = [&] { return message_of([&] { task_for(config, folder); }); };
  EXPECT_EQ(refusal(), "no error");
  const std::string good = contents(config.validation);

  write_file(config.validation, good + "zz\tmaybe\n");
  expect_mentions(refusal(), {config.validation + ":19: ", "'maybe'", "glue_sst2", "'0', '1'",
                              "name the task whose file this is"});
  write_file(config.validation, good + "zz\n");
  expect_mentions(refusal(), {config.validation + ":19: ", "1 fields", "2 columns"});
  // GLUE's own test files have no labels.
  write_file(config.validation, "index\tsentence\n0\tzz\n");
  expect_mentions(refusal(), {config.validation + ":1: ", "no column 'label'", "with labels"});
  write_file(config.validation, "sentence\tlabel\n");
  expect_mentions(refusal(), {config.validation, "no row for task glue_sst2"});
  write_file(config.validation, "");
  expect_mentions(refusal(), {config.validation, "empty"});
  write_file(config.validation, good);

  config.validation.clear();
  expect_mentions(refusal(), {"glue_sst2", "--validation dev.tsv"});
  config.validation = config.corpus;
  config.corpus = "generated";
  expect_mentions(refusal(), {"'generated'", "--corpus train.tsv"});
  std::filesystem::create_directory(folder / "SST-2");
  write_file(folder / "SST-2/train.tsv", good);
  config.corpus = folder / "SST-2";
  expect_mentions(refusal(), {config.corpus, "name the file itself"});
  config.corpus = folder / "missing.tsv";
  expect_mentions(refusal(), {"missing.tsv", "no file"});

  config = config_for("glue_stsb", folder);
  write_file(config.corpus, "sentence1\tsentence2\tscore\na\tb\t5.5\n");
  write_file(config.validation, contents(config.corpus));
  expect_mentions(refusal(), {config.corpus + ":2: ", "'5.5'", "numbers from 0 to 5.0"});
}

TEST(Glue, ARunThatResumesIsTheSame) {
  const Folder folder;
  expect_resumes(letters_config(folder, 0), kVocab, folder);
}

double score_of(const std::vector<Score>& scores, const std::string& name) {
  const auto at = std::find_if(scores.begin(), scores.end(),
                               [&name](const Score& score) { return score.name == name; });
  return at == scores.end() ? std::nan("") : at->value;
}

/// By hand.
TEST(Glue, ScoresAreThoseOfTheTask) {
  const Folder folder;
  const auto scores = [&](const std::string& name, const std::string& rows,
                          const std::vector<std::size_t>& chosen) {
    const TrainConfig config = config_for(name, folder);
    write_file(config.corpus, rows);
    write_file(config.validation, rows);
    return task_for(config, folder)->answers()->scores(chosen);
  };
  const std::string mrpc = "Quality\t#1 String\t#2 String\n1\ta\tb\n1\tc\td\n0\te\tf\n0\tg\th\n";
  const std::vector<Score> paraphrases = scores("glue_mrpc", mrpc, {1, 0, 1, 0});
  EXPECT_EQ(paraphrases.size(), 2u);
  EXPECT_DOUBLE_EQ(score_of(paraphrases, "label_accuracy"), 0.5);
  EXPECT_DOUBLE_EQ(score_of(paraphrases, "f1"), 0.5);  // a hit, a miss, a false alarm
  const std::string cola = "s\t1\t\ta\ns\t1\t\tb\ns\t0\t*\tc\ns\t0\t*\td\n";
  const std::vector<Score> sentences = scores("glue_cola", cola, {1, 1, 1, 0});
  EXPECT_DOUBLE_EQ(score_of(sentences, "label_accuracy"), 0.75);
  EXPECT_DOUBLE_EQ(score_of(sentences, "matthews"), 2 / std::sqrt(2.0 * 3 * 1 * 2));
  // Against the file's own numbers, not those rounded: 1.1, 2.0, 2.9 and 1.0, 4.0, 3.0. Their
  // deviations are -0.9 0 0.9 and -5/3 4/3 1/3.
  const std::string stsb = "sentence1\tsentence2\tscore\na\tb\t1.1\nc\td\t2.0\ne\tf\t2.9\n";
  const std::vector<Score> pairs = scores("glue_stsb", stsb, {5, 20, 15});
  EXPECT_EQ(pairs.size(), 3u);
  EXPECT_EQ(score_of(pairs, "label_accuracy"), 0);
  EXPECT_NEAR(score_of(pairs, "pearson"), 0.9 * 2 / std::sqrt(2 * 0.81 * 42 / 9), 1e-12);
  EXPECT_NEAR(score_of(pairs, "spearman"), 0.5, 1e-12);
  EXPECT_TRUE(std::isnan(score_of(scores("glue_stsb", stsb, {5, 5, 5}), "pearson")));
  const std::string rte = "sentence1\tsentence2\tlabel\na\tb\tentailment\nc\td\tentailment\n";
  const std::vector<Score> entailments = scores("glue_rte", rte, {0, 1});
  EXPECT_EQ(entailments.size(), 1u);
  EXPECT_DOUBLE_EQ(score_of(entailments, "label_accuracy"), 0.5);
}

/// Natural logarithm of the probability of a text's tokens one after another, from plain logits.
double log_probability(const Transformer& model, const std::vector<int>& source,
                       const std::vector<int>& told) {
  const Mat logits = model.forward(source, told);
  double sum = 0;
  for (std::size_t i = 0; i < told.size(); ++i) {
    double all = 0;
    for (std::int64_t id = 0; id < logits.cols(); ++id) {
      all += std::exp(double(logits(std::int64_t(i), id)));
    }
    sum += double(logits(std::int64_t(i), told[i])) - std::log(all);
  }
  return sum;
}

/// 400 steps tell letters apart; what evaluation then chooses is what is likeliest by definition.
TEST(Glue, TheLikeliestAnswerIsLearntAndChosen) {
  set_gemm_threads(1);
  const Folder folder;
  TrainConfig config = letters_config(folder, 0);
  config.batch = 8;
  config.steps = 400;
  config.evaluate_every = 400;
  config.checkpoint_every = 400;
  const auto task = task_for(config, folder);
  ModelConfig shape = config_of_shape("tiny");
  shape.vocab_size = kVocab;
  shape.encoder_layers = 1;
  shape.decoder_layers = 1;
  shape.max_length = config.length;
  Transformer model(shape);
  {
    Team team(1);
    model.allocate_for_training(team);
  }
  Trainer trainer(model, *task, config, folder / "run");
  const Answers& answers = *task->answers();
  const auto chosen_by_definition = [&] {
    std::vector<std::size_t> chosen;
    Batch batch;
    for (std::size_t question = 0; question < answers.questions(); ++question) {
      std::vector<double> likely;
      for (std::size_t choice = 0; choice < answers.choices(); ++choice) {
        answers.ask(std::span(&question, 1), choice, batch);
        likely.push_back(log_probability(model, batch.source, batch.target));
      }
      const auto best = std::max_element(likely.begin(), likely.end());
      chosen.push_back(std::size_t(best - likely.begin()));
    }
    return chosen;
  };
  const double before = score_of(trainer.evaluate().scores, "label_accuracy");
  EXPECT_DOUBLE_EQ(before, score_of(answers.scores(chosen_by_definition()), "label_accuracy"));
  EXPECT_LT(before, 0.9);
  const std::vector<bool> right = trainer.evaluate().right;
  ASSERT_EQ(right.size(), answers.questions());
  EXPECT_DOUBLE_EQ(
      before, double(std::count(right.begin(), right.end(), true)) / double(answers.questions()));
  EXPECT_TRUE(trainer.run(nullptr, nullptr));
  const Evaluation after = trainer.evaluate();
  ASSERT_EQ(after.scores.size(), 1u);
  EXPECT_EQ(after.right, std::vector<bool>(answers.questions(), true));
  EXPECT_DOUBLE_EQ(score_of(after.scores, "label_accuracy"),
                   score_of(answers.scores(chosen_by_definition()), "label_accuracy"));
  EXPECT_EQ(score_of(after.scores, "label_accuracy"), 1);
  EXPECT_EQ(after.sequence_accuracy, 1);
}

TEST(Glue, ThePictureInTheGuideIsWhatTheTaskMakes) {
  const std::string guide = contents(std::string(SOURCE_DIR) + "/docs/training.md");
  const Folder folder;
  TrainConfig config = config_for("glue_rte", folder);
  config.batch = 1;
  config.length = 200;
  write_file(config.corpus,
             "index\tsentence1\tsentence2\tlabel\n0\tNo Weapons of Mass Destruction Found in Iraq "
             "Yet.\tWeapons of Mass Destruction Found in Iraq.\tnot_entailment\n");
  write_file(config.validation, contents(config.corpus));
  const auto task = task_for(config, folder);
  Batch batch;
  task->validation_batch(0, 0, batch);
  const std::string picture =
      "source  " + source_of(batch, 0, *task) + "\ntarget  " + target_of(batch, 0, *task) + "\n";
  EXPECT_NE(guide.find(picture), std::string::npos) << picture;
  for (const GlueTask& one : glue_tasks()) {
    EXPECT_NE(guide.find("`" + one.name + "`"), std::string::npos) << one.name;
  }
}

}  // namespace
}  // namespace scaling
