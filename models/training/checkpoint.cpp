// A checkpoint is read twice: for its checksum, then for what was asked for.
#include "models/training/checkpoint.h"

#include <zlib.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "kernels/check.h"
#include "models/text/atomic_file.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kAlignment = 64;
constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // as the safetensors libraries
constexpr std::size_t kChunk = std::size_t(1) << 22;
constexpr std::string_view kVersion1 = "SCALCKPT";  // first bytes before safetensors
const std::string kNoChecksum = "00000000";

std::uint64_t count_of(const std::vector<std::int64_t>& shape) {
  std::uint64_t count = 1;
  for (const std::int64_t n : shape) count *= std::uint64_t(n);
  return count;
}

std::string text_of(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t n : shape) text += (text.empty() ? "" : " x ") + std::to_string(n);
  return text;
}

/// zlib's CRC-32 of bytes that come in pieces.
class Checksum {
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
std::string front_of(const CheckpointInfo& info, const std::vector<NamedArray>& arrays) {
  Json model;
  for (const std::string& field : field_names()) model[field] = get_field(info.model, field);
  Json header;
  header["__metadata__"] = {{"format", kCheckpointFormat},     {"step", std::to_string(info.step)},
                            {"fingerprint", info.fingerprint}, {"training", info.training},
                            {"model", model.dump()},           {"checksum", kNoChecksum}};
  std::uint64_t offset = 0;
  for (const NamedArray& array : arrays) {
    const std::uint64_t end = offset + count_of(array.shape) * sizeof(float);
    header[array.name] = {
        {"dtype", "F32"}, {"shape", array.shape}, {"data_offsets", {offset, end}}};
    offset = end;
  }
  std::string text = header.dump();
  std::uint64_t size = sizeof(std::uint64_t) + text.size();
  size = (size + kAlignment - 1) / kAlignment * kAlignment - sizeof size;
  text.resize(std::size_t(size), ' ');
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + text;
}

/// Where the checksum's digits are; npos if there are none. The metadata come first, and their
/// texts have their quotation marks escaped.
std::size_t checksum_at(const std::string& front) {
  constexpr std::string_view kName = "\"checksum\":\"";
  const std::size_t at = front.find(kName);
  return at == std::string::npos || at + kName.size() + kNoChecksum.size() > front.size()
             ? std::string::npos
             : at + kName.size();
}

void write_checkpoint(const std::string& path, const CheckpointInfo& info,
                      const std::vector<NamedArray>& arrays) {
  AtomicFile file(path);
  Checksum checksum;
  const auto write = [&](const void* data, std::size_t size) {
    checksum.add(data, size);
    file.write(data, size);
  };
  std::string front = front_of(info, arrays);
  write(front.data(), front.size());
  for (const NamedArray& array : arrays) {
    write(array.values, std::size_t(count_of(array.shape)) * sizeof(float));
  }
  front.replace(checksum_at(front), kNoChecksum.size(), checksum.text());
  file.write_start(front.data(), front.size());
  file.commit();
}

/// An open checkpoint whose checksum was right.
class CheckpointFile {
 public:
  struct Entry {
    std::vector<std::int64_t> shape;
    std::uint64_t offset;  // in bytes
  };

  explicit CheckpointFile(const std::string& path);
  const CheckpointInfo& info() const { return info_; }
  const std::map<std::string, Entry>& entries() const { return entries_; }
  /// Throws UserError if there is no such array or its shape is another.
  const Entry& entry(const std::string& name, const std::vector<std::int64_t>& shape) const;
  /// n values from value `first` of the array on.
  void read(const Entry& array, std::uint64_t first, std::uint64_t n, float* to);

 private:
  [[noreturn]] void damaged(const std::string& why) const;
  void read_at(std::uint64_t offset, std::size_t n, void* to);
  [[noreturn]] void foreign(const std::string& what) const;
  void verify(std::string front);
  void parse(const std::string& front);

