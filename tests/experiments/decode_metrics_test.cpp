// What is written of decodes: a line each, of long tokens a line a token.
#include "experiments/decode/decode_metrics.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace scaling {
namespace {

constexpr double kToken = 0.2, kBlock = 0.1;

/// A token of so many times kToken between such reads, so long after its trial began.
Part token(double times, double began, double before, double after) {
  Columns values(kTokens, 0.0);
  values[kTokenSeconds] = times * kToken;
  values[kBlockSeconds] = times * kBlock;
  values[kBegan] = began;
  values[kReadBefore] = before;
  values[kReadAfter] = after;
  return {values, {50e9, 1e12}};
}

nlohmann::ordered_json samples_of(const Trials& trials) {
  DecodeModel decoded;
  decoded.row.model.d_model = 32;
  decoded.row.model.d_ff = 64;
  decoded.row.model.n_heads = 2;
  decoded.row.model.vocab_size = 64;
  decoded.row.model.max_length = 32;
  decoded.row.model.encoder_layers = 0;
  decoded.row.model.decoder_layers = 2;
  decoded.model = std::make_unique<Transformer>(decoded.row.model);
  return decode_numbers(decoded, trials, 0.02).extra.samples;
}

TEST(DecodeMetrics, EveryLongTokenHasALineWithItsOwnReads) {
  Trials trials;
  trials.by_part = true;
  for (int round : {0, 2}) {
    trials.kept.push_back({{token(1, 0.5, 80, 81), token(2, 1.5, 81, 50)}, round, 10.0 * round});
  }
  trials.rejected.push_back({{token(3, 0, 50, 80)}, 1, 10});
  const auto samples = samples_of(trials);
  const std::vector<std::string> columns = samples.at("columns");
  const auto of = [&](std::size_t row, const std::string& column) -> double {
    const auto at = std::find(columns.begin(), columns.end(), column) - columns.begin();
    return samples.at("rows").at(row).at(std::size_t(at));
  };
  ASSERT_EQ(samples.at("rows").size(), 5u);
  const std::vector<std::vector<double>> expected = {{0, 0.5, 1, 1e3 * kToken, 80, 81},
                                                     {0, 1.5, 1, 2e3 * kToken, 81, 50},
                                                     {1, 10, 0, 3e3 * kToken, 50, 80},
                                                     {2, 20.5, 1, 1e3 * kToken, 80, 81},
                                                     {2, 21.5, 1, 2e3 * kToken, 81, 50}};
  for (std::size_t row = 0; row < 5; ++row) {
    EXPECT_EQ(samples.at("rows").at(row).size(), columns.size());
    std::size_t i = 0;
    for (const char* column :
         {"round", "at_s", "kept", "token_ms", "read_before_gbps", "state_read_gbps"}) {
      EXPECT_DOUBLE_EQ(of(row, column), expected[row][i++]) << row << " " << column;
    }
  }
}

TEST(DecodeMetrics, FloorsCanBeMadeAgainFromPhases) {
  Trials trials;
  trials.kept.push_back({{token(1, 0.5, 80, 81)}, 0, 0.0});
  const auto samples = samples_of(trials);
  const std::vector<std::string> columns = samples.at("columns");
  const auto of = [&](const std::string& column) -> double {
    const auto at = std::find(columns.begin(), columns.end(), column) - columns.begin();
    return samples.at("rows").at(0).at(std::size_t(at));
  };
  const double read = of("read_gbps"), peak = of("fma_gflops");
  for (const std::string kind : {"token", "block"}) {
    double milliseconds = 0, bytes = 0, flops = 0;
    for (const auto& phase : samples.at("phases").at(kind)) {
      const double count = phase.at(2);
      milliseconds +=
          count * std::max(phase.at(0).get<double>() / read, phase.at(1).get<double>() / peak);
      bytes += count * phase.at(0).get<double>();
      flops += count * phase.at(1).get<double>();
    }
    EXPECT_NEAR(1e-6 * milliseconds / of(kind + "_floor_ms"), 1, 1e-5) << kind;
    const double overlapping = 1e-6 * std::max(bytes / read, flops / peak);
    EXPECT_NEAR(overlapping / of(kind + "_overlap_floor_ms"), 1, 1e-5) << kind;
  }
}

}  // namespace
}  // namespace scaling
