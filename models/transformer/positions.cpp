// Rows of either encoding.
#include "models/transformer/positions.h"

namespace scaling {

FixedBase::Digits FixedBase::digits_of(std::int64_t position) {
  Digits digits{};
  for (std::size_t b = 0; b < kBases.size(); ++b) {
    std::int64_t rest = position;
    for (float& digit : digits[b]) {
      digit = float(rest % kBases[b]);
      rest /= kBases[b];
    }
  }
  return digits;
}

PositionVectors PositionVectors::make(const std::string& name, const ModelConfig& config) {
  if (config.position_encoding == PositionEncoding::table) {
    return {PositionEncoding::table,
            Parameter::make_matrix(name, config.max_length, config.d_model, Layout::rows,
                                   {Initializer::Kind::positions, 0})};
  }
  const auto vectors = std::int64_t(FixedBase::kBases.size()) + 1;
  return {
      PositionEncoding::fixed_base,
      Parameter::make_vector(name, vectors * config.d_model, {Initializer::Kind::uniform, 1e-4f})};
}

std::int64_t PositionVectors::width() const {
  return encoding == PositionEncoding::table
             ? weights.cols
             : weights.cols / (std::int64_t(FixedBase::kBases.size()) + 1);
}

void PositionVectors::add(std::int64_t position, bool is_first, float* to) const {
  const std::int64_t d = width();
  if (encoding == PositionEncoding::table) {
    const WeightView table = weights.view();
    const std::int64_t at = position * d;
    for (std::int64_t i = 0; i < d; ++i) {
      to[i] += table.type == WeightType::f32 ? table.f32()[at + i] : to_float(table.half()[at + i]);
    }
    return;
  }
  const FixedBase::Digits digits = FixedBase::digits_of(position);
  const std::int64_t piece = d / FixedBase::kDigits;
  const float* from = weights.vector();
  for (const auto& of_base : digits) {
    for (std::int64_t i = 0; i < d; ++i) to[i] += of_base[std::size_t(i / piece)] * from[i];
    from += d;
  }
  for (std::int64_t i = 0; is_first && i < d; ++i) to[i] += from[i];
}

}  // namespace scaling
