// A byte a choice.
#include "experiments/instruments/selection_trace.h"

#include <algorithm>
#include <exception>
#include <filesystem>
#include <xtensor/xadapt.hpp>
#include <xtensor/xnpy.hpp>

#include "kernels/check.h"
#include "kernels/random.h"

namespace scaling {
namespace {

constexpr std::int64_t kLags[] = {1, 2, 4, 8, 16};
constexpr std::uint64_t kReplaySeed = 1;

/// Calls visit(example, block, place).
template <class Visitor>
void visit_places(const SelectionTrace& trace, Visitor&& visit) {
  for (std::int64_t example = 0; example < trace.examples; ++example) {
    for (std::int64_t block = 0; block < trace.blocks; ++block) {
      for (std::int64_t place = 0; place < trace.choices.count; ++place) {
        visit(example, block, place);
      }
    }
  }
}

double reuse(const SelectionTrace& trace, std::int64_t lag) {
  std::int64_t same = 0, pairs = 0;
  visit_places(trace, [&](std::int64_t example, std::int64_t block, std::int64_t place) {
    for (std::int64_t t = lag; t < trace.positions; ++t, ++pairs) {
      same += trace.at(example, t, block, place) == trace.at(example, t - lag, block, place);
    }
  });
  return pairs == 0 ? 0 : double(same) / double(pairs);
}

}  // namespace

void write_trace(const std::string& path, const SelectionTrace& trace) {
  SCALING_CHECK(std::int64_t(trace.chosen.size()) == trace.size());
  const std::vector<std::size_t> shape = {std::size_t(trace.examples), std::size_t(trace.positions),
                                          std::size_t(trace.blocks),
                                          std::size_t(trace.choices.count)};
  try {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    xt::dump_npy(path, xt::adapt(trace.chosen, shape));
  } catch (const std::exception& error) {
    throw UserError("cannot write '" + path + "': " + error.what());
  }
}

SelectionTrace read_trace(const std::string& path, std::int64_t options) {
  SelectionTrace trace;
  try {
    const auto loaded = xt::load_npy<std::uint8_t>(path);
    if (loaded.dimension() != 4) throw UserError("it has not four dimensions");
    const auto size = [&](std::size_t axis) { return std::int64_t(loaded.shape()[axis]); };
    trace.examples = size(0);
    trace.positions = size(1);
    trace.blocks = size(2);
    trace.choices = {size(3), options};
    trace.chosen.assign(loaded.begin(), loaded.end());
  } catch (const std::exception& error) {
    throw UserError("cannot read the choices of '" + path + "': " + error.what() +
                    "; name a file that perplexity --decode_check wrote into traces/");
  }
  if (trace.chosen.empty()) throw UserError("'" + path + "' holds no choices; name another");
  const std::int64_t most = *std::max_element(trace.chosen.begin(), trace.chosen.end());
  if (most >= options || 2 * (most + 1) <= options) {
    throw UserError("'" + path + "' chooses among " + std::to_string(most + 1) +
                    ", this row among " + std::to_string(options) +
                    "; name a trace of a row that chooses among as many");
  }
  return trace;
}

std::vector<Metric> count_selections(const SelectionTrace& trace) {
  std::vector<Metric> metrics;
  for (const std::int64_t lag : kLags) {
    if (lag >= trace.positions) continue;
    metrics.push_back({"selection_reuse_" + std::to_string(lag), "1", {reuse(trace, lag)}});
  }
  const double tokens = double(trace.examples * trace.positions);
  const auto places = std::size_t(trace.blocks * trace.choices.count);
  const auto options = std::size_t(trace.choices.options);
  std::vector<double> uses(places * options);
  double touched = 0;
  std::vector<bool> seen(options);
  visit_places(trace, [&](std::int64_t example, std::int64_t block, std::int64_t place) {
    std::fill(seen.begin(), seen.end(), false);
    for (std::int64_t t = 0; t < trace.positions; ++t) {
      const auto option = std::size_t(trace.at(example, t, block, place));
      seen[option] = true;
      ++uses[std::size_t(block * trace.choices.count + place) * options + option];
    }
    touched += double(std::count(seen.begin(), seen.end(), true));
  });
  double chance = 0;
  for (const double use : uses) chance += use / tokens * (use / tokens);
  metrics.push_back({"selection_chance", "1", {chance / double(places)}});
  metrics.push_back({"selection_touched",
                     "1",
                     {touched / double(trace.examples) / double(places) / double(options)}});
  return metrics;
}

SelectionReplay::SelectionReplay(SelectionTrace trace, std::vector<Choices> blocks, int tokens)
    : trace_(std::move(trace)), blocks_(std::move(blocks)), tokens_(tokens) {
  for (const Choices& block : blocks_) {
    if (block.options != trace_.choices.options) {
      throw UserError("a trace of choices among " + std::to_string(trace_.choices.options) +
                      " cannot stand for those of a block that chooses among " +
                      std::to_string(block.options) + "; name another");
    }
    copies_ = std::max(copies_, (block.count - 1) / trace_.choices.count + 1);
  }
}

void SelectionReplay::begin(std::uint64_t number, std::int64_t length) {
  if (length > trace_.positions) {
    throw UserError("examples of the trace have " + std::to_string(trace_.positions) +
                    " tokens, and " + std::to_string(length) +
                    " are to be decoded; name a trace of longer ones");
  }
  Rng rng(kReplaySeed, number);
  const std::int64_t stretches = trace_.positions / length, left = trace_.positions % length;
  at_.resize(std::size_t(tokens_ * std::int64_t(blocks_.size()) * copies_));
  for (Place& place : at_) {
    place.example = std::int64_t(rng.below(std::uint32_t(trace_.examples)));
    // By stretches that do not overlap: of starts anywhere, most would hold the middle and few an
    // end.
    place.position = length * std::int64_t(rng.below(std::uint32_t(stretches))) +
                     std::int64_t(rng.below(std::uint32_t(left + 1)));
  }
}

std::vector<std::vector<std::int32_t>> SelectionReplay::next() {
  std::vector<std::vector<std::int32_t>> all(blocks_.size());
  for (std::int64_t t = 0; t < tokens_; ++t) {
    for (std::size_t b = 0; b < blocks_.size(); ++b) {
      Place* copies = at_.data() + (t * std::int64_t(blocks_.size()) + std::int64_t(b)) * copies_;
      for (std::int64_t i = 0; i < blocks_[b].count; ++i) {
        const Place& place = copies[i / trace_.choices.count];
        all[b].push_back(trace_.at(place.example, place.position, std::int64_t(b) % trace_.blocks,
                                   i % trace_.choices.count));
      }
      for (std::int64_t copy = 0; copy < copies_; ++copy) ++copies[copy].position;
    }
  }
  return all;
}

}  // namespace scaling
