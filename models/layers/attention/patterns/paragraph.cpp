// A part for each paragraph, so that no tile holds pairs of two.
#include "models/layers/attention/patterns/paragraph.h"

#include <algorithm>

#include "models/config_checks.h"

namespace scaling {

void Paragraphs::cut(const PatternCall& call, Parts& parts) const {
  for (std::int64_t first = 0; first < call.queries; first += length_) {
    const Positions own = {.n = std::min(length_, call.queries - first), .first = first};
    parts.all.push_back({.queries = own, .keys = own});
  }
}

Range Paragraphs::visible(const PatternCall& call, const Part& part, std::int64_t i) const {
  return {0, call.causal ? i + 1 : part.keys.n};
}

std::int64_t Paragraphs::slots(std::int64_t capacity) const { return std::min(capacity, length_); }

/// The next paragraph takes the places of the one before.
Pattern::Place Paragraphs::place(std::int64_t /*head*/, std::int64_t position,
                                 std::int64_t /*capacity*/) const {
  return {.slot = position % length_};
}

void Paragraphs::reads(std::int64_t /*head*/, std::int64_t position, std::int64_t /*capacity*/,
                       std::vector<Range>& read) const {
  read.push_back({0, position % length_ + 1});
}

void ParagraphAttention::validate(const ModelConfig& config) {
  PatternAttention::validate(config);
  require_positive("paragraph_length", config.options<ParagraphKnobs>().paragraph_length);
}

void ParagraphAttention::shrink(ModelConfig& config) { set_field(config, "paragraph_length", 5); }

}  // namespace scaling
