// Streams of bytes by zlib (which passes plain files through) and libzstd.
#include "models/text/byte_source.h"

#include <zlib.h>
#include <zstd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "kernels/check.h"

namespace scaling {
namespace {

constexpr std::size_t kBuffer = std::size_t(1) << 18;

bool ends_with(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, CloseFile>;

File open_file(const std::string& path) {
  File file(std::fopen(path.c_str(), "rb"));
  if (!file) throw UserError("cannot read '" + path + "': " + std::strerror(errno));
  return file;
}

class GzipOrPlain : public ByteSource {
 public:
  explicit GzipOrPlain(const std::string& path) : path_(path), file_(gzopen(path.c_str(), "rb")) {
    if (!file_) throw UserError("cannot read '" + path + "': " + std::strerror(errno));
    gzbuffer(file_, unsigned(kBuffer));
    if (ends_with(path, ".gz") && gzdirect(file_) != 0) {
      gzclose(file_);
      throw UserError("'" + path + "' is empty or no gzip file; rename it or make it anew");
    }
  }
  ~GzipOrPlain() override { gzclose(file_); }

  std::size_t read(char* to, std::size_t size) override {
    const int done = gzread(file_, to, unsigned(size));
    if (done > 0) return std::size_t(done);
    int code = Z_OK;
    const char* reason = gzerror(file_, &code);
    if (done == 0 && (code == Z_OK || code == Z_STREAM_END)) return 0;
    // A file cut short shows as lack of input at its end.
    throw UserError(
        "cannot read '" + path_ + "': " +
        (code == Z_BUF_ERROR ? "its gzip data end too early; fetch or make it anew" : reason));
  }

 private:
  std::string path_;
  gzFile file_;
};

class Zstd : public ByteSource {
 public:
  explicit Zstd(const std::string& path)
      : path_(path), file_(open_file(path)), stream_(ZSTD_createDStream()), buffer_(kBuffer) {
    SCALING_CHECK(stream_ != nullptr);
    input_.src = buffer_.data();
    input_.size = input_.pos = 0;
  }
  ~Zstd() override { ZSTD_freeDStream(stream_); }

  std::size_t read(char* to, std::size_t size) override {
    ZSTD_outBuffer output;
    output.dst = to;
    output.size = size;
    output.pos = 0;
    while (output.pos == 0) {
      if (input_.pos == input_.size) {
        input_.size = std::fread(buffer_.data(), 1, buffer_.size(), file_.get());
        input_.pos = 0;
        if (input_.size == 0 && std::ferror(file_.get())) fail(std::strerror(errno));
        if (input_.size == 0 && wanted_ == 0) return 0;
      }
      const bool at_end = input_.size == 0;
      wanted_ = ZSTD_decompressStream(stream_, &output, &input_);
      if (ZSTD_isError(wanted_)) fail(ZSTD_getErrorName(wanted_));
      if (at_end && output.pos == 0 && wanted_ != 0) {
        fail("its zstd data end too early; fetch or make it anew");
      }
    }
    return output.pos;
  }

 private:
  [[noreturn]] void fail(const char* reason) const {
    throw UserError("cannot read '" + path_ + "': " + reason);
  }

  std::string path_;
  File file_;
  ZSTD_DStream* stream_;
  std::vector<char> buffer_;
  ZSTD_inBuffer input_{};
  std::size_t wanted_ = 1;  // 0: a frame is complete and given out
};

bool is_zstd(const std::string& path) {
  if (ends_with(path, ".zst")) return true;
  unsigned char start[4] = {};
  const File file = open_file(path);
  const std::size_t size = std::fread(start, 1, sizeof start, file.get());
  return size == 4 && start[0] == 0x28 && start[1] == 0xb5 && start[2] == 0x2f && start[3] == 0xfd;
}

}  // namespace

std::unique_ptr<ByteSource> open_bytes(const std::string& path) {
  if (is_zstd(path)) return std::make_unique<Zstd>(path);
  return std::make_unique<GzipOrPlain>(path);
}

ByteReader::ByteReader(const std::string& path) : source_(open_bytes(path)), buffer_(kBuffer) {}

bool ByteReader::fill() {
  next_ = end_ = 0;
  while (end_ < buffer_.size()) {
    const std::size_t done = source_->read(buffer_.data() + end_, buffer_.size() - end_);
    if (done == 0) break;
    end_ += done;
  }
  return end_ > 0;
}

std::string_view ByteReader::take_buffered() {
  if (peek() < 0) return {};
  const std::string_view text(buffer_.data() + next_, end_ - next_);
  next_ = end_;
  return text;
}

void ByteReader::skip_byte_order_mark() {
  if (peek() < 0) return;
  if (end_ - next_ >= 3 && std::memcmp(buffer_.data() + next_, "\xef\xbb\xbf", 3) == 0) next_ += 3;
}

}  // namespace scaling
