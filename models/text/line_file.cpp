// Whole lines are kept, whatever the one before was doing when it ended.
#include "models/text/line_file.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "kernels/check.h"
#include "models/text/atomic_file.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

}  // namespace

LineFile::LineFile(const std::string& path, const std::string& made_of) : path_(path) {
  const std::string beside = path + ".made_of", line = made_of + "\n";
  std::error_code error;
  if (fs::exists(path, error)) {
    const std::string found = content(beside);
    if (found != line) {
      throw UserError("'" + path + "' holds lines " +
                      (found.empty() ? "of an unknown run"
                                     : "of another run (" + found.substr(0, found.find('\n')) +
                                           "; this one is " + made_of + ")") +
                      "; name another --out, or delete it");
    }
    const std::string text = content(path);
    lines_ = std::uint64_t(std::count(text.begin(), text.end(), '\n'));
    fs::resize_file(path, text.rfind('\n') + 1, error);
    if (error) throw UserError("cannot write '" + path + "': " + error.message());
  } else {
    AtomicFile about(beside);
    about.write(line.data(), line.size());
    about.commit();
  }
  out_.open(path, std::ios::binary | std::ios::app);
  require();
}

void LineFile::add(const std::string& line) {
  out_ << line << '\n' << std::flush;
  require();
  ++lines_;
}

void LineFile::require() const {
  if (!out_) throw UserError("cannot write '" + path_ + "'; is the folder there, the disk full?");
}

}  // namespace scaling
