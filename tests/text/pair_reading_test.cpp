// Pairs of a source and a target from files of every kind, hostile ones too: each is read as it
// stands or refused by name, never put beside another's.
#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/random.h"
#include "models/text/corpus.h"
#include "models/text/document_cutter.h"
#include "models/text/pairs.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

using Texts = std::vector<std::string>;

void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

void write_gzip(const std::string& path, const std::string& text) {
  gzFile file = gzopen(path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(gzwrite(file, text.data(), unsigned(text.size())), int(text.size()));
  ASSERT_EQ(gzclose(file), Z_OK);
}

/// Sources and targets in turn.
Texts read_all(const Corpus& corpus) {
  Texts texts;
  std::string text;
  const CorpusCounts counts = corpus.read([&](std::string_view piece, bool last) {
    text += piece;
    if (!last) return;
    texts.push_back(text);
    text.clear();
  });
  EXPECT_EQ(counts.documents, texts.size());
  EXPECT_EQ(counts.skipped_lines, 0u);
  return texts;
}

Texts read_lines(const std::string& sources, const std::string& ending = "de") {
  return read_all(Corpus(sources, "text", {}, ending));
}

Texts read_objects(const std::string& path, const std::string& keys, const std::string& target) {
  return read_all(Corpus(path, keys, {}, target));
}

TEST(PairReading, LinesOfTwoFilesInStep) {
  const Folder folder;
  write_file(folder / "train.en", "\xef\xbb\xbfOne.\r\nTwo words.\r\n T\thr\ree \n");
  write_file(folder / "train.de", "Eins.\nZwei W\xc3\xb6rter.\n\xff\xfe drei");
  const Texts texts = {"One.",        "Eins.",        "Two words.", "Zwei W\xc3\xb6rter.",
                       " T\thr\ree ", "\xff\xfe drei"};
  EXPECT_EQ(read_lines(folder / "train.en"), texts);
  EXPECT_EQ(read_lines(folder / "train.en", ".de"), texts);
  // The other way round, and both compressed.
  const Texts turned = read_lines(folder / "train.de", "en");
  ASSERT_EQ(turned.size(), texts.size());
  for (std::size_t i = 0; i < texts.size(); i += 2) {
    EXPECT_EQ(turned[i], texts[i + 1]);
    EXPECT_EQ(turned[i + 1], texts[i]);
  }
  write_gzip(folder / "packed.en.gz", contents(folder / "train.en"));
  write_gzip(folder / "packed.de.gz", contents(folder / "train.de"));
  EXPECT_EQ(read_lines(folder / "packed.en.gz"), texts);
  // Several files, each beside its own.
  write_file(folder / "untrained.en", "a\n");
  write_file(folder / "untrained.de", "b\n");
  EXPECT_EQ(read_lines(folder / "*train*.en").size(), texts.size() + 2);
  EXPECT_EQ(Corpus(folder / "*train*.en", "text", {}, "de").files(), 4u);
}

TEST(PairReading, ALineOfSeveralPiecesIsOneText) {
  const Folder folder;
  const std::string large(3 * DocumentCutter::kPiece + 17, 'x');
  write_file(folder / "a.en", large + "\nshort\n");
  write_file(folder / "a.de", "kurz\n" + large + "\n");
  EXPECT_EQ(read_lines(folder / "a.en"), (Texts{large, "kurz", "short", large}));
}

/// Split at line feeds, a carriage return before each left out; nothing behind the last one is no
/// line.
Texts lines_by_definition(const std::string& text) {
  Texts lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    lines.push_back(text.substr(at, end - at));
    if (!lines.back().empty() && lines.back().back() == '\r') lines.back().pop_back();
    at = end + 1;
  }
  return lines;
}

/// None if the files are no pairs.
std::optional<Texts> pairs_by_definition(const std::string& sources, const std::string& targets) {
  const Texts a = lines_by_definition(sources), b = lines_by_definition(targets);
  if (a.empty() || a.size() != b.size()) return {};
  Texts texts;
  for (std::size_t i = 0; i < a.size(); ++i) {
    for (const std::string& text : {a[i], b[i]}) {
      if (text.find_first_not_of(" \t\r\n\f\v") == std::string::npos) return {};
      texts.push_back(text);
    }
  }
  return texts;
}