  const std::string path_;
  std::ifstream in_;
  std::uint64_t size_ = 0;
  CheckpointInfo info_;
  std::map<std::string, Entry> entries_;
};

CheckpointFile::CheckpointFile(const std::string& path) : path_(path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    throw UserError("checkpoint '" + path + "' " +
                    (fs::exists(path, error) ? "is no file" : "does not exist") +
                    "; name a file that a training run has written");
  }
  in_.open(path, std::ios::binary);
  size_ = std::uint64_t(fs::file_size(path, error));
  if (!in_ || error) {
    throw UserError("checkpoint '" + path + "' cannot be read; check its permissions");
  }
  std::string front(sizeof(std::uint64_t), '\0');
  if (size_ < front.size()) foreign("is no checkpoint");
  read_at(0, front.size(), front.data());
  if (front == kVersion1) {
    throw UserError("checkpoint '" + path +
                    "' is of version 1; convert it: python3 tools/convert_checkpoint.py '" + path +
                    "'");
  }
  std::uint64_t header = 0;
  std::memcpy(&header, front.data(), sizeof header);
  if (header > kMostHeaderBytes) foreign("is no checkpoint");
  if (header > size_ - front.size()) damaged("it ends within its header");
  front.resize(front.size() + std::size_t(header));
  read_at(0, front.size(), front.data());
  verify(front);
  parse(front);
}

void CheckpointFile::foreign(const std::string& what) const {
  throw UserError("'" + path_ + "' " + what + "; name a file that a training run has written");
}

void CheckpointFile::damaged(const std::string& why) const {
  throw UserError("checkpoint '" + path_ + "' is damaged: " + why +
                  "; use another checkpoint of the run, or train again");
}

void CheckpointFile::read_at(std::uint64_t offset, std::size_t n, void* to) {
  in_.clear();
  in_.seekg(std::streamoff(offset));
  in_.read(static_cast<char*>(to), std::streamsize(n));
  if (std::size_t(in_.gcount()) != n) damaged("it cannot be read to its end");
}

void CheckpointFile::verify(std::string front) {
  const std::size_t digits = checksum_at(front);
  if (digits == std::string::npos)
    foreign("has no checksum: it is damaged, or no checkpoint of this program");
  const std::string expected = front.substr(digits, kNoChecksum.size());
  front.replace(digits, kNoChecksum.size(), kNoChecksum);
  Checksum found;
  found.add(front.data(), front.size());
  std::vector<char> chunk(kChunk);
  for (std::uint64_t at = front.size(); at < size_;) {
    const std::size_t n = std::size_t(std::min<std::uint64_t>(kChunk, size_ - at));
    read_at(at, n, chunk.data());
    found.add(chunk.data(), n);
    at += n;
  }
  if (found.text() != expected) damaged("its checksum does not fit its content");
}

void CheckpointFile::parse(const std::string& front) try {
  const Json header = Json::parse(front.begin() + sizeof(std::uint64_t), front.end());
  const Json& metadata = header.at("__metadata__");
  const auto format = metadata.at("format").get<std::string>();
  if (format != kCheckpointFormat) {
    throw UserError("checkpoint '" + path_ + "' has the format '" + format +
                    "', but this program reads '" + kCheckpointFormat +
                    "'; use the program that wrote it, or train again");
  }
  info_.step = std::stoll(metadata.at("step").get<std::string>());
  info_.fingerprint = metadata.at("fingerprint");
  info_.training = metadata.at("training");
  const Json model = Json::parse(metadata.at("model").get<std::string>());
  for (const auto& [field, value] : model.items()) {
    if (field == "shape") {
      info_.model.shape = value;  // only the name: all sizes follow
      continue;
    }
    try {
      set_field(info_.model, field, value);
    } catch (const UserError& error) {
      throw UserError("checkpoint '" + path_ + "' is of another version of this program (" +
                      error.what() + "); use the program that wrote it, or train again");
    }
  }
  for (const auto& [name, array] : header.items()) {
    if (name == "__metadata__") continue;
    Entry entry{array.at("shape"), array.at("data_offsets").at(0)};
    const std::uint64_t end = array.at("data_offsets").at(1);
    if (array.at("dtype") != "F32") damaged("its array " + name + " is not F32");
    if (end - entry.offset != count_of(entry.shape) * sizeof(float) || end > size_ - front.size()) {
      damaged("its array " + name + " does not lie within it");
    }
    entry.offset += front.size();
    entries_.emplace(name, std::move(entry));
  }
} catch (const std::exception& error) {
  if (dynamic_cast<const UserError*>(&error)) throw;
  damaged(std::string("its header cannot be read (") + error.what() + ")");
}

