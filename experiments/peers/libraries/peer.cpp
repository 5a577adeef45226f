// The C functions that library_peer.py calls; a library's refusals become texts.
#include "experiments/peers/libraries/peer.h"

#include <exception>

namespace {

std::string last_error;

/// 0, or 1 and last_error says why.
template <class Work>
int guarded(const Work& work) {
  try {
    work();
    return 0;
  } catch (const std::exception& error) {
    last_error = error.what();
    return 1;
  }
}

}  // namespace

extern "C" {

const char* peer_error() { return last_error.c_str(); }

const char* peer_version() {
  static const std::string text = peers::version();
  return text.c_str();
}

const char* peer_ways(const char* type) {
  static std::string text;
  text = peers::ways(type);
  return text.c_str();
}

/// Null, and peer_error() says why, where the library refuses.
void* peer_make(int d_model, int n_heads, int d_ff, int length, const char* type, const char* way,
                int threads) {
  peers::Peer* made = nullptr;
  guarded([&] {
    made = peers::make({d_model, n_heads, d_ff, length}, type, way, threads).release();
  });
  return made;
}

int peer_set(void* peer, std::int64_t block, const char* name, const float* values,
             std::int64_t rows, std::int64_t cols) {
  return guarded([&] {
    static_cast<peers::Peer*>(peer)->set(std::size_t(block), name, {values, rows, cols});
  });
}

int peer_step(void* peer, const float* x, std::int64_t t, float* y) {
  return guarded([&] { static_cast<peers::Peer*>(peer)->step(x, t, y); });
}

void peer_free(void* peer) { delete static_cast<peers::Peer*>(peer); }
}
