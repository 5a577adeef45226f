// Weights that leave a curve and start another one, as a user meets it: `weights`, what other
// programs make of its file, and `perplexity --init_from`.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>

#include "experiments/study/record.h"
#include "experiments/training/curve_run.h"
#include "models/training/checkpoint.h"
#include "tests/experiments/driver_run.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = SOURCE_DIR;

Outcome train(const Folder& folder, const std::string& arguments) {
  return run_driver("perplexity",
                    "--config '" +
                        (kSource / "experiments/configs/training/tiny_curve.cfg").string() +
                        "' --gemm eigen --threads 1 --evaluate_every 5 --results '" +
                        folder.path() + "' " + arguments);
}

/// The latest log-perplexity at the end of a curve of the row.
double closing(const Folder& folder, const std::string& row) {
  double value = std::nan("");
  const RecordFile file(folder.path(), "tiny_curve");
  for (const Record& r : file.records()) {
    if (r.row == row && r.metric == kClosingCurveMetric) value = r.value;
  }
  return value;
}

/// Reads and writes the format by its definition, as any program might: tensors in another order,
/// vectors of one axis, no metadata.
const char* const kAnotherProgram = R"(
import json, struct, sys
content = open(sys.argv[1], 'rb').read()
size = struct.unpack('<Q', content[:8])[0]
header, data = json.loads(content[8:8 + size]), content[8 + size:]
assert 'optimizer' not in str(list(header))
assert header.pop('__metadata__')['tokenizer'] == 'bytes'
written, values = {}, b''
for name in sorted(header, reverse=True):
    begin, end = header[name]['data_offsets']
    shape = header[name]['shape']
    if name.endswith('b1') or name.endswith('bias'):
        shape = shape[1:]
    written[name] = dict(dtype='F32', shape=shape,
                         data_offsets=[len(values), len(values) + end - begin])
    values += data[begin:end]
text = json.dumps(written).encode()
open(sys.argv[2], 'wb').write(struct.pack('<Q', len(text)) + text + values)
)";

TEST(Weights, GoToAnotherProgramAndBackAndStartACurve) {
  const Folder folder;
  const Outcome first = train(folder, "--rows ff_qkv --steps 15");
  ASSERT_EQ(first.status, 0) << first.text;
  const double reached = closing(folder, "ff_qkv");
  const std::string checkpoint = folder / "checkpoints/tiny_curve/ff_qkv.1/latest.ckpt";
  const std::string ours = folder / "ours.safetensors", theirs = folder / "theirs.safetensors";
  const Outcome written =
      run_program("apps/weights", "--checkpoint '" + checkpoint + "' --out '" + ours + "'");
  ASSERT_EQ(written.status, 0) << written.text;
  expect_mentions(written.text, {ours, "step 15", "tokenizer bytes"});
  const auto bytes = fs::file_size(checkpoint);
  const Outcome itself =
      run_program("apps/weights", "--checkpoint '" + checkpoint + "' --out '" + checkpoint + "'");
  EXPECT_EQ(itself.status, 2);
  expect_mentions(itself.text, {"is the checkpoint itself"});
  EXPECT_EQ(fs::file_size(checkpoint), bytes);
  std::ofstream(folder / "other.py") << kAnotherProgram;
  ASSERT_EQ(
      std::system(
          ("python3 '" + (folder / "other.py") + "' '" + ours + "' '" + theirs + "'").c_str()),
      0);

  // At a rate of nearly nothing they stay as good as they were, and a seed draws none of them.
  for (const std::string& file : {checkpoint, ours, theirs}) {
    const Outcome outcome =
        train(folder,
              "--rows ff_qkv --steps 3 --learning_rate 1e-12 --seeds 2 --init_from '" + file + "'");
    ASSERT_EQ(outcome.status, 0) << file << ": " << outcome.text;
    EXPECT_NEAR(closing(folder, "ff_qkv"), reached, 1e-6) << file;
  }
  // No step at all evaluates them.
  const Outcome none =
      train(folder, "--rows ff_qkv --steps 0 --seeds 3 --init_from '" + ours + "'");
  ASSERT_EQ(none.status, 0) << none.text;
  EXPECT_EQ(closing(folder, "ff_qkv"), reached);
  // Text from them, without the checkpoint.
  const Outcome text =
      run_program("apps/generate", "--checkpoint '" + ours + "' --prompt 'a' --tokens 8");
  EXPECT_EQ(text.status, 0) << text.text;

  // Those of another row do not fit.
  const Outcome other = train(folder, "--rows dense --steps 1 --init_from '" + ours + "'");
  EXPECT_EQ(other.status, 1);
  expect_mentions(other.text, {ours, "this model"});
  const Outcome missing = train(folder, "--rows dense --steps 1 --init_from /nowhere.safetensors");
  EXPECT_EQ(missing.status, 1);
  expect_mentions(missing.text, {"/nowhere.safetensors", "does not exist"});
}

