// A fast 64-bit hash of bytes: tells texts and cache files apart, no protection against malice.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>

namespace scaling {

/// Bytes may come in any pieces: only their sequence counts.
class Hash {
 public:
  void add(const void* data, std::size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(data);
    size_ += size;
    for (; held_ > 0 && size > 0; --size) hold(*bytes++);
    for (; size >= 8; size -= 8, bytes += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes, 8);
      take(word);
    }
    for (; size > 0; --size) hold(*bytes++);
  }
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

  std::uint64_t value() const {
    std::uint64_t x = (state_ ^ tail_) + 0x9e3779b97f4a7c15 * (size_ + 1);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
    x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
    return x ^ (x >> 31);
  }

 private:
  void hold(unsigned char byte) {
    tail_ |= std::uint64_t(byte) << (8 * held_);
    if (++held_ < 8) return;
    take(tail_);
    tail_ = 0;
    held_ = 0;
  }
  // A bijection of the state for every word: no single changed word goes unseen.
  void take(std::uint64_t word) {
    state_ = (state_ ^ word) * 0x9fb21c651e98df25;
    state_ ^= state_ >> 32;
  }

  std::uint64_t state_ = 0x243f6a8885a308d3, tail_ = 0, size_ = 0;
  int held_ = 0;
};

/// 16 digits.
inline std::string hex_of(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

}  // namespace scaling
