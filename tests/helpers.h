// What tests share: a folder that goes away, messages, files as text.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "kernels/check.h"

namespace scaling {

/// A folder of its own for each test, removed afterwards.
class Folder {
 public:
  Folder() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "scaling_harness_XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  std::string path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

/// Text of the UserError that `action` throws.
std::string message_of(const std::function<void()>& action);

void expect_mentions(const std::string& message, const std::vector<std::string>& words);

std::string contents(const std::string& path);

}  // namespace scaling
