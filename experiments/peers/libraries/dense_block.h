// The block around a library that only multiplies: norms, attention and residuals in plain loops,
// every dense product the library's.
#pragma once

#include <functional>
#include <vector>

#include "experiments/peers/libraries/peer.h"

namespace peers {

/// What becomes of W x.
struct After {
  const float* bias;  ///< (rows), added
  bool relu;          ///< of W x + bias
  bool add;           ///< to what y holds, else y is overwritten; never with relu
};

/// One weight matrix in the library's best layout.
class Product {
 public:
  virtual ~Product() = default;
  /// x (cols), y (rows).
  virtual void run(const float* x, const After& after, float* y) = 0;
};

using MakeProduct = std::function<std::unique_ptr<Product>(const Array& weights)>;

std::unique_ptr<Peer> dense_peer(const Sizes& sizes, MakeProduct make);

/// For libraries that fuse nothing: y = relu(y + bias).
void finish(const After& after, std::int64_t rows, float* y);

/// Round to nearest, ties to even.
inline std::uint16_t to_bf16(float value) {
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  return std::uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// Uninitialised memory on huge pages where the system has them.
class Memory {
 public:
  explicit Memory(std::size_t bytes);
  template <class T>
  T* as() const {
    return static_cast<T*>(data_.get());
  }

 private:
  struct Free {
    void operator()(void* data) const;
  };
  std::unique_ptr<void, Free> data_;
};

}  // namespace peers
