// Chunks of pairs against their definition: which pairs are joined, what is cut, and that nothing
// else is lost.
#include "models/text/pair_chunks.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
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

}  // namespace
}  // namespace scaling
