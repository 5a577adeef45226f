// Records to lines and back, and the growing file.
#include "experiments/study/record.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "kernels/check.h"

namespace scaling {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::array<const char*, 6> kStatusNames = {"ok",          "failed",       "skipped",
                                                     "scaled_down", "extrapolated", "untrusted"};

Status parse_status(const std::string& name) {
  const auto at = std::find(kStatusNames.begin(), kStatusNames.end(), name);
  if (at == kStatusNames.end()) throw UserError("it has the unknown status '" + name + "'");
  return Status(at - kStatusNames.begin());
}

double number_or_nan(const Json& json) {
  return json.is_null() ? std::nan("") : json.get<double>();
}

void write_all(int file, const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t n = ::write(file, text.data() + done, text.size() - done);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) throw UserError(std::strerror(errno));
    done += std::size_t(n);
  }
  if (::fsync(file) != 0 && errno != EINVAL) throw UserError(std::strerror(errno));
}

/// Part of a line would make the whole file unreadable: on failure the file is as long as before.
void append_all(int file, const std::string& text) {
  struct stat before {};
  // Until the file is closed: other processes may append and mend, too.
  if (::flock(file, LOCK_EX) != 0 || ::fstat(file, &before) != 0) {
    throw UserError(std::strerror(errno));
  }
  try {
    write_all(file, text);
  } catch (const UserError& error) {
    if (::ftruncate(file, before.st_size) == 0) throw;
    throw UserError(std::string(error.what()) + ", and a part of them stays behind");
  }
}

/// Whether the line begins as every record of the experiment does, as far as it goes.
bool begins_as_record(const std::string& line, const std::string& experiment) {
  const std::string start = "{\"experiment\":\"" + experiment + "\",";
  return line.compare(0, start.size(), start, 0, line.size()) == 0;
}

}  // namespace

const char* name_of(Status status) { return kStatusNames[std::size_t(status)]; }

void Record::set(const Summary& s) {
  value = s.median;
  repeats = s.repeats;
  spread = s.spread;
  low = s.low;
  high = s.high;
}

Json typed_value(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  const char* const end = text.data() + text.size();
  std::int64_t whole = 0;
  if (const auto r = std::from_chars(text.data(), end, whole); r.ec == std::errc() && r.ptr == end)
    return whole;
  double number = 0;
  if (const auto r = std::from_chars(text.data(), end, number);
      r.ec == std::errc() && r.ptr == end && std::isfinite(number)) {
    return number;
  }
  return text;
}

