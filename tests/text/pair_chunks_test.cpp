// Chunks of pairs against their definition: which pairs are joined, what is cut, and that nothing
// else is lost.
#include "models/text/pair_chunks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/random.h"

namespace scaling {
namespace {

using Chunks = std::vector<std::vector<int>>;
using Texts = std::vector<std::pair<std::string, std::string>>;

Chunks chunks_of(const Texts& texts, const ChunkShape& shape) {
  const std::unique_ptr<Tokenizer> bytes = make_byte_tokenizer(259);
  Chunks chunks;
  PairChunks out(shape, *bytes, [&](const std::vector<int>& chunk) { chunks.push_back(chunk); });
  for (const auto& [source, target] : texts) out.add(source, target);
  out.finish();
  out.finish();  // nothing is held any more
  return chunks;
}

/// Of bytes: the text's, an end if there is room, and padding.
std::vector<int> side_of(const std::string& text, std::int64_t room) {
  std::vector<int> ids;
  for (const char c : text) ids.push_back(3 + static_cast<unsigned char>(c));
  ids.push_back(1);
  ids.resize(std::size_t(room), 0);
  return ids;
}

/// From each first pair on, all that may join it; one after another, from all texts at once.
Chunks chunks_by_definition(const Texts& texts, const ChunkShape& shape) {
  Chunks chunks;
  for (std::size_t first = 0; first < texts.size();) {
    std::string source = texts[first].first, target = texts[first].second;
    std::size_t next = first + 1;
    for (; next < texts.size(); ++next) {
      const std::string longer_source = source + " " + texts[next].first;
      const std::string longer_target = target + " " + texts[next].second;
      const bool fits = std::int64_t(longer_source.size()) + 1 <= shape.source &&
                        std::int64_t(longer_target.size()) + 1 <= shape.target;
      if (std::int64_t(target.size()) >= shape.joined || !fits) break;
      source = longer_source;
      target = longer_target;
    }
    std::vector<int> chunk = side_of(source, shape.source);
    const std::vector<int> other = side_of(target, shape.target);
    chunk.insert(chunk.end(), other.begin(), other.end());
    chunks.push_back(chunk);
    first = next;
  }
  return chunks;
}

std::string random_text(Rng& rng) {
  std::string text;
  const std::uint32_t size = 1 + rng.below(10);
  for (std::uint32_t i = 0; i < size; ++i) text.push_back(static_cast<char>('a' + rng.below(26)));
  return text;
}

TEST(PairChunks, AreThoseOfTheDefinition) {
  Rng rng(1);
  int joined = 0, cut = 0;
  for (int round = 0; round < 3000; ++round) {
    const ChunkShape shape{.source = 2 + std::int64_t(rng.below(40)),
                           .target = 2 + std::int64_t(rng.below(40)),
                           .joined = round % 4 == 0 ? 0 : std::int64_t(rng.below(50))};
    Texts texts;
    const std::uint32_t pairs = rng.below(12);
    for (std::uint32_t i = 0; i < pairs; ++i) {
      texts.emplace_back(random_text(rng), random_text(rng));
    }
    const Chunks chunks = chunks_of(texts, shape);
    ASSERT_EQ(chunks, chunks_by_definition(texts, shape))
        << shape.source << " " << shape.target << " " << shape.joined;
    joined += chunks.size() < texts.size();
    for (const std::vector<int>& chunk : chunks) {
      cut += std::count(chunk.begin(), chunk.end(), 1) < 2;
    }
    if (shape.joined == 0) {
      EXPECT_EQ(chunks.size(), texts.size());
    }
  }
  EXPECT_GT(joined, 500);
  EXPECT_GT(cut, 500);
}

TEST(PairChunks, JoinUntilTheTargetsAreLongEnough) {
  const Texts texts = {{"a", "bb"}, {"c", "dd"}, {"e", "ff"}, {"g", "hh"}};
  const auto side = [](const std::string& text) { return side_of(text, 20); };
  const auto both = [&](const std::string& source, const std::string& target) {
    std::vector<int> chunk = side(source);
    const std::vector<int> other = side(target);
    chunk.insert(chunk.end(), other.begin(), other.end());
    return chunk;
  };
  const auto joined = [&](std::int64_t tokens) {
    return chunks_of(texts, {.source = 20, .target = 20, .joined = tokens});
  };
  EXPECT_EQ(joined(2).size(), 4u);
  EXPECT_EQ(joined(3), (Chunks{both("a c", "bb dd"), both("e g", "ff hh")}));
  EXPECT_EQ(joined(6), (Chunks{both("a c e", "bb dd ff"), both("g", "hh")}));
  EXPECT_EQ(joined(100), (Chunks{both("a c e g", "bb dd ff hh")}));
}

TEST(PairChunks, AnEndHasRoomOrTheTextIsCut) {
  EXPECT_EQ(with_end({5, 6}, 3), (std::vector<int>{5, 6, 1}));
  EXPECT_EQ(with_end({5, 6, 7}, 3), (std::vector<int>{5, 6, 7}));
  EXPECT_EQ(with_end({5, 6, 7, 8}, 3), (std::vector<int>{5, 6, 7}));
  EXPECT_EQ(with_end({}, 3), (std::vector<int>{1}));
}

TEST(Paragraphs, ArePartedByLinesWithoutText) {
  using Parts = std::vector<std::string_view>;
  EXPECT_EQ(paragraphs_of("A head\nits text\n\nanother"), (Parts{"A head\nits text", "another"}));
  EXPECT_EQ(paragraphs_of("\n\n a \n \t\r\n\n\nb\r\nc\n"), (Parts{" a ", "b\r\nc"}));
  EXPECT_EQ(paragraphs_of("one"), (Parts{"one"}));
  EXPECT_EQ(paragraphs_of(""), Parts{});
  EXPECT_EQ(paragraphs_of(" \n\n\t"), Parts{});
}

/// A source of four positions a paragraph; letters are their bytes, | an end, . padding.
std::string laid_out(const std::string& text, std::int64_t length, std::int64_t paragraph = 4) {
  const std::unique_ptr<Tokenizer> bytes = make_byte_tokenizer(259);
  const ChunkShape shape{.source = length, .paragraph = paragraph};
  const SourceIds source = lay_out_source(*bytes, text, shape);
  std::string shown;
  for (const int id : source.ids) shown += id == 0 ? '.' : id == 1 ? '|' : char(id - 3);
  return shown + (is_cut(source.ids, shape) ? " cut " : " whole ") + std::to_string(source.cut) +
         " of " + std::to_string(source.tokens);
}

TEST(Paragraphs, BeginWhereTheirRoomDoes) {
  EXPECT_EQ(laid_out("ab\n\nc\n\nde", 12), "ab|.c|..de|. whole 0 of 5");
  EXPECT_EQ(laid_out("ab\n\nc", 12), "ab|.c|...... whole 0 of 3");
  EXPECT_EQ(laid_out("a\nb\n\n\n\nc", 12), "a\nb|c|...... whole 0 of 4");
  // One that is too long, or fills its room, has no end; others have theirs.
  EXPECT_EQ(laid_out("abcdef\n\ng", 8), "abcdg|.. cut 2 of 7");
  EXPECT_EQ(laid_out("abcd\n\ng", 8), "abcdg|.. cut 0 of 5");
  // Of more than there is room for, the last has none either.
  EXPECT_EQ(laid_out("ab\n\nc\n\nde", 8), "ab|.c... cut 2 of 5");
  EXPECT_EQ(laid_out("ab\n\nc\n\nde\n\nfgh", 8), "ab|.c... cut 5 of 8");
  EXPECT_EQ(laid_out("abcde\n\nfghij\n\nk", 8), "abcdfghi cut 3 of 11");
  // None: one text.
  EXPECT_EQ(laid_out("ab\n\nc", 8, 0), "ab\n\nc|.. whole 0 of 5");
  EXPECT_EQ(laid_out("ab\n\ncdefg", 8, 0), "ab\n\ncdef cut 1 of 9");
}

TEST(Paragraphs, AreChunksWithTheirTargets) {
  const Chunks chunks =
      chunks_of({{"ab\n\ncdefg", "x"}, {"h", "yz"}}, {.source = 8, .target = 3, .paragraph = 4});
  const auto b = [](char c) { return 3 + c; };
  EXPECT_EQ(chunks, (Chunks{{b('a'), b('b'), 1, 0, b('c'), b('d'), b('e'), b('f'), b('x'), 1, 0},
                            {b('h'), 1, 0, 0, 0, 0, 0, 0, b('y'), b('z'), 1}}));
}

}  // namespace
}  // namespace scaling
