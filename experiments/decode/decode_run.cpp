// Group after group: allocate, measure at every thread count, write, free.
#include "experiments/decode/decode_run.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>

#include "experiments/decode/decode_metrics.h"
#include "experiments/decode/grouping.h"
#include "experiments/instruments/like_ref.h"
#include "experiments/study/interrupt.h"
#include "experiments/study/run_experiment.h"
#include "kernels/check.h"
#include "kernels/libraries.h"

namespace scaling {
namespace {

// The rest is for the system and for what encoders and libraries take on their way.
constexpr double kMemoryShare = 0.85;

std::string done_text(const std::vector<Record>& records) {
  double token = 0, block = 0, efficiency = 0;
  for (const Record& r : records) {
    if (r.metric == "token_ms") token = r.value;
    if (r.metric == "block_ms") block = r.value;
    if (r.metric == "block_efficiency") efficiency = r.value;
  }
  const Record& last = records.back();
  char text[160];
  std::snprintf(text, sizeof text,
                ", %d threads: token %.4g ms, block %.4g ms (%.0f %% of its floor), %s",
                last.threads, token, block, 100 * efficiency, name_of(last.status));
  return last.row + text + (last.note.empty() ? "" : ": " + last.note);
}

}  // namespace

DecodeRun::DecodeRun(const Experiment& experiment, const Options& options,
                     const Provenance& provenance, Plan& plan, RecordFile& file)
    : experiment_(experiment),
      options_(options),
      provenance_(provenance),
      plan_(plan),
      file_(file),
      settings_(settings_for(options)),
      progress_(estimated_seconds(plan)) {}

int DecodeRun::run() {
  std::vector<std::size_t> wanted;
  for (std::size_t i = 0; i < plan_.size(); ++i) {
    const PlannedRow& planned = plan_[i];
    if (!planned.unavailable.empty()) {
      for (const int threads : planned.to_do) {
        give_up(planned, threads, Status::skipped, planned.unavailable);
      }
    } else if (!planned.to_do.empty()) {
      wanted.push_back(i);
    }
  }
  try {
    compare_with_ref(wanted);
    std::vector<Load> loads;
    for (const std::size_t i : wanted) loads.push_back({plan_[i].bytes, plan_[i].row.against});
    const auto limit = std::uint64_t(kMemoryShare * double(available_memory()));
    for (const std::vector<std::size_t>& group : group_rows(loads, limit)) {
      std::vector<std::size_t> rows;
      for (const std::size_t i : group) rows.push_back(wanted[i]);
      std::vector<Resident> residents = load(rows);
      for (const int threads : options_.threads) measure(residents, threads);
    }
  } catch (const Interrupted&) {
    progress_.done("interrupted: finished rows are kept in " + file_.path() +
                       "; the same command continues with the others",
                   0);
    return kExitInterrupted;
  }
  return failed_ ? kExitFailedRows : 0;
}

void DecodeRun::compare_with_ref(std::vector<std::size_t>& rows) {
  std::map<Settings, std::string> compared;  // what was wrong, empty if nothing
  const auto disagrees = [&](std::size_t i) {
    const Row& row = plan_[i].row;
    Row twin = row;
    twin.model = twin_of(row.model);
    twin.context = twin.source_length = 0;  // of no weight here
    for (const int threads : plan_[i].to_do) {
      check_interrupt();
      Settings settings = settings_of(twin);
      settings.emplace_back("threads", std::to_string(threads));
      const auto [at, is_new] = compared.try_emplace(settings);
      if (is_new) {
        progress_.live(row.name + ": comparing with ref");
        set_library_threads(row.kernels, row.own_threads ? threads : 1);
        try {
          require_agreement_with_ref("row '" + row.name + "'", row.model,
                                     find_kernel_set(row.kernels), row.batch,
                                     team(row.own_threads ? 1 : threads));
        } catch (const UserError& error) {
          at->second = error.what();
        }
      }
      if (at->second.empty()) continue;
      for (const int n : plan_[i].to_do) give_up(plan_[i], n, Status::failed, at->second);
      return true;
    }
    return false;
  };
  std::erase_if(rows, disagrees);
}

std::vector<Resident> DecodeRun::load(const std::vector<std::size_t>& group) {
  std::vector<Resident> residents;
  for (const std::size_t i : group) {
    check_interrupt();
    PlannedRow& planned = plan_[i];
    progress_.live(planned.row.name + ": drawing " + readable_bytes(double(planned.bytes)) +
                   " of weights");
    try {
      planned.model->allocate(team(options_.threads.back()));
      Resident resident;
      resident.row = &planned.row;
      resident.encoded = planned.model->encode(source_ids(planned.row));
      resident.model = std::move(planned.model);
      residents.push_back(std::move(resident));
    } catch (const UserError& error) {
      planned.model.reset();
      for (const int threads : planned.to_do)
        give_up(planned, threads, Status::failed, error.what());
    }
  }
  return residents;
}

void DecodeRun::measure(std::vector<Resident>& residents, int threads) {
  std::vector<std::unique_ptr<RowSubject>> subjects;
  std::vector<const Resident*> measured;
  for (const Resident& resident : residents) {
    const PlannedRow& planned = planned_of(resident);
    if (std::count(planned.to_do.begin(), planned.to_do.end(), threads) == 0) continue;
    try {
      subjects.push_back(std::make_unique<RowSubject>(
          resident, find_kernel_set(resident.row->kernels),
          team(resident.row->own_threads ? 1 : threads), team(threads), settings_));
      measured.push_back(&resident);
    } catch (const UserError& error) {
      give_up(planned, threads, Status::failed, error.what());
    }
  }
  std::vector<Subject*> borrowed;
  for (const auto& subject : subjects) borrowed.push_back(subject.get());
  run_protocol(
      borrowed, settings_,
      [&](std::size_t i, const Samples& samples) { record(*measured[i], threads, samples); },
      [&](const std::string& text) {
        progress_.live(text + ", " + std::to_string(threads) + " threads");
      });
}

void DecodeRun::record(const Resident& resident, int threads, const Samples& samples) {
  const Row& row = *resident.row;
  const Record base = record_base(experiment_, row, options_, threads, provenance_);
  const std::vector<Record> records = decode_records(
      base, row, *resident.model, samples, settings_.precision, library_description(row.kernels));
  file_.append(records);
  const PlannedRow& planned = planned_of(resident);
  const double load = threads == planned.to_do.front() ? planned.load_seconds : 0;
  progress_.done(done_text(records), planned.measure_seconds + load);
}

void DecodeRun::give_up(const PlannedRow& planned, int threads, Status status,
                        const std::string& why) {
  const Record base = record_base(experiment_, planned.row, options_, threads, provenance_);
  file_.append({missing_record(base, status, why)});
  if (status == Status::failed) failed_ = true;
  progress_.done(planned.row.name + ", " + std::to_string(threads) +
                     " threads: " + name_of(status) + ", " + why,
                 status == Status::failed ? planned.measure_seconds : 0);
}

const PlannedRow& DecodeRun::planned_of(const Resident& resident) const {
  return *std::find_if(plan_.begin(), plan_.end(), [&resident](const PlannedRow& planned) {
    return &planned.row == resident.row;
  });
}

Team& DecodeRun::team(int threads) {
  std::unique_ptr<Team>& team = teams_[threads];
  if (!team) team = std::make_unique<Team>(threads, options_.pin);
  return *team;
}

}  // namespace scaling
