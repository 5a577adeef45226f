// Training that starts from a file's weights: they are those of the file, whoever wrote it; what
// does not fit is refused by name; and a run that was interrupted equals one that was not.
#include "models/training/initial_weights.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "kernels/bf16.h"
#include "kernels/gemm.h"
#include "kernels/team.h"
#include "models/tasks/catalog.h"
#include "models/text/safetensors.h"
#include "models/training/checkpoint.h"
#include "models/training/run_state.h"
#include "models/training/run_tokenizer.h"
#include "models/training/trainer.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

ModelConfig small_model(std::uint64_t seed = 1, std::int64_t vocab_size = 260) {
  ModelConfig c = config_of_shape("tiny");
  c.d_ff = 64;
  c.vocab_size = vocab_size;
  c.encoder = true;
  c.encoder_layers = 0;
  c.feed_forward = "sparse";
  c.seed = seed;
  return c;
}

TrainConfig short_training() {
  TrainConfig t;
  t.batch = 4;
  t.length = 32;
  t.steps = 8;
  t.optimizer = OptimizerKind::adam;
  t.schedule = Schedule::constant;
  t.learning_rate = 0.01;
  t.dropout = 0.1;
  t.evaluate_every = 4;
  t.evaluate_batches = 2;
  t.checkpoint_every = 3;
  t.gemm = "eigen";
  return t;
}

std::unique_ptr<Transformer> trainable(const ModelConfig& config) {
  auto model = std::make_unique<Transformer>(config);
  Team team(1);
  model->allocate_for_training(team);
  return model;
}

std::vector<float> weights_of(Transformer& model) {
  std::vector<float> all;
  for (Parameter* p : model.parameters()) {
    all.insert(all.end(), p->values(), p->values() + p->count());
  }
  return all;
}

/// A parameter as another program would write it.
struct Tensor {
  std::string name, dtype = "F32";
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

std::vector<Tensor> tensors_of(Transformer& model) {
  std::vector<Tensor> tensors;
  for (Parameter* p : model.parameters()) {
    tensors.push_back({p->name, "F32", {p->rows, p->cols}, {}});
    tensors.back().values.assign(p->values(), p->values() + p->count());
  }
  return tensors;
}

class InitialWeightsTest : public testing::Test {
 protected:
  void SetUp() override { set_gemm_threads(1); }

  /// dtype BF16: of the values' upper halves.
  void put(const std::vector<Tensor>& tensors,
           const std::vector<std::pair<std::string, std::string>>& more = {}) {
    std::vector<std::pair<std::string, std::string>> metadata = {{"format", kOwnFormat}};
    metadata.insert(metadata.end(), more.begin(), more.end());
    std::vector<std::vector<std::uint16_t>> halves;
    std::vector<TensorData> data;
    for (const Tensor& t : tensors) {
      const void* values = t.values.data();
      if (t.dtype != "F32") {
        auto& narrow = halves.emplace_back();
        for (const float value : t.values) narrow.push_back(to_bf16(value).bits);
        values = narrow.data();
      }
      data.push_back({t.name, t.dtype, t.shape, values});
    }
    write_safetensors(path_, metadata, data);
  }
  std::unique_ptr<Task> data(const TrainConfig& config, std::int64_t vocab_size = 260) {
    return make_task(config, vocab_size, folder_ / "cache");
  }
  Folder folder_;
  const std::string path_ = folder_ / "some.safetensors";
};

Parameter& first_vector(Transformer& model) {
  for (Parameter* p : model.parameters()) {
    if (p->is_vector) return *p;
  }
  ADD_FAILURE() << "the model has no vector";
  return *model.parameters().front();
}

TEST_F(InitialWeightsTest, AreTheFilesWhateverItsOrderAndDtypes) {
  const auto from = trainable(small_model(1)), to = trainable(small_model(2));
  const std::vector<float> weights = weights_of(*from);
  ASSERT_NE(weights_of(*to), weights);
  std::vector<Tensor> tensors = tensors_of(*from);
  std::reverse(tensors.begin(), tensors.end());
  for (Tensor& t : tensors) {
    if (t.name == first_vector(*from).name) t.shape = {std::int64_t(t.values.size())};
  }
  tensors.push_back({"optimizer.some", "F32", {2}, {1, 2}});
  put(tensors);
  load_initial_weights(path_, to->parameters(), nullptr);
  EXPECT_EQ(weights_of(*to), weights);

  for (Tensor& t : tensors) t.dtype = "BF16";
  put(tensors);
  load_initial_weights(path_, to->parameters(), nullptr);
  const std::vector<float> rounded = weights_of(*to);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    ASSERT_EQ(rounded[i], to_float(to_bf16(weights[i]))) << i;
  }
}

