// Pairs are held back until enough have come, or the next does not fit; sources of paragraphs
// never.
#include "models/text/pair_chunks.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

namespace scaling {
namespace {

constexpr int kEnd = 1;
constexpr std::string_view kSpace = " \t\r\n\f\v";

std::vector<int> ids_of(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int> ids;
  tokenizer.encode(text, ids);
  return ids;
}

/// How many have no room, the end left aside.
std::uint64_t beyond(const std::vector<int>& ids, std::int64_t room) {
  return std::int64_t(ids.size()) > room ? ids.size() - std::size_t(room) : 0;
}

/// Where the last id stands that is no padding; -1 if none is.
std::int64_t last_id(std::span<const int> ids) {
  auto last = std::int64_t(ids.size()) - 1;
  while (last >= 0 && ids[std::size_t(last)] == 0) --last;
  return last;
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

std::vector<std::string_view> paragraphs_of(std::string_view text) {
  std::vector<std::string_view> all;
  bool goes_on = false;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = text.substr(begin, end - begin);
    const bool has_text = line.find_first_not_of(kSpace) != std::string_view::npos;
    if (has_text && goes_on) {
      std::string_view& last = all.back();
      last = {last.data(), std::size_t(line.data() + line.size() - last.data())};
    } else if (has_text) {
      all.push_back(line);
    }
    goes_on = has_text;
  }
  return all;
}

SourceIds lay_out_source(const Tokenizer& tokenizer, std::string_view text,
                         const ChunkShape& shape) {
  SourceIds source;
  const auto add = [&](std::string_view part, std::int64_t room) {
    std::vector<int> ids = ids_of(tokenizer, part);
    source.tokens += ids.size();
    source.cut += beyond(ids, room);
    ids = with_end(std::move(ids), room);
    source.ids.insert(source.ids.end(), ids.begin(), ids.end());
  };
  if (shape.paragraph == 0) {
    add(text, shape.source);
    source.ids.resize(std::size_t(shape.source), 0);
    return source;
  }
  std::int64_t next = 0;
  for (const std::string_view paragraph : paragraphs_of(text)) {
    const bool has_room = next < shape.source;
    if (!has_room && source.ids[std::size_t(last_id(source.ids))] == kEnd) {
      source.ids[std::size_t(last_id(source.ids))] = 0;
    }
    add(paragraph, has_room ? shape.paragraph : 0);
    if (has_room) source.ids.resize(std::size_t(next += shape.paragraph), 0);
  }
  source.ids.resize(std::size_t(shape.source), 0);
  return source;
}

bool is_cut(std::span<const int> source, const ChunkShape& shape) {
  const std::size_t room = shape.paragraph == 0 ? source.size() : std::size_t(shape.paragraph);
  for (std::size_t begin = 0; begin < source.size(); begin += room) {
    const std::int64_t last = last_id(source.subspan(begin, room));
    if (last >= 0 && source[begin + std::size_t(last)] != kEnd) return true;
  }
  return false;
}

PairChunks::PairChunks(const ChunkShape& shape, const Tokenizer& tokenizer, Sink sink)
    : shape_(shape), tokenizer_(tokenizer), sink_(std::move(sink)) {}

void PairChunks::add(std::string_view source, std::string_view target) {
  if (shape_.paragraph > 0) {
    SourceIds paragraphs = lay_out_source(tokenizer_, source, shape_);
    cut_.sources += paragraphs.cut;
    pass_on(std::move(paragraphs.ids), ids_of(tokenizer_, target));
    return;
  }
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
  holds_ = false;
  cut_.sources += beyond(source_, shape_.source);
  std::vector<int> source = with_end(std::move(source_), shape_.source);
  source.resize(std::size_t(shape_.source), 0);
  pass_on(std::move(source), std::move(target_));
}

void PairChunks::pass_on(std::vector<int> chunk, std::vector<int> target) {
  cut_.targets += beyond(target, shape_.target);
  target = with_end(std::move(target), shape_.target);
  chunk.insert(chunk.end(), target.begin(), target.end());
  chunk.resize(std::size_t(shape_.length()), 0);
  sink_(chunk);
}

}  // namespace scaling
