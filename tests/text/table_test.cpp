// Tables as they come: marks, line ends, quotation marks; and what is refused, by file and line.
#include "models/text/table.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "kernels/random.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

using Rows = std::vector<std::vector<std::string>>;

class TableTest : public testing::Test {
 protected:
  std::string file(const std::string& text) {
    const std::string path = folder_ / "table.tsv";
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  Rows rows_of(const std::string& text, const std::vector<std::string>& wanted,
               const std::vector<std::string>& header = {}) {
    TableReader table(file(text), wanted, header);
    Rows rows;
    for (std::vector<std::string> fields; table.next(fields);) rows.push_back(fields);
    return rows;
  }
  std::string refusal(const std::string& text, const std::vector<std::string>& wanted,
                      const std::vector<std::string>& header = {}) {
    return message_of([&] { rows_of(text, wanted, header); });
  }
  Folder folder_;
};

TEST_F(TableTest, ColumnsAreFoundByTheirNames) {
  const std::string text = "index\ta\tb\tlabel\n0\tx y\t\t1\n1\tz\tw\t0\n";
  EXPECT_EQ(rows_of(text, {"label", "a"}), (Rows{{"1", "x y"}, {"0", "z"}}));
  EXPECT_EQ(rows_of(text, {"b"}), (Rows{{""}, {"w"}}));
}

TEST_F(TableTest, NoHeaderLineIsAFirstRow) {
  EXPECT_EQ(rows_of("gj04\t1\t\tIt is.\ngj04\t0\t*\tIs.", {"sentence", "label"},
                    {"source", "label", "mark", "sentence"}),
            (Rows{{"It is.", "1"}, {"Is.", "0"}}));
}

TEST_F(TableTest, MarksLineEndsAndEmptyLinesAreNoText) {
  EXPECT_EQ(
      rows_of("\xef\xbb\xbfQuality\ttext\r\n1\tcaf\xc3\xa9\r\n\r\n\n0\tlast", {"Quality", "text"}),
      (Rows{{"1", "caf\xc3\xa9"}, {"0", "last"}}));
  // Only before a line's end.
  EXPECT_EQ(rows_of("a\tb\nx\ry\t\rz\n", {"a", "b"}), (Rows{{"x\ry", "\rz"}}));
}

/// A quote that is never closed would swallow all that follows.
TEST_F(TableTest, QuotationMarksAreCharacters) {
  EXPECT_EQ(rows_of("a\tb\n\" never closed\t\"\"\n'x\t\"y\"\n", {"a", "b"}),
            (Rows{{"\" never closed", "\"\""}, {"'x", "\"y\""}}));
}

TEST_F(TableTest, BytesThatAreNoUtf8StayAsTheyAre) {
  const std::string odd("\xff\xfe\0z", 4);
  EXPECT_EQ(rows_of("a\n" + odd + "\n", {"a"}), (Rows{{odd}}));
}

/// Whatever a row holds between its tabs comes back.
TEST_F(TableTest, AnyFieldsComeBack) {
  Rng rng(1);
  for (int round = 0; round < 20; ++round) {
    const std::size_t columns = 1 + rng.below(5);
    std::string text;
    std::vector<std::string> names;
    for (std::size_t c = 0; c < columns; ++c) {
      names.push_back("c" + std::to_string(c));
      text += (c == 0 ? "" : "\t") + names.back();
    }
    Rows written;
    for (int row = 0; row < 30; ++row) {
      std::vector<std::string>& fields = written.emplace_back();
      text += '\n';
      for (std::size_t c = 0; c < columns; ++c) {
        std::string field = "x";  // no line is empty
        for (std::uint32_t i = rng.below(12); i > 0; --i) {
          const char drawn = static_cast<char>(rng.below(256));
          if (drawn != '\t' && drawn != '\n' && drawn != '\r') field += drawn;
        }
        text += (c == 0 ? "" : "\t") + field;
        fields.push_back(field);
      }
    }
    EXPECT_EQ(rows_of(text, names), written);
  }
}

TEST_F(TableTest, RefusesByFileAndLine) {
  const std::string path = folder_ / "table.tsv";
  expect_mentions(refusal("index\tsentence\n0\tx\n", {"sentence", "label"}),
                  {path + ":1: ", "no column 'label'", "'index', 'sentence'", "give a table"});
  expect_mentions(refusal("a\tb\n1\t2\n\n3\n", {"a"}),
                  {path + ":4: ", "1 fields", "2 columns", "'a', 'b'", "mend the line"});
  expect_mentions(refusal("a\tb\n1\t2\t3\n", {"a"}), {path + ":2: ", "3 fields", "2 columns"});
  expect_mentions(refusal("x\ty\n", {"b"}, {"a", "b", "c"}), {path + ":1: ", "2 fields"});
  for (const std::string text : {"", "\xef\xbb\xbf", "\n\r\n"}) {
    expect_mentions(refusal(text, {"a"}), {path, "empty", "names its columns"});
  }
  expect_mentions(refusal("a\n" + std::string(TableReader::kLongestLine + 1, 'x') + "\n", {"a"}),
                  {path + ":2: ", "1048576 bytes"});
  EXPECT_EQ(rows_of("a\n" + std::string(TableReader::kLongestLine, 'x'), {"a"}).size(), 1u);
  expect_mentions(message_of([&] { TableReader(folder_ / "none.tsv", {"a"}); }),
                  {"none.tsv", "cannot read"});
}

}  // namespace
}  // namespace scaling