TEST_F(InitialWeightsTest, WhatDoesNotFitIsRefusedByNameAndTouchesNothing) {
  const auto model = trainable(small_model(1));
  const std::vector<float> weights = weights_of(*model);
  std::vector<Tensor> other = tensors_of(*trainable(small_model(2)));
  const auto refused = [&](const std::vector<Tensor>& tensors,
                           const std::vector<std::string>& words) {
    put(tensors);
    const std::string message =
        message_of([&] { load_initial_weights(path_, model->parameters(), nullptr); });
    expect_mentions(message, words);
    expect_mentions(message, {path_});
    EXPECT_EQ(weights_of(*model), weights);
  };
  const Tensor& matrix = other.front();
  const std::string shape = text_of_shape(matrix.shape);
  std::vector<Tensor> changed(other.begin() + 1, other.end());
  refused(changed, {"lacks the tensor '" + matrix.name + "' (" + shape + ")", "knobs"});
  changed = other;
  changed.push_back({"decoder.9.more", "F32", {1, 2}, {1, 2}});
  refused(changed, {"holds 'decoder.9.more' (1 x 2), which this model lacks", "knobs"});
  changed = other;
  changed.front().shape.push_back(1);
  refused(changed, {"holds '" + matrix.name + "' as " + shape + " x 1", "this model's is " + shape,
                    "knobs"});
  changed = other;
  changed.front().dtype = "I16";
  refused(changed, {"'" + matrix.name + "' as I16", "F32, F16 or BF16"});
  EXPECT_EQ(message_of([&] {
              put(other);
              load_initial_weights(path_, model->parameters(), nullptr);
            }),
            "no error");
  changed = other;
  changed.back().values.back() = std::numeric_limits<float>::quiet_NaN();
  put(changed);
  expect_mentions(message_of([&] { load_initial_weights(path_, model->parameters(), nullptr); }),
                  {path_, changed.back().name, "not finite"});
}

TEST_F(InitialWeightsTest, OfAnotherTokenizerAreRefused) {
  const auto model = trainable(small_model());
  const auto bytes = make_byte_tokenizer(260);
  const auto load = [&](const std::string& theirs, const Tokenizer* ours) {
    put(tensors_of(*model), {{kTokenizerText, theirs}});
    return message_of([&] { load_initial_weights(path_, model->parameters(), ours); });
  };
  EXPECT_EQ(load("bytes", bytes.get()), "no error");
  EXPECT_EQ(load("sentencepiece 0", nullptr), "no error");  // examples that are drawn
  expect_mentions(load("sentencepiece 0", bytes.get()),
                  {path_, "'sentencepiece 0'", "'bytes'", "set tokenizer"});
}

TEST_F(InitialWeightsTest, ContentIsTheBytes) {
  std::ofstream(folder_ / "a") << "some";
  std::ofstream(folder_ / "b") << "some";
  std::ofstream(folder_ / "c") << "Some";
  EXPECT_EQ(content_of(folder_ / "a"), content_of(folder_ / "b"));
  EXPECT_NE(content_of(folder_ / "a"), content_of(folder_ / "c"));
  for (const std::string& none : {folder_ / "none", folder_.path()}) {
    expect_mentions(message_of([&] { content_of(none); }), {none, "cannot be read"});
  }
}

