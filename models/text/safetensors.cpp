// A file is read twice: for its checksum, then for what was asked for.
#include "models/text/safetensors.h"

#include <zlib.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "kernels/bf16.h"
#include "kernels/check.h"
#include "models/text/atomic_file.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // as the safetensors libraries
constexpr std::size_t kMostNesting = 8;                  // a header has 3 levels
constexpr std::size_t kChunk = std::size_t(1) << 22;
constexpr const char* kMetadata = "__metadata__";
constexpr const char* kChecksumText = "checksum";
const std::string kNoChecksum = "00000000";

/// Bytes of a value; 0: there is no such dtype.
std::uint64_t width_of(const std::string& dtype) {
  static const std::map<std::string, std::uint64_t> widths = {
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E4M3", 1}, {"F8_E5M2", 1},
      {"I16", 2},  {"U16", 2}, {"F16", 2}, {"BF16", 2},    {"I32", 4},
      {"U32", 4},  {"F32", 4}, {"F64", 8}, {"I64", 8},     {"U64", 8}};
  const auto found = widths.find(dtype);
  return found == widths.end() ? 0 : found->second;
}

/// a * b, or the largest number if that is more.
std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  return a != 0 && b > kMost / a ? kMost : a * b;
}

std::uint64_t bytes_of_tensor(const std::string& dtype, const std::vector<std::int64_t>& shape) {
  std::uint64_t bytes = width_of(dtype);
  for (const std::int64_t n : shape) bytes = product(bytes, std::uint64_t(n));
  return bytes;
}

