// Holds the whole model to the logits of an independent implementation (fixtures/make_fixtures.py).
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>
#include <xtensor/xnpy.hpp>
#include <xtensor/xtensor.hpp>

#include "models/transformer/decoder.h"
#include "models/transformer/transformer.h"
#include "tests/fixtures/papers_layers.h"

namespace scaling {
namespace {

const std::filesystem::path kFolder = std::filesystem::path(SOURCE_DIR) / "tests" / "fixtures";

/// Share of the largest magnitude in the expected values.
constexpr double kTolerance = 1e-4;

/// Every folder with a manifest.
std::vector<std::string> fixture_names() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (std::filesystem::exists(entry.path() / "manifest.txt")) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

struct Fixture {
  std::string name;
  ModelConfig config;
  std::vector<int> source;
  xt::xtensor<std::int32_t, 2> target;  // (sequences, positions)
  xt::xtensor<float, 2> encoded;        // (source positions, d_model)
  xt::xtensor<float, 3> logits;         // (sequences, positions, vocab_size)

  std::filesystem::path path(const std::string& file) const { return kFolder / name / file; }
  std::vector<int> target_of(std::size_t sequence) const {
    std::vector<int> ids(target.shape(1));
    for (std::size_t t = 0; t < ids.size(); ++t) ids[t] = target(sequence, t);
    return ids;
  }
};

Fixture load_fixture(const std::string& name) {
  Fixture f;
  f.name = name;
  std::ifstream config(f.path("config.txt"));
  for (std::string line; std::getline(config, line);) {
    const std::size_t equals = line.find('=');
    set_field(f.config, line.substr(0, equals), line.substr(equals + 1));
  }
  const xt::xtensor<std::int32_t, 1> source =
      xt::load_npy<std::int32_t>(f.path("source.npy").string());
  f.source.assign(source.begin(), source.end());
  f.target = xt::load_npy<std::int32_t>(f.path("target.npy").string());
  f.encoded = xt::load_npy<float>(f.path("encoded.npy").string());
  f.logits = xt::load_npy<float>(f.path("logits.npy").string());
  return f;
}

/// Gives every parameter of the model the fixture's value; names and shapes must match one to one.
void load_weights(const Fixture& fixture, Transformer& model) {
  std::map<std::string, Parameter*> parameters;
  model.visit_parameters([&](Parameter& parameter) {
    EXPECT_TRUE(parameters.emplace(parameter.name, &parameter).second)
        << fixture.name << ": two parameters are called " << parameter.name;
  });
  const xt::xtensor<float, 1> weights = xt::load_npy<float>(fixture.path("weights.npy").string());
  std::size_t at = 0;
  std::ifstream manifest(fixture.path("manifest.txt"));
  for (std::string line; std::getline(manifest, line);) {
    std::istringstream fields(line);
    std::string name;
    std::int64_t rows = 0, cols = 0;
    fields >> name >> rows >> cols;
    const std::size_t next = at + std::size_t(rows * cols);
    ASSERT_LE(next, weights.size()) << fixture.name << ": weights.npy is too short for " << name;
    const auto found = parameters.find(name);
    if (found == parameters.end()) {
      ADD_FAILURE() << fixture.name << ": the model has no parameter " << line;
    } else if (found->second->rows != rows || found->second->cols != cols) {
      ADD_FAILURE() << fixture.name << ": the model's " << name << " is " << found->second->rows
                    << " x " << found->second->cols << ", the fixture's " << rows << " x " << cols;
    } else {
      for (std::int64_t i = 0; i < rows * cols; ++i) {
        found->second->set(i / cols, i % cols, weights(at + std::size_t(i)));
      }
    }
    if (found != parameters.end()) parameters.erase(found);
    at = next;
  }
  EXPECT_EQ(at, weights.size()) << fixture.name << ": weights.npy has more than its manifest";
  for (const auto& [name, parameter] : parameters) {
    ADD_FAILURE() << fixture.name << ": the fixture has no parameter " << name << " "
                  << parameter->rows << " " << parameter->cols;
  }
}

/// The largest difference of all elements seen, against the largest expected magnitude.
class Comparison {
 public:
  /// `where` is read only if the test fails.
  void add(float ours, float expected, const std::vector<std::int64_t>& where) {
    scale_ = std::max(scale_, std::abs(double(expected)));
    const double difference = std::abs(double(ours) - double(expected));
    if (difference <= worst_ || std::isnan(worst_)) return;  // the first NaN is the worst of all
    worst_ = difference;
    ours_ = ours;
    expected_ = expected;
    where_ = where;
  }

  void expect_close(const std::string& what) const {
    ASSERT_GT(scale_, 0) << what << ": nothing was compared";
    if (worst_ <= kTolerance * scale_) return;
    std::ostringstream at;
    for (const std::int64_t i : where_) at << "[" << i << "]";
    ADD_FAILURE() << what << ": worst element " << at.str() << " is " << ours_ << ", expected "
                  << expected_ << "; difference " << worst_ << ", allowed " << kTolerance * scale_;
  }

