// The project's rules that no compiler checks: includes point downwards, configs parse, the README
// is complete.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "models/layers/catalog.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

const fs::path kSource = SOURCE_DIR;
const fs::path kBinary = BINARY_DIR;

std::string read(const fs::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::vector<fs::path> sources(const std::string& folder) {
  std::vector<fs::path> found;
  for (const auto& entry : fs::recursive_directory_iterator(kSource / folder)) {
    const auto extension = entry.path().extension();
    if (extension == ".h" || extension == ".cpp") found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<std::string> includes_of(const std::string& text) {
  static const std::regex line(R"re((?:^|\n)[ \t]*#[ \t]*include[ \t]*[<"]([^>"]+)[>"])re");
  std::vector<std::string> found;
  for (std::sregex_iterator it(text.begin(), text.end(), line), end; it != end; ++it) {
    found.push_back((*it)[1]);
  }
  return found;
}

bool starts_with_any(const std::string& name, const std::vector<std::string>& prefixes) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [&](const std::string& prefix) { return name.rfind(prefix, 0) == 0; });
}

using Prefixes = std::vector<std::string>;

/// What the sources of a folder may include beside the standard library and the system: arrows of
/// the tree, from the top downwards. The longest folder that fits a source is its own; a folder
/// that is not listed has the rule of the one around it.
const std::vector<std::pair<std::string, Prefixes>> kMayInclude = {
    {"kernels/", {"kernels/", "hwy/", "Random123/", "Eigen/", "cblas.h", "oneapi/", "dnnl"}},
    {"models/", {"models/", "kernels/", "Eigen/"}},
    {"models/layers/",
     {"models/*", "models/layers/", "kernels/", "Eigen/", "xtensor/", "boost/math/"}},
    {"models/transformer/", {"models/*", "models/layers/", "models/transformer/", "kernels/"}},
    {"models/sparsefinder/",
     {"models/*", "models/layers/", "models/sparsefinder/", "kernels/", "Eigen/", "xtensor/"}},
    {"models/text/",
     {"models/*", "models/text/", "kernels/", "nlohmann/", "zlib.h", "zstd.h", "xxhash.h",
      "sentencepiece_processor.h", "sentencepiece_trainer.h"}},
    {"models/tasks/", {"models/*", "models/text/", "models/tasks/", "kernels/"}},
    {"models/training/", {"models/", "kernels/", "Eigen/", "nlohmann/", "zlib.h"}},
    {"experiments/", {"experiments/", "models/", "kernels/", "boost/", "nlohmann/"}},
    {"experiments/study/",
     {"experiments/study/", "study/build_info.h", "models/knobs.h", "kernels/", "boost/",
      "nlohmann/"}},
    {"experiments/peers/libraries/", {"experiments/peers/libraries/", "ggml", "mkl.h", "oneapi/"}},
    {"experiments/instruments/",
     {"experiments/study/", "experiments/instruments/", "models/", "kernels/", "nlohmann/",
      "xtensor/"}},
    {"apps/", {"apps/", "experiments/study/", "models/", "kernels/", "boost/"}}};

/// Every other folder of experiments/ is a study's and sees no other study's.
Prefixes of_a_study(const std::string& folder) {
  return {folder,       "experiments/study/", "experiments/instruments/",
          "models/",    "kernels/",           "nlohmann/",
          "benchmark/", "xtensor/",           "boost/"};
}

bool is_system(const std::string& name) {
  static const std::set<std::string> with_dots = {
      "sched.h",     "pthread.h", "immintrin.h", "unistd.h", "fcntl.h",  "omp.h",  "cpuid.h",
      "x86intrin.h", "signal.h",  "time.h",      "glob.h",   "malloc.h", "dlfcn.h"};
  const bool standard = name.find('.') == std::string::npos && name.find('/') == std::string::npos;
  return standard || with_dots.count(name) > 0 ||
         starts_with_any(name, {"sys/", "linux/", "sanitizer/"});
}

/// "models/*" stands for the files of models/ itself.
bool fits(const std::string& name, const std::string& prefix) {
  if (!prefix.ends_with("*")) return name.rfind(prefix, 0) == 0;
  const std::string folder = prefix.substr(0, prefix.size() - 1);
  return name.rfind(folder, 0) == 0 && name.find('/', folder.size()) == std::string::npos;
}

/// file: below the project's folder.
bool may_include(const std::string& file, const std::string& name) {
  if (is_system(name)) return true;
  std::string folder;
  Prefixes allowed;
  for (const auto& [candidate, prefixes] : kMayInclude) {
    if (file.rfind(candidate, 0) != 0 || candidate.size() < folder.size()) continue;
    folder = candidate;
    allowed = prefixes;
  }
  const std::size_t slash = file.find('/', folder.size());
  if (folder == "experiments/" && slash != std::string::npos) {
    allowed = of_a_study(file.substr(0, slash + 1));
  }
  return std::any_of(allowed.begin(), allowed.end(),
                     [&name](const std::string& prefix) { return fits(name, prefix); });
}

TEST(Structure, RuleItselfRefusesUpwardIncludes) {
  EXPECT_FALSE(may_include("kernels/team.h", "models/config.h"));
  EXPECT_FALSE(may_include("kernels/team.h", "boost/program_options.hpp"));
  EXPECT_FALSE(may_include("models/config.h", "experiments/study/record.h"));
  EXPECT_FALSE(may_include("models/config.h", "nlohmann/json.hpp"));
  EXPECT_FALSE(may_include("models/layers/x.h", "models/transformer/block.h"));
  EXPECT_FALSE(may_include("models/text/x.h", "models/tasks/task.h"));
  EXPECT_FALSE(may_include("experiments/study/x.h", "experiments/instruments/memory.h"));
  EXPECT_FALSE(may_include("experiments/study/x.h", "models/config.h"));
  EXPECT_FALSE(may_include("experiments/stacks/x.h", "experiments/decode/decode_study.h"));
  EXPECT_FALSE(may_include("experiments/instruments/x.h", "experiments/decode/decode_study.h"));
  EXPECT_FALSE(may_include("experiments/decode_time.cpp", "tests/close.h"));
  EXPECT_FALSE(may_include("apps/generate.cpp", "experiments/instruments/memory.h"));
  EXPECT_FALSE(may_include("experiments/peers/libraries/x.h", "kernels/kernels.h"));
  EXPECT_FALSE(may_include("experiments/decode/x.h", "experiments/peers/libraries/peer.h"));
  EXPECT_TRUE(may_include("experiments/peers/libraries/x.h", "ggml-cpu.h"));
  EXPECT_TRUE(may_include("models/training/x.h", "nlohmann/json.hpp"));
  EXPECT_TRUE(may_include("models/layers/x.h", "models/config.h"));
  EXPECT_TRUE(may_include("experiments/stacks/x.h", "experiments/stacks/y.h"));
  EXPECT_TRUE(may_include("experiments/decode_time.cpp", "experiments/decode/decode_study.h"));
  EXPECT_TRUE(may_include("models/config.h", "kernels/kernels.h"));
  EXPECT_EQ(includes_of("#include <a/b.h>\n  # include \"c.h\"\n// #include <d.h>\n"),
            (std::vector<std::string>{"a/b.h", "c.h"}));
}

TEST(Structure, IncludesPointDownwards) {
  for (const std::string project : {"kernels", "models", "experiments", "apps"}) {
    const auto files = sources(project);
    EXPECT_FALSE(files.empty()) << project;
    for (const fs::path& file : files) {
      const std::string path = fs::relative(file, kSource).string();
      for (const std::string& name : includes_of(read(file))) {
        EXPECT_TRUE(may_include(path, name)) << path << " may not include " << name;
      }
    }
  }
}

/// `text` compares something with a layer's name.
bool compares_with(const std::string& text, const std::string& name) {
  return std::regex_search(text, std::regex("[!=]= *\"" + name + "\""));
}

/// What one implementation needs is a trait or a virtual function, so that the next one needs no
/// edit here.
TEST(Structure, OnlyTheCatalogKnowsLayersByName) {
  EXPECT_TRUE(compares_with("if (c.loss == \"dense\")", "dense"));
  EXPECT_FALSE(compares_with("c.loss = \"dense\"", "dense"));
  for (const std::string folder : {"kernels", "models", "experiments", "apps"}) {
    for (const fs::path& file : sources(folder)) {
      if (file == kSource / "models" / "layers" / "catalog.cpp") continue;
      const std::string text = read(file);
      for (const std::string& component : component_names()) {
        for (const std::string& name : implementations_of(component)) {
          EXPECT_FALSE(compares_with(text, name)) << file << " knows " << component << " " << name;
        }
      }
    }
  }
}

TEST(Structure, EverySourceSaysWhatItIsFor) {
  for (const std::string folder : {"kernels", "models", "experiments", "apps", "tests"}) {
    for (const fs::path& file : sources(folder)) {
      EXPECT_EQ(read(file).rfind("// ", 0), 0u) << file << " has no opening sentence";
    }
  }
}

TEST(Structure, EveryDecodeConfigParsesAndIsPlanned) {
  const fs::path driver = kBinary / "experiments" / "decode_time";
  ASSERT_TRUE(fs::exists(driver)) << driver;
  int configs = 0;
  for (const auto& entry : fs::directory_iterator(kSource / "experiments/configs/decode")) {
    if (entry.path().extension() != ".cfg") continue;
    ++configs;
    const std::string command = "cd '" + kSource.string() + "' && '" + driver.string() +
                                "' --dry-run --config '" + entry.path().string() + "' > /dev/null";
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    const std::string planned = "\"decode/" + entry.path().stem().string() + "\"";
    EXPECT_NE(read(kSource / "experiments/plan.toml").find(planned), std::string::npos)
        << entry.path() << " is not in the plan of run_all.sh";
  }
  EXPECT_GE(configs, 12);
}

/// Records beside the sources would make the tree count as edited.
TEST(Structure, RunAllRefusesResultsAmongTheSources) {
  const std::string run_all = "'" + (kSource / "run_all.sh").string() + "' --plan --results '";
  const auto status = [&](const std::string& folder) {
    return std::system((run_all + folder + "' > /dev/null 2>&1").c_str());
  };
  EXPECT_NE(status(kSource.string()), 0);
  EXPECT_NE(status((kSource / "plots" / "mine").string()), 0);
  EXPECT_EQ(status((kSource / "results" / "mine").string()), 0);
  EXPECT_EQ(status("/nowhere"), 0);
}

/// A new implementation is a line of the catalog and need not be one here; what is named must be.
TEST(Structure, ReadmeNamesComponentsAsTheyAre) {
  const std::string readme = read(kSource / "README.md");
  static const std::regex name("`([a-z0-9_]+)`");
  for (const std::string& component : component_names()) {
    std::smatch row;
    ASSERT_TRUE(
        std::regex_search(readme, row, std::regex("\\| `" + component + "`[^|]*\\|(.*)\\|")))
        << "README's table lacks component " << component;
    const std::vector<std::string> known = implementations_of(component);
    const std::string names = row[1];
    for (std::sregex_iterator at(names.begin(), names.end(), name), end; at != end; ++at) {
      EXPECT_EQ(std::count(known.begin(), known.end(), std::string((*at)[1])), 1)
          << "README names " << component << " " << (*at)[1] << ", which does not exist";
    }
  }
}

TEST(Structure, DependenciesNameEveryPackage) {
  const std::string reasons = read(kSource / "docs" / "dependencies.md");
  const std::string script = read(kSource / "install_dependencies.sh");
  static const std::regex lists(R"re((?:required|optional)\+?=\(([^)]*)\))re");
  static const std::regex word(R"re([a-z0-9+-]+(?::[a-z0-9+-]+)?)re");
  int packages = 0;
  for (std::sregex_iterator list(script.begin(), script.end(), lists), end; list != end; ++list) {
    const std::string names = (*list)[1];
    for (std::sregex_iterator it(names.begin(), names.end(), word); it != end; ++it) {
      const std::string entry = it->str();
      const std::string package = entry.substr(0, entry.find(':'));
      EXPECT_NE(reasons.find("`" + package + "`"), std::string::npos)
          << "docs/dependencies.md gives no reason for " << package;
      ++packages;
    }
  }
  EXPECT_GE(packages, 15);
}

}  // namespace
}  // namespace scaling
