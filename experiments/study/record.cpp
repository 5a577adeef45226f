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

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr std::array<const char*, 6> kStatusNames = {"ok",          "failed",       "skipped",
                                                     "scaled_down", "extrapolated", "untrusted"};

Status parse_status(const std::string& name) {
  const auto at = std::find(kStatusNames.begin(), kStatusNames.end(), name);
  if (at == kStatusNames.end()) throw UserError("it has the unknown status '" + name + "'");
  return Status(at - kStatusNames.begin());
}

// How a field stands in a line.

template <class T>
Json as_json(const T& value) {
  return value;  // a number that is none becomes null
}
Json as_json(Status status) { return name_of(status); }
Json as_json(const Ceilings& ceilings) {
  return {{"read_gbps", ceilings.read_bytes_per_second / 1e9},
          {"fma_gflops", ceilings.fma_flops_per_second / 1e9}};
}

template <class T>
void read(const Json& json, T& value) {
  value = json.get<T>();
}
void read(const Json& json, double& value) {
  value = json.is_null() ? std::nan("") : json.get<double>();
}
void read(const Json& json, Status& status) { status = parse_status(json); }
void read(const Json& json, Ceilings& ceilings) {
  read(json.at("read_gbps"), ceilings.read_bytes_per_second);
  read(json.at("fma_gflops"), ceilings.fma_flops_per_second);
  ceilings.read_bytes_per_second *= 1e9;
  ceilings.fma_flops_per_second *= 1e9;
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

std::string to_line(const Record& record) {
  Json json;
  const auto write = [&json](const char* name, const auto& value) { json[name] = as_json(value); };
  Record::fields(record, write);
  if (!record.study.empty()) Record::study_fields(record, write);
  if (!record.samples.is_null()) write("samples", record.samples);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Record from_line(const std::string& line) {
  try {
    const Json json = Json::parse(line);
    Record record;
    Record::fields(record, [&json](const char* name, auto& value) { read(json.at(name), value); });
    Record::study_fields(
        record, [&json](const char* name, std::string& value) { value = json.value(name, ""); });
    if (json.contains("samples")) record.samples = json.at("samples");
    return record;
  } catch (const nlohmann::json::exception& error) {
    throw UserError(error.what());
  }
}

std::string prepare_results_dir(const std::string& chosen, const std::string& machine) {
  const fs::path dir =
      chosen.empty() ? fs::path(source_dir()) / "results" / "local" / machine : fs::path(chosen);
  const auto refuse = [&dir](const std::string& reason) {
    throw UserError("the results folder '" + dir.string() + "' cannot be written (" + reason +
                    "); choose another with --results DIR");
  };
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) refuse(error.message());
  const fs::path probe = dir / ".writable";
  FILE* file = std::fopen(probe.c_str(), "w");
  if (!file) refuse(std::strerror(errno));
  std::fclose(file);
  fs::remove(probe, error);
  return dir.string();
}

RecordFile::RecordFile(const std::string& dir, const std::string& experiment)
    : path_((fs::path(dir) / (experiment + ".jsonl")).string()), experiment_(experiment) {
  if (read()) return;
  drop_unfinished_line();
  read();
}

void RecordFile::read_again() {
  std::error_code error;
  const std::uintmax_t bytes = fs::file_size(path_, error);
  if (!error && bytes != bytes_) read();
}

bool RecordFile::read() {
  std::vector<Record> records;
  bool whole = true;
  std::uintmax_t bytes = 0;
  if (fs::exists(path_)) {
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
  bool failed = file < 0 || ::flock(file, LOCK_EX) != 0, dropped = false;
  if (!failed) {
    // Nobody writes now; who did a moment ago may have finished the line.
    std::ifstream in(path_);
    const std::string text{std::istreambuf_iterator<char>(in), {}};
    const std::size_t whole = text.rfind('\n') + 1;  // 0 if there is no line
    dropped = whole < text.size();
    failed = dropped && ::ftruncate(file, off_t(whole)) != 0;
  }
  const std::string reason = std::strerror(errno);
  if (file >= 0) ::close(file);
  if (failed) {
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
