// Every kernel set agrees with the definition on every test case in every weight type, `simd` on
// every instruction set that it was compiled for, and no kernel is without a case.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <set>

#include "hwy/targets.h"
#include "kernels/bf16_dot/bf16_dot.h"
#include "kernels/bf16_dot/tiles.h"
#include "kernels/cases.h"
#include "kernels/check.h"
#include "kernels/gemm_rate.h"
#include "kernels/libraries.h"
#include "kernels/simd/simd.h"

namespace scaling {
namespace {

/// Function pointers of a KernelSet, which are its last members.
std::size_t kernel_count() {
  const KernelSet& set = ref_kernels();
  const char* first = reinterpret_cast<const char*>(&set.dense);
  const char* end = reinterpret_cast<const char*>(&set + 1);
  return std::size_t(end - first) / sizeof(set.dense);
}

std::set<std::string> kernels_of(const std::vector<Case>& cases) {
  std::set<std::string> names;
  for (const Case& c : cases) names.insert(c.kernel);
  return names;
}

bool is_dense(const std::string& kernel) { return kernel.starts_with("dense"); }

/// Those that a set takes in its dense products.
std::vector<Layout> layouts_of(const KernelSet& set, const std::string& kernel) {
  const auto& names = library_names();
  const bool is_library = std::find(names.begin(), names.end(), set.name) != names.end();
  if (is_library || !is_dense(kernel)) return {Layout::rows};
  return {Layout::rows, Layout::strips};
}

void agrees_with_ref(const KernelSet& set, const std::string& kernel, int threads) {
  Team team(threads);
  int checked = 0;
  for (const Case& c : test_cases()) {
    if (c.kernel != kernel) continue;
    for (const WeightType type : weight_types(c)) {
      for (const Layout layout : layouts_of(set, kernel)) {
        CheckedProblem problem(
            c, {.type = type, .seed = std::uint64_t(++checked), .dense_layout = layout}, team);
        EXPECT_EQ(problem.check(set), "")
            << c.name(type) << " in " << set.name << (layout == Layout::rows ? "" : ", in strips");
      }
    }
  }
  EXPECT_GT(checked, 0);
}

using Parameter = std::tuple<const KernelSet*, std::string, int>;  ///< set, kernel, threads

class KernelTest : public testing::TestWithParam<Parameter> {};

TEST_P(KernelTest, AgreesWithRef) {
  const auto& [set, kernel, threads] = GetParam();
  agrees_with_ref(*set, kernel, threads);
}

std::vector<Parameter> parameters() {
  std::vector<Parameter> all;
  for (const KernelSet* set : kernel_sets()) {
    for (const std::string& kernel : ref_kernels().own) {
      all.emplace_back(set, kernel, 1);
      // Shares put together again.
      if (is_own(*set, kernel, set->own_types[0])) all.emplace_back(set, kernel, 3);
    }
  }
  return all;
}

std::string name_of_test(const testing::TestParamInfo<Parameter>& test) {
  const auto& [set, kernel, threads] = test.param;
  return set->name + "_" + kernel + "_" + std::to_string(threads);
}

INSTANTIATE_TEST_SUITE_P(Sets, KernelTest, testing::ValuesIn(parameters()), name_of_test);

/// All ways to stream, whichever this processor takes by itself.
class PrefetchTest : public testing::TestWithParam<simd::Prefetch> {
 protected:
  void SetUp() override { simd::set_prefetch_by(GetParam()); }
  void TearDown() override { simd::set_prefetch_by(own_); }

 private:
  const simd::Prefetch own_ = simd::prefetch_by();
};

TEST_P(PrefetchTest, StreamsAgreeWithRef) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    for (const char* kernel : {"dense", "dense_transposed", "controller", "gather_dot",
                               "gather_accumulate", "attend", "attend_entmax"}) {
      SCOPED_TRACE(std::string(kernel) + " on " + hwy::TargetName(target));
      agrees_with_ref(simd_kernels(), kernel, 1);
    }
    hwy::SetSupportedTargetsForTest(0);
  }
  // Its dense products go by the same ways.
  if (bf16_dot_kernels()) agrees_with_ref(*bf16_dot_kernels(), "dense", 1);
}

