// Pairs are held back until enough have come, or the next does not fit.
#include "models/text/pair_chunks.h"

#include <cstddef>
#include <string>
#include <utility>

namespace scaling {
namespace {

constexpr int kEnd = 1;

std::vector<int> ids_of(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int> ids;
  tokenizer.encode(text, ids);
  return ids;
}

/// How many have no room, the end left aside.
std::uint64_t beyond(const std::vector<int>& ids, std::int64_t room) {
  return std::int64_t(ids.size()) > room ? ids.size() - std::size_t(room) : 0;
}

/// Whether both and an end have room.
bool fit(const std::vector<int>& a, const std::vector<int>& b, std::int64_t room) {
  return std::int64_t(a.size() + b.size()) < room;
}

}  // namespace

std::vector<int> with_end(std::vector<int> ids, std::int64_t room) {
  if (std::int64_t(ids.size()) < room) {
    ids.push_back(kEnd);
  } else {
    ids.resize(std::size_t(room));
  }
  return ids;
}

PairChunks::PairChunks(const ChunkShape& shape, const Tokenizer& tokenizer, Sink sink)
    : shape_(shape), tokenizer_(tokenizer), sink_(std::move(sink)) {}

void PairChunks::add(std::string_view source, std::string_view target) {
  if (holds_) {
    // Where a text goes on, its first word has a space before it like any other.
    const std::vector<int> more_source = ids_of(tokenizer_, " " + std::string(source));
    const std::vector<int> more_target = ids_of(tokenizer_, " " + std::string(target));
    if (fit(source_, more_source, shape_.source) && fit(target_, more_target, shape_.target)) {
      source_.insert(source_.end(), more_source.begin(), more_source.end());
      target_.insert(target_.end(), more_target.begin(), more_target.end());
    } else {
      finish();
    }
  }
  if (!holds_) {
    source_ = ids_of(tokenizer_, source);
    target_ = ids_of(tokenizer_, target);
    holds_ = true;
  }
  if (std::int64_t(target_.size()) >= shape_.joined) finish();
}

void PairChunks::finish() {
  if (!holds_) return;
  cut_.sources += beyond(source_, shape_.source);
  cut_.targets += beyond(target_, shape_.target);
  std::vector<int> chunk = with_end(std::move(source_), shape_.source);
  chunk.resize(std::size_t(shape_.source), 0);
  const std::vector<int> target = with_end(std::move(target_), shape_.target);
  chunk.insert(chunk.end(), target.begin(), target.end());
  chunk.resize(std::size_t(shape_.length()), 0);
  holds_ = false;
  sink_(chunk);
}

}  // namespace scaling
