// What a teacher's self-attentions cost on its own queries and keys, between the projections, by
// the kernels of one model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "experiments/instruments/held_attention.h"
#include "experiments/instruments/interleave.h"
#include "experiments/instruments/teacher.h"
#include "kernels/kernels.h"
#include "kernels/team.h"

namespace scaling {

/// Columns of a trial: microseconds a token, all layers together.
enum CoreColumn : std::size_t {
  kForwardTime,  ///< a forward in evaluation
  kTrainTime,    ///< a forward in training and its backward, without dropout
  kDecodeTime,   ///< one token after another from empty caches; 0: not decoded
  kCoreColumns
};

/// What the models of one teacher are given alike. Times do not depend on values and gradients,
/// which are drawn.
struct CoreInputs {
  CoreInputs(const TeacherPlan& of, std::vector<SequenceHeads> all);
  const TeacherPlan& plan;
  const std::vector<SequenceHeads> sequences;
  Mat values, gradients;  ///< (positions, d_model)
};

class TeacherCores {
 public:
  /// model: the teacher's with another attention or normaliser. weights: a file that has the
  /// parameters of each attention; empty: they have none. inputs and team outlive this. Throws
  /// UserError for a file that lacks them.
  TeacherCores(const ModelConfig& model, const std::string& weights, const CoreInputs& inputs,
               Team& team);

  /// For interleave; borrows this. A trial passes every sequence once forward, once forward and
  /// backward, and once token by token.
  Candidate candidate(const std::string& name);
  /// Not those that look at later positions, nor a teacher that does.
  bool decodes() const { return !caches_.empty(); }
  /// Share of the pairs that the mask allows which the graph leaves out, all sequences and heads
  /// together. Tiles of a forward may work through more.
  double sparsity();

 private:
  StepContext at(int thread, std::int64_t position);
  /// Of the layer's attention on one sequence.
  void forward(Pass& pass, const SequenceHeads& sequence, std::size_t layer);
  Pass make_pass(bool training) const;
  double pass_all(bool training);
  double decode_all();
  Trial run();

  const ModelConfig model_;
  const CoreInputs& inputs_;
  Team& team_;
  const KernelSet& kernels_;
  const Gemm& gemm_;
  std::vector<HeldAttention> attentions_;  ///< a layer each, as all that follows
  std::vector<std::unique_ptr<Activations>> kept_;
  std::vector<std::unique_ptr<AttentionCache>> caches_;
  Mat o_, dq_, dk_, dv_;
  std::vector<float> workspace_;
};

}  // namespace scaling