 private:
  double scale_ = 0, worst_ = 0;
  float ours_ = 0, expected_ = 0;
  std::vector<std::int64_t> where_;
};

class FixtureTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    fixture_ = load_fixture(GetParam());
    model_ = std::make_unique<Transformer>(fixture_.config);
    ASSERT_EQ(model_->blocks(), fixture_.config.decoder_layers);
    model_->allocate(team_);
    load_weights(fixture_, *model_);
    if (HasFailure()) GTEST_SKIP() << GetParam() << ": weights do not match, nothing to compare";
  }

  void expect_decode(const KernelSet& kernels, int threads);

  Fixture fixture_;
  Team team_{1};
  std::unique_ptr<Transformer> model_;
};

TEST_P(FixtureTest, Encode) {
  const Mat encoded = model_->encode(fixture_.source);
  ASSERT_EQ(encoded.rows(), std::int64_t(fixture_.encoded.shape(0)));
  ASSERT_EQ(encoded.cols(), std::int64_t(fixture_.encoded.shape(1)));
  Comparison comparison;
  for (std::int64_t t = 0; t < encoded.rows(); ++t) {
    for (std::int64_t i = 0; i < encoded.cols(); ++i) {
      comparison.add(encoded(t, i), fixture_.encoded(t, i), {t, i});
    }
  }
  comparison.expect_close(GetParam() + " encode [position][feature]");
}

TEST_P(FixtureTest, Forward) {
  Comparison comparison;
  for (std::size_t sequence = 0; sequence < fixture_.target.shape(0); ++sequence) {
    const Mat logits = model_->forward(fixture_.source, fixture_.target_of(sequence));
    ASSERT_EQ(logits.rows(), std::int64_t(fixture_.logits.shape(1)));
    ASSERT_EQ(logits.cols(), std::int64_t(fixture_.logits.shape(2)));
    for (std::int64_t t = 0; t < logits.rows(); ++t) {
      for (std::int64_t id = 0; id < logits.cols(); ++id) {
        comparison.add(logits(t, id), fixture_.logits(sequence, t, id),
                       {std::int64_t(sequence), t, id});
      }
    }
  }
  comparison.expect_close(GetParam() + " forward [sequence][position][id]");
}

/// All sequences of the fixture at once, and then the first alone, through one token at a time.
void FixtureTest::expect_decode(const KernelSet& kernels, int threads) {
  Team team(threads);
  const std::size_t positions = fixture_.target.shape(1);
  const std::size_t vocab = fixture_.logits.shape(2);
  for (const int tokens : {int(fixture_.target.shape(0)), 1}) {
    Decoder decoder(*model_, kernels, team, tokens, std::int64_t(positions),
                    std::int64_t(fixture_.source.size()));
    // Twice: begin() must forget what the first round left in caches and states.
    for (int round = 0; round < 2; ++round) {
      decoder.begin(fixture_.source);
      Comparison comparison;
      for (std::size_t t = 0; t < positions; ++t) {
        std::vector<int> ids(std::size_t(tokens), 0), next(std::size_t(tokens), 0);
        for (int s = 0; t > 0 && s < tokens; ++s) ids[std::size_t(s)] = fixture_.target(s, t - 1);
        decoder.step(ids, next);
        ASSERT_EQ(decoder.logits().size(), std::size_t(tokens) * vocab);
        for (std::size_t i = 0; i < decoder.logits().size(); ++i) {
          comparison.add(decoder.logits()[i], fixture_.logits(i / vocab, t, i % vocab),
                         {std::int64_t(i / vocab), std::int64_t(t), std::int64_t(i % vocab)});
        }
      }
      std::ostringstream what;
      what << GetParam() << " decode, kernels " << kernels.name << ", threads " << threads
           << ", sequences " << tokens << ", round " << round << " [sequence][position][id]";
      comparison.expect_close(what.str());
    }
  }
}

TEST_P(FixtureTest, Decode) {
  for (const KernelSet* kernels : kernel_sets()) {
    // It rounds activations, so that close selections may differ: no bound of this kind holds.
    if (kernels->name == "bf16_dot") continue;
    for (const int threads : {1, 2}) expect_decode(*kernels, threads);
  }
}

INSTANTIATE_TEST_SUITE_P(Fixtures, FixtureTest, testing::ValuesIn(fixture_names()),
                         [](const auto& fixture) { return fixture.param; });

/// A checkout without fixtures must not pass in silence. The paper's own layers have one each; what
/// comes later is held by the tests over the catalog.
TEST(FixtureFolderTest, CoversEveryComponent) {
  for (const auto& [component, implementations] : kPapersLayers) {
    std::set<std::string> covered;
    for (const std::string& name : fixture_names()) {
      covered.insert(get_field(load_fixture(name).config, component));
    }
    for (const std::string& implementation : implementations) {
      EXPECT_TRUE(covered.count(implementation))
          << "no fixture in " << kFolder << " has " << component << "=" << implementation;
    }
  }
}

}  // namespace
}  // namespace scaling
