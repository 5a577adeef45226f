// Draws lengths and digits, adds as one does on paper.
#include "models/tasks/numbers.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/check.h"
#include "kernels/random.h"
#include "models/text/hash.h"

namespace scaling {
namespace {

constexpr std::uint64_t kTrainingStream = 0x746f79;         // of data_seed
constexpr std::uint64_t kEvaluationKey = 0x746f796576616c;  // the same whatever the seed
/// The reference pads to 32; what is padded has no weight and nothing before it sees it, but at 16
/// digits 8 saves up to half the positions.
constexpr std::int64_t kPadTo = 8;
constexpr std::int64_t kMostDigits = 1 << 20;

struct Example {
  std::vector<int> source, target;
  std::size_t told = 0;  // of the target, before what is asked for
};

std::int64_t between(Rng& rng, std::int64_t least, std::int64_t most) {
  return least + std::int64_t(rng.below(std::uint32_t(most - least + 1)));
}

/// The index-th pick out of 0 ... count - 1: the fractions of multiples of the golden ratio are far
/// apart however many there are.
std::int64_t spread(std::int64_t index, std::int64_t count) {
  constexpr double kGolden = 0.6180339887498949;
  return std::int64_t(std::fmod(double(index) * kGolden, 1.0) * double(count));
}

std::int64_t rounded_up(std::int64_t n, std::int64_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

std::vector<int> random_digits(Rng& rng, std::int64_t digits) {
  std::vector<int> number;
  for (std::int64_t i = 0; i < digits; ++i) number.push_back(int(between(rng, 1, 10)));
  return number;
}

/// Lowest digit first; the last is not 0 unless it is the only one.
std::vector<int> random_number(Rng& rng, std::int64_t digits) {
  std::vector<int> number = random_digits(rng, digits);
  if (digits > 1) number.back() = int(between(rng, 2, 10));
  return number;
}

std::vector<int> sum_of(const std::vector<int>& x, const std::vector<int>& y) {
  std::vector<int> sum;
  int carry = 0;
  for (std::size_t i = 0; i < std::max(x.size(), y.size()) || carry > 0; ++i) {
    const int digits = (i < x.size() ? x[i] - 1 : 0) + (i < y.size() ? y[i] - 1 : 0) + carry;
    sum.push_back(1 + digits % 10);
    carry = digits / 10;
  }
  return sum;
}

void append(std::vector<int>& to, const std::vector<int>& more) {
  to.insert(to.end(), more.begin(), more.end());
}

Example copied(const std::vector<int>& number, bool has_source) {
  if (has_source) return {number, number, 0};
  Example made;
  for (int times = 0; times < 2; ++times) {
    made.target.push_back(0);
    append(made.target, number);
  }
  made.told = number.size() + 2;
  return made;
}

Example added(const std::vector<int>& x, const std::vector<int>& y, bool has_source) {
  std::vector<int> question = x;
  question.push_back(Numbers::kPlus);
  append(question, y);
  if (has_source) return {question, sum_of(x, y), 0};
  Example made;
  made.target.push_back(Numbers::kSeparator);
  append(made.target, question);
  made.target.push_back(Numbers::kSeparator);
  made.told = made.target.size();
  append(made.target, sum_of(x, y));
  return made;
}

/// Digits of the first addend: the released code's, with min and max one more than ours.
struct FirstAddend {
  std::int64_t least, most;
};

FirstAddend first_addend(const Numbers& task) {
  const std::int64_t least = std::max<std::int64_t>(1, task.digits_min / 2);
  return {least, least + (task.digits_max + 2 - least) / 2 - 1};
}

Example drawn_sum(const Numbers& task, Rng& rng) {
  const FirstAddend range = first_addend(task);
  const std::int64_t first = between(rng, range.least, range.most);
  const std::int64_t least =
      task.is_strict ? std::max<std::int64_t>(1, task.digits_min - first) : 1;
  const std::int64_t second = between(rng, least, task.digits_max - first);
  const std::vector<int> x = random_number(rng, first);
  return added(x, random_number(rng, second), task.has_source);
}

std::int64_t longest_sum(const Numbers& task) {
  const FirstAddend range = first_addend(task);
  return std::max(range.most, task.digits_max - range.least) + 1;
}

}  // namespace

Lengths Numbers::longest() const {
  const std::int64_t source = has_source ? digits_max + numbers() - 1 : 0;
  const std::int64_t target = kind == Kind::copy
                                  ? (has_source ? digits_max : 2 * digits_max + 2)
                                  : longest_sum(*this) + (has_source ? 0 : digits_max + 3);
  return {rounded_up(source, pad_to), rounded_up(target, pad_to)};
}

void Numbers::make_batch(std::int64_t index, std::int64_t first, std::int64_t last,
                         Batch& out) const {
  SCALING_CHECK(index >= 0 && first >= 0 && first < last && last <= batch);
  SCALING_CHECK(digits_min >= 1 && digits_min <= digits_max && numbers() <= digits_max);
  SCALING_CHECK(digits_max <= kMostDigits && pad_to >= 1);
  // Even streams are of batches, odd ones of examples.
  Rng of_batch(key, 2 * std::uint64_t(index));
  const std::int64_t digits = spreads_lengths
                                  ? digits_min + spread(index, digits_max - digits_min + 1)
                                  : between(of_batch, digits_min, digits_max);
  std::vector<Example> examples;
  std::size_t source = 0, target = 0;
  for (std::int64_t i = first; i < last; ++i) {
    Rng rng(key, 2 * std::uint64_t(index * batch + i) + 1);
    examples.push_back(kind == Kind::copy ? copied(random_digits(rng, digits), has_source)
                                          : drawn_sum(*this, rng));
    source = std::max(source, examples.back().source.size());
    target = std::max(target, examples.back().target.size());
  }
  out.examples = last - first;
  out.source_length = rounded_up(std::int64_t(source), pad_to);
  out.input_length = rounded_up(std::int64_t(target), pad_to);
  out.source.assign(std::size_t(out.examples * out.source_length), 0);
  out.target.assign(std::size_t(out.examples * out.input_length), 0);
  out.weights.assign(out.target.size(), 0.0f);
  out.causal = true;
  out.bytes = 0;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const Example& e = examples[i];
    const auto at = std::ptrdiff_t(i) * out.input_length;
    std::copy(e.source.begin(), e.source.end(),
              out.source.begin() + std::ptrdiff_t(i) * out.source_length);
    std::copy(e.target.begin(), e.target.end(), out.target.begin() + at);
    std::fill(out.weights.begin() + at + std::ptrdiff_t(e.told),
              out.weights.begin() + at + std::ptrdiff_t(e.target.size()), 1.0f);
  }
  shift_right(out.target, out.examples, out.input);
}

namespace {

void require_digits(const char* least, std::int64_t min, const char* most, std::int64_t max,
                    std::int64_t numbers) {
  require_at_least(least, min, 1);
  require_at_least(most, max, numbers);
  if (min > max) {
    throw UserError(std::string(least) + " " + std::to_string(min) + " exceeds " + most + " " +
                    std::to_string(max) + "; change one of the two");
  }
  if (max > kMostDigits) {
    throw UserError(std::string(most) + " " + std::to_string(max) + " exceeds " +
                    std::to_string(kMostDigits) + ", the most of this build; give fewer");
  }
}

Numbers numbers_of(const Numbers& like, const TrainConfig& config, std::int64_t digits_min,
                   std::int64_t digits_max) {
  return {.kind = like.kind,
          .has_source = like.has_source,
          .digits_min = digits_min,
          .digits_max = digits_max,
          .batch = config.batch,
          .pad_to = kPadTo};
}

/// Drawn by data_seed.
Numbers trained_on(const Numbers& like, const TrainConfig& config) {
  Numbers numbers = numbers_of(like, config, config.digits_min, config.digits_max);
  const auto bits = random_bits(config.data_seed, kTrainingStream, 0);
  numbers.key = std::uint64_t(bits[1]) << 32 | bits[0];
  return numbers;
}

/// The same whatever the seeds.
Numbers evaluated_on(const Numbers& like, const TrainConfig& config, std::int64_t digits_min,
                     std::int64_t digits_max) {
  Numbers numbers = numbers_of(like, config, digits_min, digits_max);
  numbers.key = kEvaluationKey;
  numbers.spreads_lengths = true;
  return numbers;
}

/// How accuracy falls with length: ten ranges, each within its own numbers of digits.
std::vector<Numbers> ranges_of(const Numbers& like, const TrainConfig& config) {
  std::vector<Numbers> ranges;
  const std::int64_t longest = config.eval_digits_max;
  const std::int64_t range = std::max<std::int64_t>(2, (longest + 9) / 10);
  for (std::int64_t least = 1; least <= longest; least += range) {
    ranges.push_back(evaluated_on(like, config, least, std::min(longest, least + range - 1)));
    ranges.back().is_strict = true;
  }
  return ranges;
}

class NumberTask : public Task {
 public:
  NumberTask(const Numbers& like, const TrainConfig& config)
      : config_(config), trained_(trained_on(like, config)) {
    sets_.push_back(
        {{}, evaluated_on(like, config, config.eval_digits_min, config.eval_digits_max)});
    // Longer examples than were trained on say nothing of whether the task was learnt at all.
    sets_.push_back({{.prefix = "trained_length_"},
                     evaluated_on(like, config, config.digits_min, config.digits_max)});
    for (const Numbers& numbers : ranges_of(like, config)) {
      const std::string most = std::to_string(numbers.digits_max);
      sets_.push_back({{.suffix = ".to_" + most + "_digits", .only_at_end = true}, numbers});
    }
  }

