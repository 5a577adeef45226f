// Memory for weights by mmap: huge pages by advice, pages placed at first touch, limits read before
// taking.
#include "kernels/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <fstream>
#include <limits>
#include <utility>

#include "kernels/check.h"

namespace scaling {
namespace {

constexpr std::uint64_t kHugePage = 2ull << 20;
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25  // of headers from 6.1 on
#endif

constexpr std::uint64_t kReserve = 512ull << 20;
constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();

/// The number in a one-number file; "max" or no file: unlimited.
std::uint64_t number_in(const std::string& path) {
  std::ifstream file(path);
  std::uint64_t value = 0;
  return file >> value ? value : kUnlimited;
}

/// What a control group at `folder` leaves. Its page cache can be given back, so inactive file
/// pages do not count as used.
std::uint64_t group_leaves(const std::string& folder, const char* limit_name,
                           const char* usage_name) {
  const std::uint64_t limit = number_in(folder + "/" + limit_name);
  const std::uint64_t usage = number_in(folder + "/" + usage_name);
  if (limit == kUnlimited || usage == kUnlimited) return kUnlimited;
  std::uint64_t reclaimable = 0;
  std::ifstream stat(folder + "/memory.stat");
  std::string key;
  for (std::uint64_t value; stat >> key >> value;) {
    if (key == "inactive_file") reclaimable = value;
  }
  const std::uint64_t used = usage - std::min(usage, reclaimable);
  return limit - std::min(limit, used);
}

std::uint64_t machine_available() {
  std::ifstream info("/proc/meminfo");
  std::string key;
  while (info >> key) {
    std::uint64_t kib = 0;
    if (key == "MemAvailable:" && info >> kib) return kib << 10;
    info.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return kUnlimited;
}

std::string gib(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GiB", double(bytes) / double(1ull << 30));
  return text;
}

}  // namespace

std::uint64_t control_groups_leave(const std::string& own_groups, const std::string& mounted_at) {
  std::uint64_t least = kUnlimited;
  std::ifstream groups(own_groups);
  for (std::string line; std::getline(groups, line);) {
    const auto first = line.find(':');
    const auto second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool unified = controllers.empty();
    if (!unified && controllers.find("memory") == std::string::npos) continue;
    const std::string root = unified ? mounted_at : mounted_at + "/memory";
    const char* limit = unified ? "memory.max" : "memory.limit_in_bytes";
    const char* usage = unified ? "memory.current" : "memory.usage_in_bytes";
    std::string path = line.substr(second + 1);
    for (;;) {
      least = std::min(least, group_leaves(root + path, limit, usage));
      const auto slash = path.rfind('/');
      if (slash == std::string::npos) break;
      path.erase(slash);
    }
  }
  return least;
}

std::uint64_t available_memory() {
  return std::min(machine_available(), control_groups_leave("/proc/self/cgroup", "/sys/fs/cgroup"));
}

void require_memory(std::uint64_t bytes, const std::string& what, const std::string& remedy) {
  const std::uint64_t available = available_memory();
  if (available == kUnlimited || bytes <= available - std::min(available, kReserve)) return;
  throw UserError(what + " needs " + gib(bytes) + " of memory, but " + gib(available) +
                  " are available (" + gib(kReserve) + " of them are kept free): " + remedy);
}

Arena::Arena(std::uint64_t bytes) {
  capacity_ = (bytes + kHugePage - 1) / kHugePage * kHugePage;
  mapped_ = capacity_ + kHugePage;
  mapping_ = mmap(nullptr, mapped_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) {
    mapping_ = nullptr;
    throw UserError(
        "the system refused " + gib(bytes) +
        " of address space: shrink the model (--blocks, --weight_type bf16) or raise the "
        "limit (ulimit -v)");
  }
  const auto address = reinterpret_cast<std::uintptr_t>(mapping_);
  base_ = reinterpret_cast<char*>((address + kHugePage - 1) / kHugePage * kHugePage);
  // Advice only: on a kernel without huge pages everything still works, slower.
  madvise(base_, capacity_, MADV_HUGEPAGE);
}

Arena::~Arena() {
  if (mapping_) munmap(mapping_, mapped_);
}

Arena::Arena(Arena&& other) noexcept { *this = std::move(other); }

Arena& Arena::operator=(Arena&& other) noexcept {
  std::swap(mapping_, other.mapping_);
  std::swap(mapped_, other.mapped_);
  std::swap(base_, other.base_);
  std::swap(capacity_, other.capacity_);
  std::swap(used_, other.used_);
  return *this;
}

void Arena::gather_pages() const {
  // Of whole huge pages alone: what lies behind is not in use.
  if (base_) madvise(base_, used_ / kHugePage * kHugePage, MADV_COLLAPSE);
}

void* Arena::take(std::uint64_t bytes) {
  const std::uint64_t size = rounded(bytes);
  SCALING_CHECK(used_ + size <= capacity_);
  void* piece = base_ + used_;
  used_ += size;
  return piece;
}

}  // namespace scaling
