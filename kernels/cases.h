// The shapes on which kernels are tested and timed: one list each, and whatever is timed was
// checked.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cost.h"
#include "kernels/kernels.h"
#include "kernels/team.h"

namespace scaling {

/// How the memory of one case is made.
struct ProblemOptions {
  WeightType type = WeightType::f32;
  std::uint64_t seed = 1;
  /// Distinct copies of the weights are made until they exceed this many bytes, so that a call
  /// finds its weights cold; 0: one copy, between guards.
  std::uint64_t rotate_bytes = 0;
  int threads = 1;                     ///< calls are shared by so many
  Layout dense_layout = Layout::rows;  ///< of the weights of dense products
  bool absolute = false;  ///< every number drawn is made positive (gives magnitudes to tolerances)
};

/// Outputs of one call, shares of all threads put together. What was not written keeps its initial
/// value.
struct Outputs {
  std::vector<float> values;
  std::vector<std::int32_t> indices;
};

/// A case with its inputs, weights and outputs in memory.
class Problem {
 public:
  virtual ~Problem() = default;

  /// `thread`'s share of call number `call`; successive calls use other copies of the weights and
  /// other selections.
  virtual void run(const KernelSet& set, std::int64_t call, int thread) = 0;
  /// What a call must read and compute, in the mean over calls.
  virtual Phase cost() const = 0;

  /// All rotated weights, one piece of memory; null without rotation.
  virtual const void* weights() const = 0;
  virtual std::uint64_t weight_bytes() const = 0;

  /// Initial values into all outputs: random where the kernel adds, a NaN of its own where it
  /// overwrites.
  virtual void reset() = 0;
  virtual Outputs outputs() const = 0;
  /// False if a byte before or after an output was written.
  virtual bool guards_intact() const = 0;
  /// Empty if `actual` is `expected` up to rounding: a bound from epsilon, the length of sums and
  /// their magnitude, `magnitude` being the outputs of the absolute twin. `input_rounding` is the
  /// relative error of activations before they are used.
  virtual std::string compare(const Outputs& actual, const Outputs& expected,
                              const Outputs& magnitude, double input_rounding) const = 0;
};

struct Case {
  std::string kernel;  ///< member of KernelSet
  std::string shape;
  int tokens = 1;
  bool typed = true;  ///< has weights, so it exists in every WeightType
  std::function<std::unique_ptr<Problem>(const ProblemOptions&)> make;

  /// "dense/800m_d_ff/f32/16".
  std::string name(WeightType type) const;
};

/// A problem and what ref makes of it.
class CheckedProblem {
 public:
  /// Throws UserError if the weights do not fit in memory. team.threads() overrides
  /// options.threads.
  CheckedProblem(const Case& c, ProblemOptions options, Team& team);
  Problem& problem() { return *problem_; }
  /// Runs call 0 on the team; empty if the set computes what ref does, else one sentence.
  std::string check(const KernelSet& set);

 private:
  const std::string kernel_;
  const WeightType type_;
  Team& team_;
  std::unique_ptr<Problem> problem_;
  Outputs expected_, magnitude_;
};

/// Small and nasty: odd lengths, 1 to kMaxTokens tokens, misaligned pointers, partial and empty
/// ranges, extreme values, ties.
const std::vector<Case>& test_cases();
/// The shapes that the models 800m and 17b run.
const std::vector<Case>& paper_cases();

/// Weight types in which a case exists.
std::vector<WeightType> weight_types(const Case& c);
/// Whether the set implements the kernel itself for weights of this type.
bool is_own(const KernelSet& set, const std::string& kernel, WeightType type);

}  // namespace scaling
