// The checkpoint's file: read by the safetensors format's definition, and converted from version 1.
#include "models/training/checkpoint.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "kernels/gemm.h"
#include "kernels/team.h"
#include "models/tasks/catalog.h"
#include "models/training/run_state.h"
#include "models/training/trainer.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

int shell(const std::string& command) { return std::system(command.c_str()); }

TEST(CheckpointFile, IsASafetensorsFile) {
  const Folder folder;
  const std::string path = folder / "some.ckpt";
  std::vector<float> matrix = {1, 2, 3, 4, 5, 6}, vector = {-0.5f};
  CheckpointInfo info;
  info.step = 7;
  info.training = "{\"corpus\":\"a \\\"quoted\\\" name\"}";
  save_checkpoint(path, info, {{"w", {2, 3}, matrix.data()}, {"b", {1}, vector.data()}});
  // No library: eight bytes, a JSON header, the data.
  const std::string reader =
      "import json, struct, sys\n"
      "content = open(sys.argv[1], 'rb').read()\n"
      "size = struct.unpack('<Q', content[:8])[0]\n"
      "header = json.loads(content[8:8 + size])\n"
      "assert (8 + size) % 64 == 0\n"
      "assert header['__metadata__']['step'] == '7'\n"
      "assert json.loads(header['__metadata__']['training'])['corpus'] == 'a \"quoted\" name'\n"
      "assert all(type(v) is str for v in header['__metadata__'].values())\n"
      "assert header['w'] == dict(dtype='F32', shape=[2, 3], data_offsets=[0, 24])\n"
      "assert header['b'] == dict(dtype='F32', shape=[1], data_offsets=[24, 28])\n"
      "assert struct.unpack('<7f', content[8 + size:]) == (1, 2, 3, 4, 5, 6, -0.5)\n";
  std::ofstream(folder / "read.py") << reader;
  EXPECT_EQ(shell("python3 '" + (folder / "read.py") + "' '" + path + "'"), 0);
}

/// The text of the config is enough to make the model again, whatever its blocks have.
TEST(CheckpointFile, SaysWhichAttentionsBlocksAndHeadsHave) {
  const Folder folder;
  const std::string path = folder / "mixed.ckpt";
  ModelConfig config = config_of_shape("tiny");
  config.encoder_layers = 0;
  config.decoder_layers = 2;
  config.attention =
      "longformer:longformer_projections=own:longformer_global=2,window:window_width=3+full";
  Team team(1);
  Transformer model(config);
  model.allocate_for_training(team);
  CheckpointInfo info;
  info.model = config;
  save_checkpoint(path, info, weight_arrays(model.parameters()));
  ModelConfig read = read_checkpoint_info(path).model;
  EXPECT_EQ(read.attention, config.attention);
  read.seed = 2;
  Transformer again(read);
  again.allocate_for_training(team);
  const std::vector<int> ids = {3, 9, 4, 1, 7, 5};
  EXPECT_FALSE(again.forward({}, ids) == model.forward({}, ids));
  load_weights(path, again.parameters());
  EXPECT_TRUE(again.forward({}, ids) == model.forward({}, ids));
}

/// tests/fixtures/checkpoint_v1: five steps of v1.cfg by the last program that wrote version 1,
/// which went on to ten with these losses.
TEST(CheckpointFile, OfVersion1IsRefusedConvertedAndContinued) {
  const fs::path source = SOURCE_DIR;
  const Folder folder;
  const std::string run = folder / "run", latest = run + "/latest.ckpt";
  fs::create_directory(run);
  fs::copy(source / "tests/fixtures/checkpoint_v1/latest.ckpt", latest);
  expect_mentions(message_of([&] { read_checkpoint_info(latest); }),
                  {latest, "version 1", "tools/convert_checkpoint.py"});
  ASSERT_EQ(shell("python3 '" + (source / "tools/convert_checkpoint.py").string() + "' '" + latest +
                  "' > /dev/null"),
            0);

  const CheckpointInfo info = read_checkpoint_info(latest);
  EXPECT_EQ(info.step, 5);
  TrainConfig train = parse_run_state(info.training).config;
  train.steps = 10;
  set_gemm_threads(1);
  const auto task = make_task(train, info.model.vocab_size, folder / "cache");
  Transformer model(info.model);
  {
    Team team(1);
    model.allocate_for_training(team);
  }
  Trainer trainer(model, *task, train, run);
  EXPECT_EQ(trainer.resume(), 5);
  std::vector<double> losses;
  EXPECT_TRUE(trainer.run([&](const TrainReport& r) { losses.push_back(r.loss); }, nullptr));
  const std::vector<double> expected = {2.357181, 2.846411, 2.817202, 2.560002, 2.476353};
  ASSERT_EQ(losses.size(), expected.size());
  for (std::size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-5) << i;
  EXPECT_NEAR(trainer.evaluate().log_perplexity, 2.529631, 1e-5);
}

}  // namespace
}  // namespace scaling
