// A checkpoint is read twice: for its hash, then for what was asked for.
#include "models/training/checkpoint.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "kernels/check.h"
#include "models/text/atomic_file.h"
#include "models/text/hash.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMagic = "SCALCKPT";
constexpr std::uint64_t kVersion = 1;
constexpr std::uint64_t kPrefix = 24;  // magic, version, header's bytes
constexpr std::uint64_t kAlignment = 64;
constexpr std::size_t kChunk = std::size_t(1) << 22;

std::uint64_t aligned(std::uint64_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

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

/// Numbers and texts one after another.
class Writer {
 public:
  void number(std::uint64_t value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(std::string_view value) {
    number(value.size());
    bytes_.append(value);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

struct ShortHeader {};

/// The reverse; throws ShortHeader where the bytes end too early.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : rest_(bytes) {}
  std::uint64_t number() {
    std::uint64_t value = 0;
    const std::string_view raw = take(sizeof value);
    std::memcpy(&value, raw.data(), sizeof value);
    return value;
  }
  std::string text() { return std::string(take(number())); }

 private:
  std::string_view take(std::uint64_t n) {
    if (n > rest_.size()) throw ShortHeader{};
    const std::string_view taken = rest_.substr(0, std::size_t(n));
    rest_.remove_prefix(std::size_t(n));
    return taken;
  }
  std::string_view rest_;
};

std::string header_of(const CheckpointInfo& info, const std::vector<NamedArray>& arrays) {
  Writer out;
  out.number(std::uint64_t(info.step));
  out.text(info.fingerprint);
  out.text(info.training);
  const std::vector<std::string> fields = field_names();
  out.number(fields.size());
  for (const std::string& field : fields) {
    out.text(field);
    out.text(get_field(info.model, field));
  }
  out.number(arrays.size());
  for (const NamedArray& array : arrays) {
    out.text(array.name);
    out.number(array.shape.size());
    for (const std::int64_t n : array.shape) out.number(std::uint64_t(n));
  }
  return out.bytes();
}

void write_checkpoint(const std::string& path, const CheckpointInfo& info,
                      const std::vector<NamedArray>& arrays) {
  AtomicFile file(path);
  Hash hash;
  const auto write = [&](const void* data, std::size_t size) {
    hash.add(data, size);
    file.write(data, size);
  };
  const std::string header = header_of(info, arrays);
  Writer prefix;
  prefix.number(kVersion);
  prefix.number(header.size());
  std::string front = std::string(kMagic) + prefix.bytes() + header;
  front.resize(std::size_t(aligned(front.size())), '\0');
  write(front.data(), front.size());
  for (const NamedArray& array : arrays) {
    write(array.values, std::size_t(count_of(array.shape)) * sizeof(float));
  }
  const std::uint64_t sum = hash.value();
  file.write(&sum, sizeof sum);
  file.commit();
}

/// An open checkpoint whose hash was right.
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
  void verify();
  void parse(const std::string& header);

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
  std::array<char, kPrefix> prefix{};
  read_at(0, std::size_t(std::min(size_, kPrefix)), prefix.data());
  if (std::string_view(prefix.data(), kMagic.size()) != kMagic) {
    throw UserError("'" + path + "' is no checkpoint; name a file that a training run has written");
  }
  if (size_ < kPrefix) damaged("it ends in its first bytes");
  Reader reader(std::string_view(prefix.data(), kPrefix).substr(kMagic.size()));
  const std::uint64_t version = reader.number(), header_bytes = reader.number();
  if (version != kVersion) {
    throw UserError("checkpoint '" + path + "' has version " + std::to_string(version) +
                    ", but this program reads version " + std::to_string(kVersion) +
                    "; use the program that wrote it, or train again");
  }
  if (header_bytes > size_ - kPrefix) damaged("it ends within its header");
  verify();
  std::string header(std::size_t(header_bytes), '\0');
  read_at(kPrefix, header.size(), header.data());
  try {
    parse(header);
  } catch (const ShortHeader&) {
    damaged("its header is too short");
  }
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

void CheckpointFile::verify() {
  const std::uint64_t end = size_ - sizeof(std::uint64_t);
  std::vector<char> chunk(kChunk);
  Hash hash;
  for (std::uint64_t at = 0; at < end;) {
    const std::size_t n = std::size_t(std::min<std::uint64_t>(kChunk, end - at));
    read_at(at, n, chunk.data());
    hash.add(chunk.data(), n);
    at += n;
  }
  std::uint64_t sum = 0;
  read_at(end, sizeof sum, &sum);
  if (sum != hash.value()) damaged("its checksum does not fit its content");
}

void CheckpointFile::parse(const std::string& header) {
  Reader reader(header);
  info_.step = std::int64_t(reader.number());
  info_.fingerprint = reader.text();
  info_.training = reader.text();
  for (std::uint64_t fields = reader.number(); fields > 0; --fields) {
    const std::string field = reader.text(), value = reader.text();
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
  std::uint64_t offset = aligned(kPrefix + header.size());
  for (std::uint64_t arrays = reader.number(); arrays > 0; --arrays) {
    const std::string name = reader.text();
    Entry array{{}, offset};
    for (std::uint64_t rank = reader.number(); rank > 0; --rank) {
      array.shape.push_back(std::int64_t(reader.number()));
    }
    offset += count_of(array.shape) * sizeof(float);
    if (!entries_.emplace(name, std::move(array)).second) damaged("it has two arrays " + name);
  }
  if (offset + sizeof(std::uint64_t) != size_) damaged("its size is not that of its arrays");
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
