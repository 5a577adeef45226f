// Files that grow by a line: what is whole is kept, what another run wrote is refused.
#include "models/text/line_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/helpers.h"

namespace scaling {
namespace {

TEST(LineFile, GoesOnWhereItEnded) {
  const Folder folder;
  const std::string path = folder / "lines";
  {
    LineFile file(path, "seed 1");
    EXPECT_EQ(file.lines(), 0u);
    file.add("one");
    EXPECT_EQ(contents(path), "one\n");  // at once
    file.add("");
    EXPECT_EQ(file.lines(), 2u);
  }
  std::ofstream(path, std::ios::app) << "thr";
  LineFile file(path, "seed 1");
  EXPECT_EQ(file.lines(), 2u);
  file.add("three");
  EXPECT_EQ(contents(path), "one\n\nthree\n");
}

TEST(LineFile, WithoutAWholeLineBeginsAnew) {
  const Folder folder;
  const std::string path = folder / "lines";
  { const LineFile file(path, "a"); }
  std::ofstream(path) << "half";
  LineFile file(path, "a");
  EXPECT_EQ(file.lines(), 0u);
  file.add("whole");
  EXPECT_EQ(contents(path), "whole\n");
}

TEST(LineFile, RefusesWhatIsNotItsOwn) {
  const Folder folder;
  const std::string path = folder / "lines";
  LineFile(path, "seed 1").add("one");
  expect_mentions(message_of([&] { LineFile(path, "seed 2"); }),
                  {path, "another run (seed 1", "this one is seed 2", "delete"});
  std::filesystem::remove(path + ".made_of");
  expect_mentions(message_of([&] { LineFile(path, "seed 1"); }), {path, "unknown run"});
  EXPECT_EQ(contents(path), "one\n");
  expect_mentions(message_of([&] { LineFile(folder / "none/lines", "a"); }), {"none/lines"});
}

}  // namespace
}  // namespace scaling
