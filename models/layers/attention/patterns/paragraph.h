// A query looks at its own paragraph only: the local layers of a hierarchical Transformer (Liu and
// Lapata 2019).
#pragma once

#include <memory>

#include "models/layers/attention/pattern_attention.h"

namespace scaling {

/// Of paragraph and inter_paragraph.
struct ParagraphKnobs {
  std::int64_t paragraph_length = 128;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("paragraph_length", k.paragraph_length,
          "positions of a paragraph of paragraph and inter_paragraph, padding included: the task's "
          "paragraph_tokens",
          Trait{.is_size = true});
  }
};

struct ParagraphPatternKnobs : PatternKnobs, ParagraphKnobs {
  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    ParagraphKnobs::fields(k, visit);
    PatternKnobs::fields(k, visit);
  }
};

/// Key j of query i if both are in the same run of `length` positions, of which there are as many
/// as the sequence has, the last maybe shorter. A decode remembers one paragraph.
class Paragraphs : public Pattern {
 public:
  explicit Paragraphs(std::int64_t length) : length_(length) {}
  void cut(const PatternCall& call, Parts& parts) const override;
  Range visible(const PatternCall& call, const Part& part, std::int64_t i) const override;
  bool is_ring() const override { return false; }
  std::int64_t slots(std::int64_t capacity) const override;
  Place place(std::int64_t head, std::int64_t position, std::int64_t capacity) const override;
  void reads(std::int64_t head, std::int64_t position, std::int64_t capacity,
             std::vector<Range>& read) const override;

 private:
  std::int64_t length_;
};

class ParagraphAttention : public PatternAttention {
 public:
  using Options = ParagraphPatternKnobs;
  /// Throws UserError if the length is not positive.
  static void validate(const ModelConfig& config);
  static void shrink(ModelConfig& config);
  explicit ParagraphAttention(const ModelConfig& config)
      : PatternAttention(config, std::make_unique<Paragraphs>(
                                     config.options<ParagraphKnobs>().paragraph_length)) {}
};

}  // namespace scaling
