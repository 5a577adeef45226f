// Files that appear whole or not at all, by POSIX calls.
#include "models/text/atomic_file.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <vector>

#include "kernels/check.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

/// How this machine's temporary names begin: process ids are those of one machine, and the folder
/// may be shared by several.
std::string start_of(const std::string& path) {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  return path + ".tmp-" + host + "-";
}

std::string unique_name(const std::string& path) {
  static std::atomic<unsigned> count{0};
  return start_of(path) + std::to_string(getpid()) + "-" + std::to_string(count++);
}

/// Removes what this machine's writers of the same file left that were killed: they are no
/// processes any more.
void remove_leftovers(const std::string& path) {
  const fs::path folder = fs::path(path).parent_path();
  const std::string start = fs::path(start_of(path)).filename().string();
  std::error_code error;
  fs::directory_iterator entries(folder.empty() ? fs::path(".") : folder, error);
  if (error) return;  // writing will say why
  std::vector<fs::path> leftovers;
  for (const fs::directory_entry& entry : entries) {
    const std::string name = entry.path().filename().string();
    if (name.rfind(start, 0) != 0) continue;
    pid_t writer = 0;
    std::from_chars(name.data() + start.size(), name.data() + name.size(), writer);
    if (writer > 0 && kill(writer, 0) != 0 && errno == ESRCH) leftovers.push_back(entry.path());
  }
  for (const fs::path& leftover : leftovers) fs::remove(leftover, error);
}

}  // namespace

AtomicFile::AtomicFile(const std::string& path) : path_(path), temporary_(unique_name(path)) {
  remove_leftovers(path);
  // No file of this process: one that had its id and was killed, as the first of a container has.
  unlink(temporary_.c_str());
  file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file_ < 0) fail();
}

AtomicFile::~AtomicFile() {
  if (file_ < 0) return;
  close(file_);
  unlink(temporary_.c_str());
}

void AtomicFile::fail() const {
  const int error = errno;
  std::string message = "cannot write '" + path_ + "': " + std::strerror(error);
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) {
    message += " after " + std::to_string(size_) + " bytes; free space or name a folder elsewhere";
  } else {
    message += "; name a folder that can be written to";
  }
  throw UserError(message);
}

void AtomicFile::write_at(const char* data, std::size_t size, std::size_t offset) {
  while (size > 0) {
    const ssize_t done = pwrite(file_, data, size, off_t(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) fail();
    data += done;
    offset += std::size_t(done);
    size -= std::size_t(done);
  }
}

void AtomicFile::write(const void* data, std::size_t size) {
  write_at(static_cast<const char*>(data), size, size_);
  size_ += size;
}

void AtomicFile::write_start(const void* data, std::size_t size) {
  SCALING_CHECK(size <= size_);
  write_at(static_cast<const char*>(data), size, 0);
}

void AtomicFile::commit() {
  if (fsync(file_) != 0) fail();
  const int file = file_;
  file_ = -1;
  if (close(file) != 0 || rename(temporary_.c_str(), path_.c_str()) != 0) {
    const int error = errno;
    unlink(temporary_.c_str());
    errno = error;
    fail();
  }
  // The name as well; a file system that cannot sync folders has done what it can.
  std::string folder = fs::path(path_).parent_path().string();
  const int handle = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC);
  if (handle >= 0) {
    fsync(handle);
    close(handle);
  }
}

}  // namespace scaling
