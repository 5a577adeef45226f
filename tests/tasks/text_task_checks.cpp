// Texts of random words, and what every task of sentences has to do with them.
#include "tests/tasks/text_task_checks.h"

#include <fstream>
#include <set>

#include "kernels/gemm.h"
#include "kernels/random.h"
#include "kernels/team.h"
#include "models/tasks/catalog.h"

namespace scaling {

void write_sentences(const std::string& path, int documents, std::uint64_t seed) {
  std::ofstream out(path);
  Rng rng(seed);
  for (int document = 0; document < documents; ++document) {
    out << "{\"text\": \"";
    const std::uint32_t sentences = 4 + rng.below(6);
    for (std::uint32_t sentence = 0; sentence < sentences; ++sentence) {
      const std::uint32_t words = 2 + rng.below(5);
      for (std::uint32_t word = 0; word < words; ++word) {
        if (sentence + word > 0) out << ' ';
        const std::uint32_t letters = 2 + rng.below(5);
        for (std::uint32_t i = 0; i < letters; ++i) out << char('a' + rng.below(26));
      }
      out << '.';
    }
    out << "\"}\n";
  }
}

TrainConfig sentences_config(const std::string& task, const Folder& folder) {
  TrainConfig config;
  config.task = task;
  config.corpus = folder / "text.jsonl";
  write_sentences(config.corpus, 400, 1);
  config.batch = 6;
  config.length = 100;
  config.target_length = 40;
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

std::vector<int> example_of(const std::vector<int>& all, std::int64_t example,
                            std::int64_t length) {
  const auto first = all.begin() + example * length;
  return {first, first + length};
}

void expect_function_of_index(TrainConfig config, std::int64_t vocab_size, const Folder& folder) {
  const auto one = make_task(config, vocab_size, folder / "cache");
  const auto two = make_task(config, vocab_size, folder / "cache");
  Batch a, b, piece;
  one->train_batch(60, 0, 1, a);
  two->train_batch(3, 0, 1, b);
  EXPECT_NE(a.source, b.source);
  two->train_batch(60, 0, 1, b);
  EXPECT_EQ(a.source, b.source);
  EXPECT_EQ(a.input, b.input);
  EXPECT_EQ(a.target, b.target);
  EXPECT_EQ(a.weights, b.weights);
  std::vector<int> sources, targets;
  for (std::int64_t i = 0; i < 3; ++i) {
    one->train_batch(60, i, 3, piece);
    sources.insert(sources.end(), piece.source.begin(), piece.source.end());
    targets.insert(targets.end(), piece.target.begin(), piece.target.end());
  }
  EXPECT_EQ(sources, a.source);
  EXPECT_EQ(targets, a.target);

  one->validation_batch(0, 0, a);
  config.data_seed = 2;
  const auto other = make_task(config, vocab_size, folder / "cache");
  EXPECT_NE(other->identity(Purpose::resuming), one->identity(Purpose::resuming));
  EXPECT_EQ(other->identity(Purpose::comparison), one->identity(Purpose::comparison));
  other->validation_batch(0, 0, b);
  EXPECT_EQ(a.source, b.source);
  EXPECT_EQ(a.target, b.target);
  other->train_batch(60, 0, 1, b);
  one->train_batch(60, 0, 1, a);
  EXPECT_NE(a.source, b.source);
}

void expect_knobs_in_identity(const TrainConfig& config, std::int64_t vocab_size,
                              const Folder& folder,
                              const std::vector<std::pair<std::string, std::string>>& values) {
  std::set<std::string> resuming, comparison;
  const auto add = [&](const TrainConfig& changed) {
    const auto task = make_task(changed, vocab_size, folder / "cache");
    EXPECT_EQ(data_identity(changed, vocab_size, folder / "cache"),
              task->identity(Purpose::comparison));
    resuming.insert(task->identity(Purpose::resuming));
    comparison.insert(task->identity(Purpose::comparison));
  };
  add(config);
  for (const auto& [knob, value] : values) {
    TrainConfig changed = config;
    set_field(changed, knob, value);
    add(changed);
  }
  EXPECT_EQ(resuming.size(), values.size() + 1);
  EXPECT_EQ(comparison.size(), values.size() + 1);
}

void expect_resumes(TrainConfig config, std::int64_t vocab_size, const Folder& folder) {
  set_gemm_threads(1);
  const auto task = make_task(config, vocab_size, folder / "cache");
  ModelConfig shape = config_of_shape("tiny");
  shape.vocab_size = vocab_size;
  shape.encoder_layers = 1;
  shape.decoder_layers = 1;
  shape.max_length = config.length + 1;
  const auto trained = [&](const std::string& run, std::int64_t steps) {
    TrainConfig now = config;
    now.steps = steps;
    Transformer model(shape);
    {
      Team team(1);
      model.allocate_for_training(team);
    }
    Trainer trainer(model, *task, now, folder / run);
    trainer.resume();
    EXPECT_TRUE(trainer.run(nullptr, nullptr));
    EXPECT_EQ(trainer.step(), steps);
    return trainer.evaluate().log_perplexity;
  };
  const double whole = trained("whole", 6);
  const double half = trained("halves", 3);
  EXPECT_NE(half, whole);
  EXPECT_EQ(trained("halves", 6), whole);
}

}  // namespace scaling
