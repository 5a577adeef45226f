// Fills gigabytes of weights in seconds: counters are drawn many at a time.
#include "models/initialize.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "kernels/check.h"
#include "kernels/random.h"

namespace scaling {
namespace {

constexpr int kCounters = 64;          // counters drawn together: 256 values, the state stays in L1
constexpr std::int64_t kChunk = 4096;  // values converted together

/// FNV-1a, 64 bits.
std::uint64_t stream_of(const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : name) hash = (hash ^ std::uint8_t(c)) * 0x100000001b3u;
  return hash;
}

/// 256 values from 256 draws; element pairs share a Box-Muller radius.
void convert(const std::uint32_t* bits, Initializer init, float* values) {
  constexpr int n = 4 * kCounters;
  if (init.kind == Initializer::Kind::uniform) {
    // unit_float, spread over (-scale, scale); 24-bit integers convert exactly.
    const float step = init.scale * 0x1p-23f;
    for (int i = 0; i < n; ++i) values[i] = (float(std::int32_t(bits[i] >> 8)) - 8388607.5f) * step;
    return;
  }
  for (int i = 0; i < n; i += 2) {
    const float radius = init.scale * std::sqrt(-2.0f * std::log(unit_float(bits[i])));
    const float angle = 2.0f * std::numbers::pi_v<float> * unit_float(bits[i + 1]);
    values[i] = radius * std::cos(angle);
    values[i + 1] = radius * std::sin(angle);
  }
}

void draw(std::uint64_t seed, std::uint64_t stream, Initializer init, std::int64_t begin,
          std::int64_t n, float* out) {
  if (init.kind == Initializer::Kind::constant) {
    std::fill(out, out + n, init.scale);
    return;
  }
  SCALING_CHECK(init.kind != Initializer::Kind::positions);
  std::uint32_t bits[4 * kCounters];
  float values[4 * kCounters];
  for (std::int64_t at = begin, end = begin + n; at < end;) {
    const std::int64_t first = at / 4;
    many_random_bits(seed, stream, std::uint64_t(first), kCounters, bits);
    const std::int64_t skip = at - 4 * first;
    const std::int64_t take = std::min<std::int64_t>(4 * kCounters - skip, end - at);
    if (skip == 0 && take == 4 * kCounters) {
      convert(bits, init, out);
    } else {
      convert(bits, init, values);
      std::copy(values + skip, values + skip + take, out);
    }
    out += take;
    at += take;
  }
}

/// Interleaved sin/cos of the position at wavelengths 2 pi 10000^(2i/d).
void position_values(std::int64_t position, std::int64_t d, float* out) {
  for (std::int64_t i = 0; i < d; ++i) {
    const double angle = double(position) * std::pow(10000.0, -double(i - i % 2) / double(d));
    out[i] = float(i % 2 == 0 ? std::sin(angle) : std::cos(angle));
  }
}

/// Finite values only, so the NaN case of to_bf16 is left out and the loop vectorises.
void store_half(const float* values, std::int64_t n, bf16* out) {
  for (std::int64_t i = 0; i < n; ++i) {
    const auto u = std::bit_cast<std::uint32_t>(values[i]);
    out[i].bits = std::uint16_t((u + 0x7fffu + ((u >> 16) & 1u)) >> 16);
  }
}

void store(const Parameter& p, std::int64_t offset, const float* values, std::int64_t n) {
  if (p.type == WeightType::f32) {
    std::copy(values, values + n, static_cast<float*>(p.data) + offset);
  } else {
    store_half(values, n, static_cast<bf16*>(p.data) + offset);
  }
}

void fill_rows(const Parameter& p, std::uint64_t seed, Range rows, std::vector<float>& row_buffer) {
  const std::uint64_t stream = stream_of(p.drawn_as.empty() ? p.name : p.drawn_as);
  const bool is_table = p.init.kind == Initializer::Kind::positions;
  if (p.layout == Layout::rows && !is_table) {
    float values[kChunk];
    for (std::int64_t at = rows.begin * p.cols, end = rows.end * p.cols; at < end; at += kChunk) {
      const std::int64_t n = std::min(kChunk, end - at);
      draw(seed, stream, p.init, at, n, values);
      store(p, at, values, n);
    }
    return;
  }
  // Whole rows, then panel by panel or strip by strip; the columns past the end stay zero as the
  // arena left them.
  row_buffer.resize(std::size_t(p.cols));
  for (std::int64_t row = rows.begin; row < rows.end; ++row) {
    float* values = row_buffer.data();
    if (is_table) {
      position_values(row, p.cols, values);
    } else {
      draw(seed, stream, p.init, row * p.cols, p.cols, values);
    }
    const std::int64_t step = run_length(p.layout, p.cols);
    for (std::int64_t col = 0; col < p.cols; col += step) {
      store(p, element_offset(p.layout, p.rows, p.cols, row, col), values + col,
            std::min(step, p.cols - col));
    }
  }
}

}  // namespace

void draw_values(std::uint64_t seed, const std::string& name, Initializer init, std::int64_t begin,
                 std::int64_t n, float* out) {
  draw(seed, stream_of(name), init, begin, n, out);
}

void lay_out(const std::vector<Parameter*>& parameters, Layout dense) {
  for (Parameter* p : parameters) {
    if (p->is_dense && p->cols > kStrip) p->layout = dense;
  }
}

std::uint64_t arena_bytes(const std::vector<Parameter*>& parameters, WeightType type) {
  std::uint64_t bytes = 0;
  for (const Parameter* p : parameters) bytes += Arena::rounded(p->bytes(type));
  return bytes;
}

void initialize(const std::vector<Parameter*>& parameters, WeightType type, std::uint64_t seed,
                Arena& arena, Team& team) {
  for (Parameter* p : parameters) {
    p->type = p->is_vector ? WeightType::f32 : type;
    p->data = arena.take(p->bytes(type));
  }
  team.run([&](int thread) {
    std::vector<float> row_buffer;
    for (const Parameter* p : parameters) {
      fill_rows(*p, seed, share_of(p->rows, thread, team.threads()), row_buffer);
    }
  });
}

}  // namespace scaling
