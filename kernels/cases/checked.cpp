// The one way in which a kernel set is compared with the definition.
#include <algorithm>

#include "kernels/cases.h"
#include "kernels/check.h"

namespace scaling {
namespace {

Outputs run_once(Problem& problem, const KernelSet& set, Team& team) {
  problem.reset();
  team.run([&](int thread) { problem.run(set, 0, thread); });
  return problem.outputs();
}

}  // namespace

std::string Case::name(WeightType type) const {
  return kernel + "/" + shape + "/" + name_of(type) + "/" + std::to_string(tokens);
}

CheckedProblem::CheckedProblem(const Case& c, ProblemOptions options, Team& team)
    : kernel_(c.kernel), type_(options.type), team_(team) {
  options.threads = team.threads();
  {
    ProblemOptions twin = options;
    twin.absolute = true;
    twin.rotate_bytes = 0;
    magnitude_ = run_once(*c.make(twin), ref_kernels(), team);
  }
  problem_ = c.make(options);
  expected_ = run_once(*problem_, ref_kernels(), team);
}

std::string CheckedProblem::check(const KernelSet& set) {
  const Outputs actual = run_once(*problem_, set, team_);
  if (!problem_->guards_intact()) return "wrote before or after its output";
  const bool rounds = set.rounds(type_) && is_own(set, kernel_, type_);
  // Half a unit in the last of 8 bits, twice: an activation, and its product with a weight.
  return problem_->compare(actual, expected_, magnitude_, rounds ? 0x1p-8 : 0);
}

std::vector<WeightType> weight_types(const Case& c) {
  if (!c.typed) return {WeightType::f32};
  return {WeightType::f32, WeightType::bf16};
}

bool is_own(const KernelSet& set, const std::string& kernel, WeightType type) {
  const auto& types = set.own_types;
  return std::find(set.own.begin(), set.own.end(), kernel) != set.own.end() &&
         std::find(types.begin(), types.end(), type) != types.end();
}

}  // namespace scaling
