// What is asked of every pattern: that it is its definition, pair by pair, forward, backward and
// step by step.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "models/layers/attention/pattern_attention.h"
#include "tests/layers/attention_definition.h"

namespace scaling {

/// The definition: whether query t may look at key j, apart from a causal mask.
using Rule = std::function<bool(const PatternCall& call, std::int64_t t, std::int64_t j)>;

bool allows(const Rule& rule, const PatternCall& call, std::int64_t t, std::int64_t j);

/// Width of a head 8, three heads.
ModelConfig config_of_heads(const std::vector<std::pair<std::string, std::string>>& knobs);

/// What its validation says; empty if nothing.
template <class Attention>
std::string refusal(const ModelConfig& config) {
  try {
    Attention::validate(config);
  } catch (const UserError& error) {
    return error.what();
  }
  return "";
}

std::string text_of(std::int64_t length, bool causal);

/// define_attention by a rule that may differ by head.
AttentionResult define_by_rule(const AttentionInput& in, std::int64_t heads,
                               const AttentionMask& mask, double alpha, const Rule& rule);

/// Forward and backward of config_of_heads, with and without padding; softmax or, with alpha 1.5,
/// entmax15.
void expect_is_rule(const SelfAttention& layer, std::int64_t length, bool causal, const Rule& rule,
                    double alpha = 1);

/// Forward and backward in training of an attention that takes the layer's input x, and the
/// gradient of that.
AttentionResult run_with_input(const SelfAttention& layer, const AttentionInput& in, const Mat& x,
                               const AttentionMask& mask, Mat& dx);

/// Every pair of the rule is enumerated once, no other, and they are as many as `pairs` says.
void expect_pairs(const Pattern& pattern, const Rule& rule);

/// A step is forward, reads as many keys as its query has and pays for them; what it reads has been
/// put there.
void expect_decodes(const PatternAttention& layer, const Pattern& pattern, const Rule& rule,
                    std::int64_t length);

/// What comes later changes nothing under a causal mask.
void expect_no_leak(const SelfAttention& layer, std::int64_t length);

/// Twice the length takes twice the memory. Says nothing where allocations are not counted.
void expect_linear_memory([[maybe_unused]] const SelfAttention& layer);

/// o is linear in v whatever is dropped, if backward drops the same; and some of it is dropped.
void expect_dropout_is_repeated(const SelfAttention& layer, std::int64_t length);

}  // namespace scaling
