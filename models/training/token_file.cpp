// Writing through a buffer, reading through a map; checked by reading, so that a check takes no
// memory.
#include "models/training/token_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "kernels/check.h"

namespace scaling {
namespace {

constexpr char kMagic[8] = {'S', 'C', 'T', 'O', 'K', 'E', 'N', '1'};
constexpr std::size_t kBuffer = std::size_t(1) << 20;

std::uint64_t hash_of(const TokenHeader& header) {
  Hash hash;
  hash.add(&header, offsetof(TokenHeader, header_hash));
  return hash.value();
}

/// Up to `size` bytes; fewer at the end of the file only; -1 on errors.
ssize_t read_all(int file, char* to, std::size_t size) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::read(file, to + done, size - done);
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
    header_.tokens += chunk_.size();
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
  struct Handle {
    int file;
    ~Handle() {
      if (file >= 0) close(file);
    }
  };
  const Handle handle{open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (handle.file < 0) fail(std::strerror(errno));
  const ssize_t got = read_all(handle.file, reinterpret_cast<char*>(&header_), sizeof header_);
  if (got < 0) fail(std::strerror(errno));
  if (std::size_t(got) < sizeof header_) fail("it is too short");
  if (std::memcmp(header_.magic, kMagic, sizeof kMagic) != 0) fail("it is of another kind");
  if (header_.header_hash != hash_of(header_)) fail("its header is damaged");
  if (header_.key != key) fail("it belongs to other data");
  struct stat status {};
  if (fstat(handle.file, &status) != 0) fail(std::strerror(errno));
  map_bytes_ = sizeof header_ + header_.ids * header_.id_bytes;
  if (std::uint64_t(status.st_size) != map_bytes_) fail("it has not the size that it states");
  if (header_.ids * header_.id_bytes <= kCheckedBytes) check_ids(handle.file);
  map_ = mmap(nullptr, map_bytes_, PROT_READ, MAP_SHARED, handle.file, 0);
  if (map_ == MAP_FAILED) fail(std::strerror(errno));
}

TokenFile::~TokenFile() { munmap(map_, map_bytes_); }

void TokenFile::fail(const std::string& reason) const {
  throw UserError("cannot use the tokenised corpus '" + path_ + "': " + reason +
                  "; delete it to have it made anew");
}

void TokenFile::check_ids(int file) const {
  Hash hash;
  std::vector<char> buffer(kBuffer);
  ssize_t got = 0;
  while ((got = read_all(file, buffer.data(), buffer.size())) > 0) {
    hash.add(buffer.data(), std::size_t(got));
  }
  if (got < 0) fail(std::strerror(errno));
  if (hash.value() != header_.ids_hash) fail("its checksum is wrong");
}

void TokenFile::read(std::uint64_t first, std::int64_t count, int* to) const {
  SCALING_CHECK(first + std::uint64_t(count) <= header_.ids);
  const char* bytes = static_cast<const char*>(map_) + sizeof header_ + first * header_.id_bytes;
  for (std::int64_t i = 0; i < count; ++i) {
    std::uint32_t id = 0;
    if (header_.id_bytes == 2) {
      std::uint16_t narrow = 0;
      std::memcpy(&narrow, bytes + 2 * i, 2);
      id = narrow;
    } else {
      std::memcpy(&id, bytes + 4 * i, 4);
    }
    if (std::int64_t(id) >= vocab_size_) fail("it holds ids beyond the vocabulary");
    to[i] = int(id);
  }
}

}  // namespace scaling
