// What fixtures/make_training_fixtures.py has written, read back.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "models/config.h"
#include "models/matrix.h"
#include "models/parameter.h"

namespace scaling {

std::filesystem::path training_fixtures();

/// Folders whose name begins so; none if the folder of fixtures is missing.
std::vector<std::string> fixtures_with(const std::string& prefix);

struct Fixture {
  ModelConfig config;
  std::vector<std::string> order;  // of the arrays
  std::map<std::string, Mat> arrays;

  bool has(const std::string& name) const { return arrays.count(name) > 0; }
  const Mat& at(const std::string& name) const;
  /// Arrays called prefix + name, by name.
  std::map<std::string, Mat> with(const std::string& prefix) const;
};

Fixture load_fixture(const std::string& name);

/// Gives every parameter the fixture's value; names and shapes must match one to one.
void set_parameters(const Fixture& f, const std::vector<Parameter*>& parameters);

/// Largest difference, against the largest expected magnitude or `least`, whichever is more.
void expect_within(const Mat& ours, const Mat& expected, double tolerance, const std::string& what,
                   double least = 0);

}  // namespace scaling
