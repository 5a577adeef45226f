// Eight models are what they were: names, shapes and layouts of all parameters, numbers of weights,
// initial values, costs. tests/fixtures/golden.txt holds one model a line: a name, its knobs,
// "=>", integer facts (exact), floats (to 1e-5, since builds differ by machine).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <fstream>
#include <iomanip>
#include <sstream>
#include <string>
#include <vector>

#include "models/transformer/transformer.h"

namespace scaling {
namespace {

/// FNV-1a, 64 bits.
std::uint64_t hash_of(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

struct Golden {
  std::string name;
  ModelConfig config;
  std::string facts;
};

std::vector<Golden> read_golden() {
  std::ifstream in(std::string(SOURCE_DIR) + "/tests/fixtures/golden.txt");
  std::vector<Golden> all;
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    Golden golden;
    words >> golden.name;
    for (std::string word; words >> word && word != "=>";) {
      const std::size_t equals = word.find('=');
      set_field(golden.config, word.substr(0, equals), word.substr(equals + 1));
    }
    std::getline(words >> std::ws, golden.facts);
    all.push_back(golden);
  }
  return all;
}

/// As a line of the file has them after "=>".
std::string facts_of(const ModelConfig& config) {
  Transformer model(config);
  Team team(1);
  model.allocate(team);
  std::ostringstream names;
  std::int64_t parameters = 0;
  double drawn = 0;
  model.visit_parameters([&](Parameter& p) {
    names << p.name << ' ' << p.rows << 'x' << p.cols << ' ' << int(p.layout);
    for (const std::int64_t n : p.shape) names << ' ' << n;
    for (const std::int64_t n : p.strides) names << ' ' << n;
    names << '\n';
    ++parameters;
    for (std::int64_t row = 0; row < p.rows; ++row) {
      for (std::int64_t col = 0; col < p.cols; ++col) {
        // A weight that changes places counts otherwise.
        drawn += double(p.get(row, col)) * double(1 + (row * p.cols + col) % 7);
      }
    }
  });
  const Phase token = total(model.token_cost(2, 5, 6));
  std::ostringstream facts;
  facts << parameters << ' ' << model.parameter_count() << ' ' << model.held_bytes() << ' '
        << std::hex << hash_of(names.str()) << std::dec << ' ' << std::setprecision(9) << drawn
        << ' ' << token.weights << ' ' << token.bytes << ' ' << token.flops;
  return facts.str();
}

void expect_alike(const Golden& golden) {
  constexpr int kIntegers = 4;
  std::istringstream before(golden.facts);
  const std::string facts = facts_of(golden.config);
  std::istringstream after(facts);
  std::string old_word, new_word;
  int words = 0;
  for (; before >> old_word && after >> new_word; ++words) {
    if (words < kIntegers) {
      EXPECT_EQ(new_word, old_word) << golden.name << " => " << facts;
    } else {
      const double was = std::stod(old_word);
      EXPECT_NEAR(std::stod(new_word), was, 1e-5 * std::abs(was)) << golden.name << " => " << facts;
    }
  }
  EXPECT_EQ(words, 8) << golden.name << " => " << facts;
}

TEST(Golden, ModelsAreWhatTheyWere) {
  const std::vector<Golden> all = read_golden();
  EXPECT_EQ(all.size(), 8u);
  for (const Golden& golden : all) expect_alike(golden);
}

}  // namespace
}  // namespace scaling
