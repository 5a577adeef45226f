// Finding files, telling their kinds, reading them one after another.
#include "models/text/corpus.h"

#include <glob.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <sstream>
#include <utility>

#include "kernels/check.h"
#include "models/text/atomic_file.h"
#include "models/text/byte_source.h"
#include "models/text/generator.h"
#include "models/text/hash.h"
#include "models/text/json_lines.h"
#include "models/text/pairs.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

/// ".txt" of "a.txt.gz".
std::string kind_of(const std::string& path) {
  fs::path name = fs::path(path).filename();
  if (name.extension() == ".gz" || name.extension() == ".zst") name = name.stem();
  return name.extension().string();
}

bool is_text(const std::string& path) {
  const std::string kind = kind_of(path);
  return is_json_lines(path) || kind == ".txt" || kind == ".text";
}

std::vector<std::string> matches_of(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    for (std::size_t i = 0; i < found.gl_pathc; ++i) paths.emplace_back(found.gl_pathv[i]);
  }
  globfree(&found);
  return paths;
}

/// The hash's number if the file holds one.
bool read_stamp(const std::string& path, std::uint64_t& value) {
  std::ifstream in(path);
  std::string text;
  if (!(in >> text) || text.size() != 16) return false;
  if (text.find_first_not_of("0123456789abcdef") != std::string::npos) return false;
  value = std::stoull(text, nullptr, 16);
  return true;
}

/// Tells a watch of every megabyte; of nothing if there is none.
class Watched {
 public:
  explicit Watched(const ReadWatch& watch) : watch_(watch) {}
  void add(std::uint64_t bytes) {
    const std::uint64_t before = bytes_ >> 20;
    bytes_ += bytes;
    if (watch_ && bytes_ >> 20 != before) watch_(bytes_);
  }

 private:
  const ReadWatch& watch_;
  std::uint64_t bytes_ = 0;
};

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

void add_file(const std::string& path, Hash& hash, Watched& watched) {
  // Plain reading, not ByteReader: the compressed bytes will do.
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  if (file == nullptr) throw UserError("cannot read '" + path + "': " + std::strerror(errno));
  std::vector<char> buffer(std::size_t(1) << 20);
  std::size_t size = 0;
  while ((size = std::fread(buffer.data(), 1, buffer.size(), file.get())) > 0) {
    hash.add(buffer.data(), size);
    watched.add(size);
  }
  if (std::ferror(file.get()) != 0) {
    throw UserError("cannot read '" + path + "': " + std::strerror(errno));
  }
}

}  // namespace

bool is_json_lines(const std::string& path) {
  const std::string kind = kind_of(path);
  return kind == ".jsonl" || kind == ".ndjson" || kind == ".json";
}

void make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw UserError("cannot make the folder '" + path + "': " + error.message());
}

Corpus::Corpus(const std::string& name, const std::string& keys, const ReadWatch& watch,
               const std::string& target_side)
    : name_(name), target_side_(target_side), generated_(name == "generated"), watch_(watch) {
  std::istringstream list(keys);
  for (std::string key; std::getline(list, key, ',');) keys_.push_back(key);
  if (generated_ && has_pairs()) {
    throw UserError(
        "corpus 'generated' has no pairs; name a file of sources, or JSON lines with a source and "
        "a target each");
  }
  if (generated_) return;
  std::error_code ignored;
  std::vector<std::string> named = {name};
  if (!fs::exists(name, ignored)) named = matches_of(name);
  for (const std::string& path : named) {
    if (fs::is_directory(path, ignored)) {
      add_folder(path);
    } else {
      files_.push_back({path, is_json_lines(path)});
    }
  }
  if (named.empty()) {
    throw UserError("corpus '" + name +
                    "' is no file, folder or glob that matches any; name one, or 'generated' for "
                    "the built-in text");
  }
  if (files_.empty()) {
    throw UserError("corpus '" + name +
                    "' has no file ending in .txt, .text, .jsonl, .ndjson or .json, plain, .gz or "
                    ".zst; name the file itself if it is text of another ending");
  }
  const auto before = [](const File& a, const File& b) { return a.path < b.path; };
  const auto same = [](const File& a, const File& b) { return a.path == b.path; };
  std::sort(files_.begin(), files_.end(), before);
  files_.erase(std::unique(files_.begin(), files_.end(), same), files_.end());
  if (has_pairs()) find_targets();
}

void Corpus::find_targets() {
  for (File& file : files_) {
    if (!file.json_lines) {
      file.targets = other_side(file.path, target_side_);
    } else if (std::find(keys_.begin(), keys_.end(), target_side_) != keys_.end()) {
      throw UserError("text_key and target_side both name the key '" + target_side_ + "' of '" +
                      file.path + "'; name the source's with text_key, the target's with " +
                      "target_side");
    }
  }
}

std::vector<std::string> Corpus::File::paths() const {
  return targets.empty() ? std::vector<std::string>{path} : std::vector<std::string>{path, targets};
}

std::string Corpus::shared_with(const Corpus& other) const {
  if (generated_ && other.generated_) return name_;
  std::set<fs::path> ours;
  std::error_code error;
  for (const std::string& path : paths()) ours.insert(fs::weakly_canonical(path, error));
  for (const std::string& path : other.paths()) {
    if (ours.count(fs::weakly_canonical(path, error))) return path;
  }
  return "";
}

