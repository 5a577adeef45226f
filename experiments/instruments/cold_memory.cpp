// One arena, written once and read often.
#include "experiments/instruments/cold_memory.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>

namespace scaling {
namespace {

namespace fs = std::filesystem;

std::string first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

/// Of "32768K"; 0: no such text.
std::uint64_t bytes_of(const std::string& text) {
  std::uint64_t bytes = 0;
  for (const char c : text) {
    if (std::isdigit(static_cast<unsigned char>(c)) == 0) {
      return c == 'K' ? bytes << 10 : c == 'M' ? bytes << 20 : 0;
    }
    bytes = 10 * bytes + std::uint64_t(c - '0');
  }
  return bytes;
}

/// The folder of a processor's highest level; empty if it has none.
fs::path last_level(const fs::path& processor) {
  fs::path last;
  std::string highest;
  std::error_code none;  // of a folder that is not there the list is empty
  for (const fs::directory_entry& entry : fs::directory_iterator(processor / "cache", none)) {
    const std::string level = first_line(entry.path() / "level");
    if (level <= highest) continue;
    highest = level;
    last = entry.path();
  }
  return last;
}

}  // namespace

std::vector<std::uint64_t> last_level_caches(const std::string& folder) {
  std::map<std::string, std::uint64_t> by_processors;  // that share it
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, none)) {
    const fs::path last = last_level(entry.path());
    if (last.empty()) continue;
    const std::uint64_t bytes = bytes_of(first_line(last / "size"));
    if (bytes > 0) by_processors[first_line(last / "shared_cpu_list")] = bytes;
  }
  std::vector<std::uint64_t> caches;
  for (const auto& [processors, bytes] : by_processors) caches.push_back(bytes);
  return caches;
}

std::uint64_t more_than_caches_hold(int threads, const std::vector<std::uint64_t>& caches) {
  constexpr std::uint64_t kUntold = 256 << 20;
  if (caches.empty()) return 4 * kUntold;
  return 4 * *std::max_element(caches.begin(), caches.end()) *
         std::min(std::uint64_t(threads), std::uint64_t(caches.size()));
}

ColdMemory::ColdMemory(Team& team, std::uint64_t bytes) : team_(team) {
  require_memory(bytes, "the memory that is read between cold steps", "free some");
  arena_ = Arena(bytes);
  std::memset(arena_.take(bytes), 1, bytes);
  streams_ = fastest_streams(team_, arena_.data(), arena_.used());
}

}  // namespace scaling
