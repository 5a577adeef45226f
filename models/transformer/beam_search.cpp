// Rounds of a beam search. Within one all hypotheses are of one length, so they are compared by
// their log-probabilities; scores are for those that are finished.
#include "models/transformer/beam_search.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "kernels/check.h"

namespace scaling {
namespace {

constexpr int kStart = 0;  // what every text begins with, unseen
constexpr double kImpossible = -std::numeric_limits<double>::infinity();

/// One that goes on, and the model's row that stands where it does.
struct Live {
  Hypothesis so_far;
  int row = 0;
};

struct Candidate {
  double log_probability;
  std::size_t parent;  // among the live ones, of which the likelier come first
  int id;
};

bool is_before(const Candidate& a, const Candidate& b) {
  if (a.log_probability != b.log_probability) return a.log_probability > b.log_probability;
  return a.parent != b.parent ? a.parent < b.parent : a.id < b.id;
}

class BeamSearch {
 public:
  BeamSearch(NextToken& model, std::span<const int> prompt, const BeamOptions& options)
      : model_(model),
        prompt_(prompt),
        options_(options),
        rows_(std::size_t(model.rows())),
        vocab_(std::size_t(model.vocab_size())),
        source_(rows_),
        ids_(rows_) {
    SCALING_CHECK(rows_ >= 1 && vocab_ >= 1 && options.max_length >= 1);
  }

  std::vector<Hypothesis> run() {
    read_prompt();
    live_.resize(1);
    extend();
    while (goes_on()) {
      model_.step(source_, ids_, log_probabilities_);
      extend();
    }
    if (!is_settled()) {
      for (Live& live : live_) finish(std::move(live.so_far), /*has_ended=*/false);
    }
    return std::move(finished_);
  }

 private:
  /// In every row, since they step together.
  void read_prompt() {
    std::iota(source_.begin(), source_.end(), 0);
    std::fill(ids_.begin(), ids_.end(), kStart);
    model_.step(source_, ids_, log_probabilities_);
    for (const int id : prompt_) {
      SCALING_CHECK(id >= 0 && std::size_t(id) < vocab_);
      std::fill(ids_.begin(), ids_.end(), id);
      model_.step(source_, ids_, log_probabilities_);
    }
  }

  /// One round: from the live hypotheses and what the model says of them to the next ones.
  void extend() {
    ++length_;
    list_candidates();
    // At most one a hypothesis is by the end.
    const std::size_t most = std::min(candidates_.size(), 2 * rows_);
    std::partial_sort(candidates_.begin(), candidates_.begin() + std::ptrdiff_t(most),
                      candidates_.end(), is_before);
    std::vector<Live> next;
    for (std::size_t i = 0; i < most && next.size() < rows_; ++i) {
      const Candidate& chosen = candidates_[i];
      const Live& parent = live_[chosen.parent];
      Hypothesis grown = parent.so_far;
      grown.ids.push_back(chosen.id);
      grown.log_probability = chosen.log_probability;
      if (chosen.id == options_.end) {
        finish(std::move(grown), /*has_ended=*/true);
      } else {
        next.push_back({std::move(grown), parent.row});
      }
    }
    live_ = std::move(next);
    take_rows();
  }

  void list_candidates() {
    SCALING_CHECK(log_probabilities_.size() == rows_ * vocab_);
    candidates_.clear();
    for (std::size_t parent = 0; parent < live_.size(); ++parent) {
      Hypothesis& hypothesis = live_[parent].so_far;
      double* of_row = log_probabilities_.data() + std::size_t(live_[parent].row) * vocab_;
      if (options_.block_trigrams) block_trigrams(hypothesis.ids, of_row);
      const std::size_t before = candidates_.size();
      for (std::size_t id = 0; id < vocab_; ++id) {
        if (of_row[id] == kImpossible) continue;
        candidates_.push_back({hypothesis.log_probability + of_row[id], parent, int(id)});
      }
      if (candidates_.size() > before) continue;
      finish(std::move(hypothesis), /*has_ended=*/false);  // nothing can follow it
    }
  }

  /// What followed the text's last two tokens before is impossible now.
  void block_trigrams(const std::vector<int>& ids, double* of_row) const {
    const std::size_t n = prompt_.size() + ids.size();
    const auto at = [&](std::size_t i) {
      return i < prompt_.size() ? prompt_[i] : ids[i - prompt_.size()];
    };
    for (std::size_t i = 0; i + 2 < n; ++i) {
      if (at(i) != at(n - 2) || at(i + 1) != at(n - 1) || at(i + 2) == options_.end) continue;
      of_row[at(i + 2)] = kImpossible;
    }
  }