  void train_batch(std::int64_t step, std::int64_t piece, std::int64_t pieces,
                   Batch& out) const override {
    SCALING_CHECK(step >= 0 && piece >= 0 && piece < pieces);
    trained_.make_batch(step, config_.batch * piece / pieces, config_.batch * (piece + 1) / pieces,
                        out);
  }

  std::vector<ValidationSet> validation_sets() const override {
    std::vector<ValidationSet> sets;
    for (const Set& set : sets_) sets.push_back(set.shown);
    return sets;
  }

  std::int64_t validation_batches() const override {
    return config_.evaluate_batches * config_.accumulate;
  }

  void validation_batch(std::size_t set, std::int64_t index, Batch& out) const override {
    SCALING_CHECK(set < sets_.size() && index >= 0 && index < validation_batches());
    const std::int64_t examples = config_.batch / config_.accumulate;
    const std::int64_t first = index % config_.accumulate * examples;
    sets_[set].numbers.make_batch(index / config_.accumulate, first, first + examples, out);
  }

  /// Results on the same digits may stand beside each other, whatever is done with them.
  std::string identity(Purpose purpose) const override {
    const bool resumes = purpose == Purpose::resuming;
    Hash all;
    all.text("toy 2").text(resumes ? config_.task : "copy");
    all.number(resumes ? config_.data_seed : 1);
    all.number(resumes ? std::uint64_t(config_.batch) : 1);
    for (const Numbers& numbers : {trained_, sets_.front().numbers}) {
      all.number(std::uint64_t(numbers.digits_min)).number(std::uint64_t(numbers.digits_max));
    }
    return hex_of(all.value());
  }

