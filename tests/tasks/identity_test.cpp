// Identities of data that checkpoints and published records carry: they stay what they were.
#include <gtest/gtest.h>

#include <fstream>
#include <string>

#include "models/tasks/catalog.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

struct Identities {
  std::string task, resuming, comparison;
};

TEST(Identity, OfTextsAndNumbersStaysTheSame) {
  Folder folder;
  TrainConfig config;
  config.corpus = folder / "digits.txt";
  {
    std::ofstream text(config.corpus);
    for (int line = 0; line < 400; ++line) text << "0123456789\n";
  }
  config.batch = 4;
  config.length = 16;
  config.target_length = 8;
  config.digits_max = 3;
  config.eval_digits_min = 4;
  config.eval_digits_max = 5;
  for (const auto& [name, resuming, comparison] :
       {Identities{"causal", "0e5f7fee909e9ae2", "06b978a600b4e794"},
        Identities{"span_corruption", "af0b195e17d55a13", "eb974aea27045b5f"},
        Identities{"copy", "36340a0b1da35f57", "67649f4cde6b57e7"}}) {
    config.task = name;
    const std::int64_t vocab_size = name == "copy" ? 13 : 260;
    const auto task = make_task(config, vocab_size, folder / "cache");
    EXPECT_EQ(task->identity(Purpose::resuming), resuming) << name;
    EXPECT_EQ(task->identity(Purpose::comparison), comparison) << name;
    EXPECT_EQ(data_identity(config, vocab_size, folder / "cache"), comparison) << name;
  }
}

}  // namespace
}  // namespace scaling
