// Times the optimiser steps of one row of an experiment and prints one JSON object: what
// peers/compare_training.py runs in turn with other frameworks' steps.
#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <cstdio>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <numeric>

#include "experiments/instruments/memory.h"
#include "experiments/study/statistics.h"
#include "experiments/study/study.h"
#include "experiments/training/trial.h"
#include "kernels/check.h"
#include "kernels/gemm.h"
#include "kernels/gemm_rate.h"
#include "models/transformer/matched_sizes.h"

namespace scaling {
namespace {

namespace po = boost::program_options;

constexpr std::int64_t kWarmUp = 5;

nlohmann::ordered_json time_steps(const Curve& curve, int threads, const std::string& cache) {
  const double ceiling = best_gemm_gflops(2048, threads);
  const std::string folder = (std::filesystem::temp_directory_path() /
                              ("scaling_bench_training." + std::to_string(getpid())))
                                 .string();
  const double tokens = tokens_per_step(curve.train);
  std::vector<double> seconds;
  const double flops =
      try_steps(curve, curve.train.steps, threads, cache, folder, [&](const TrainReport& report) {
        if (report.step > kWarmUp) seconds.push_back(tokens / report.tokens_per_s);
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
          {"tokens_per_s", tokens / median},
          {"gflops", rate},
          {"ceiling_gemm_gflops", ceiling},
          {"mfu", rate / ceiling},
          {"gemm", gemm_of(curve.model, curve.train).name},
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

int bench_training(int argc, char** argv) {
  std::string config, row, cache, corpus, gemm;
  int threads = 0;
  std::int64_t steps = 0, seed = 0;
  po::options_description options("bench_training times the optimiser steps of one row");
  options.add_options()("config", po::value(&config)->required(),
                        "the experiment, a file of experiments/configs/training")(
      "row", po::value(&row)->default_value("dense"), "of the experiment")(
      "corpus", po::value(&corpus)->default_value("generated"), "text, as for perplexity")(
      "cache", po::value(&cache)->default_value("results/local/cache"),
      "folder of tokenised corpora")("gemm", po::value(&gemm)->default_value("auto"),
                                     "library of the products")(
      "threads", po::value(&threads)->default_value(available_threads()), "threads")(
      "steps", po::value(&steps)->default_value(30), "steps that are timed")(
      "seed", po::value(&seed)->default_value(0), "of weights and draws; 0: the row's first")(
      "help", "this text");
  po::variables_map given;
  try {
    po::store(po::parse_command_line(argc, argv, options), given);
    if (given.count("help")) {
      std::cout << options;
      return 0;
    }
    po::notify(given);
  } catch (const po::error& error) {
    throw UserError(std::string(error.what()) + "; see --help");
  }
  if (seed < 0) throw UserError("--seed " + std::to_string(seed) + ": give 0 or more");
  if (steps < 1 || threads < 1 || threads > available_threads()) {
    throw UserError("--steps " + std::to_string(steps) + ", --threads " + std::to_string(threads) +
                    ": give at least one step and 1 to " + std::to_string(available_threads()) +
                    " threads");
  }
  const Settings overrides = {
      {"steps", std::to_string(steps + kWarmUp)}, {"corpus", corpus}, {"gemm", gemm}};
  const RowFile file = read_row_file(config, curve_knobs(), overrides);
  const Curve curve = curve_of_row(curves_of(file), row, file.experiment);
  const std::uint64_t own = seed > 0 ? std::uint64_t(seed) : curve.seeds.front();
  std::cout << time_steps(with_seed(curve, own), threads, cache) << std::endl;
  return 0;
}

}  // namespace
}  // namespace scaling

int main(int argc, char** argv) {
  return scaling::run_experiment([&] { return scaling::bench_training(argc, argv); });
}
