// Memory and initial values for declared parameters: the values depend on seed, name and index
// only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/parameter.h"

namespace scaling {

/// out[i] = logical element (begin + i) of the stream `name` for i < n: four elements to a Philox
/// counter, so neither layout, thread count nor weight type changes a value. kind must be uniform,
/// normal (Box-Muller) or constant.
void draw_values(std::uint64_t seed, const std::string& name, Initializer init, std::int64_t begin,
                 std::int64_t n, float* out);

/// Gives weights that only dense products read (Parameter::is_dense) the layout `dense`, where
/// their rows are longer than a strip.
void lay_out(const std::vector<Parameter*>& parameters, Layout dense);

/// Bytes an arena needs for these parameters.
std::uint64_t arena_bytes(const std::vector<Parameter*>& parameters, WeightType type);

/// Binds every parameter to `arena` and draws its values; every thread of the team first touches
/// and fills its share of the rows, as the dense kernels will read them.
void initialize(const std::vector<Parameter*>& parameters, WeightType type, std::uint64_t seed,
                Arena& arena, Team& team);

}  // namespace scaling
