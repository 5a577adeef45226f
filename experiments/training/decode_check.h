// Whether a trained model decodes what it was trained to: its held-out text through the decode
// path, token by token, beside the trainer's own evaluation.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/instruments/selection_trace.h"
#include "experiments/study/point.h"
#include "experiments/training/curves.h"
#include "kernels/gemm.h"
#include "models/tasks/task.h"
#include "models/transformer/transformer.h"

namespace scaling {

/// Of check_decode: there if it has been done.
inline constexpr const char* kDecodedMetric = "decode_log_perplexity.f32";

/// Throws UserError if the curve's model reads a text from both sides, which no decode does.
void require_decodable(const Curve& curve);

struct DecodeCheck {
  std::vector<Metric> metrics;
  /// What the blocks chose on the way in f32, of whole examples from the first; without examples if
  /// they choose nothing, or differently much.
  SelectionTrace trace;
};

/// Log-perplexities, nats a weighted target token, teacher-forced, of the first examples of the
/// first validation set that hold `tokens` weighted targets or more (0: of all), sequence by
/// sequence with a cache of its own each:
///
///   decode_tokens                    weighted targets of these examples
///   decode_reference_log_perplexity  in batches, as Trainer::evaluate has it
///   decode_log_perplexity.f32        decoded by the kernel set simd
///   decode_log_perplexity.bf16       with every matrix rounded to bf16, the encoder's too
///   decode_log_perplexity.bf16_dot   by bf16_dot, which rounds activations of matrix products too
///                                    (not those of gathered rows); if the processor has it
///
/// Evaluation selects hard, and so does a step: f32 is the reference but for the order of sums and
/// for attention whose step is only like its forward (lsh). trained: a model for training, whose
/// weights are copied in memory; a further model's place is taken while this runs. Throws
/// UserError if that is not there, and Interrupted between two examples.
DecodeCheck check_decode(Transformer& trained, const Task& task, const Gemm& gemm, int threads,
                         std::int64_t tokens);

}  // namespace scaling
