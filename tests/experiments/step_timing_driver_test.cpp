// bench_training as a user meets it.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/experiments/driver_run.h"

namespace scaling {
namespace {

const std::string kConfig = std::string("--config '") + SOURCE_DIR +
                            "/experiments/configs/training/copy_rounds.cfg' --threads 1 ";

/// Of 128 positions of a sequence 63 are asked for: a step takes what it takes, whatever of it
/// counts.
TEST(StepTimingDriver, AStepsTimeIsNotThatOfAllItsPositions) {
  // An odd number of steps, so that one of them has both medians.
  const Outcome run = run_driver("bench_training", kConfig + "--row full --steps 5");
  ASSERT_EQ(run.status, 0) << run.text;
  const auto said = nlohmann::json::parse(run.text.substr(run.text.rfind("{\"status\"")));
  const double seconds = said.at("value"), rate = said.at("tokens_per_s");
  EXPECT_NEAR(seconds * rate, 32 * 63, 0.01);
  EXPECT_LE(double(said.at("low")), seconds);
  EXPECT_GE(double(said.at("high")), seconds);
  EXPECT_EQ(said.at("repeats"), 5);
}

TEST(StepTimingDriver, MistakesAreRefusedInASentence) {
  const Outcome row = run_driver("bench_training", kConfig + "--row lsh3");
  EXPECT_EQ(row.status, 2);
  EXPECT_NE(row.text.find("lsh3"), std::string::npos) << row.text;
  const Outcome steps = run_driver("bench_training", kConfig + "--row full --steps 0");
  EXPECT_EQ(steps.status, 2);
  EXPECT_NE(steps.text.find("--steps 0"), std::string::npos) << steps.text;
}

}  // namespace
}  // namespace scaling
