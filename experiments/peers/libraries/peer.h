// What a library's dense decoder block offers to library_peer.py, which loads it by peer.cpp's C
// functions.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

namespace peers {

struct Sizes {
  int d_model, n_heads, d_ff, length;
  int d_head() const { return d_model / n_heads; }
};

/// An array of block.py, f32: a matrix (rows, cols) that is (out, in), a vector (rows, 1), or a
/// cache (heads * length, d_head).
struct Array {
  const float* values;
  std::int64_t rows, cols;
};

/// All blocks in a row at batch 1, as block.py defines them.
class Peer {
 public:
  virtual ~Peer() = default;
  /// One array of a block, by its name in block.py, which is read and not kept. All arrays of a
  /// block come before the next block's.
  virtual void set(std::size_t block, const std::string& name, const Array& array) = 0;
  /// x, y (d_model). Slot `t` mod `length` of the self-attention's caches is written.
  virtual void step(const float* x, std::int64_t t, float* y) = 0;
};

// Each library defines these three.

/// Its name and version.
std::string version();
/// Comma-separated ways to hold and multiply weights of a type; empty if it has none.
std::string ways(const std::string& type);
/// Throws std::exception where the library refuses.
std::unique_ptr<Peer> make(const Sizes& sizes, const std::string& type, const std::string& way,
                           int threads);

}  // namespace peers
