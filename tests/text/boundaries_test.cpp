// Words and sentences, told by the characters of bytes and of pieces.
#include "models/text/boundaries.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "tests/helpers.h"

namespace scaling {
namespace {

/// The text cut where parts begin.
std::vector<std::string> parts_of(const Tokenizer& tokenizer, const std::vector<int>& ids,
                                  std::vector<int> starts) {
  starts.push_back(int(ids.size()));
  std::vector<std::string> parts;
  for (std::size_t i = 0; i + 1 < starts.size(); ++i) {
    parts.push_back(tokenizer.decode({ids.begin() + starts[i], ids.begin() + starts[i + 1]}));
  }
  return parts;
}

using Parts = std::vector<std::string>;

const std::string kText =
    "One  two. It costs 3.5 \"really?\" Yes (it does!) e.g. this\n\nA title\nNext one. \n";
const Parts kWords = {"One",          "  two.", " It",    " costs",  " 3.5",
                      " \"really?\"", " Yes",   " (it",   " does!)", " e.g.",
                      " this",        "\n\nA",  " title", "\nNext",  " one. \n"};
const Parts kSentences = {"One  two.",       " It costs 3.5 \"really?\"",
                          " Yes (it does!)", " e.g.",
                          " this",           "\n\nA title",
                          "\nNext one. \n"};

TEST(Boundaries, OfBytes) {
  const auto tokenizer = make_byte_tokenizer(260);
  const Boundaries boundaries(*tokenizer);
  const auto check = [&](const std::string& text, const Parts& words, const Parts& sentences) {
    std::vector<int> ids;
    tokenizer->encode(text, ids);
    const Boundaries::Starts starts = boundaries.of(ids);
    EXPECT_EQ(parts_of(*tokenizer, ids, starts.words), words) << text;
    EXPECT_EQ(parts_of(*tokenizer, ids, starts.sentences), sentences) << text;
  };
  check(kText, kWords, kSentences);
  check("  begins late. So", {"  begins", " late.", " So"}, {"  begins late.", " So"});
  check(" \n ", {" \n "}, {" \n "});
  check("no end", {"no", " end"}, {"no end"});
  check(" . ! Yes", {" .", " !", " Yes"}, {" .", " !", " Yes"});
}

TEST(Boundaries, TheFirstSentencesAreKept) {
  const auto tokenizer = make_byte_tokenizer(260);
  const Boundaries boundaries(*tokenizer);
  for (const auto& [most, kept] :
       {std::pair(0, kText), std::pair(1, kSentences[0]),
        std::pair(2, kSentences[0] + kSentences[1]), std::pair(int(kSentences.size()), kText),
        std::pair(100, kText)}) {
    std::vector<int> ids;
    tokenizer->encode(kText, ids);
    keep_sentences(boundaries, most, ids);
    EXPECT_EQ(tokenizer->decode(ids), kept) << most;
  }
  std::vector<int> none;
  keep_sentences(boundaries, 1, none);
  EXPECT_TRUE(none.empty());
}

TEST(Boundaries, OfPiecesAreThoseOfBytes) {
  const Folder folder;
  {
    std::ofstream text(folder / "text.txt");
    for (int line = 0; line < 200; ++line) {
      text << "One two. It costs " << line << " and more, really? Yes it does! this title\n";
    }
  }
  train_sentencepiece(folder / "text.txt", 310, folder / "model");
  const auto pieces = load_sentencepiece(folder / "model", 310);
  std::vector<int> ids;
  pieces->encode(kText, ids);
  ASSERT_LT(ids.size(), kText.size());
  const Boundaries::Starts starts = Boundaries(*pieces).of(ids);
  EXPECT_EQ(parts_of(*pieces, ids, starts.words), kWords);
  EXPECT_EQ(parts_of(*pieces, ids, starts.sentences), kSentences);
}

}  // namespace
}  // namespace scaling