std::string name_of_way(const testing::TestParamInfo<simd::Prefetch>& test) {
  switch (test.param) {
    case simd::Prefetch::by_kernel:
      return "kernel";
    case simd::Prefetch::by_kernel_far:
      return "kernel_far";
    case simd::Prefetch::by_processor_of_four:
      return "four";
    case simd::Prefetch::by_processor_of_two:
      break;
  }
  return "two";
}

INSTANTIATE_TEST_SUITE_P(Ways, PrefetchTest,
                         testing::Values(simd::Prefetch::by_kernel, simd::Prefetch::by_kernel_far,
                                         simd::Prefetch::by_processor_of_four,
                                         simd::Prefetch::by_processor_of_two),
                         name_of_way);

/// Both products of modular layers, whichever this processor takes by itself.
void modular_products_agree(const KernelSet& set) {
  for (const char* kernel : {"multiplicative", "module_convolution"}) {
    SCOPED_TRACE(kernel);
    agrees_with_ref(set, kernel, 1);
    agrees_with_ref(set, kernel, 3);
  }
}

TEST(ModularProducts, ByVectorsAgreeWithRef) {
  const KernelSet* set = bf16_dot_kernels();
  if (!set) GTEST_SKIP() << "this processor has no bf16 dot product";
  bf16_dot::set_tiles(false);
  modular_products_agree(*set);
  bf16_dot::set_tiles(true);
}

TEST(ModularProducts, ByTilesAgreeWithRef) {
  const KernelSet* set = bf16_dot_kernels();
  if (!set || !bf16_dot::has_tiles()) GTEST_SKIP() << "this processor has no tiles";
  modular_products_agree(*set);
}

/// An instruction set older than this processor's best one, as Highway numbers them.
class OlderProcessorTest : public testing::TestWithParam<std::int64_t> {
 protected:
  void SetUp() override { hwy::SetSupportedTargetsForTest(GetParam()); }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }
};

TEST_P(OlderProcessorTest, SimdAgreesWithRef) {
  for (const std::string& kernel : ref_kernels().own) {
    SCOPED_TRACE(kernel);
    agrees_with_ref(simd_kernels(), kernel, 1);
    EXPECT_EQ(hwy::SupportedTargets(), GetParam());
  }
}

/// All but the best, which the tests above ran on. The native build has one alone.
std::vector<std::int64_t> older_instruction_sets() {
  std::vector<std::int64_t> all = hwy::SupportedAndGeneratedTargets();
  if (!all.empty()) all.erase(all.begin());
  return all;
}