TEST(Weights, TheirContentIsPartOfACurve) {
  const Folder folder;
  ASSERT_EQ(train(folder, "--rows dense --steps 5").status, 0);
  const std::string run = folder / "checkpoints/tiny_curve/dense.1";
  const std::string a = folder / "a.ckpt", b = folder / "b.ckpt";
  fs::copy(run + "/latest.ckpt", a);
  fs::copy(a, b);
  const auto start = [&](const std::string& file) {
    return train(folder, "--rows dense --steps 5 --init_from '" + file + "'");
  };
  const Outcome first = start(a);
  ASSERT_EQ(first.status, 0) << first.text;
  expect_mentions(first.text, {"starts anew"});  // it is another curve than the one before
  expect_mentions(start(a).text, {"already measured"});
  expect_mentions(start(b).text, {"already measured"});
  // Without them the curve before holds still.
  expect_mentions(train(folder, "--rows dense --steps 5").text, {"already measured"});

  fs::copy(run + "/latest.ckpt", b, fs::copy_options::overwrite_existing);
  const Outcome edited = start(b);
  EXPECT_EQ(edited.status, 0) << edited.text;
  expect_mentions(edited.text, {"starts anew"});
  std::set<std::string> keys, inits;
  const RecordFile file(folder.path(), "tiny_curve");
  for (const Record& r : file.records()) {
    if (r.metric != kClosingCurveMetric) continue;
    keys.insert(r.key);
    inits.insert(r.config.value("init", ""));
  }
  EXPECT_EQ(keys.size(), 3u);
  EXPECT_EQ(inits.size(), 3u);
  EXPECT_EQ(inits.count(""), 1u);
}

/// What an initialised curve recorded does not finish one that draws its weights.
TEST(Weights, ACurveThatBeganFromThemIsNotOneThatDrewThem) {
  const Folder folder, elsewhere;
  ASSERT_EQ(train(elsewhere, "--rows dense --steps 1").status, 0);
  const std::string file = elsewhere / "checkpoints/tiny_curve/dense.1/latest.ckpt";
  ASSERT_EQ(train(folder, "--rows dense --steps 2 --init_from '" + file + "'").status, 0);
  const Outcome drawn = train(folder, "--rows dense --steps 2");
  EXPECT_EQ(drawn.status, 0) << drawn.text;
  EXPECT_EQ(drawn.text.find("already measured"), std::string::npos) << drawn.text;
  expect_mentions(drawn.text, {"starts anew"});
}

TEST(Weights, MistakesOfTheProgramExitWithTwo) {
  const Folder folder;
  std::ofstream(folder / "text") << "no checkpoint at all";
  const auto refused = [&](const std::string& arguments, const std::string& words) {
    const Outcome outcome = run_program("apps/weights", arguments);
    EXPECT_EQ(outcome.status, 2) << outcome.text;
    expect_mentions(outcome.text, {"error: ", words});
  };
  refused("", "--checkpoint FILE");
  refused("--checkpoint x", "--out FILE");
  refused("--checkpoint /nowhere --out '" + (folder / "o") + "'", "does not exist");
  refused("--checkpoint '" + (folder / "text") + "' --out '" + (folder / "o") + "'",
          "is no checkpoint");
  EXPECT_FALSE(fs::exists(folder / "o"));
}

}  // namespace
}  // namespace scaling
