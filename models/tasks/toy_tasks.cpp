// Draws lengths and digits, adds as one does on paper.
#include "models/tasks/toy_tasks.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/check.h"
#include "kernels/random.h"

namespace scaling {
namespace {

constexpr std::uint64_t kTrainingStream = 0x746f79;         // of data_seed
constexpr std::uint64_t kEvaluationKey = 0x746f796576616c;  // the same whatever the seed
/// The reference pads to 32; what is padded has no weight and nothing before it sees it, but at 16
/// digits 8 saves up to half the positions.
constexpr std::int64_t kPadTo = 8;

struct Example {
  std::vector<int> source, target;
  std::size_t told = 0;  // of the target, before what is asked for
};

std::int64_t between(Rng& rng, std::int64_t least, std::int64_t most) {
  return least + std::int64_t(rng.below(std::uint32_t(most - least + 1)));
}

/// Of 0 ... count - 1 that of a batch: the fractions of multiples of the golden ratio are far apart
/// however many there are.
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

Example copied(std::vector<int> number, bool has_source) {
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
  question.push_back(ToyTask::kPlus);
  append(question, y);
  if (has_source) return {question, sum_of(x, y), 0};
  Example made;
  made.target.push_back(ToyTask::kSeparator);
  append(made.target, question);
  made.target.push_back(ToyTask::kSeparator);
  made.told = made.target.size();
  append(made.target, sum_of(x, y));
  return made;
}

/// Digits of the first addend: the reference's, with min and max one more than ours.
struct FirstAddend {
  std::int64_t least, most;
};

FirstAddend first_addend(const ToyTask& task) {
  const std::int64_t least = std::max<std::int64_t>(1, task.digits_min / 2);
  return {least, least + (task.digits_max + 2 - least) / 2 - 1};
}

Example drawn_sum(const ToyTask& task, Rng& rng) {
  const FirstAddend range = first_addend(task);
  const std::int64_t first = between(rng, range.least, range.most);
  const std::int64_t least =
      task.is_strict ? std::max<std::int64_t>(1, task.digits_min - first) : 1;
  const std::int64_t second = between(rng, least, task.digits_max - first);
  const std::vector<int> x = random_number(rng, first);
  return added(x, random_number(rng, second), task.has_source);
}

std::int64_t longest_sum(const ToyTask& task) {
  const FirstAddend range = first_addend(task);
  return std::max(range.most, task.digits_max - range.least) + 1;
}

ToyTask task_of(const TrainConfig& config) {
  return {.kind = config.task.rfind("copy", 0) == 0 ? ToyTask::Kind::copy : ToyTask::Kind::addition,
          .has_source = config.has_source(),
          .batch = config.batch,
          .pad_to = kPadTo};
}

}  // namespace

std::int64_t ToyTask::longest_source() const {
  if (!has_source) return 0;
  return rounded_up(digits_max + numbers() - 1, pad_to);
}

std::int64_t ToyTask::longest_target() const {
  if (kind == Kind::copy) return rounded_up(has_source ? digits_max : 2 * digits_max + 2, pad_to);
  return rounded_up(longest_sum(*this) + (has_source ? 0 : digits_max + 3), pad_to);
}

void ToyTask::make_batch(std::int64_t index, std::int64_t first, std::int64_t last,
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
  out.target_length = rounded_up(std::int64_t(target), pad_to);
  out.source.assign(std::size_t(out.examples * out.source_length), 0);
  out.target.assign(std::size_t(out.examples * out.target_length), 0);
  out.weights.assign(out.target.size(), 0.0f);
  out.bytes = 0;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const Example& e = examples[i];
    const auto at = std::ptrdiff_t(i) * out.target_length;
    std::copy(e.source.begin(), e.source.end(),
              out.source.begin() + std::ptrdiff_t(i) * out.source_length);
    std::copy(e.target.begin(), e.target.end(), out.target.begin() + at);
    std::fill(out.weights.begin() + at + std::ptrdiff_t(e.told),
              out.weights.begin() + at + std::ptrdiff_t(e.target.size()), 1.0f);
  }
}

ToyTask training_task(const TrainConfig& config) {
  ToyTask task = task_of(config);
  const auto bits = random_bits(config.data_seed, kTrainingStream, 0);
  task.key = std::uint64_t(bits[1]) << 32 | bits[0];
  task.digits_min = config.digits_min;
  task.digits_max = config.digits_max;
  return task;
}

ToyTask evaluation_task(const TrainConfig& config) {
  ToyTask task = task_of(config);
  task.key = kEvaluationKey;
  task.spreads_lengths = true;
  task.digits_min = config.eval_digits_min;
  task.digits_max = config.eval_digits_max;
  return task;
}

}  // namespace scaling
