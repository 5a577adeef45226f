// Text to learn from: files of several kinds, or the built-in generator, read as one stream of
// documents in bounded memory.
//
// A plain text file is one document. A JSON lines file (.jsonl .ndjson .json) has a document a line
// under a key, "text" as in C4 unless others are given. Either may be compressed (.gz .zst). Of a
// folder, whatever depth, the files with those endings or .txt, .text are read, in the order of
// their paths; a file named outright or by a glob is read whatever its ending.
//
// With a target side every document has another beside it, and they are read in turn, source and
// target: see models/text/pairs.h. A plain text file then has a pair a line.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "models/text/document_cutter.h"

namespace scaling {

struct CorpusCounts {
  std::uint64_t documents = 0;      ///< not empty
  std::uint64_t bytes = 0;          ///< of their text, decoded
  std::uint64_t skipped_lines = 0;  ///< of JSON files: malformed or without text
};

/// Called every megabyte with the bytes that a pass over the text has read; ends the reading by
/// throwing.
using ReadWatch = std::function<void(std::uint64_t bytes)>;

class Corpus {
 public:
  /// name: file, folder, glob or "generated"; keys: of the text in JSON lines, comma between them.
  /// target_side: the ending of the targets' files, or in JSON lines the targets' key; empty: there
  /// are none. Only looks at names; throws UserError if nothing fits.
  explicit Corpus(const std::string& name, const std::string& keys = "text",
                  const ReadWatch& watch = {}, const std::string& target_side = "");

  bool generated() const { return generated_; }
  bool has_pairs() const { return !target_side_.empty(); }
  /// A file, or the generator, that both read; empty if there is none.
  std::string shared_with(const Corpus& other) const;
  /// Those of targets too.
  std::size_t files() const { return paths().size(); }
  /// Of the files, in the order in which they are read; targets behind their sources.
  std::vector<std::string> paths() const;
  std::size_t ignored_files() const { return ignored_; }
  /// Hashes the files' bytes, in order, and the keys; not their names. Remembered in the folder
  /// under names, sizes and times, so that a large corpus is not read for it at every start.
  std::uint64_t hash(const std::string& cache_folder) const;
  /// Every document, in pieces of at most DocumentCutter::kPiece bytes. Throws UserError naming the
  /// file for read errors, and if there is no document at all; of pairs also naming the line of one
  /// that lacks a side.
  CorpusCounts read(const TextSink& sink) const;

 private:
  struct File {
    std::string path;
    bool json_lines;
    std::string targets = {};  // path of the other side, if that is a file of its own
    std::vector<std::string> paths() const;
  };
  void add_folder(const std::string& path);
  void find_targets();
  CorpusCounts read_pairs(DocumentCutter& document) const;

  std::string name_;
  std::vector<std::string> keys_;
  std::string target_side_;
  bool generated_ = false;
  std::vector<File> files_;
  std::size_t ignored_ = 0;
  ReadWatch watch_;
};

/// By its ending, that of compression left out.
bool is_json_lines(const std::string& path);

/// Throws UserError if it cannot be made.
void make_folder(const std::string& path);

}  // namespace scaling