const CheckpointFile::Entry& CheckpointFile::entry(const std::string& name,
                                                   const std::vector<std::int64_t>& shape) const {
  const auto found = entries_.find(name);
  const char* remedy = "; give the settings that the checkpoint was trained with";
  if (found == entries_.end()) {
    throw UserError("checkpoint '" + path_ + "' has no array '" + name +
                    "', which this model needs" + remedy);
  }
  if (found->second.shape != shape) {
    throw UserError("checkpoint '" + path_ + "' holds '" + name + "' as " +
                    text_of(found->second.shape) + ", but this model's is " + text_of(shape) +
                    remedy);
  }
  return found->second;
}

void CheckpointFile::read(const Entry& array, std::uint64_t first, std::uint64_t n, float* to) {
  read_at(array.offset + first * sizeof(float), std::size_t(n) * sizeof(float), to);
}

void read_parameter(CheckpointFile& file, const CheckpointFile::Entry& entry, Parameter& p) {
  if (p.type == WeightType::f32 && p.layout == Layout::rows) {
    file.read(entry, 0, std::uint64_t(p.count()), p.values());
    return;
  }
  std::vector<float> row(std::size_t(p.cols));
  for (std::int64_t i = 0; i < p.rows; ++i) {
    file.read(entry, std::uint64_t(i * p.cols), row.size(), row.data());
    for (std::int64_t j = 0; j < p.cols; ++j) p.set(i, j, row[std::size_t(j)]);
  }
}

}  // namespace

std::vector<NamedArray> weight_arrays(const std::vector<Parameter*>& parameters) {
  std::vector<NamedArray> arrays;
  for (Parameter* p : parameters) arrays.push_back({p->name, {p->rows, p->cols}, p->values()});
  return arrays;
}

void save_checkpoint(const std::string& path, const CheckpointInfo& info,
                     const std::vector<NamedArray>& arrays) {
  try {
    write_checkpoint(path, info, arrays);
  } catch (const UserError& error) {
    std::error_code ignored;
    throw UserError("the checkpoint of step " + std::to_string(info.step) +
                    " was not saved: " + error.what() +
                    (fs::exists(path, ignored) ? "; the one before it is still there" : ""));
  }
}

CheckpointInfo read_checkpoint_info(const std::string& path) { return CheckpointFile(path).info(); }

CheckpointInfo load_checkpoint(const std::string& path, const std::vector<NamedArray>& arrays) {
  CheckpointFile file(path);
  std::vector<const CheckpointFile::Entry*> entries;
  std::set<std::string> asked;
  for (const NamedArray& array : arrays) {
    entries.push_back(&file.entry(array.name, array.shape));
    asked.insert(array.name);
  }
  for (const auto& [name, entry] : file.entries()) {
    if (asked.count(name)) continue;
    throw UserError("checkpoint '" + path + "' holds '" + name + "' (" + text_of(entry.shape) +
                    "), which this run lacks; give the settings that the checkpoint was trained "
                    "with");
  }
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    file.read(*entries[i], 0, count_of(arrays[i].shape), arrays[i].values);
  }
  return file.info();
}

CheckpointInfo load_weights(const std::string& path, const std::vector<Parameter*>& parameters) {
  CheckpointFile file(path);
  std::vector<const CheckpointFile::Entry*> entries;
  for (const Parameter* p : parameters) entries.push_back(&file.entry(p->name, {p->rows, p->cols}));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    SCALING_CHECK(parameters[i]->data != nullptr);
    read_parameter(file, *entries[i], *parameters[i]);
  }
  return file.info();
}

}  // namespace scaling
