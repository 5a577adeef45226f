// A fast 64-bit hash of bytes (XXH3): tells texts and cache files apart, no protection against
// malice.
#pragma once

// The header's own copy: nothing to link.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace scaling {

/// Bytes may come in any pieces: only their sequence counts.
class Hash {
 public:
  Hash() { XXH3_64bits_reset(&state_); }
  void add(const void* data, std::size_t size) { XXH3_64bits_update(&state_, data, size); }
  Hash& number(std::uint64_t value) {
    add(&value, sizeof value);
    return *this;
  }
  /// Its length too, so that "ab", "c" differs from "a", "bc".
  Hash& text(std::string_view text) {
    number(text.size());
    add(text.data(), text.size());
    return *this;
  }
  std::uint64_t value() const { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
};

/// 16 digits.
inline std::string hex_of(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace scaling
