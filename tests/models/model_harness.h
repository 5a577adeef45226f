// Small whole models with memory, and batches for them, for tests of stacks and of models.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/transformer/transformer.h"

namespace scaling {

/// Vectors away from their initial 1e-6, 1 and 0, so that each shows; the same for every storage.
void shake_vectors(Transformer& model);

/// Weights and gradients.
std::unique_ptr<Transformer> trainable(const ModelConfig& config);

/// The same weights, for decoding.
std::unique_ptr<Transformer> decodable(const ModelConfig& config);

/// Random ids, none of them padding.
std::vector<int> draw_ids(const ModelConfig& config, std::int64_t n, std::uint64_t stream);

struct Example {
  std::vector<int> source, target;
};

/// Ends padded with 0, without weight.
Batch batch_of(const std::vector<Example>& examples);

/// Three examples of different lengths, without sources if the model is decoder-only.
std::vector<Example> three_examples(const ModelConfig& c);

Pass model_pass(bool training, float dropout = 0, std::uint64_t seed = 5);

CrossEntropy evaluated(const Transformer& model, const Batch& batch);

/// Gradients by parameter, in the model's order; a 1 x 1 zero where there is none.
struct Step {
  CrossEntropy sums;
  std::vector<std::string> names;
  std::vector<Mat> gradients;
};

/// One training pass over the batch, from zeroed gradients.
Step step_of(Transformer& model, Pass pass, const Batch& batch);

/// The largest difference of a parameter's gradients, against its largest gradient; parameters
/// whose gradients are below a hundredth of the model's largest count against that (keys' biases
/// have none but rounding errors).
double relative_difference(const Step& ours, const Step& expected, std::string* worst_name);

void expect_same_gradients(const Step& ours, const Step& expected, double tolerance,
                           const std::string& what);

}  // namespace scaling
