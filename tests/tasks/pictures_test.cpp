// The examples that docs/training.md shows are those that the tasks make.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "models/tasks/catalog.h"
#include "models/tasks/masked.h"
#include "tests/helpers.h"
#include "tests/tasks/text_task_checks.h"

namespace scaling {
namespace {

const std::string kText =
    "The cat sat on the mat. A dog ran past the cat. It rained that day. The dog sat on the mat.";

/// Without end and padding, masks as in the publications.
std::string shown(const std::vector<int>& ids, const Tokenizer& tokenizer,
                  const std::string& mask) {
  std::string text;
  for (const int id : ids) {
    if (id == 1) break;
    text += id == kMaskId ? mask : tokenizer.decode({id});
  }
  return text;
}

/// "source  ...\ntarget  ...\n" of the text in evaluation.
std::string picture(const std::string& task_name, const std::string& mask) {
  const Folder folder;
  TrainConfig config = sentences_config(task_name, folder);
  config.validation = folder / "valid.jsonl";
  std::ofstream(config.validation) << "{\"text\": \"" << kText << "\"}\n";
  config.target_length = config.length;
  config.batch = 1;
  const auto task = make_task(config, 260, folder / "cache");
  Batch batch;
  task->validation_batch(0, 0, batch);
  const Tokenizer& tokenizer = task->text()->tokenizer();
  return "source  " + shown(batch.source, tokenizer, mask) + "\ntarget  " +
         shown(batch.target, tokenizer, mask) + "\n";
}

/// Two files and the one example that they make.
std::string picture_of_pairs() {
  const std::vector<std::string> sources = {"A dog runs.", "The cat sleeps."};
  const std::vector<std::string> targets = {"Ein Hund rennt.",
                                            "Die Katze schl\xc3\xa4"
                                            "ft."};
  const Folder folder;
  TrainConfig config = sentences_config("pairs", folder);
  config.corpus = folder / "train.en";
  config.validation = folder / "val.en";
  config.target_side = "de";
  config.join_pairs = 20;
  config.batch = 1;
  for (const std::string name : {"train", "val"}) {
    std::ofstream(folder / (name + ".en")) << sources[0] << "\n" << sources[1] << "\n";
    std::ofstream(folder / (name + ".de")) << targets[0] << "\n" << targets[1] << "\n";
  }
  const auto task = make_task(config, 260, folder / "cache");
  EXPECT_EQ(task->text()->validation_chunks(), 1u);
  Batch batch;
  task->validation_batch(0, 0, batch);
  const Tokenizer& tokenizer = task->text()->tokenizer();
  return "train.en  " + sources[0] + "\n          " + sources[1] + "\ntrain.de  " + targets[0] +
         "\n          " + targets[1] + "\npairs, join_pairs=20\nsource  " +
         shown(batch.source, tokenizer, "") + "\ntarget  " + shown(batch.target, tokenizer, "") +
         "\n";
}

/// An article's paragraphs and what is read of them.
std::string picture_of_paragraphs() {
  const Folder folder;
  TrainConfig config = sentences_config("pairs", folder);
  config.corpus = folder / "train.jsonl";
  config.validation = folder / "val.jsonl";
  config.text_key = "article";
  config.target_side = "abstract";
  config.length = 16;
  config.paragraph_tokens = 8;
  config.batch = 1;
  for (const std::string name : {"train", "val"}) {
    std::ofstream(folder / (name + ".jsonl"))
        << R"({"article": "One.\n\nTwo of them.\n\nThree.", "abstract": "Three."})"
        << "\n";
  }
  Batch batch;
  make_task(config, 260, folder / "cache")->validation_batch(0, 0, batch);
  std::string source;
  for (const int id : batch.source) source += id == 0 ? '_' : id == 1 ? '|' : char(id - 3);
  return "article     One.\n\n            Two of them.\n\n            Three.\nsource      " +
         source + "\n";
}

TEST(Pictures, AreWhatTheTasksMake) {
  const std::string guide = contents(std::string(SOURCE_DIR) + "/docs/training.md");
  for (const std::string& part :
       {"text    " + kText + "\n", "denoising\n" + picture("denoising", "[MASK]"),
        "gap_sentences\n" + picture("gap_sentences", "[MASK1]"), picture_of_pairs(),
        picture_of_paragraphs()}) {
    EXPECT_NE(guide.find(part), std::string::npos) << part;
  }
}

}  // namespace
}  // namespace scaling