  /// source_ and ids_ of the next step. The likeliest child stays in its parent's row: what stays
  /// is not copied. Rows that are left over go on by themselves, and nobody looks at them.
  void take_rows() {
    std::iota(source_.begin(), source_.end(), 0);
    std::fill(ids_.begin(), ids_.end(), kStart);
    std::vector<std::uint8_t> is_taken(rows_, 0);
    std::vector<Live*> others;
    for (Live& live : live_) {
      const auto row = std::size_t(live.row);
      if (is_taken[row]) {
        others.push_back(&live);
        continue;
      }
      is_taken[row] = 1;
      ids_[row] = live.so_far.ids.back();
    }
    std::size_t row = 0;
    for (Live* live : others) {
      while (is_taken[row]) ++row;
      is_taken[row] = 1;
      source_[row] = live->row;
      ids_[row] = live->so_far.ids.back();
      live->row = int(row);
    }
  }

  double score_of(double log_probability, std::int64_t tokens) const {
    const std::int64_t n = std::max<std::int64_t>(tokens, 1);
    return log_probability / length_penalty(options_.length_penalty, options_.alpha, n);
  }

  void finish(Hypothesis&& hypothesis, bool has_ended) {
    hypothesis.has_ended = has_ended;
    hypothesis.score = score_of(hypothesis.log_probability, std::int64_t(hypothesis.ids.size()));
    const auto at = std::upper_bound(
        finished_.begin(), finished_.end(), hypothesis,
        [](const Hypothesis& a, const Hypothesis& b) { return a.score > b.score; });
    finished_.insert(at, std::move(hypothesis));
    if (finished_.size() > rows_) finished_.pop_back();
  }

  /// No live hypothesis can pass the worst finished one: its log-probability only falls, and the
  /// penalty goes one way with the length.
  bool is_settled() const {
    if (finished_.size() < rows_ || live_.empty()) return live_.empty();
    const double best = live_.front().so_far.log_probability;
    const std::int64_t next = std::min(length_ + 1, options_.max_length);
    return finished_.back().score >=
           std::max(score_of(best, next), score_of(best, options_.max_length));
  }

  bool goes_on() const {
    if (length_ == options_.max_length || is_settled()) return false;
    return !options_.is_interrupted || !options_.is_interrupted();
  }

  NextToken& model_;
  const std::span<const int> prompt_;
  const BeamOptions& options_;
  const std::size_t rows_, vocab_;
  std::vector<int> source_, ids_;
  std::vector<double> log_probabilities_;
  std::vector<Candidate> candidates_;
  std::vector<Live> live_;            // the likelier first
  std::vector<Hypothesis> finished_;  // the better first, and of equal ones the earlier
  std::int64_t length_ = 0;           // of the live ones
};

}  // namespace

double length_penalty(LengthPenalty form, double alpha, std::int64_t tokens) {
  switch (form) {
    case LengthPenalty::gnmt:
      return std::pow((5 + double(tokens)) / 6, alpha);
    case LengthPenalty::power:
      return std::pow(double(tokens), alpha);
    case LengthPenalty::none:
      break;
  }
  return 1;
}

std::vector<Hypothesis> beam_search(NextToken& model, std::span<const int> prompt,
                                    const BeamOptions& options) {
  return BeamSearch(model, prompt, options).run();
}

void DecoderNextToken::step(std::span<const int> source, std::span<const int> ids,
                            std::vector<double>& log_probabilities) {
  decoder_.reorder(source);
  ids_.assign(ids.begin(), ids.end());
  decoder_.step(ids_, next_);
  const std::vector<float>& logits = decoder_.logits();
  log_probabilities.resize(logits.size());
  const auto vocab = std::size_t(vocab_size());
  for (std::size_t first = 0; first < logits.size(); first += vocab) {
    const float* row = logits.data() + first;
    const double largest = double(*std::max_element(row, row + vocab));
    double sum = 0;
    for (std::size_t id = 0; id < vocab; ++id) sum += std::exp(double(row[id]) - largest);
    const double log_sum = std::log(sum) + largest;
    if (!std::isfinite(log_sum)) {
      throw UserError("the model's logits at position " + std::to_string(decoder_.position() - 1) +
                      " are not finite, so that no text is likelier than another; its training "
                      "diverged: take an earlier checkpoint");
    }
    for (std::size_t id = 0; id < vocab; ++id) {
      log_probabilities[first + id] = double(row[id]) - log_sum;
    }
  }
}

}  // namespace scaling