std::string random_bytes(Rng& rng) {
  static const std::string kBytes("ab\0\xff \t\r\n\n", 9);
  std::string text;
  const std::uint32_t size = rng.below(12);
  for (std::uint32_t i = 0; i < size; ++i) text.push_back(kBytes[rng.below(9)]);
  return text;
}

TEST(PairReading, AnyBytesAreReadByTheDefinitionOrRefused) {
  const Folder folder;
  Rng rng(1);
  int accepted = 0, refused = 0;
  for (int round = 0; round < 3000; ++round) {
    const std::string sources = random_bytes(rng), targets = random_bytes(rng);
    write_file(folder / "x.en", sources);
    write_file(folder / "x.de", targets);
    const std::optional<Texts> expected = pairs_by_definition(sources, targets);
    std::optional<Texts> found;
    const std::string message = message_of([&] { found = read_lines(folder / "x.en"); });
    EXPECT_EQ(found, expected) << message;
    ++(found ? accepted : refused);
    if (!found) {
      EXPECT_NE(message.find(folder / "x."), std::string::npos) << message;
    }
  }
  EXPECT_GT(accepted, 50);
  EXPECT_GT(refused, 100);
}

TEST(PairReading, FilesThatAreNoPairsAreRefusedByLineAndNumber) {
  const Folder folder;
  const std::string en = folder / "a.en", de = folder / "a.de";
  const auto refusal = [&](const std::string& sources, const std::string& targets) {
    write_file(en, sources);
    write_file(de, targets);
    return message_of([&] { read_lines(en); });
  };
  expect_mentions(refusal("1\n2\n3\n4\n", "1\n2\n"),
                  {"'" + en + "' has 4 lines", "'" + de + "' 2", "line 3", "--target_side"});
  expect_mentions(refusal("1\n2", "1\n2\n3\n4\n5"), {"has 2 lines", "5, so line 3"});
  expect_mentions(refusal("1\n2\n\n", "1\n2\n"), {"has 3 lines", "'" + de + "' 2"});
  expect_mentions(refusal("", "1\n"), {"has 0 lines", "line 1"});
  expect_mentions(refusal("1\n \t\r\n3\n", "1\n2\n3\n"), {en + ":2: no text", "line 2 of '" + de});
  expect_mentions(refusal("1\n2\n3\n", "1\n2\n\n"), {de + ":3: no text", "line 3 of '" + en});
  expect_mentions(refusal("", ""), {en, "no pair", "empty"});

  expect_mentions(message_of([&] { read_lines(en, "fr"); }),
                  {en, "'" + (folder / "a.fr") + "' is not there", "--target_side"});
  expect_mentions(message_of([&] { read_lines(en, "en"); }), {en, "that file itself"});
  // A glob of both sides.
  expect_mentions(message_of([&] { read_lines(folder / "a.*"); }), {de, "that file itself"});
  expect_mentions(message_of([&] { read_lines("generated"); }), {"generated", "no pairs"});
  expect_mentions(message_of([&] { read_lines(folder / "none.en"); }), {"none.en"});
}

TEST(PairReading, TwoStringsOfAnObjectWhicheverComesFirst) {
  const Folder folder;
  write_file(folder / "a.jsonl",
             "{\"id\": 1, \"article\": \"One\\nline.\", \"abstract\": \"A1\"}\n"
             "\n"
             "{\"abstract\": \"A2\", \"x\": {\"article\": \"inner\"}, \"article\": \"Two\"}\n"
             "{\"article\": 7, \"article\": \"Three\", \"article\": \"no\", \"abstract\": \"A3\"}");
  const Texts texts = {"One\nline.", "A1", "Two", "A2", "Three", "A3"};
  EXPECT_EQ(read_objects(folder / "a.jsonl", "article", "abstract"), texts);
  EXPECT_EQ(read_objects(folder / "a.jsonl", "body,article", "abstract"), texts);
  write_gzip(folder / "b.jsonl.gz", contents(folder / "a.jsonl"));
  EXPECT_EQ(read_objects(folder / "b.jsonl.gz", "article", "abstract"), texts);
}

