// A short, stable name for a text: keys of records and machines.
#pragma once

#include <cstdint>
#include <string>

namespace scaling {

/// 16 hexadecimal digits of the 64-bit FNV-1a hash.
inline std::string fingerprint(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text)
    hash = (hash ^ std::uint64_t(static_cast<unsigned char>(c))) * 0x100000001b3ull;
  std::string digits(16, '0');
  for (std::size_t i = 0; i < 16; ++i) digits[15 - i] = "0123456789abcdef"[(hash >> (4 * i)) & 15];
  return digits;
}

}  // namespace scaling