std::vector<std::string> Corpus::paths() const {
  std::vector<std::string> all;
  for (const File& file : files_) {
    for (std::string& path : file.paths()) all.push_back(std::move(path));
  }
  return all;
}

void Corpus::add_folder(const std::string& path) {
  std::error_code error;
  fs::recursive_directory_iterator entry(path, error);
  for (; !error && entry != fs::recursive_directory_iterator(); entry.increment(error)) {
    std::error_code unknown;
    if (!entry->is_regular_file(unknown)) continue;
    const std::string file = entry->path().string();
    if (is_text(file)) {
      files_.push_back({file, is_json_lines(file)});
    } else {
      ++ignored_;
    }
  }
  if (error) throw UserError("cannot read the folder '" + path + "': " + error.message());
}

std::uint64_t Corpus::hash(const std::string& cache_folder) const {
  Hash content;
  if (generated_) {
    return content.text("generated").number(Generator::kVersion).number(Generator::kBytes).value();
  }
  Hash names;
  names.text(quoted_keys(keys_));
  if (has_pairs()) names.text(target_side_);
  auto newest = fs::file_time_type::min();
  for (const File& file : files_) {
    for (const std::string& path : file.paths()) {
      std::error_code error;
      const auto size = fs::file_size(path, error);
      const auto time = error ? fs::file_time_type::min() : fs::last_write_time(path, error);
      if (error) throw UserError("cannot read '" + path + "': " + error.message());
      newest = std::max(newest, time);
      names.text(fs::absolute(path).string()).number(size);
      names.number(std::uint64_t(time.time_since_epoch().count()));
    }
  }
  make_folder(cache_folder);
  const std::string stamp = cache_folder + "/contents-" + hex_of(names.value()) + ".txt";
  std::uint64_t value = 0;
  if (read_stamp(stamp, value)) return value;

  Watched watched(watch_);
  for (const File& file : files_) {
    content.text(file.json_lines ? quoted_keys(keys_) : "");
    // The name of the targets' file says nothing of its content.
    if (has_pairs()) content.text("pairs").text(file.json_lines ? target_side_ : "");
    for (const std::string& path : file.paths()) {
      content.number(fs::file_size(path));
      add_file(path, content, watched);
    }
  }
  value = content.value();
  // A file written to just now may change again within the clock's tick: not to be remembered.
  if (fs::file_time_type::clock::now() - newest > std::chrono::seconds(2)) {
    AtomicFile out(stamp);
    const std::string text = hex_of(value) + "\n";
    out.write(text.data(), text.size());
    out.commit();
  }
  return value;
}

CorpusCounts Corpus::read_pairs(DocumentCutter& document) const {
  CorpusCounts counts;
  for (const File& file : files_) {
    counts.documents +=
        2 * (file.json_lines ? read_json_pairs(file.path, keys_, target_side_, document)
                             : read_line_pairs(file.path, file.targets, document));
  }
  counts.bytes = document.bytes();
  if (counts.documents == 0) {
    throw UserError("corpus '" + name_ + "' has no pair: all of its files are empty");
  }
  return counts;
}

CorpusCounts Corpus::read(const TextSink& sink) const {
  CorpusCounts counts;
  Watched watched(watch_);
  const TextSink watched_sink = [&](std::string_view piece, bool last) {
    sink(piece, last);
    watched.add(piece.size());
  };
  DocumentCutter document(watched_sink);
  if (generated_) {
    Generator().write(Generator::kBytes, [&](std::string_view text) { document.add(text); });
    document.finish();
    counts.documents = 1;
    counts.bytes = document.bytes();
    return counts;
  }

  if (has_pairs()) return read_pairs(document);
  std::string first_skipped;
  for (const File& file : files_) {
    ByteReader in(file.path);
    in.skip_byte_order_mark();
    if (!file.json_lines) {
      for (auto text = in.take_buffered(); !text.empty(); text = in.take_buffered()) {
        document.add(text);
      }
      if (document.finish()) ++counts.documents;
      continue;
    }
    JsonLine line = JsonLine::blank;
    for (std::uint64_t number = 1; line != JsonLine::end; ++number) {
      line = read_json_line(in, document, keys_);
      if (line == JsonLine::text) {
        if (document.finish()) ++counts.documents;
      } else if (line == JsonLine::malformed || line == JsonLine::no_text) {
        // Some text of a line too large to be held may have gone out already.
        if (document.drop()) ++counts.documents;
        ++counts.skipped_lines;
        if (first_skipped.empty()) {
          first_skipped = file.path + ":" + std::to_string(number) +
                          (line == JsonLine::malformed ? ": no JSON object"
                                                       : ": no string under " + quoted_keys(keys_));
        }
      }
    }
  }
  counts.bytes = document.bytes();
  if (counts.documents == 0) {
    throw UserError("corpus '" + name_ + "' has no text" +
                    (first_skipped.empty()
                         ? ": all of its files are empty"
                         : "; the first of " + std::to_string(counts.skipped_lines) +
                               " unusable lines is " + first_skipped +
                               "; JSON files need one object a line with the text under " +
                               quoted_keys(keys_) + " (--text_key)"));
  }
  return counts;
}

}  // namespace scaling