/// IEEE 754 binary16, which has no type of its own in C++20.
float from_half(std::uint16_t bits) {
  const std::uint32_t sign = std::uint32_t(bits & 0x8000u) << 16;
  const std::uint32_t exponent = (bits >> 10) & 0x1fu, fraction = bits & 0x3ffu;
  if (exponent == 0) {
    const float value = std::ldexp(float(fraction), -24);
    return sign != 0 ? -value : value;
  }
  const std::uint32_t wide = exponent == 0x1f ? 0xff : exponent + (127 - 15);
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

/// zlib's CRC-32 of bytes that come in pieces.
class Crc {
 public:
  void add(const void* data, std::size_t size) {
    value_ = crc32_z(value_, static_cast<const Bytef*>(data), size);
  }
  std::string text() const {
    char digits[9];
    std::snprintf(digits, sizeof digits, "%08lx", value_);
    return digits;
  }

 private:
  unsigned long value_ = crc32_z(0, nullptr, 0);
};

/// Length and header, with kNoChecksum for the checksum.
std::string front_of(const std::vector<std::pair<std::string, std::string>>& metadata,
                     const std::vector<TensorData>& tensors) {
  nlohmann::ordered_json header;
  for (const auto& [name, value] : metadata) header[kMetadata][name] = value;
  header[kMetadata][kChecksumText] = kNoChecksum;
  std::uint64_t offset = 0;
  for (const TensorData& tensor : tensors) {
    const std::uint64_t end = offset + bytes_of_tensor(tensor.dtype, tensor.shape);
    SCALING_CHECK(width_of(tensor.dtype) > 0 && !header.contains(tensor.name));
    header[tensor.name] = {
        {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  std::uint64_t size = sizeof(std::uint64_t) + text.size();
  size = (size + kAlignment - 1) / kAlignment * kAlignment - sizeof size;
  text.resize(std::size_t(size), ' ');
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + text;
}

/// Where the checksum's digits are; npos if the file is none of this project's. The metadata come
/// first, and their texts have their quotation marks escaped.
std::size_t checksum_at(const std::string& front) {
  const std::string start = std::string("{\"__metadata__\":{\"format\":\"") + kOwnFormat;
  constexpr std::string_view kName = "\"checksum\":\"";
  if (front.compare(sizeof(std::uint64_t), start.size(), start) != 0) return std::string::npos;
  const std::size_t at = front.find(kName);
  return at == std::string::npos || at + kName.size() + kNoChecksum.size() > front.size()
             ? std::string::npos
             : at + kName.size();
}

/// Refuses what the library would take: a name that comes twice, and nesting without end.
class HeaderWatch {
 public:
  using Json = nlohmann::json;

  bool operator()(Json::parse_event_t event, const Json& parsed) {
    using Event = Json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      if (names_.size() == kMostNesting) throw UserError("it is nested too deeply");
      names_.emplace_back();
    } else if (event == Event::object_end || event == Event::array_end) {
      names_.pop_back();
    } else if (event == Event::key) {
      const auto name = parsed.get<std::string>();
      if (!names_.back().insert(name).second) throw UserError("it has '" + name + "' twice");
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> names_;  // of every open object
};

}  // namespace

std::string text_of_shape(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t n : shape) text += (text.empty() ? "" : " x ") + std::to_string(n);
  return text.empty() ? "a single value" : text;
}

bool TensorEntry::is_float() const { return dtype == "F32" || dtype == "F16" || dtype == "BF16"; }

void write_safetensors(const std::string& path,
                       const std::vector<std::pair<std::string, std::string>>& metadata,
                       const std::vector<TensorData>& tensors) {
  AtomicFile file(path);
  Crc checksum;
  const auto write = [&](const void* data, std::size_t size) {
    checksum.add(data, size);
    file.write(data, size);
  };
  std::string front = front_of(metadata, tensors);
  write(front.data(), front.size());
  for (const TensorData& tensor : tensors) {
    write(tensor.data, std::size_t(bytes_of_tensor(tensor.dtype, tensor.shape)));
  }
  const std::size_t digits = checksum_at(front);
  SCALING_CHECK(digits != std::string::npos);
  front.replace(digits, kNoChecksum.size(), checksum.text());
  file.write_start(front.data(), front.size());
  file.commit();
}

SafetensorsFile::SafetensorsFile(const std::string& path, const FileWords& words, Checksum checksum)
    : path_(path), words_(words) {
  std::error_code error;
  const std::string named = std::string(words.noun) + " '" + path + "' ";
  if (!fs::is_regular_file(path, error)) {
    throw UserError(named + (fs::exists(path, error) ? "is no file" : "does not exist") + "; " +
                    words.whence);
  }
  in_.open(path, std::ios::binary);
  size_ = std::uint64_t(fs::file_size(path, error));
  if (!in_ || error) throw UserError(named + "cannot be read; check its permissions");
  std::string front(sizeof(std::uint64_t), '\0');
  const std::string other = std::string("is no ") + words.noun;
  if (size_ < front.size()) foreign(other);
  read_at(0, front.size(), front.data());
  std::uint64_t header = 0;
  std::memcpy(&header, front.data(), sizeof header);
  if (header > kMostHeaderBytes) foreign(other);
  if (header > size_ - front.size()) damaged("it ends within its header");
  front.resize(front.size() + std::size_t(header));
  read_at(0, front.size(), front.data());
  verify(front, checksum);
  parse(front);
}

void SafetensorsFile::foreign(const std::string& what) const {
  throw UserError("'" + path_ + "' " + what + "; " + words_.whence);
}

void SafetensorsFile::damaged(const std::string& why) const {
  throw UserError(std::string(words_.noun) + " '" + path_ + "' is damaged: " + why + "; " +
                  words_.instead);
}

void SafetensorsFile::read_at(std::uint64_t offset, std::size_t n, void* to) {
  in_.clear();
  in_.seekg(std::streamoff(offset));
  in_.read(static_cast<char*>(to), std::streamsize(n));
  if (std::size_t(in_.gcount()) != n) damaged("it cannot be read to its end");
}

void SafetensorsFile::verify(std::string front, Checksum checksum) {
  const std::size_t digits = checksum_at(front);
  if (digits == std::string::npos) {
    if (checksum == Checksum::if_present) return;
    foreign(std::string("has no checksum: it is damaged, or no ") + words_.noun +
            " of this program");
  }
  const std::string expected = front.substr(digits, kNoChecksum.size());
  front.replace(digits, kNoChecksum.size(), kNoChecksum);
  Crc found;
  found.add(front.data(), front.size());
  std::vector<char> chunk(std::size_t(std::min<std::uint64_t>(kChunk, size_)));
  for (std::uint64_t at = front.size(); at < size_;) {
    const std::size_t n = std::size_t(std::min<std::uint64_t>(kChunk, size_ - at));
    read_at(at, n, chunk.data());
    found.add(chunk.data(), n);
    at += n;
  }
  if (found.text() != expected) damaged("its checksum does not fit its content");
}

void SafetensorsFile::parse(const std::string& front) {
  using Json = nlohmann::json;
  Json header;
  try {
    HeaderWatch watch;
    header = Json::parse(front.begin() + sizeof(std::uint64_t), front.end(),
                         [&watch](int, Json::parse_event_t event, const Json& parsed) {
                           return watch(event, parsed);
                         });
    if (!header.is_object()) throw UserError("it is no JSON object");
    if (header.contains(kMetadata)) header.at(kMetadata).get_to(metadata_);
    header.erase(kMetadata);
  } catch (const std::exception& error) {
    damaged(std::string("its header cannot be read (") + error.what() + ")");
  }
  for (const auto& [name, tensor] : header.items()) {
    TensorEntry entry;
    std::vector<std::uint64_t> shape, offsets;
    const auto whole_numbers = [](const Json& list, std::vector<std::uint64_t>& to) {
      for (const Json& number : list) {
        if (!number.is_number_unsigned()) return false;
        to.push_back(number);
        if (to.back() > std::uint64_t(std::numeric_limits<std::int64_t>::max())) return false;
      }
      return list.is_array();
    };
    try {
      entry.dtype = tensor.at("dtype").get<std::string>();
      if (!whole_numbers(tensor.at("shape"), shape) ||
          !whole_numbers(tensor.at("data_offsets"), offsets) || offsets.size() != 2) {
        throw UserError("shape and data_offsets are no lists of whole numbers");
      }
    } catch (const std::exception& error) {
      damaged("its tensor '" + name + "' is not described (" + error.what() + ")");
    }
    entry.shape.assign(shape.begin(), shape.end());
    entry.begin = offsets[0];
    entry.end = offsets[1];
    if (width_of(entry.dtype) == 0) {
      damaged("its tensor '" + name + "' has the unknown dtype '" + entry.dtype + "'");
    }
    const std::uint64_t bytes = bytes_of_tensor(entry.dtype, entry.shape);
    if (entry.end < entry.begin || entry.end - entry.begin != bytes) {
      damaged("its tensor '" + name + "' lies from byte " + std::to_string(entry.begin) + " to " +
              std::to_string(entry.end) + " of the data, but " + entry.dtype + " of " +
              text_of_shape(entry.shape) + " takes " + std::to_string(bytes) + " bytes");
    }
    tensors_.emplace(name, std::move(entry));
  }
  check_offsets(size_ - front.size());
  for (auto& [name, entry] : tensors_) {
    entry.begin += front.size();
    entry.end += front.size();
  }
}

/// Offsets count from the data's start here.
void SafetensorsFile::check_offsets(std::uint64_t data) const {
  std::vector<std::pair<std::string, TensorEntry>> ordered(tensors_.begin(), tensors_.end());
  std::sort(ordered.begin(), ordered.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second.begin, a.second.end) < std::pair(b.second.begin, b.second.end);
  });
  std::uint64_t at = 0;
  std::string before;
  for (const auto& [name, entry] : ordered) {
    if (entry.end > data) {
      damaged("its tensor '" + name + "' ends at byte " + std::to_string(entry.end) +
              " of the data, which have " + std::to_string(data));
    }
    if (entry.begin < at) damaged("its tensors '" + before + "' and '" + name + "' overlap");
    if (entry.begin > at) {
      damaged("bytes " + std::to_string(at) + " to " + std::to_string(entry.begin) +
              " of its data belong to no tensor");
    }
    at = entry.end;
    before = name;
  }
  if (at != data) damaged(std::to_string(data - at) + " bytes stand behind its last tensor");
}

void SafetensorsFile::read_floats(const TensorEntry& tensor, std::uint64_t first, std::uint64_t n,
                                  float* to) {
  SCALING_CHECK(tensor.is_float());
  const std::uint64_t width = width_of(tensor.dtype), offset = tensor.begin + first * width;
  SCALING_CHECK(offset + n * width <= tensor.end);
  if (width == sizeof(float)) {
    read_at(offset, std::size_t(n) * sizeof(float), to);
    return;
  }
  std::vector<std::uint16_t> narrow(static_cast<std::size_t>(n));
  read_at(offset, narrow.size() * sizeof(std::uint16_t), narrow.data());
  const bool is_half = tensor.dtype == "F16";
  std::transform(narrow.begin(), narrow.end(), to, [is_half](std::uint16_t bits) {
    return is_half ? from_half(bits) : to_float(bf16{bits});
  });
}

std::string SafetensorsFile::read_bytes(const TensorEntry& tensor) {
  std::string bytes(std::size_t(tensor.end - tensor.begin), '\0');
  read_at(tensor.begin, bytes.size(), bytes.data());
  return bytes;
}

}  // namespace scaling
