// Reads, multiply-adds, barriers and library products, each repeated for its spread.
#include "experiments/machine/ceilings_study.h"

#include <cstring>
#include <functional>
#include <map>

#include "experiments/study/interrupt.h"
#include "kernels/arena.h"
#include "kernels/ceilings.h"
#include "kernels/check.h"
#include "kernels/gemm_rate.h"
#include "kernels/libraries.h"
#include "kernels/team.h"

namespace scaling {
namespace {

constexpr std::uint64_t kMiB = 1ull << 20;
constexpr std::uint64_t kGemmSize = 2048, kQuickGemmSize = 1024;
constexpr int kRepeats = 7, kQuickRepeats = 3;
constexpr double kCaseSeconds = 1;  // for the plan only

std::string size_name(std::uint64_t bytes) {
  return bytes >= 1024 * kMiB ? std::to_string(bytes / kMiB / 1024) + "GiB"
                              : std::to_string(bytes / kMiB) + "MiB";
}

struct CeilingKnobs {
  bool pin = false;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("pin", k.pin, "bind each thread to a processor");
  }
};

/// What is measured, at any number of threads.
struct Limit {
  std::string row, metric, unit;
  std::function<double(int threads)> once;
  std::uint64_t size = 0;    ///< bytes read, or rows of the square matrices
  std::string library = {};  ///< kernel set of a product
  bool is_of_one = false;    ///< of one thread, however many there are: measured once
};

class CeilingStudy : public Study {
 public:
  StudyInfo info() const override {
    return {.name = "ceilings",
            .program = "ceilings",
            .about = "measures what this machine can do at most",
            .folder = "machine",
            .threads = "1,all",
            .one_thread_count = false,
            .quick = "fewer repeats, smaller matrices"};
  }
  void flags(Knobs& knobs) override { knobs.add(knobs_); }

  std::vector<Point> points(const RowFile&, const RunOptions& options) override {
    quick_ = options.quick;
    most_threads_ = options.threads.back();
    const std::vector<Limit> limits = all_limits();
    std::vector<std::string> known;
    for (const Limit& limit : limits) known.push_back(limit.row);
    require_known_rows(options.rows, known, "ceilings");
    std::vector<Point> points;
    for (const int threads : options.threads) {
      for (const Limit& limit : limits) {
        if (!is_wanted(options.rows, limit.row)) continue;
        if (limit.is_of_one && threads != options.threads.front()) continue;
        Point point;
        point.row = point.against = limit.row;
        point.threads = threads;
        point.settings = {{"kernels", limit.library},
                          {"size", std::to_string(limit.size)},
                          {"quick", print_value(quick_)},
                          {"pin", print_value(knobs_.pin)}};
        point.flags = {{"rows", limit.row}};
        point.seconds = kCaseSeconds;
        point.note = library_description(limit.library);
        points.push_back(std::move(point));
        limits_[limit.row] = limit;
      }
    }
    return points;
  }

  Metric closing(const Point& point) const override {
    const Limit& limit = limits_.at(point.row);
    return {limit.metric, limit.unit};
  }

  void measure(Points group, Sink& sink) override {
    for (const Point* point : group) {
      sink.live(point->row);
      Metric metric = closing(*point);
      for (int i = 0; i < (quick_ ? kQuickRepeats : kRepeats); ++i) {
        check_interrupt();
        metric.values.push_back(limits_.at(point->row).once(point->threads));
      }
      sink.close(*point, {metric});
    }
  }

 private:
  /// The plain names of products are those of 2048 x 2048 matrices.
  std::vector<Limit> all_limits() {
    std::vector<Limit> all;
    for (std::uint64_t bytes = kMiB; bytes <= 1024 * kMiB; bytes *= 4) {
      const auto read = [this, bytes](int threads) {
        return measure_read_rate(team(threads), memory(bytes), bytes) / 1e9;
      };
      all.push_back({"read_" + size_name(bytes), "read_gbps", "GB/s", read, bytes});
    }
    all.push_back({"fma", "fma_gflops", "GFLOP/s",
                   [this](int threads) { return measure_fma_rate(team(threads)) / 1e9; }});
    if (bf16_dot_kernels()) {
      all.push_back({"bf16_dot", "bf16_dot_gflops", "GFLOP/s",
                     [this](int threads) { return measure_bf16_dot_rate(team(threads)) / 1e9; }});
    }
    all.push_back({"barrier", "barrier_us", "us",
                   [this](int threads) { return 1e6 * measure_barrier(team(threads)); }});
    for (const Lines lines : {Lines::neighbours, Lines::apart}) {
      const auto load = [this, lines](int) {
        return 1e9 * measure_load(memory(kLoadLines * kPageBytes), lines);
      };
      all.push_back({.row = lines == Lines::apart ? "load_apart" : "load",
                     .metric = "load_ns",
                     .unit = "ns",
                     .once = load,
                     .is_of_one = true});
    }
    const std::uint64_t size = quick_ ? kQuickGemmSize : kGemmSize;
    const std::string suffix = quick_ ? "_" + std::to_string(size) : "";
    for (const Library& library : libraries()) {
      const std::string name = library.name;
      const auto product = [name, size](int threads) {
        return gemm_gflops(name, std::int64_t(size), threads);
      };
      all.push_back(
          {"gemm_" + name + suffix, "gemm_gflops" + suffix, "GFLOP/s", product, size, name});
    }
    return all;
  }

  /// Memory whose pages are all written; throws UserError if there is not so much.
  void* memory(std::uint64_t bytes) {
    if (bytes <= arena_bytes_) return memory_;
    arena_ = Arena();
    arena_bytes_ = 0;
    require_memory(bytes, "the memory whose reading is measured", "free some and try again");
    arena_ = Arena(bytes);
    arena_bytes_ = bytes;
    // Written once: untouched pages would all be the same page of zeros.
    memory_ = static_cast<char*>(arena_.take(bytes));
    team(most_threads_).run([&](int thread) {
      const Range share = share_of(std::int64_t(bytes), thread, most_threads_, 4096);
      std::memset(memory_ + share.begin, 1 + thread % 8, std::size_t(share.size()));
    });
    return memory_;
  }

  Team& team(int threads) {
    auto& team = teams_[threads];
    if (!team) team = std::make_unique<Team>(threads, knobs_.pin);
    return *team;
  }

  CeilingKnobs knobs_;
  bool quick_ = false;
  int most_threads_ = 1;
  std::map<std::string, Limit> limits_;  ///< by row
  Arena arena_;
  std::uint64_t arena_bytes_ = 0;
  char* memory_ = nullptr;  ///< so many of its bytes
  std::map<int, std::unique_ptr<Team>> teams_;
};

}  // namespace

std::unique_ptr<Study> make_ceiling_study() { return std::make_unique<CeilingStudy>(); }

}  // namespace scaling