std::string to_line(const Record& r) {
  Json json;
  json["experiment"] = r.experiment;
  json["row"] = r.row;
  json["against"] = r.against;
  json["threads"] = r.threads;
  json["metric"] = r.metric;
  json["value"] = r.value;  // a number that is none becomes null
  json["unit"] = r.unit;
  json["repeats"] = r.repeats;
  json["spread"] = r.spread;
  json["low"] = r.low;
  json["high"] = r.high;
  json["status"] = name_of(r.status);
  json["note"] = r.note;
  json["config"] = r.config;
  json["command"] = r.command;
  json["seed"] = r.seed;
  json["commit"] = r.provenance.commit;
  json["dirty"] = r.provenance.dirty;
  json["compiler"] = r.provenance.compiler;
  json["flags"] = r.provenance.flags;
  json["native"] = r.provenance.native;
  json["cpu"] = r.provenance.cpu;
  json["cores"] = r.provenance.cores;
  json["key"] = r.key;
  json["ceilings"] = {{"read_gbps", r.ceilings.read_bytes_per_second / 1e9},
                      {"fma_gflops", r.ceilings.fma_flops_per_second / 1e9}};
  json["date"] = r.date;
  if (!r.study.empty()) {
    json["study"] = r.study;
    json["section"] = r.section;
    json["title"] = r.title;
    json["id"] = r.id;
    json["sources"] = r.sources;
  }
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Record from_line(const std::string& line) {
  try {
    const Json json = Json::parse(line);
    Record r;
    r.experiment = json.at("experiment");
    r.row = json.at("row");
    r.against = json.at("against");
    r.threads = json.at("threads");
    r.metric = json.at("metric");
    r.value = number_or_nan(json.at("value"));
    r.unit = json.at("unit");
    r.repeats = json.at("repeats");
    r.spread = number_or_nan(json.at("spread"));
    r.low = number_or_nan(json.at("low"));
    r.high = number_or_nan(json.at("high"));
    r.status = parse_status(json.at("status"));
    r.note = json.at("note");
    r.config = json.at("config");
    r.command = json.at("command");
    r.seed = json.at("seed");
    r.provenance.commit = json.at("commit");
    r.provenance.dirty = json.at("dirty");
    r.provenance.compiler = json.at("compiler");
    r.provenance.flags = json.at("flags");
    r.provenance.native = json.at("native");
    r.provenance.cpu = json.at("cpu");
    r.provenance.cores = json.at("cores");
    r.key = json.at("key");
    r.ceilings.read_bytes_per_second = number_or_nan(json.at("ceilings").at("read_gbps")) * 1e9;
    r.ceilings.fma_flops_per_second = number_or_nan(json.at("ceilings").at("fma_gflops")) * 1e9;
    r.date = json.at("date");
    r.study = json.value("study", "");
    r.section = json.value("section", "");
    r.title = json.value("title", "");
    r.id = json.value("id", "");
    r.sources = json.value("sources", "");
    return r;
  } catch (const nlohmann::json::exception& error) {
    throw UserError(error.what());
  }
}

RecordFile::RecordFile(const std::string& dir, const std::string& experiment)
    : path_((std::filesystem::path(dir) / (experiment + ".jsonl")).string()),
      experiment_(experiment) {
  if (read()) return;
  drop_unfinished_line();
  read();
}

void RecordFile::read_again() {
  std::error_code error;
  const std::uintmax_t bytes = std::filesystem::file_size(path_, error);
  if (!error && bytes != bytes_) read();
}

bool RecordFile::read() {
  std::vector<Record> records;
  bool whole = true;
  std::uintmax_t bytes = 0;
  if (std::filesystem::exists(path_)) {
    std::ifstream in(path_);
    if (!in) {
      throw UserError("'" + path_ +
                      "' exists but cannot be read; move it away or choose --results DIR");
    }
    int number = 0;
    const auto refuse = [&](const std::string& reason) {
      throw UserError(path_ + ":" + std::to_string(number) + " is not a record of experiment '" +
                      experiment_ + "' (" + reason +
                      "), so the file was left as it is; mend or move it, or choose --results DIR");
    };
    for (std::string line; std::getline(in, line);) {
      ++number;
      if (in.eof() && begins_as_record(line, experiment_)) {
        whole = false;
        break;
      }
      bytes += line.size() + 1;
      try {
        records.push_back(from_line(line));
      } catch (const UserError& error) {
        refuse(error.what());
      }
      if (records.back().experiment != experiment_) {
        refuse("it belongs to '" + records.back().experiment + "'");
      }
    }
  }
  records_ = std::move(records);
  bytes_ = bytes;
  return whole;
}

void RecordFile::drop_unfinished_line() {
  const int file = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
  bool dropped = false;
  std::string reason;
  if (file >= 0 && ::flock(file, LOCK_EX) == 0) {
    // Nobody writes now; who did a moment ago may have finished the line.
    std::ifstream in(path_);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const std::size_t whole = text.rfind('\n') + 1;  // 0 if there is no line
    if (whole < text.size()) {
      dropped = ::ftruncate(file, off_t(whole)) == 0;
      if (!dropped) reason = std::strerror(errno);
    }
  } else {
    reason = std::strerror(errno);
  }
  if (file >= 0) ::close(file);
  if (!reason.empty()) {
    throw UserError("the last line of '" + path_ +
                    "' has no end, as if a write had been cut short, and cannot be cut off (" +
                    reason + "); mend or move the file, or choose --results DIR");
  }
  if (dropped) {
    std::fprintf(stderr,
                 "%s: its last record had no end, as if a write had been cut short; dropped\n",
                 path_.c_str());
  }
}

bool RecordFile::has(const std::string& key) const {
  return std::any_of(records_.begin(), records_.end(),
                     [&key](const Record& r) { return r.key == key && !std::isnan(r.value); });
}

bool RecordFile::finished(const std::string& key, const std::string& closing) const {
  return std::any_of(records_.begin(), records_.end(), [&](const Record& r) {
    return r.key == key && r.metric == closing && r.status != Status::failed &&
           r.status != Status::skipped;
  });
}

void RecordFile::append(const std::vector<Record>& records) {
  std::string text;
  for (const Record& r : records) text += to_line(r) + "\n";
  const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  try {
    if (file < 0) throw UserError(std::strerror(errno));
    append_all(file, text);
  } catch (const UserError& error) {
    if (file >= 0) ::close(file);
    throw UserError("records cannot be added to '" + path_ + "' (" + error.what() +
                    "); free space or choose another folder with --results DIR");
  }
  ::close(file);
  bytes_ += text.size();
  records_.insert(records_.end(), records.begin(), records.end());
}

}  // namespace scaling
