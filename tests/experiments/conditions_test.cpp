// What the machine was like: its own numbers, and the kernel's lines as they are written.
#include "experiments/instruments/conditions.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "kernels/ceilings.h"

namespace scaling {
namespace {

TEST(Conditions, StolenTimeIsTheEighthField) {
  const ProcessorTime time = processor_time("cpu  100 20 30 800 5 3 2 40 7 1");
  EXPECT_EQ(time.all, 1000);  // guests' time is in user's
  EXPECT_EQ(time.stolen, 40);
  EXPECT_EQ(processor_time("cpu  100 20 30 800").stolen, 0);  // kernels of before steal was known
  EXPECT_EQ(processor_time("intr 1 2 3").all, 0);
  EXPECT_EQ(processor_time("").all, 0);
}

TEST(Conditions, HugePagesAreAShareOfAnonymousMemory) {
  std::istringstream told("Rss: 4000 kB\nAnonymous: 3200 kB\nKSM: 0 kB\nAnonHugePages: 2048 kB\n");
  EXPECT_DOUBLE_EQ(huge_page_share(told), 0.64);
  for (const char* const lines : {"", "Anonymous: 3200 kB\n", "AnonHugePages: 2048 kB\n"}) {
    std::istringstream lacking(lines);
    EXPECT_TRUE(std::isnan(huge_page_share(lacking))) << lines;
  }
}

TEST(Conditions, AreMeasuredByTheTeamThatIsAsked) {
  Team team(2), one(1);
  ConditionsMeter meter(team, 8 << 20);
  for (Team* each : {&team, &one}) {
    meter.start();
    const Conditions found = meter.stop(*each);
    EXPECT_GT(found.read_gbps, 0);
    EXPECT_TRUE(std::isfinite(found.read_gbps));
    EXPECT_GT(found.barrier_us, 0);
    EXPECT_GE(found.switches, 0);
    EXPECT_GE(found.load, 0);
    for (const double share : {found.steal, found.pressure, found.huge_pages}) {
      EXPECT_TRUE(std::isnan(share) || (share >= 0 && share <= 1.1)) << share;
    }
  }
}

}  // namespace
}  // namespace scaling