TEST_F(InitialWeightsTest, AResumedRunIsTheUninterruptedOneBitForBit) {
  TrainConfig config = short_training();
  const auto corpus = data(config);
  {
    const auto first = trainable(small_model(1));
    Trainer trainer(*first, *corpus, config, folder_ / "first");
    trainer.run(nullptr, nullptr);
    EXPECT_EQ(trainer.init(), "");
  }
  config.init_from = folder_ / "first/best.ckpt";
  config.data_seed = 2;
  const auto second_corpus = data(config);
  const auto train = [&](const std::string& folder, std::int64_t last) {
    const auto model = trainable(small_model(2));
    Trainer trainer(*model, *second_corpus, config, folder_ / folder);
    EXPECT_EQ(trainer.init(), content_of(config.init_from));
    trainer.resume();
    trainer.run(nullptr, [&] { return trainer.step() >= last; });
    return weights_of(*model);
  };
  // Before a step the weights are the file's.
  const auto loaded = trainable(small_model(3));
  load_weights(config.init_from, loaded->parameters());
  EXPECT_EQ(train("none", 0), weights_of(*loaded));

  const std::vector<float> whole = train("whole", config.steps);
  for (const std::int64_t last : {2, 3, 7}) train("parts", last);
  EXPECT_EQ(train("parts", config.steps), whole);
  const CheckpointInfo info = read_checkpoint_info(folder_ / "whole/latest.ckpt");
  EXPECT_EQ(parse_run_state(info.training).init, content_of(config.init_from));
  EXPECT_EQ(info.tokenizer, "bytes");

  // The same file elsewhere may go on; another, or none, may not.
  const std::string content = content_of(config.init_from);
  std::filesystem::rename(config.init_from, path_);
  config.init_from = path_;
  EXPECT_EQ(train("whole", config.steps), whole);
  config.init_from = folder_ / "parts/latest.ckpt";
  expect_mentions(message_of([&] { train("whole", config.steps); }),
                  {"latest.ckpt", content, content_of(config.init_from), "init_from"});
  config.init_from = "";
  const auto model = trainable(small_model(2));
  Trainer trainer(*model, *second_corpus, config, folder_ / "whole");
  expect_mentions(message_of([&] { trainer.resume(); }), {content, "drawn weights", "init_from"});
}

/// Ids mean the pieces of the text that the model was trained on first.
TEST_F(InitialWeightsTest, BringTheirVocabulary) {
  constexpr std::int64_t kPieces = 300;
  const auto text = [&](const std::string& name, const std::string& words) {
    std::ofstream out(folder_ / name);
    for (int i = 0; i < 4000; ++i) out << words << " number " << i << " of many\n";
    return folder_ / name;
  };
  TrainConfig config = short_training();
  config.tokenizer = TokenizerKind::sentencepiece;
  config.steps = 1;
  config.corpus = text("a.txt", "the wandering wondering words");
  const auto first_text = data(config, kPieces);
  const auto first = trainable(small_model(1, kPieces));
  Trainer(*first, *first_text, config, folder_ / "first").run(nullptr, nullptr);
  const std::string checkpoint = folder_ / "first/latest.ckpt";
  const CheckpointInfo info = read_checkpoint_info(checkpoint);
  const std::string identity = first_text->text()->tokenizer().identity();
  EXPECT_EQ(info.tokenizer, identity);
  EXPECT_EQ(info.vocabulary, contents(first_text->text()->tokenizer_model()));

  TrainConfig other = config;
  other.corpus = text("b.txt", "quite another vocabulary");
  EXPECT_NE(data(other, kPieces)->text()->tokenizer().identity(), identity);
  other.init_from = checkpoint;
  const auto second_text = data(other, kPieces);
  EXPECT_EQ(second_text->text()->tokenizer().identity(), identity);
  const auto second = trainable(small_model(2, kPieces));
  Trainer(*second, *second_text, other, folder_ / "second").run(nullptr, nullptr);
  expect_mentions(message_of([&] { data(other, 400); }),
                  {"vocabulary of '" + checkpoint + "'", "300 pieces", "set vocab_size"});

  // A file of weights alone has it too; the cache is no longer needed.
  std::filesystem::remove_all(folder_ / "cache");
  write_weights(folder_ / "second/latest.ckpt", path_, tokenizer_of(checkpoint, info, "").get());
  const CheckpointInfo weights = read_checkpoint_info(path_);
  EXPECT_EQ(weights.vocabulary, info.vocabulary);
  EXPECT_EQ(tokenizer_of(path_, weights, "")->identity(), identity);
  EXPECT_LT(std::filesystem::file_size(path_), std::filesystem::file_size(checkpoint) / 2);
  const auto loaded = trainable(small_model(3, kPieces));
  load_weights(path_, loaded->parameters());
  EXPECT_EQ(weights_of(*loaded), weights_of(*second));

  // One without a vocabulary, or with that of another text, starts no training on pieces.
  other.init_from = path_;
  put(tensors_of(*second));
  expect_mentions(message_of([&] { data(other, kPieces); }),
                  {path_, "carries no vocabulary", "apps/weights"});
}

}  // namespace
}  // namespace scaling
