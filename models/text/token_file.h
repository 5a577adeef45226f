// A tokenised corpus on disk: written once, read in chunks ever after.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/text/atomic_file.h"
#include "models/text/corpus.h"
#include "models/text/hash.h"

namespace scaling {

/// First bytes of the file; the ids follow, two bytes each (four if the vocabulary needs it).
struct TokenHeader {
  char magic[8];
  std::uint64_t key;       ///< of text, tokenizer and layout
  std::uint64_t id_bytes;  ///< 2 or 4
  std::uint64_t ids;       ///< stored
  std::uint64_t tokens;    ///< of them no padding
  std::uint64_t documents, text_bytes, skipped_lines;
  std::uint64_t cut_source_tokens, cut_target_tokens;  ///< of pairs, not stored for want of room
  std::uint64_t ids_hash;
  std::uint64_t header_hash;  ///< of all before
};

/// Two layouts. stride 0: a stream, every document followed by 1. Else: documents cut into chunks
/// of at most `stride` tokens, every chunk padded with 0 to the stride, chunks of one token left
/// out; so that a chunk's place needs no table.
class TokenWriter {
 public:
  TokenWriter(const std::string& path, std::uint64_t key, std::int64_t vocab_size,
              std::int64_t stride);
  void add(const std::vector<int>& ids);
  void end_document();
  /// Of pairs: tokens that are not among the ids.
  void set_cut(std::uint64_t sources, std::uint64_t targets);
  /// Makes the file appear.
  void finish(const CorpusCounts& counts);

 private:
  void store(int id);
  void flush();
  void end_chunk();

  AtomicFile file_;
  TokenHeader header_{};
  std::int64_t stride_;
  std::vector<int> chunk_;
  std::vector<char> buffer_;
  Hash hash_;
};

class TokenFile {
 public:
  /// Throws UserError naming the file if it is missing, incomplete, damaged or of another key. Up
  /// to kCheckedBytes of ids are checked as a whole; beyond, each id when it is read.
  TokenFile(const std::string& path, std::uint64_t key, std::int64_t vocab_size);
  ~TokenFile();
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  static constexpr std::uint64_t kCheckedBytes = std::uint64_t(8) << 30;
  const TokenHeader& header() const { return header_; }
  /// ids [first, first + count) as ints. May be called by several threads.
  void read(std::uint64_t first, std::int64_t count, int* to) const;

 private:
  [[noreturn]] void fail(const std::string& reason) const;
  void check_ids() const;

  std::string path_;
  std::int64_t vocab_size_;
  TokenHeader header_{};
  // Read from, not mapped: as quick for whole chunks, and pages touched here and there do not count
  // as the process' memory.
  int file_ = -1;
};

}  // namespace scaling
