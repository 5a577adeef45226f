// Asks git, /proc and the build what a record must tell.
#include "experiments/study/provenance.h"

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>

#include "kernels/team.h"
#include "study/build_info.h"

namespace scaling {
namespace {

/// Standard output of a shell command and whether it succeeded.
bool run_command(const std::string& command, std::string* output) {
  output->clear();
  FILE* pipe = popen(command.c_str(), "r");
  if (!pipe) return false;
  char buffer[256];
  while (std::fgets(buffer, sizeof buffer, pipe)) *output += buffer;
  return pclose(pipe) == 0;
}

std::string shell_quoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string git_command() { return "git -C " + shell_quoted(source_dir()) + " "; }

void read_git(Provenance* p) {
  const std::string git = git_command();
  p->commit = "unknown";
  p->dirty = true;
  std::string text;
  if (!run_command(git + "rev-parse --short=12 --verify HEAD 2>/dev/null", &text)) return;
  p->commit = text.substr(0, text.find('\n'));
  const std::string others =
      "status --porcelain -- . ':(exclude)results' ':(exclude)plots' 2>/dev/null";
  p->dirty = !run_command(git + others, &text) || !text.empty();
}

/// The text after the colon of the first line that starts with `name`.
std::string value_of(std::istream&& in, const std::string& name) {
  for (std::string line; std::getline(in, line);) {
    const std::size_t colon = line.find(':');
    if (line.rfind(name, 0) != 0 || colon == std::string::npos) continue;
    const std::size_t start = line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

std::string program_fingerprint() {
  std::ifstream in("/proc/self/exe", std::ios::binary);
  return fingerprint(std::string(std::istreambuf_iterator<char>(in), {}));
}

}  // namespace

bool is_stale(const std::string& note, const std::string& source_dir) {
  std::ifstream file(note);
  const std::string built({std::istreambuf_iterator<char>(file), {}});
  std::string now;
  const bool told = run_command("sh " + shell_quoted(source_dir + "/cmake/sources.sh"), &now);
  return told && !built.empty() && !now.empty() && built != now;
}

std::string fingerprint(const std::string& text) {
  std::uint64_t hash = 0xcbf29ce484222325ull;
  for (const char c : text)
    hash = (hash ^ std::uint64_t(static_cast<unsigned char>(c))) * 0x100000001b3ull;
  std::string digits(16, '0');
  for (std::size_t i = 0; i < 16; ++i) digits[15 - i] = "0123456789abcdef"[(hash >> (4 * i)) & 15];
  return digits;
}

std::string cpu_name(const std::string& cpuinfo) {
  const auto told = [&](const char* name) { return value_of(std::istringstream(cpuinfo), name); };
  const std::string name = told("model name"), family = told("cpu family");
  if (name.empty()) return "unknown";
  // "model" alone begins "model name", too.
  return family.empty()
             ? name
             : name + " (" + family + "-" + told("model\t") + "-" + told("stepping") + ")";
}

std::string machine_key(const std::string& cpu, int cores, std::uint64_t memory_bytes) {
  // Whole GiB: the kernel's own share differs a little from boot to boot.
  const std::uint64_t gib = (memory_bytes + (1ull << 29)) >> 30;
  return fingerprint(cpu + "|" + std::to_string(cores) + "|" + std::to_string(gib)).substr(0, 8);
}

std::string git_ids(const std::vector<std::string>& paths) {
  std::string revisions, files, ids, changes;
  for (const std::string& path : paths) {
    revisions += " HEAD:" + path;
    files += " " + path;
  }
  const bool known = run_command(git_command() + "rev-parse" + revisions + " 2>/dev/null", &ids);
  const bool read =
      run_command(git_command() + "status --porcelain --" + files + " 2>/dev/null", &changes);
  return known && read && changes.empty() ? ids : "";
}

std::string utc_date() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

std::string source_dir() { return SCALING_BUILD_SOURCE_DIR; }

std::string portable_path(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code error;
  std::string relative = fs::relative(path, source_dir(), error).string();
  if (!error && !relative.empty() && relative.rfind("..", 0) != 0) return relative;
  fs::path last = fs::path(path).lexically_normal();
  if (!last.has_filename()) last = last.parent_path();
  return last.filename().string();
}

Provenance read_provenance() {
  Provenance p;
  read_git(&p);
  p.program = program_fingerprint();
  std::error_code error;
  const std::string path = std::filesystem::read_symlink("/proc/self/exe", error).string();
  if (path.rfind(std::string(SCALING_BUILD_BINARY_DIR) + "/", 0) == 0) {
    p.is_stale = is_stale(path + ".built_from", source_dir());
    p.is_of_tree = !p.is_stale;
    p.dirty = p.dirty || p.is_stale;
  }
  p.compiler = SCALING_BUILD_COMPILER;
  p.flags = SCALING_BUILD_FLAGS;
#ifdef SCALING_NATIVE
  p.native = true;
#endif
  std::ifstream cpuinfo("/proc/cpuinfo");
  p.cpu = cpu_name({std::istreambuf_iterator<char>(cpuinfo), {}});
  p.cores = available_threads();
  std::istringstream(value_of(std::ifstream("/proc/meminfo"), "MemTotal")) >> p.memory_bytes;
  p.memory_bytes *= 1024;
  p.machine = machine_key(p.cpu, p.cores, p.memory_bytes);
  return p;
}

}  // namespace scaling
