// The median of a row's optimiser steps, with what they compute and what a product could.
#include "experiments/training/step_timing.h"

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "experiments/instruments/memory.h"
#include "experiments/study/counts.h"
#include "experiments/study/flags.h"
#include "experiments/study/provenance.h"
#include "experiments/study/statistics.h"
#include "experiments/study/study.h"
#include "experiments/training/trial.h"
#include "kernels/check.h"
#include "kernels/gemm.h"
#include "kernels/gemm_rate.h"
#include "models/transformer/matched_sizes.h"

namespace scaling {
namespace {

constexpr std::int64_t kWarmUp = 5;

struct StepTimingKnobs {
  std::string config, row = "dense", corpus = "generated", cache, gemm = "auto", threads = "all";
  std::int64_t steps = 30, seed = 0;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("config", k.config, "the experiment, a file of experiments/configs/training");
    visit("row", k.row, "of the experiment");
    visit("corpus", k.corpus, "text, as for perplexity");
    visit("cache", k.cache, "folder of tokenised corpora; results/local/cache if none is given");
    visit("gemm", k.gemm, "library of the products");
    visit("threads", k.threads, "a number, or all");
    visit("steps", k.steps, "that are timed");
    visit("seed", k.seed, "of weights and draws; 0: the row's first");
  }
};

nlohmann::ordered_json time_steps(const Curve& curve, int threads, const std::string& cache) {
  const double ceiling = best_gemm_gflops(2048, threads);
  const std::string folder = (std::filesystem::temp_directory_path() /
                              ("scaling_bench_training." + std::to_string(getpid())))
                                 .string();
  std::vector<double> seconds, rates;
  const double flops =
      try_steps(curve, curve.train.steps, threads, cache, folder, [&](const TrainReport& report) {
        if (report.step <= kWarmUp) return;
        seconds.push_back(report.step_seconds);
        rates.push_back(report.tokens_per_s);
      });
  const double median = quantile(seconds, 0.5);
  const double rate = flops / median * 1e-9;
  return {{"status", "ok"},
          {"value", median},
          {"unit", "s"},
          {"low", quantile(seconds, 0.25)},
          {"high", quantile(seconds, 0.75)},
          // Steps of sparse rows come in several kinds, some of which cost less than others.
          {"mean", std::accumulate(seconds.begin(), seconds.end(), 0.0) / double(seconds.size())},
          {"repeats", seconds.size()},
          {"tokens_per_s", quantile(rates, 0.5)},
          {"gflops", rate},
          {"ceiling_gemm_gflops", ceiling},
          {"mfu", rate / ceiling},
          {"gemm", find_gemm(curve.train.gemm).name},
          {"threads", threads},
          {"parameters", parameters_of(curve.model)},
          {"peak_memory_bytes", peak_memory()},
          {"d_model", curve.model.d_model},
          {"d_ff", curve.model.d_ff},
          {"n_heads", curve.model.n_heads},
          {"layers", curve.model.decoder_layers},
          {"vocab_size", curve.model.vocab_size},
          {"batch", curve.train.batch},
          {"length", curve.train.length},
          {"optimizer", print_value(curve.train.optimizer)}};
}

void check(const StepTimingKnobs& knobs) {
  if (knobs.config.empty()) {
    throw UserError("no experiment was given; add --config FILE of experiments/configs/training");
  }
  if (knobs.seed < 0) throw UserError("--seed " + std::to_string(knobs.seed) + ": give 0 or more");
  if (knobs.steps < 1) {
    throw UserError("--steps " + std::to_string(knobs.steps) + ": give one at least");
  }
}

}  // namespace

int run_step_timing(int argc, const char* const* argv) {
  StepTimingKnobs knobs;
  Knobs all;
  all.add(knobs);
  FlagGroup flags{"bench_training times the optimiser steps of one row", flags_of(all)};
  flags.flags.push_back({"help", "this text", true});
  const auto given = parse_flags(argc, argv, {flags});
  if (given.count("help")) {
    std::fputs(help_of({flags}).c_str(), stdout);
    return 0;
  }
  for (const auto& [flag, text] : given) all.set(flag, text);
  check(knobs);
  const int threads = parse_threads(knobs.threads).back();
  if (knobs.cache.empty()) knobs.cache = source_dir() + "/results/local/cache";
  const Settings overrides = {{"steps", std::to_string(knobs.steps + kWarmUp)},
                              {"corpus", knobs.corpus},
                              {"gemm", knobs.gemm}};
  const RowFile file = read_row_file(knobs.config, curve_knobs(), overrides);
  const Curve curve = curve_of_row(curves_of(file), knobs.row, file.experiment);
  const std::uint64_t seed = knobs.seed > 0 ? std::uint64_t(knobs.seed) : curve.seeds.front();
  const std::string said = time_steps(with_seed(curve, seed), threads, knobs.cache).dump();
  std::printf("%s\n", said.c_str());
  return 0;
}

}  // namespace scaling
