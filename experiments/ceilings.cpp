// The machine's limits as an experiment of its own: reading, multiplying, meeting at a barrier,
// large products.
#include <cstdio>

#include "experiments/machine/ceiling_records.h"
#include "experiments/study/interrupt.h"
#include "experiments/study/progress.h"
#include "experiments/study/results_dir.h"
#include "experiments/study/run_experiment.h"

namespace scaling {
namespace {

int ceilings(int argc, char** argv) {
  const CeilingOptions options = parse_ceiling_options(argc, argv);
  if (options.help) {
    std::fputs(ceiling_help().c_str(), stdout);
    return 0;
  }
  const std::vector<CeilingCase> cases = ceiling_cases(options);
  const Provenance provenance = read_provenance();
  RecordFile file(prepare_results_dir(options.results, provenance.machine), "ceilings");
  std::printf("ceilings: %zu measurements, about %s\n", cases.size(),
              readable_seconds(1.0 * double(cases.size())).c_str());
  std::fflush(stdout);
  Progress progress(double(cases.size()));
  CeilingMeter meter(options, cases);
  for (const CeilingCase& one : cases) {
    check_interrupt();
    const Record base = ceiling_record(one, options, provenance);
    if (!options.force && file.has(base.key)) {
      progress.done(one.row + ": already measured; --force repeats", 1);
      continue;
    }
    progress.live(one.row);
    Record record = base;
    record.set(summarize(meter.measure(one)));
    file.append({record});
    char text[128];
    std::snprintf(text, sizeof text, "%s, %d threads: %.4g %s", one.row.c_str(), one.threads,
                  record.value, one.unit.c_str());
    progress.done(text, 1);
  }
  std::printf("records: %s\n", file.path().c_str());
  return 0;
}

}  // namespace
}  // namespace scaling

int main(int argc, char** argv) {
  return scaling::run_experiment([&] { return scaling::ceilings(argc, argv); });
}
