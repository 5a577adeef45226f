// Where a team's threads run.
#include "kernels/team.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <set>
#include <vector>

namespace scaling {
namespace {

/// Processors that the calling thread may run on.
std::set<int> processors() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  sched_getaffinity(0, sizeof mask, &mask);
  std::set<int> found;
  for (int p = 0; p < CPU_SETSIZE; ++p) {
    if (CPU_ISSET(p, &mask)) found.insert(p);
  }
  return found;
}

std::vector<std::set<int>> processors_of(Team& team) {
  std::vector<std::set<int>> found(std::size_t(team.threads()));
  team.run([&](int thread) { found[std::size_t(thread)] = processors(); });
  return found;
}

TEST(Team, PinnedThreadsHaveAProcessorEachWhateverTeamsThereWereBefore) {
  const int threads = available_threads();
  if (threads < 2) GTEST_SKIP() << "one processor";
  Team one(1, true), all(threads, true);
  std::set<int> seen;
  for (const std::set<int>& own : processors_of(all)) {
    ASSERT_EQ(own.size(), 1u);
    seen.insert(*own.begin());
  }
  EXPECT_EQ(int(seen.size()), threads);
  EXPECT_EQ(available_threads(), threads);
}

TEST(Team, EndedItGivesItsCallerAllProcessorsAgain) {
  const std::set<int> before = processors();
  { Team pinned(1, true); }
  EXPECT_EQ(processors(), before);
}

TEST(Team, UnpinnedThreadsMayRunAnywhere) {
  const int threads = available_threads();
  Team pinned(1, true), free(threads);
  const std::vector<std::set<int>> found = processors_of(free);
  for (std::size_t t = 1; t < found.size(); ++t) EXPECT_EQ(int(found[t].size()), threads);
}

}  // namespace
}  // namespace scaling