TEST(PairReading, ObjectsThatLackASideAreRefusedByLine) {
  const Folder folder;
  const std::string path = folder / "a.jsonl", good = "{\"a\": \"1\", \"b\": \"2\"}\n";
  const auto refusal = [&](const std::string& line) {
    write_file(path, good + "\n" + line);
    return message_of([&] { read_objects(path, "a", "b"); });
  };
  EXPECT_EQ(refusal(good), "no error");
  expect_mentions(refusal("{\"a\": \"1\"}\n"), {path + ":3", "'b'", "--target_side"});
  expect_mentions(refusal("{\"b\": \"1\"}\n"), {path + ":3", "'a'", "--text_key"});
  expect_mentions(refusal("{\"a\": \"1\", \"b\": null}\n"), {path + ":3", "'b'"});
  expect_mentions(refusal("{\"a\": \"1\", \"b\": \" \\n\"}\n"), {path + ":3", "no text under 'b'"});
  expect_mentions(refusal("{\"a\": \"1\", \"b\": \"2\"\n"), {path + ":3", "no JSON object"});
  expect_mentions(refusal("[\"a\", \"b\"]\n"), {path + ":3", "no JSON object"});
  expect_mentions(message_of([&] { read_objects(path, "x,b", "b"); }),
                  {"text_key", "target_side", "'b'", path});
}

TEST(PairReading, TheHashIsOfBothSides) {
  const Folder folder;
  const std::string cache = folder / "cache";
  for (const std::string name : {"a", "b"}) {
    write_file(folder / (name + ".en"), "one\n");
    write_file(folder / (name + ".de"), "eins\n");
  }
  const auto hash = [&](const std::string& name, const std::string& side) {
    return Corpus(folder / name, "text", {}, side).hash(cache);
  };
  const std::uint64_t whole = hash("a.en", "de");
  EXPECT_EQ(hash("b.en", "de"), whole);
  fs::copy(folder / "a.de", folder / "a.deutsch");
  EXPECT_EQ(hash("a.en", "deutsch"), whole);
  EXPECT_NE(hash("a.de", "en"), whole);
  EXPECT_NE(Corpus(folder / "a.en").hash(cache), whole);
  write_file(folder / "b.de", "zwei\n");
  EXPECT_NE(hash("b.en", "de"), whole);
  write_file(folder / "c.jsonl", "{\"text\": \"1\", \"x\": \"2\", \"y\": \"3\"}\n");
  EXPECT_NE(hash("c.jsonl", "x"), hash("c.jsonl", "y"));
}

TEST(PairReading, TargetsAreAmongTheFiles) {
  const Folder folder;
  for (const std::string name : {"a", "b"}) {
    write_file(folder / (name + ".en"), "one\n");
    write_file(folder / (name + ".de"), "eins\n");
  }
  const Corpus one(folder / "a.en", "text", {}, "de");
  EXPECT_EQ(one.paths(), (Texts{folder / "a.en", folder / "a.de"}));
  EXPECT_EQ(one.files(), 2u);
  EXPECT_EQ(one.shared_with(Corpus(folder / "b.en", "text", {}, "de")), "");
  EXPECT_EQ(one.shared_with(Corpus(folder / "a.de")), folder / "a.de");
}

TEST(PairReading, SourcesAlone) {
  const Folder folder;
  write_file(folder / "a.en", "One.\r\nTwo.");
  EXPECT_EQ(read_sources(folder / "a.en", {"text"}), (Texts{"One.", "Two."}));
  write_file(folder / "a.jsonl", "{\"x\": \"One\"}\n\n{\"y\": \"Two\"}\n");
  EXPECT_EQ(read_sources(folder / "a.jsonl", {"x", "y"}), (Texts{"One", "Two"}));
  expect_mentions(message_of([&] { read_sources(folder / "a.jsonl", {"x"}); }),
                  {"a.jsonl:3", "'x'", "--text_key"});
  write_file(folder / "b.en", "One.\n\nTwo.\n");
  expect_mentions(message_of([&] { read_sources(folder / "b.en", {"text"}); }),
                  {"b.en:2: no text"});
  expect_mentions(message_of([&] { read_sources(folder / "none.en", {"text"}); }), {"none.en"});
}

}  // namespace
}  // namespace scaling
