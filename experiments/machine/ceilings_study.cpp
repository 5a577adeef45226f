// Reads, multiply-adds, barriers and library products, each repeated for its spread.
#include "experiments/machine/ceilings_study.h"

#include <algorithm>
#include <cstring>

#include "experiments/study/interrupt.h"
#include "kernels/ceilings.h"
#include "kernels/check.h"
#include "kernels/clock.h"
#include "kernels/gemm_rate.h"
#include "kernels/libraries.h"

namespace scaling {
namespace {

constexpr std::uint64_t kMiB = 1ull << 20;
constexpr std::uint64_t kGemmSize = 2048, kQuickGemmSize = 1024;
constexpr int kRepeats = 7, kQuickRepeats = 3;
constexpr int kBarriers = 20000;
constexpr double kCaseSeconds = 1;  // for the plan only

std::string size_name(std::uint64_t bytes) {
  return bytes >= 1024 * kMiB ? std::to_string(bytes / kMiB / 1024) + "GiB"
                              : std::to_string(bytes / kMiB) + "MiB";
}

/// Microseconds of one barrier when nobody is late.
double barrier_microseconds(Team& team) {
  double seconds = 0;
  team.run([&](int thread) {
    team.barrier().wait();
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < kBarriers; ++i) team.barrier().wait();
    if (thread == 0) seconds = seconds_since(start);
  });
  return 1e6 * seconds / kBarriers;
}

/// Everything at one thread count. The plain names of products are those of 2048 x 2048 matrices.
void add_cases(int threads, bool quick, std::vector<CeilingCase>& cases) {
  for (std::uint64_t bytes = kMiB; bytes <= 1024 * kMiB; bytes *= 4) {
    cases.push_back({CeilingCase::Kind::read, "read_" + size_name(bytes), "read_gbps", "GB/s",
                     threads, bytes, ""});
  }
  cases.push_back({CeilingCase::Kind::fma, "fma", "fma_gflops", "GFLOP/s", threads, 0, ""});
  if (bf16_dot_kernels()) {
    cases.push_back(
        {CeilingCase::Kind::bf16_dot, "bf16_dot", "bf16_dot_gflops", "GFLOP/s", threads, 0, ""});
  }
  cases.push_back({CeilingCase::Kind::barrier, "barrier", "barrier_us", "us", threads, 0, ""});
  const std::uint64_t size = quick ? kQuickGemmSize : kGemmSize;
  const std::string suffix = size == kGemmSize ? "" : "_" + std::to_string(size);
  for (const Library& library : libraries()) {
    const std::string row = std::string("gemm_") + library.name + suffix;
    cases.push_back({CeilingCase::Kind::gemm, row, "gemm_gflops" + suffix, "GFLOP/s", threads, size,
                     library.name});
  }
}

}  // namespace

StudyInfo CeilingStudy::info() const {
  return {.name = "ceilings",
          .program = "ceilings",
          .about = "measures what this machine can do at most",
          .folder = "machine",
          .threads = "1,all",
          .one_thread_count = false,
          .quick = "fewer repeats, smaller matrices"};
}

std::vector<Point> CeilingStudy::points(const RowFile&, const RunOptions& options) {
  quick_ = options.quick;
  most_threads_ = options.threads.back();
  for (const int threads : options.threads) add_cases(threads, quick_, cases_);
  std::vector<std::string> known;
  for (const CeilingCase& one : cases_) {
    if (one.threads == options.threads.front()) known.push_back(one.row);
  }
  require_known_rows(options.rows, known, "ceilings");
  std::erase_if(cases_, [&](const CeilingCase& one) { return !is_wanted(options.rows, one.row); });
  std::vector<Point> points;
  for (const CeilingCase& one : cases_) {
    Point point;
    point.row = point.against = one.row;
    point.threads = one.threads;
    point.settings = {{"kernels", one.library},
                      {"size", std::to_string(one.size)},
                      {"quick", print_value(quick_)},
                      {"pin", print_value(knobs_.pin)}};
    point.flags = {{"rows", one.row}};
    point.seconds = kCaseSeconds;
    point.note = library_description(one.library);
    points.push_back(std::move(point));
  }
  return points;
}

const CeilingCase& CeilingStudy::case_of(const Point& point) const {
  return *std::find_if(cases_.begin(), cases_.end(), [&point](const CeilingCase& one) {
    return one.row == point.row && one.threads == point.threads;
  });
}

Metric CeilingStudy::closing(const Point& point) const {
  const CeilingCase& one = case_of(point);
  return {.name = one.metric, .unit = one.unit};
}

void CeilingStudy::measure(std::span<const Point* const> group, Sink& sink) {
  for (const Point* point : group) {
    sink.live(point->row);
    Metric metric = closing(*point);
    for (int i = 0; i < (quick_ ? kQuickRepeats : kRepeats); ++i) {
      check_interrupt();
      metric.values.push_back(once(case_of(*point)));
    }
    sink.close(*point, {metric});
  }
}

double CeilingStudy::once(const CeilingCase& one) {
  switch (one.kind) {
    case CeilingCase::Kind::read:
      return measure_read_rate(team(one.threads), memory(one.size), one.size) / 1e9;
    case CeilingCase::Kind::fma:
      return measure_fma_rate(team(one.threads)) / 1e9;
    case CeilingCase::Kind::bf16_dot:
      return measure_bf16_dot_rate(team(one.threads)) / 1e9;
    case CeilingCase::Kind::barrier:
      return barrier_microseconds(team(one.threads));
    case CeilingCase::Kind::gemm:
      break;
  }
  return gemm_gflops(one.library, std::int64_t(one.size), one.threads);
}

const void* CeilingStudy::memory(std::uint64_t bytes) {
  if (bytes <= arena_bytes_) return arena_.data();
  arena_ = Arena();
  arena_bytes_ = 0;
  require_memory(bytes, "the memory whose reading is measured", "free some and try again");
  arena_ = Arena(bytes);
  arena_bytes_ = bytes;
  // Written once: untouched pages would all be the same page of zeros.
  char* data = static_cast<char*>(arena_.take(bytes));
  team(most_threads_).run([&](int thread) {
    const Range share = share_of(std::int64_t(bytes), thread, most_threads_, 4096);
    std::memset(data + share.begin, 1 + thread % 8, std::size_t(share.size()));
  });
  return data;
}

Team& CeilingStudy::team(int threads) {
  auto& team = teams_[threads];
  if (!team) team = std::make_unique<Team>(threads, knobs_.pin);
  return *team;
}

}  // namespace scaling
