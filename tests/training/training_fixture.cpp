// Reads a folder of manifest.txt, config.txt and values.npy.
#include "tests/training/training_fixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <xtensor/xnpy.hpp>
#include <xtensor/xtensor.hpp>

namespace scaling {

std::filesystem::path training_fixtures() {
  return std::filesystem::path(SOURCE_DIR) / "tests" / "fixtures" / "training";
}

std::vector<std::string> fixtures_with(const std::string& prefix) {
  std::vector<std::string> names;
  if (!std::filesystem::exists(training_fixtures())) return names;
  for (const auto& entry : std::filesystem::directory_iterator(training_fixtures())) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(prefix, 0) == 0) names.push_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

const Mat& Fixture::at(const std::string& name) const {
  const auto found = arrays.find(name);
  if (found != arrays.end()) return found->second;
  ADD_FAILURE() << "the fixture has no " << name;
  static const Mat none = Mat::Zero(1, 1);
  return none;
}

std::map<std::string, Mat> Fixture::with(const std::string& prefix) const {
  std::map<std::string, Mat> found;
  for (const auto& [name, value] : arrays) {
    if (name.rfind(prefix, 0) == 0) found[name.substr(prefix.size())] = value;
  }
  return found;
}

Fixture load_fixture(const std::string& name) {
  const std::filesystem::path folder = training_fixtures() / name;
  Fixture f;
  std::ifstream config(folder / "config.txt");
  for (std::string line; std::getline(config, line);) {
    const std::size_t equals = line.find('=');
    set_field(f.config, line.substr(0, equals), line.substr(equals + 1));
  }
  const xt::xtensor<float, 1> values = xt::load_npy<float>((folder / "values.npy").string());
  std::ifstream manifest(folder / "manifest.txt");
  std::size_t at = 0;
  for (std::string line; std::getline(manifest, line);) {
    std::istringstream fields(line);
    std::string array;
    std::int64_t rows = 0, cols = 0;
    fields >> array >> rows >> cols;
    Mat m(rows, cols);
    if (at + std::size_t(m.size()) > values.size()) break;
    for (std::int64_t i = 0; i < m.size(); ++i) m.data()[i] = values(at++);
    f.order.push_back(array);
    f.arrays[array] = m;
  }
  EXPECT_EQ(at, values.size()) << name << ": manifest.txt and values.npy disagree";
  return f;
}

void set_parameters(const Fixture& f, const std::vector<Parameter*>& parameters) {
  std::map<std::string, Mat> values = f.with("parameter.");
  for (Parameter* p : parameters) {
    const auto found = values.find(p->name);
    ASSERT_NE(found, values.end()) << "the fixture has no parameter " << p->name;
    ASSERT_EQ(found->second.rows(), p->rows) << p->name;
    ASSERT_EQ(found->second.cols(), p->cols) << p->name;
    for (std::int64_t i = 0; i < p->count(); ++i) {
      p->set(i / p->cols, i % p->cols, found->second.data()[i]);
    }
    values.erase(found);
  }
  for (const auto& [name, value] : values) ADD_FAILURE() << "there is no parameter " << name;
}

void expect_within(const Mat& ours, const Mat& expected, double tolerance, const std::string& what,
                   double least) {
  ASSERT_EQ(ours.rows(), expected.rows()) << what;
  ASSERT_EQ(ours.cols(), expected.cols()) << what;
  ASSERT_TRUE(ours.allFinite()) << what;
  const double scale = std::max(double(expected.cwiseAbs().maxCoeff()), least);
  ASSERT_GT(scale, 0) << what << ": nothing to compare";
  Eigen::Index row = 0, col = 0;
  const double worst = double((ours - expected).cwiseAbs().maxCoeff(&row, &col));
  EXPECT_LE(worst, tolerance * scale)
      << what << "[" << row << "][" << col << "] is " << ours(row, col) << ", expected "
      << expected(row, col) << ", largest expected " << scale;
}

}  // namespace scaling
