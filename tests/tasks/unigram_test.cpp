// The unigram plateau of texts and numbers whose distribution is known.
#include "models/tasks/unigram.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "models/tasks/catalog.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

double entropy_of(const TrainConfig& config, std::int64_t vocab_size, const Folder& folder) {
  return unigram_entropy(*make_task(config, vocab_size, folder / "cache"), vocab_size);
}

TEST(Unigram, IsTheEntropyOfLetters) {
  const Folder folder;
  TrainConfig config;
  config.batch = 4;
  config.length = 32;
  config.corpus = folder / "letters.txt";
  {
    std::ofstream text(config.corpus);
    for (int i = 0; i < 20000; ++i) text << "aaab";
  }
  const double entropy = -0.75 * std::log(0.75) - 0.25 * std::log(0.25);
  EXPECT_NEAR(entropy_of(config, 260, folder), entropy, 2e-3);
  // Of other letters than the text has, each as likely as one occurrence among all.
  config.validation = folder / "other.txt";
  std::ofstream(config.validation) << std::string(5000, 'c');
  EXPECT_NEAR(entropy_of(config, 260, folder), std::log(double(kUnigramTokens)), 0.2);
}

TEST(Unigram, CountsOnlyWhatIsAsked) {
  const Folder folder;
  TrainConfig config;
  config.task = "copy";
  // Ten digits, alike; neither separators nor padding.
  EXPECT_NEAR(entropy_of(config, 13, folder), std::log(10.0), 0.02);
}

}  // namespace
}  // namespace scaling
