// Points and metrics to records, and words about them.
#include "experiments/study/sink.h"

#include <cstdio>

#include "experiments/study/study.h"
#include "kernels/check.h"

namespace scaling {

std::string name_of(const Study& study, const Point& point) {
  if (study.info().by_seed) return point.row + ", seed " + std::to_string(point.seed);
  return point.row + ", " + std::to_string(point.threads) +
         (point.threads == 1 ? " thread" : " threads");
}

Sink::Sink(const Identity& identity, const RunOptions& options, const RowFile& file,
           RecordFile& records, Progress& progress)
    : identity_(identity),
      study_(identity.study()),
      options_(options),
      row_file_(file),
      records_(records),
      progress_(progress) {}

Record Sink::base(const Point& point, const Extra& extra) const {
  const StudyInfo info = study_.info();
  Record r;
  r.experiment = row_file_.experiment;
  r.study = info.name;
  r.section = row_file_.section;
  r.title = row_file_.title;
  r.id = row_file_.id;
  r.row = point.row;
  r.against = point.against;
  r.threads = point.threads;
  r.seed = point.seed;
  if (!extra.config_alone) {
    for (const auto& [name, value] : point.settings) r.config[name] = typed_value(value);
  }
  r.config.update(extra.config);
  r.ceilings = extra.ceilings;
  r.note = extra.config_alone ? "" : point.note;
  add_note(r.note, extra.note);
  r.command = info.program;
  if (!options_.config.empty()) r.command += " --config " + portable_path(options_.config);
  const auto add_flags = [&](const Settings& flags, const Settings& narrower) {
    for (const auto& [name, value] : flags) {
      if (find_setting(narrower, name)) continue;
      r.command += " --" + name + (value == "true" ? "" : " " + study_.portable(name, value));
    }
  };
  add_flags(point.flags, {});
  r.command += " --threads " + std::to_string(point.threads);
  add_flags(options_.given, point.flags);
  if (options_.quick) r.command += " --quick";
  for (const auto& [name, value] : options_.overrides) {
    if (!find_setting(point.flags, name))
      r.command += " --" + name + " " + study_.portable(name, value);
  }
  r.key = identity_.key(point);
  r.sources = identity_.sources();
  r.provenance = identity_.provenance();
  r.date = utc_date();
  return r;
}

void Sink::add(const Point& point, const std::vector<Metric>& metrics, const Extra& extra) {
  const Record shared = base(point, extra);
  std::vector<Record> records;
  for (const Metric& metric : metrics) {
    Record r = shared;
    r.metric = metric.name;
    r.unit = metric.unit;
    r.status = metric.status;
    if (!metric.values.empty()) r.set(summarize(metric.values));
    add_note(r.note, metric.note);
    records.push_back(std::move(r));
  }
  if (!records.empty()) records.back().samples = extra.samples;
  records_.append(records);
}

void Sink::close(const Point& point, const std::vector<Metric>& metrics, const Extra& extra) {
  SCALING_CHECK(!metrics.empty() && metrics.back().name == study_.closing(point).name);
  add(point, metrics, extra);
  settled_.insert(&point);
  std::string line = extra.line;
  if (line.empty()) {
    char text[96];
    std::snprintf(text, sizeof text, ": %.4g %s", summarize(metrics.back().values).median,
                  metrics.back().unit.c_str());
    line = name_of(study_, point) + text;
  }
  progress_.done(line, point.seconds);
}

void Sink::give_up(const Point& point, Status status, const std::string& why, const Extra& extra) {
  // Said before it is written: a disk that is full for one is full for the other.
  progress_.done(name_of(study_, point) + ": " + name_of(status) + ", " + why, point.seconds);
  settled_.insert(&point);
  const std::vector<Record> before = earlier(point);
  if (!before.empty() && before.back().status == status && before.back().note == why) return;
  Metric closing = study_.closing(point);
  closing.status = status;
  Extra reason = extra;
  reason.config_alone = false;
  Record r = base(point, reason);
  r.metric = closing.name;
  r.unit = closing.unit;
  r.status = status;
  r.note = why;
  records_.append({r});
}

void Sink::fail(const Point& point, const std::string& why) {
  complete_ = false;
  give_up(point, Status::failed, why, {});
}

void Sink::skip(const Point& point, const std::string& why, const Extra& extra) {
  give_up(point, Status::skipped, why, extra);
}

void Sink::leave(const Point& point, const std::string& why) {
  complete_ = false;
  settled_.insert(&point);
  progress_.done(name_of(study_, point) + ": " + why, 0);
}

void Sink::settle(const Point& point, const std::string& why) {
  settled_.insert(&point);
  progress_.done(name_of(study_, point) + ": " + why, point.seconds);
}

std::vector<Record> Sink::earlier(const Point& point) {
  records_.read_again();
  const std::string key = identity_.key(point);
  std::vector<Record> found;
  for (const Record& r : records_.records()) {
    if (r.key == key || identity_.holds(r, point)) found.push_back(r);
  }
  return found;
}

bool Sink::is_finished(const Point& point) {
  records_.read_again();
  return identity_.is_finished(records_.records(), point);
}

}  // namespace scaling