  std::string description() const override {
    const auto digits = [](const Numbers& numbers) {
      return std::to_string(numbers.digits_min) + " to " + std::to_string(numbers.digits_max) +
             " digits";
    };
    const std::int64_t examples = config_.evaluate_batches * config_.batch;
    return config_.task + " of " + digits(trained_) + ", evaluated on " +
           plural(std::uint64_t(examples), "example") + " of " + digits(sets_.front().numbers) +
           "; " + plural(std::uint64_t(config_.steps), "step") + " draw " +
           scaled(double(config_.steps) * double(config_.batch)) + " examples";
  }

 private:
  struct Set {
    ValidationSet shown;
    Numbers numbers;
  };
  TrainConfig config_;
  Numbers trained_;
  std::vector<Set> sets_;
};

}  // namespace

Needs needs_of_numbers(Numbers::Kind kind, bool has_source, const TrainConfig& config) {
  const Numbers like{.kind = kind, .has_source = has_source};
  const Numbers trained = trained_on(like, config);
  const Numbers evaluated =
      evaluated_on(like, config, config.eval_digits_min, config.eval_digits_max);
  const std::int64_t least = trained.numbers();
  require_digits("digits_min", config.digits_min, "digits_max", config.digits_max, least);
  require_digits("eval_digits_min", config.eval_digits_min, "eval_digits_max",
                 config.eval_digits_max, least);
  // A strict range's first addend may be longer than any of the whole.
  Lengths longest = evaluated.longest();
  for (const Numbers& numbers : ranges_of(like, config)) {
    longest.source = std::max(longest.source, numbers.longest().source);
    longest.input = std::max(longest.input, numbers.longest().input);
  }
  return {.trained = trained.longest(),
          .evaluated = longest,
          .least_vocab_size = trained.least_vocab_size(),
          .length_knobs = "digits_max, eval_digits_max"};
}

std::unique_ptr<Task> make_numbers(Numbers::Kind kind, bool has_source, const TrainConfig& config) {
  return std::make_unique<NumberTask>(Numbers{.kind = kind, .has_source = has_source}, config);
}

}  // namespace scaling
