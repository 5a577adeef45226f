// Counting pairs, and the ring of the latest positions that most decodes remember.
#include "models/layers/attention/pattern.h"

namespace scaling {

double Pattern::pairs(const PatternCall& call) const {
  Parts parts;
  cut(call, parts);
  double n = 0;
  for (const Part& part : parts.all) {
    for (std::int64_t i = 0; i < part.queries.n; ++i) {
      n += double(std::max<std::int64_t>(0, visible(call, part, i).size()));
    }
  }
  return n;
}

void Pattern::for_each_pair(const PatternCall& call,
                            const std::function<void(std::int64_t, std::int64_t)>& visit) const {
  Parts parts;
  cut(call, parts);
  for (const Part& part : parts.all) {
    for (std::int64_t i = 0; i < part.queries.n; ++i) {
      const Range keys = visible(call, part, i);
      for (std::int64_t j = keys.begin; j < keys.end; ++j) {
        visit(part.queries.at(i), part.keys.at(j));
      }
    }
  }
}

Pattern::Place Pattern::place(std::int64_t /*head*/, std::int64_t position,
                              std::int64_t capacity) const {
  return {.slot = position % slots(capacity)};
}

void Pattern::reads(std::int64_t /*head*/, std::int64_t position, std::int64_t capacity,
                    std::vector<Range>& read) const {
  read.push_back({0, std::min(position + 1, slots(capacity))});
}

std::int64_t Pattern::keys_read(std::int64_t head, std::int64_t length) const {
  if (length < 1) return 0;
  std::vector<Range> read;
  reads(head, length - 1, length, read);
  std::int64_t n = 0;
  for (const Range& range : read) n += range.size();
  return n;
}

}  // namespace scaling
