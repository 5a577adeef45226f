// Sequences that go on from one another: how rows are moved, and decoders of every component whose
// rows move between steps against decoders whose rows were always apart.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "models/row_moves.h"
#include "models/transformer/decoder.h"
#include "tests/layers/layer_harness.h"
#include "tests/models/model_harness.h"

namespace scaling {
namespace {

TEST(RowMoves, EveryMapOfUpToFiveRows) {
  for (int n = 1; n <= 5; ++n) {
    int maps = 1;
    for (int i = 0; i < n; ++i) maps *= n;
    for (int map = 0; map < maps; ++map) {
      std::vector<int> source;
      for (int i = 0, rest = map; i < n; ++i, rest /= n) source.push_back(rest % n);
      // Rows of four values, of which the two in the middle move.
      std::vector<int> rows, expected, own;
      for (int i = 0; i < n; ++i) {
        own.push_back(i);
        for (int column = 0; column < 4; ++column) {
          const bool is_moved = column == 1 || column == 2;
          rows.push_back(10 * i + column);
          expected.push_back(10 * (is_moved ? source[std::size_t(i)] : i) + column);
        }
      }
      const RowMoves moves(source);
      moves.apply(rows.data(), 4, {1, 3});
      ASSERT_EQ(rows, expected) << n << " rows, map " << map;
      EXPECT_EQ(moves.empty(), source == own);
    }
  }
}

// -- decoders -------------------------------------------------------------------------------------

constexpr std::int64_t kPositions = 8;
constexpr int kRows = 4;
const std::vector<int> kSource = {5, 9, 0, 17, 3};

/// Logits of every row, (positions, vocab_size). ids: of every row, by position. sources: null if
/// each row goes on by itself.
std::vector<Mat> decoded(const Transformer& model, int threads,
                         const std::vector<std::vector<int>>& ids, const Sources* sources) {
  Team team(threads);
  Decoder decoder(model, find_kernel_set("simd"), team, kRows, kPositions,
                  std::int64_t(kSource.size()));
  decoder.begin(kSource);
  const std::int64_t vocab = model.config().vocab_size;
  std::vector<Mat> logits(ids.size(), Mat(kPositions, vocab));
  std::vector<int> given, next;
  for (std::int64_t position = 0; position < kPositions; ++position) {
    const auto at = std::size_t(position);
    if (sources != nullptr && position > 0) decoder.reorder((*sources)[at]);
    given.clear();
    for (const std::vector<int>& row : ids) given.push_back(row[at]);
    decoder.step(given, next);
    for (std::size_t row = 0; row < ids.size(); ++row) {
      logits[row].row(position) = Eigen::Map<const Eigen::RowVectorXf>(
          decoder.logits().data() + std::int64_t(row) * vocab, vocab);
    }
  }
  return logits;
}

float largest_difference(const std::vector<Mat>& a, const std::vector<Mat>& b) {
  float largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    largest = std::max(largest, (a[i] - b[i]).cwiseAbs().maxCoeff());
  }
  return largest;
}

void expect_own_pasts(ModelConfig c) {
  set_field(c, "lsh_chunk", 1);  // so that a step of the lsh attention chooses
  const auto model = decodable(c);
  const Sources sources = draw_sources(kPositions, kRows, 23);
  std::vector<std::vector<int>> ids, own(kRows);
  for (std::uint64_t row = 0; row < kRows; ++row) ids.push_back(draw_ids(c, kPositions, row));
  const auto paths = paths_of(sources);
  for (std::size_t row = 0; row < ids.size(); ++row) {
    for (std::size_t at = 0; at < ids[row].size(); ++at) {
      own[row].push_back(ids[paths[row][at]][at]);
    }
  }
  for (const int threads : {1, 3}) {
    const std::vector<Mat> apart = decoded(*model, threads, own, nullptr);
    const std::vector<Mat> moved = pasts_of(decoded(*model, threads, ids, &sources), sources);
    for (std::size_t row = 0; row < apart.size(); ++row) {
      expect_close(moved[row], apart[row],
                   "row " + std::to_string(row) + ", threads " + std::to_string(threads));
    }
    // Rows that had stayed where they were would be seen.
    const std::vector<Mat> unmoved = pasts_of(decoded(*model, threads, ids, nullptr), sources);
    EXPECT_GT(largest_difference(unmoved, apart), 1e-3f * apart[0].cwiseAbs().maxCoeff());
  }
}

using Choice = std::pair<std::string, std::string>;  // component and implementation

std::vector<Choice> choices() {
  std::vector<Choice> all;
  for (const std::string& component : component_names()) {
    for (const std::string& name : causal_implementations_of(component)) {
      all.emplace_back(component, name);
    }
  }
  return all;
}

class ReorderTest : public testing::TestWithParam<Choice> {};

TEST_P(ReorderTest, RowsGoOnFromOthers) {
  ModelConfig c = small_config();
  set_field(c, GetParam().first, GetParam().second);
  expect_own_pasts(c);
}

INSTANTIATE_TEST_SUITE_P(Catalog, ReorderTest, testing::ValuesIn(choices()),
                         [](const auto& tested) {
                           return tested.param.first + "_" + tested.param.second;
                         });

/// Reversible, two attentions a block, the source in front of the decoder's own positions.
TEST(Reorder, RowsOfATerraformer) {
  ModelConfig c = small_config();
  for (const auto& [name, value] : std::vector<Choice>{{"residual_stack", "reversible"},
                                                       {"attention_layers", "2"},
                                                       {"source", "concatenated"},
                                                       {"feed_forward", "sparse"},
                                                       {"projection", "mult_conv"},
                                                       {"loss", "multiplicative"},
                                                       {"recurrence", "sru"}}) {
    set_field(c, name, value);
  }
  expect_own_pasts(c);
}

TEST(Reorder, RowsOfADecoderAlone) {
  ModelConfig c = small_config();
  c.encoder_layers = 0;
  c.attention = "window";
  c.recurrence = "sru";
  expect_own_pasts(c);
}

/// Of two rows, the largest.
float difference_of_rows(const std::vector<float>& both) {
  float largest = 0;
  for (std::size_t i = 0, n = both.size() / 2; i < n; ++i) {
    largest = std::max(largest, std::abs(both[i] - both[n + i]));
  }
  return largest;
}

/// What the last step left stays, and the next source is read by rows that are alike again.
TEST(Reorder, ADecodeThatBeginsAnewForgetsIt) {
  ModelConfig c = small_config();
  c.recurrence = "sru";
  c.projection = "conv";
  const auto model = decodable(c);
  Team team(2);
  Decoder decoder(*model, find_kernel_set("simd"), team, 2, kPositions,
                  std::int64_t(kSource.size()));
  EXPECT_EQ(decoder.tokens(), 2);
  std::vector<int> next;
  std::vector<float> first;
  for (int decode = 0; decode < 2; ++decode) {
    decoder.begin(kSource);
    decoder.step({0, 0}, next);
    decoder.step({7, 21}, next);
    const std::vector<float> logits = decoder.logits();
    if (decode == 0) first = logits;
    EXPECT_EQ(logits, first);
    EXPECT_GT(difference_of_rows(logits), 1e-3f);
    decoder.reorder(std::vector<int>{1, 1});
    EXPECT_EQ(decoder.logits(), logits);
    EXPECT_EQ(decoder.position(), 2);
    decoder.step({4, 4}, next);
    EXPECT_LT(difference_of_rows(decoder.logits()), 1e-5f);
  }
}

}  // namespace
}  // namespace scaling
