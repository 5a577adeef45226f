// The memory that a container leaves, read from made-up control groups; what does not fit is
// refused.
#include "kernels/arena.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>

#include "tests/helpers.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

/// A process's list of groups, and files of groups below a folder of their own.
class Groups {
 public:
  explicit Groups(const std::string& list) { put("list", list); }
  void put(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(folder_ / path).parent_path());
    std::ofstream(folder_ / path) << text;
  }
  std::uint64_t leave() const { return control_groups_leave(folder_ / "list", folder_.path()); }

 private:
  Folder folder_;
};

TEST(ControlGroups, VersionTwoLeavesItsLimitLessWhatIsUsed) {
  const Groups groups("0::/user/job\n");
  groups.put("user/job/memory.max", "1000000\n");
  groups.put("user/job/memory.current", "300000\n");
  EXPECT_EQ(groups.leave(), 700000u);
  // Pages of files can be given back.
  groups.put("user/job/memory.stat", "anon 5\ninactive_file 100000\nactive_file 7\n");
  EXPECT_EQ(groups.leave(), 800000u);
  groups.put("user/job/memory.current", "2000000\n");
  EXPECT_EQ(groups.leave(), 0u);
}

TEST(ControlGroups, TheTightestGroupOnTheWayUpCounts) {
  const Groups groups("0::/user/job\n");
  groups.put("user/job/memory.max", "1000\n");
  groups.put("user/job/memory.current", "100\n");
  groups.put("user/memory.max", "500\n");
  groups.put("user/memory.current", "200\n");
  EXPECT_EQ(groups.leave(), 300u);
  groups.put("memory.max", "250\n");
  groups.put("memory.current", "200\n");
  EXPECT_EQ(groups.leave(), 50u);
}

TEST(ControlGroups, VersionOneHasItsOwnFolderAndNames) {
  const Groups groups("7:cpu,cpuacct:/other\n5:memory:/docker/abc\n1:name=systemd:/\n");
  groups.put("memory/docker/abc/memory.limit_in_bytes", "4096\n");
  groups.put("memory/docker/abc/memory.usage_in_bytes", "1024\n");
  // Another controller's group sets no limit on memory.
  groups.put("memory/other/memory.limit_in_bytes", "1\n");
  groups.put("memory/other/memory.usage_in_bytes", "0\n");
  EXPECT_EQ(groups.leave(), 3072u);
}

/// In a container the list may name a path of the host that is not there; its limit is the mount's.
TEST(ControlGroups, ALimitAtTheMountCountsWhereTheListedGroupIsMissing) {
  const Groups two("0::/host/path\n"), one("5:memory:/host/path\n");
  two.put("memory.max", "5000\n");
  two.put("memory.current", "1000\n");
  EXPECT_EQ(two.leave(), 4000u);
  one.put("memory/memory.limit_in_bytes", "6000\n");
  one.put("memory/memory.usage_in_bytes", "1000\n");
  EXPECT_EQ(one.leave(), 5000u);
}

TEST(ControlGroups, WhatSaysNothingSetsNoLimit) {
  const Groups max("0::/job\n");
  max.put("job/memory.max", "max\n");
  max.put("job/memory.current", "300\n");
  EXPECT_EQ(max.leave(), kUnlimited);

  const Groups missing("0::/job\n");
  EXPECT_EQ(missing.leave(), kUnlimited);
  missing.put("job/memory.max", "1000\n");  // but not what is used
  EXPECT_EQ(missing.leave(), kUnlimited);

  const Groups garbage("0::/job\n");
  for (const char* text : {"", "many\n", "\x7f\x01\n", "-\n"}) {
    garbage.put("job/memory.max", text);
    garbage.put("job/memory.current", "300\n");
    EXPECT_EQ(garbage.leave(), kUnlimited) << text;
    garbage.put("job/memory.max", "1000\n");
    garbage.put("job/memory.current", text);
    EXPECT_EQ(garbage.leave(), kUnlimited) << text;
  }
  garbage.put("job/memory.current", "300\n");
  garbage.put("job/memory.stat", "inactive_file\nnot a line at all\n");
  EXPECT_EQ(garbage.leave(), 700u);

  for (const char* list : {"", "no colons\n", ":\n", "5:memory\n", "0::job\n"}) {
    EXPECT_EQ(Groups(list).leave(), kUnlimited) << list;
  }
  EXPECT_EQ(control_groups_leave("/nonexistent/list", "/nonexistent"), kUnlimited);
}

TEST(Memory, WhatCannotFitIsRefusedWithBothNumbers) {
  EXPECT_GT(available_memory(), 0u);
  EXPECT_NO_THROW(require_memory(0, "nothing", "nothing"));
  expect_mentions(
      message_of([] { require_memory(std::uint64_t(1) << 50, "the test", "ask for less"); }),
      {"the test", "1048576.00 GiB", "available", "ask for less"});
}

/// Pages change their place below what they hold, whether the system has huge ones or not.
TEST(Memory, GatheredPagesHoldWhatTheyHeld) {
  constexpr std::uint64_t kBytes = (5 << 20) + 4096;
  Arena arena(kBytes);
  auto* const bytes = static_cast<unsigned char*>(arena.take(kBytes));
  for (std::uint64_t i = 0; i < kBytes; i += 1021) bytes[i] = static_cast<unsigned char>(i);
  arena.gather_pages();
  arena.gather_pages();
  for (std::uint64_t i = 0; i < kBytes; i += 1021) {
    ASSERT_EQ(bytes[i], static_cast<unsigned char>(i)) << i;
  }
  EXPECT_EQ(arena.used(), Arena::rounded(kBytes));
  Arena().gather_pages();  // of nothing
}

}  // namespace
}  // namespace scaling
