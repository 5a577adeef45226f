// Traces of choices: files, counts against counts by hand, and replays that use options, and use
// them again, as the trace does.
#include "experiments/instruments/selection_trace.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "kernels/check.h"
#include "kernels/random.h"

namespace scaling {
namespace {

/// Places stay at what they chose with a probability of their own, else draw from skewed options.
SelectionTrace sticky_trace(std::int64_t examples = 20, std::int64_t positions = 40) {
  SelectionTrace trace{examples, positions, 2, {6, 8}, {}};
  trace.chosen.resize(std::size_t(trace.size()));
  Rng rng(5);
  for (std::int64_t example = 0; example < examples; ++example) {
    for (std::int64_t at = 0; at < positions; ++at) {
      for (std::int64_t place = 0; place < 12; ++place) {
        const std::int64_t i = (example * positions + at) * 12 + place;
        const bool stays = at > 0 && rng.uniform(0, 1) < 0.1f * float(place % 6);
        const float drawn = rng.uniform(0, 1);
        trace.chosen[std::size_t(i)] =
            stays ? trace.chosen[std::size_t(i - 12)] : std::uint8_t(8 * drawn * drawn);
      }
    }
  }
  return trace;
}

std::map<std::string, double> counts_of(const SelectionTrace& trace) {
  std::map<std::string, double> counts;
  for (const Metric& metric : count_selections(trace)) counts[metric.name] = metric.values.front();
  return counts;
}

TEST(SelectionTrace, CountsAreThoseByHand) {
  // Two examples of three tokens, one block of two places among four.
  const SelectionTrace trace{2, 3, 1, {2, 4}, {0, 1, 0, 2, 0, 1, /**/ 3, 1, 2, 1, 3, 1}};
  const auto counts = counts_of(trace);
  EXPECT_EQ(counts.size(), 4);  // lags of 1 and 2 alone fit
  EXPECT_DOUBLE_EQ(counts.at("selection_reuse_1"), 4.0 / 8);
  EXPECT_DOUBLE_EQ(counts.at("selection_reuse_2"), 4.0 / 4);
  EXPECT_DOUBLE_EQ(counts.at("selection_chance"), ((9 + 4 + 1) / 36.0 + (25 + 1) / 36.0) / 2);
  EXPECT_DOUBLE_EQ(counts.at("selection_touched"), (1 + 2 + 2 + 1) / 4.0 / 4);
}

TEST(SelectionTrace, FilesHoldIt) {
  const std::string path = testing::TempDir() + "/selection_trace_test/row.1.npy";
  const SelectionTrace trace = sticky_trace();
  write_trace(path, trace);
  const SelectionTrace read = read_trace(path, 8);
  EXPECT_EQ(read.examples, trace.examples);
  EXPECT_EQ(read.positions, trace.positions);
  EXPECT_EQ(read.blocks, trace.blocks);
  EXPECT_EQ(read.choices, trace.choices);
  EXPECT_EQ(read.chosen, trace.chosen);
  for (const std::int64_t others : {4, 16}) EXPECT_THROW(read_trace(path, others), UserError);
  EXPECT_THROW(read_trace(path + "x", 8), UserError);
}

/// What a replay says, as a trace of its own: an example a start.
SelectionTrace replayed(SelectionReplay& replay, std::int64_t starts, std::int64_t length,
                        std::int64_t blocks, Choices choices) {
  SelectionTrace trace{starts, length, blocks, choices, {}};
  for (std::int64_t start = 0; start < starts; ++start) {
    replay.begin(std::uint64_t(start), length);
    for (std::int64_t t = 0; t < length; ++t) {
      for (const std::vector<std::int32_t>& block : replay.next()) {
        EXPECT_EQ(std::int64_t(block.size()), choices.count);
        trace.chosen.insert(trace.chosen.end(), block.begin(), block.end());
      }
    }
  }
  return trace;
}

TEST(SelectionReplay, WiderModelsUseOptionsAndUseThemAgainAsTheTraceDoes) {
  const SelectionTrace trace = sticky_trace();
  const Choices wide{54, 8};
  SelectionReplay replay(trace, {wide, wide}, 1);
  const SelectionTrace found = replayed(replay, 200, 20, 2, wide);
  auto expected = counts_of(trace), counts = counts_of(found);
  for (const std::string lag : {"1", "2", "4", "8", "16"}) {
    const std::string name = "selection_reuse_" + lag;
    EXPECT_NEAR(counts.at(name) / expected.at(name), 1, 0.02) << name;
  }
  // Place by place: the same options, as often.
  for (std::int64_t block = 0; block < 2; ++block) {
    for (std::int64_t place = 0; place < wide.count; ++place) {
      std::vector<double> ours(8), theirs(8);
      for (std::int64_t e = 0; e < found.examples; ++e) {
        for (std::int64_t t = 0; t < found.positions; ++t) {
          ours[std::size_t(found.at(e, t, block, place))] += 1.0 / 4000;
        }
      }
      for (std::int64_t e = 0; e < trace.examples; ++e) {
        for (std::int64_t t = 0; t < trace.positions; ++t) {
          theirs[std::size_t(trace.at(e, t, block, place % 6))] += 1.0 / 800;
        }
      }
      for (std::size_t i = 0; i < 8; ++i) EXPECT_NEAR(ours[i], theirs[i], 0.08) << place;
    }
  }
}

/// Shares of a trace's options, (blocks, places, options); a replay's places beyond `places` count
/// as those that they repeat.
std::vector<double> use_of(const SelectionTrace& trace, std::int64_t places) {
  const std::int64_t options = trace.choices.options;
  std::vector<double> shares(std::size_t(trace.blocks * places * options));
  const std::int64_t choices = trace.size() / trace.blocks;
  const double part = double(places) / double(choices);
  for (std::int64_t e = 0; e < trace.examples; ++e) {
    for (std::int64_t t = 0; t < trace.positions; ++t) {
      for (std::int64_t block = 0; block < trace.blocks; ++block) {
        for (std::int64_t place = 0; place < trace.choices.count; ++place) {
          const std::int64_t at = (block * places + place % places) * options;
          shares[std::size_t(at + trace.at(e, t, block, place))] += part;
        }
      }
    }
  }
  return shares;
}

/// What trained models chose (results/published/traces), replayed by wider models as timed tables
/// do. width: of the model that replays, in widths of the one whose trace it is.
void expect_like_traces(std::int64_t width) {
  int traces = 0;
  for (const auto& entry : std::filesystem::directory_iterator(
           std::string(SOURCE_DIR) + "/results/published/traces/frontier")) {
    const std::string row = entry.path().stem().stem().string();
    SCOPED_TRACE(entry.path().filename());
    const std::int64_t options = row.starts_with("ff_n") ? std::stoll(row.substr(4)) : 16;
    const SelectionTrace trace = read_trace(entry.path().string(), options);
    const std::int64_t places = trace.choices.count;
    const Choices wide{width * places, options};
    SelectionReplay replay(trace, std::vector<Choices>(std::size_t(trace.blocks), wide), 1);
    // The narrower, the more decodes have as many choices.
    const int decodes = (places == 1 ? 1600 : 100) * (width < 8 ? 8 : 1);
    const SelectionTrace found = replayed(replay, decodes, 48, trace.blocks, wide);
    // Pairs of tokens that a stretch holds; those that its ends part are in no replay.
    SelectionTrace stretches = trace;
    ASSERT_EQ(trace.positions, 96);
    stretches.examples *= 2, stretches.positions /= 2;
    auto expected = counts_of(stretches), counts = counts_of(found);
    for (const std::string lag : {"1", "2", "4", "8", "16"}) {
      const std::string name = "selection_reuse_" + lag;
      EXPECT_NEAR(counts.at(name) / expected.at(name), 1, 0.02) << name;
    }
    const std::vector<double> ours = use_of(found, places), theirs = use_of(trace, places);
    double apart = 0;
    for (std::size_t i = 0; i < ours.size(); ++i) apart += std::abs(ours[i] - theirs[i]) / 2;
    EXPECT_LE(apart / double(trace.blocks * places), 0.02);
    ++traces;
  }
  EXPECT_GE(traces, 10);
}

// The widths that decode/frontier_*.cfg time.
TEST(SelectionReplay, OfTrainedModelsIsWithinTwoPercentOfTheirTraces) { expect_like_traces(1); }

TEST(SelectionReplay, OfModelsEightTimesAsWideToo) { expect_like_traces(8); }

TEST(SelectionReplay, OfModelsThirtyTwoTimesAsWideToo) { expect_like_traces(32); }

TEST(SelectionReplay, StretchesAndSequencesGoThroughExamplesOfTheirOwn) {
  const Choices wide{15, 8};  // the last stretch is cut
  SelectionReplay replay(sticky_trace(), {wide}, 2);
  replay.begin(3, 20);
  int alike = 0, all = 0;
  for (int t = 0; t < 20; ++t) {
    const std::vector<std::int32_t> chosen = replay.next().front();
    ASSERT_EQ(chosen.size(), 30);
    for (std::size_t i = 0; i < 6; ++i, all += 2) {
      alike += (chosen[i] == chosen[i + 6]) + (chosen[i] == chosen[i + 15]);
    }
  }
  EXPECT_LT(alike, all / 2);
}

TEST(SelectionReplay, WhatDoesNotFitIsRefused) {
  EXPECT_THROW(SelectionReplay(sticky_trace(), {{6, 4}}, 1), UserError);
  SelectionReplay replay(sticky_trace(), {{6, 8}}, 1);
  EXPECT_THROW(replay.begin(0, 41), UserError);
  EXPECT_NO_THROW(replay.begin(0, 40));
}

}  // namespace
}  // namespace scaling
