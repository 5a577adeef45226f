// Full and LSH attention against the length of the sequence: time and memory of the attention core,
// and how much of exact attention LSH sees.
#include <cstdio>

#include "experiments/attention/long_sequence_run.h"
#include "experiments/study/results_dir.h"
#include "experiments/study/run_experiment.h"

namespace scaling {
namespace {

int long_sequence(int argc, char** argv) {
  const LongSequenceOptions options = parse_long_sequence_options(argc, argv);
  if (options.help) {
    std::fputs(long_sequence_help().c_str(), stdout);
    return 0;
  }
  const Experiment experiment = read_experiment(options.config, options.overrides);
  std::vector<std::string> lengths;
  for (const std::int64_t length : options.lengths) lengths.push_back(std::to_string(length));
  std::printf("%s: %s\nlengths %s, then the recall of LSH at length %lld; about %s\n",
              experiment.name.c_str(), experiment.title.c_str(), joined(lengths).c_str(),
              static_cast<long long>(options.recall_length),
              readable_seconds(planned_seconds(experiment, options)).c_str());
  std::fflush(stdout);
  if (options.dry_run) return 0;
  const Provenance provenance = read_provenance();
  RecordFile file(prepare_results_dir(options.results, provenance.machine), experiment.name);
  const int status = LongSequenceRun(experiment, options, provenance, file).run();
  std::printf("records: %s\n", file.path().c_str());
  return status;
}

}  // namespace
}  // namespace scaling

int main(int argc, char** argv) {
  return scaling::run_experiment([&] { return scaling::long_sequence(argc, argv); });
}
