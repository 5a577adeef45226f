// Reads, multiply-adds, barriers and library products, each repeated for its spread.
#include "experiments/machine/ceiling_records.h"

#include <algorithm>
#include <cstring>

#include "experiments/decode/options.h"
#include "experiments/study/fingerprint.h"
#include "experiments/study/flags.h"
#include "experiments/study/interrupt.h"
#include "kernels/check.h"
#include "kernels/clock.h"
#include "kernels/gemm_rate.h"
#include "kernels/library_threads.h"

namespace scaling {
namespace {

namespace po = boost::program_options;

constexpr std::uint64_t kMiB = 1ull << 20;
constexpr std::uint64_t kGemmSize = 2048, kQuickGemmSize = 1024;
constexpr int kRepeats = 7, kQuickRepeats = 3;
constexpr int kBarriers = 20000;

po::options_description own_flags() {
  po::options_description flags("ceilings measures what this machine can do at most", 100);
  auto add = flags.add_options();
  add("rows", po::value<std::string>(), "only these rows, e.g. read_1GiB,fma");
  add("threads", po::value<std::string>()->default_value("1,all"), "thread counts, e.g. 1,2,all");
  add("results", po::value<std::string>(), "folder of records; default results/local/<machine>");
  add("force", "measure again what is measured");
  add("quick", "fewer repeats, smaller matrices");
  add("pin", "bind each thread to a processor");
  add("help", "this text");
  return flags;
}

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
  for (const std::string& library : library_sets()) {
    cases.push_back({CeilingCase::Kind::gemm, "gemm_" + library + suffix, "gemm_gflops" + suffix,
                     "GFLOP/s", threads, size, library});
  }
}

}  // namespace

CeilingOptions parse_ceiling_options(int argc, const char* const* argv) {
  const po::variables_map values = parse_flags(argc, argv, {own_flags()});
  CeilingOptions options;
  options.rows = split_at_commas(text_of(values, "rows"));
  options.threads = parse_threads(text_of(values, "threads"));
  options.results = text_of(values, "results");
  options.force = values.count("force") > 0;
  options.quick = values.count("quick") > 0;
  options.pin = values.count("pin") > 0;
  options.help = values.count("help") > 0;
  return options;
}

std::string ceiling_help() { return help_of({own_flags()}); }

std::vector<CeilingCase> ceiling_cases(const CeilingOptions& options) {
  std::vector<CeilingCase> cases;
  for (const int threads : options.threads) add_cases(threads, options.quick, cases);
  std::vector<std::string> known;
  for (const CeilingCase& one : cases) {
    if (one.threads == options.threads.front()) known.push_back(one.row);
  }
  const auto is_in = [](const std::vector<std::string>& names, const std::string& name) {
    return std::find(names.begin(), names.end(), name) != names.end();
  };
  for (const std::string& row : options.rows) {
    if (!is_in(known, row)) {
      throw UserError("there is no ceiling '" + row + "'; known are: " + joined(known));
    }
  }
  std::erase_if(cases, [&](const CeilingCase& one) {
    return !options.rows.empty() && !is_in(options.rows, one.row);
  });
  return cases;
}

CeilingMeter::CeilingMeter(const CeilingOptions& options, const std::vector<CeilingCase>& cases)
    : options_(options) {
  std::uint64_t bytes = 0;
  for (const CeilingCase& one : cases) {
    if (one.kind == CeilingCase::Kind::read) bytes = std::max(bytes, one.size);
  }
  require_memory(bytes, "the memory whose reading is measured", "free some and try again");
  arena_ = Arena(bytes);
  const int threads = options.threads.back();
  auto& team = teams_[threads] = std::make_unique<Team>(threads, options.pin);
  // Written once: untouched pages would all be the same page of zeros.
  char* data = static_cast<char*>(arena_.take(bytes));
  team->run([&](int thread) {
    const Range share = share_of(std::int64_t(bytes), thread, threads, 4096);
    std::memset(data + share.begin, 1 + thread % 8, std::size_t(share.size()));
  });
}

double CeilingMeter::once(const CeilingCase& one) {
  auto& team = teams_[one.threads];
  if (!team) team = std::make_unique<Team>(one.threads, options_.pin);
  switch (one.kind) {
    case CeilingCase::Kind::read:
      return measure_read_rate(*team, arena_.data(), one.size) / 1e9;
    case CeilingCase::Kind::fma:
      return measure_fma_rate(*team) / 1e9;
    case CeilingCase::Kind::bf16_dot:
      return measure_bf16_dot_rate(*team) / 1e9;
    case CeilingCase::Kind::barrier:
      return barrier_microseconds(*team);
    case CeilingCase::Kind::gemm:
      break;
  }
  return gemm_gflops(one.library, std::int64_t(one.size), one.threads);
}

std::vector<double> CeilingMeter::measure(const CeilingCase& one) {
  std::vector<double> values;
  for (int i = 0; i < (options_.quick ? kQuickRepeats : kRepeats); ++i) {
    check_interrupt();
    values.push_back(once(one));
  }
  return values;
}

Record ceiling_record(const CeilingCase& one, const CeilingOptions& options,
                      const Provenance& provenance) {
  Record r;
  r.experiment = "ceilings";
  r.row = one.row;
  r.against = one.row;
  r.threads = one.threads;
  r.metric = one.metric;
  r.unit = one.unit;
  r.config["kernels"] = one.library;
  r.config["size"] = one.size;
  r.config["quick"] = options.quick;
  r.config["pin"] = options.pin;
  r.note = library_description(one.library);
  r.command = "ceilings --rows " + one.row + " --threads " + std::to_string(one.threads) +
              (options.quick ? " --quick" : "") + (options.pin ? " --pin" : "");
  r.provenance = provenance;
  r.key = fingerprint(one.row + "|" + one.metric + "|" + std::to_string(one.threads) + "|" +
                      r.config.dump() + "|" + provenance.machine + "|" + provenance.commit +
                      (provenance.dirty ? "|" + provenance.program : ""));
  r.date = utc_date();
  return r;
}

}  // namespace scaling