std::string name_of_instruction_set(const testing::TestParamInfo<std::int64_t>& test) {
  return hwy::TargetName(test.param);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(OlderProcessorTest);
INSTANTIATE_TEST_SUITE_P(InstructionSets, OlderProcessorTest,
                         testing::ValuesIn(older_instruction_sets()), name_of_instruction_set);

TEST(Cases, EveryKernelHasThem) {
  const std::set<std::string> all(ref_kernels().own.begin(), ref_kernels().own.end());
  EXPECT_EQ(all.size(), kernel_count()) << "ref does not name every member of KernelSet";
  EXPECT_EQ(kernels_of(test_cases()), all);
  EXPECT_EQ(kernels_of(paper_cases()), all);
}

TEST(Cases, NamesOfPaperCasesAreDistinct) {
  std::set<std::string> names;
  for (const Case& c : paper_cases()) {
    EXPECT_TRUE(names.insert(c.name(WeightType::f32)).second) << c.name(WeightType::f32);
  }
}

/// A comparison that accepts everything would let every other test pass.
TEST(Cases, WrongKernelsFail) {
  KernelSet wrong = ref_kernels();
  wrong.name = "wrong";
  wrong.dense = [](const WeightView& w, const float*, const float*, int tokens, float* y, Range o,
                   bool) {
    for (int t = 0; t < tokens; ++t) {
      for (std::int64_t i = o.begin; i < o.end; ++i) y[t * w.rows + i] = 0;
    }
  };
  wrong.dense_transposed = [](const WeightView& w, const float* h, int tokens, float* y, Range in) {
    if (in.size() > 0) in.end -= 1;  // forgets one input
    ref_kernels().dense_transposed(w, h, tokens, y, in);
  };
  wrong.gather_dot = [](const WeightView& w, const float* bias, const Selection* s, std::int64_t n,
                        const float* x, float* h) {
    ref_kernels().gather_dot(w, bias, s, n, x, h);
#if defined(__SANITIZE_ADDRESS__)
    h[0] += 1;  // the sanitizer would stop the program at what follows
#else
    h[n] = 1;  // writes one too many
#endif
  };
  wrong.argmax = [](const float* x, std::int64_t n) {
    std::int64_t best = 0;
    for (std::int64_t i = 1; i < n; ++i) best = x[i] >= x[best] ? i : best;  // last of a tie
    return best;
  };
  Team team(1);
  for (const Case& c : test_cases()) {
    const bool full = c.shape == "tokens" || c.shape == "n1000_ties";
    if (!full || c.kernel == "controller" || c.kernel == "multiplicative") continue;
    const bool right = c.kernel == "gather_accumulate" || c.kernel == "module_convolution" ||
                       c.kernel == "layer_norm";
    CheckedProblem problem(c, {}, team);
    EXPECT_EQ(problem.check(ref_kernels()), "") << c.name(WeightType::f32);
    EXPECT_EQ(problem.check(wrong).empty(), right) << c.name(WeightType::f32);
  }
}

/// Does nothing, whatever it is given.
template <class Result, class... Arguments>
void make_idle(Result (*&kernel)(Arguments...)) {
  kernel = [](Arguments...) -> Result { return Result(); };
}

/// Each kernel has a case that tells whether it has run.
TEST(Cases, IdleKernelsFail) {
  KernelSet idle = ref_kernels();
  idle.name = "idle";
  make_idle(idle.dense);
  make_idle(idle.dense_transposed);
  make_idle(idle.controller);
  make_idle(idle.gather_dot);
  make_idle(idle.gather_accumulate);
  make_idle(idle.multiplicative);
  make_idle(idle.module_convolution);
  make_idle(idle.layer_norm);
  make_idle(idle.softmax);
  make_idle(idle.attend);
  make_idle(idle.attend_entmax);
  make_idle(idle.argmax);
  Team team(1);
  std::set<std::string> told;
  for (const Case& c : test_cases()) {
    if (told.count(c.kernel) == 0 && !CheckedProblem(c, {}, team).check(idle).empty()) {
      told.insert(c.kernel);
    }
  }
  EXPECT_EQ(told, kernels_of(test_cases()));
}

TEST(Cases, RotationChangesNothing) {
  Team team(2);
  for (const Case& c : test_cases()) {
    if (c.shape != "normal") continue;
    for (const WeightType type : weight_types(c)) {
      CheckedProblem problem(c, {.type = type, .rotate_bytes = 1 << 20}, team);
      EXPECT_EQ(problem.check(simd_kernels()), "") << c.name(type);
      EXPECT_TRUE(!c.typed || problem.problem().weight_bytes() > 1 << 20) << c.name(type);
    }
  }
}

TEST(KernelSets, UnknownNamesAreRefused) {
  EXPECT_EQ(find_kernel_set("ref").name, "ref");
  EXPECT_THROW(find_kernel_set("avx"), UserError);
  EXPECT_EQ(parse_weight_type("bf16"), WeightType::bf16);
  EXPECT_THROW(parse_weight_type("f16"), UserError);
  EXPECT_THROW(gemm_gflops("ref", 8, 1), UserError);
}

TEST(KernelSets, LibrariesWithTheirOwnThreadsAgreeToo) {
  Team team(1);
  for (const Library& library : libraries()) {
    const std::string name = library.name;
    EXPECT_FALSE(library_description(name).empty());
    set_library_threads(name, 2);
    for (const Case& c : test_cases()) {
      if (c.shape != "normal" || !is_own(find_kernel_set(name), c.kernel, WeightType::f32))
        continue;
      CheckedProblem problem(c, {}, team);
      EXPECT_EQ(problem.check(find_kernel_set(name)), "") << c.name(WeightType::f32) << name;
    }
    EXPECT_GT(gemm_gflops(name, 64, 2), 0);
  }
}

}  // namespace
}  // namespace scaling
