// Writing through a buffer, reading at a place; both in bounded memory.
#include "models/text/token_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "kernels/check.h"

namespace scaling {
namespace {

constexpr char kMagic[8] = {'S', 'C', 'T', 'O', 'K', 'E', 'N', '2'};
constexpr std::size_t kBuffer = std::size_t(1) << 20;

std::uint64_t hash_of(const TokenHeader& header) {
  Hash hash;
  hash.add(&header, offsetof(TokenHeader, header_hash));
  return hash.value();
}

/// Up to `size` bytes from `offset`; fewer at the end of the file only; -1 on errors.
ssize_t read_at(int file, std::uint64_t offset, void* to, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got =
        pread(file, static_cast<char*>(to) + done, size - done, off_t(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += std::size_t(got);
  }
  return ssize_t(done);
}

}  // namespace

TokenWriter::TokenWriter(const std::string& path, std::uint64_t key, std::int64_t vocab_size,
                         std::int64_t stride)
    : file_(path), stride_(stride) {
  std::memcpy(header_.magic, kMagic, sizeof kMagic);
  header_.key = key;
  header_.id_bytes = vocab_size > 65535 ? 4 : 2;
  buffer_.reserve(kBuffer + 8);
  file_.write(&header_, sizeof header_);
}

void TokenWriter::add(const std::vector<int>& ids) {
  for (const int id : ids) {
    if (stride_ == 0) {
      store(id);
      ++header_.tokens;
      continue;
    }
    chunk_.push_back(id);
    if (std::int64_t(chunk_.size()) == stride_) end_chunk();
  }
}

void TokenWriter::end_document() {
  if (stride_ > 0) return end_chunk();
  store(1);
  ++header_.tokens;
}

void TokenWriter::end_chunk() {
  if (chunk_.size() >= 2) {
    for (const int id : chunk_) store(id);
    // A chunk that comes whole may be padded within.
    header_.tokens +=
        std::uint64_t(std::count_if(chunk_.begin(), chunk_.end(), [](int id) { return id != 0; }));
    for (std::int64_t i = std::int64_t(chunk_.size()); i < stride_; ++i) store(0);
  }
  chunk_.clear();
}

void TokenWriter::store(int id) {
  const auto wide = std::uint32_t(id);
  const auto narrow = std::uint16_t(id);
  const void* bytes = header_.id_bytes == 2 ? static_cast<const void*>(&narrow) : &wide;
  const std::size_t end = buffer_.size();
  buffer_.resize(end + header_.id_bytes);
  std::memcpy(buffer_.data() + end, bytes, header_.id_bytes);
  ++header_.ids;
  if (buffer_.size() >= kBuffer) flush();
}

void TokenWriter::flush() {
  hash_.add(buffer_.data(), buffer_.size());
  file_.write(buffer_.data(), buffer_.size());
  buffer_.clear();
}

void TokenWriter::set_cut(std::uint64_t sources, std::uint64_t targets) {
  header_.cut_source_tokens = sources;
  header_.cut_target_tokens = targets;
}

void TokenWriter::finish(const CorpusCounts& counts) {
  flush();
  header_.documents = counts.documents;
  header_.text_bytes = counts.bytes;
  header_.skipped_lines = counts.skipped_lines;
  header_.ids_hash = hash_.value();
  header_.header_hash = hash_of(header_);
  file_.write_start(&header_, sizeof header_);
  file_.commit();
}

TokenFile::TokenFile(const std::string& path, std::uint64_t key, std::int64_t vocab_size)
    : path_(path), vocab_size_(vocab_size) {
  file_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file_ < 0) fail(std::strerror(errno));
  try {
    const ssize_t got = read_at(file_, 0, &header_, sizeof header_);
    if (got < 0) fail(std::strerror(errno));
    if (std::size_t(got) < sizeof header_) fail("it is too short");
    if (std::memcmp(header_.magic, kMagic, sizeof kMagic) != 0) fail("it is of another kind");
    if (header_.header_hash != hash_of(header_)) fail("its header is damaged");
    if (header_.key != key) fail("it belongs to other data");
    struct stat status {};
    if (fstat(file_, &status) != 0) fail(std::strerror(errno));
    const std::uint64_t bytes = header_.ids * header_.id_bytes;
    if (std::uint64_t(status.st_size) != sizeof header_ + bytes) {
      fail("it has not the size that it states");
    }
    if (bytes <= kCheckedBytes) check_ids();
  } catch (...) {
    close(file_);
    throw;
  }
}

TokenFile::~TokenFile() { close(file_); }

void TokenFile::fail(const std::string& reason) const {
  throw UserError("cannot use the tokenised corpus '" + path_ + "': " + reason +
                  "; delete it to have it made anew");
}

void TokenFile::check_ids() const {
  Hash hash;
  std::vector<char> buffer(kBuffer);
  std::uint64_t offset = sizeof header_;
  ssize_t got = 0;
  while ((got = read_at(file_, offset, buffer.data(), buffer.size())) > 0) {
    hash.add(buffer.data(), std::size_t(got));
    offset += std::uint64_t(got);
  }
  if (got < 0) fail(std::strerror(errno));
  if (hash.value() != header_.ids_hash) fail("its checksum is wrong");
}

void TokenFile::read(std::uint64_t first, std::int64_t count, int* to) const {
  SCALING_CHECK(first + std::uint64_t(count) <= header_.ids);
  const std::uint64_t offset = sizeof header_ + first * header_.id_bytes;
  const std::size_t bytes = std::size_t(count) * header_.id_bytes;
  const ssize_t got = read_at(file_, offset, to, bytes);
  if (got < 0) fail(std::strerror(errno));
  if (std::size_t(got) < bytes) fail("it has been cut short");
  // Narrow ids lie in the first half of the room for ints: widened in place, the last first.
  const char* packed = reinterpret_cast<const char*>(to);
  for (std::int64_t i = count - 1; i >= 0; --i) {
    std::uint32_t id = 0;
    if (header_.id_bytes == 2) {
      std::uint16_t narrow = 0;
      std::memcpy(&narrow, packed + 2 * i, 2);
      id = narrow;
    } else {
      std::memcpy(&id, packed + 4 * i, 4);
    }
    if (std::int64_t(id) >= vocab_size_) fail("it holds ids beyond the vocabulary");
    to[i] = int(id);
  }
}

}  // namespace scaling
