// What the problems of all kernels share: drawing numbers, rotating weights, guarded outputs,
// comparing.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "kernels/arena.h"
#include "kernels/cases.h"
#include "kernels/cases/guarded.h"
#include "kernels/random.h"

namespace scaling {

/// What inputs look like. Sizes of large and tiny leave room for products of three.
enum class Values {
  normal,    ///< uniform in (-1, 1)
  large,     ///< the same times 1e10
  tiny,      ///< the same times 1e-12
  zeros,     ///< nothing but zeros
  integers,  ///< -2 to 2: sums are exact, and ties are common
};

/// Numbers of one problem, in the order they are asked for.
class Source {
 public:
  Source(const ProblemOptions& options, Values values);
  float draw();
  void fill(Guarded<float>& to);
  std::uint32_t below(std::uint32_t n) { return rng_.below(n); }
  double scale() const { return scale_; }

 private:
  Rng rng_;
  Values values_;
  bool absolute_;
  double scale_;
};

/// The weight matrices of a problem in as many copies as rotation asks for; copies are equal.
class RotatedWeights {
 public:
  struct Shape {
    Layout layout;
    std::int64_t rows, cols;
  };
  RotatedWeights(const ProblemOptions& options, WeightType type, std::vector<Shape> shapes,
                 Source& source, int misalign);
  WeightView view(int matrix, std::int64_t call) const;
  std::int64_t copies() const { return copies_; }
  const void* data() const { return arena_.data(); }
  std::uint64_t rotated_bytes() const { return arena_.used(); }

 private:
  const WeightType type_;
  const std::vector<Shape> shapes_;
  std::int64_t copies_ = 1;
  Arena arena_;
  std::vector<Guarded<char>> guarded_;      ///< without rotation
  std::vector<std::vector<void*>> pieces_;  ///< [matrix][copy]
};

/// Partly filled in by each kernel's problem.
class ProblemBase : public Problem {
 public:
  const void* weights() const override { return weights_ ? weights_->data() : nullptr; }
  std::uint64_t weight_bytes() const override { return weights_ ? weights_->rotated_bytes() : 0; }
  void reset() override;
  Outputs outputs() const override;
  bool guards_intact() const override;
  std::string compare(const Outputs& actual, const Outputs& expected, const Outputs& magnitude,
                      double input_rounding) const override;

 protected:
  ProblemBase(const ProblemOptions& options, Values values);
  /// Outputs that are overwritten, shared by all threads.
  void overwrite_outputs(std::int64_t size, int misalign);
  /// Outputs that are added to, `factors` numbers multiplied; one copy a thread.
  void add_outputs(std::int64_t size, int misalign, int factors);
  float* output(int thread) { return outputs_[outputs_.size() > 1 ? thread : 0].data(); }
  /// The allowed difference of output i, whose expected value is given.
  virtual double tolerance(std::int64_t i, double expected, double magnitude,
                           double input_rounding) const;
  /// This thread's part of a range.
  Range part(Range whole, int thread, std::int64_t multiple = 1) const;
  std::int64_t copies() const { return weights_ ? weights_->copies() : 1; }

  const ProblemOptions options_;
  const Values values_;
  Source source_;
  std::unique_ptr<RotatedWeights> weights_;
  double length_ = 1;   ///< terms of each sum
  double touched_ = 1;  ///< share of outputs that a call writes
  std::vector<float> initial_;

 private:
  std::string compare_values(const Outputs& actual, const Outputs& expected,
                             const Outputs& magnitude, double input_rounding) const;
  std::vector<Guarded<float>> outputs_;
};

}  // namespace scaling
