// Copying and addition against their specification (paper 10.1): sequences are read back into
// numbers; then as data sets, and trained on.
#include "models/tasks/numbers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "kernels/gemm.h"
#include "models/tasks/catalog.h"
#include "models/training/trainer.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

constexpr int kPlus = 11, kSeparator = 12;

/// What one row of a batch says: ids without trailing padding, and which of them have weight.
struct Row {
  std::vector<int> source, target, asked;
  std::size_t told = 0;  // of the target, before the first weight
};

std::vector<int> unpadded_ids(const std::vector<int>& ids, std::int64_t row, std::int64_t length) {
  std::vector<int> own(ids.begin() + row * length, ids.begin() + (row + 1) * length);
  while (!own.empty() && own.back() == 0) own.pop_back();
  return own;
}

/// Weights must be 0, then 1 up to the end of the target, then 0 again.
std::vector<Row> rows_of(const Batch& b) {
  EXPECT_EQ(b.source.size(), std::size_t(b.examples * b.source_length));
  EXPECT_EQ(b.target.size(), std::size_t(b.examples * b.input_length));
  EXPECT_EQ(b.weights.size(), b.target.size());
  EXPECT_EQ(b.bytes, 0);
  std::vector<Row> rows;
  for (std::int64_t i = 0; i < b.examples; ++i) {
    Row row{
        unpadded_ids(b.source, i, b.source_length), unpadded_ids(b.target, i, b.input_length), {}};
    const float* weights = b.weights.data() + i * b.input_length;
    while (row.told < row.target.size() && weights[row.told] == 0) ++row.told;
    row.asked.assign(row.target.begin() + std::ptrdiff_t(row.told), row.target.end());
    EXPECT_FALSE(row.asked.empty());
    for (std::size_t t = row.told; t < std::size_t(b.input_length); ++t) {
      EXPECT_EQ(weights[t], t < row.target.size() ? 1.0f : 0.0f);
    }
    rows.push_back(row);
  }
  return rows;
}

/// Digits, lowest first, as a number; they must be ids 1 to 10 without leading zeros.
std::uint64_t number_of(const std::vector<int>& ids) {
  EXPECT_FALSE(ids.empty());
  EXPECT_LE(ids.size(), 19u);
  if (ids.size() > 1) {
    EXPECT_NE(ids.back(), 1) << "a leading zero";
  }
  std::uint64_t number = 0;
  for (std::size_t i = ids.size(); i > 0; --i) {
    EXPECT_GE(ids[i - 1], 1);
    EXPECT_LE(ids[i - 1], 10);
    number = 10 * number + std::uint64_t(ids[i - 1] - 1);
  }
  return number;
}

std::vector<int> part(const std::vector<int>& ids, std::ptrdiff_t begin, std::ptrdiff_t end) {
  return {ids.begin() + begin, ids.begin() + end};
}

struct Question {
  std::vector<int> x, y;
};

Question question_of(const std::vector<int>& ids) {
  const auto plus = std::find(ids.begin(), ids.end(), kPlus);
  EXPECT_NE(plus, ids.end());
  if (plus == ids.end()) return {};
  return {{ids.begin(), plus}, {plus + 1, ids.end()}};
}

Numbers task(Numbers::Kind kind, bool has_source, std::int64_t least, std::int64_t most,
             std::int64_t batch = 64) {
  return {.kind = kind,
          .has_source = has_source,
          .digits_min = least,
          .digits_max = most,
          .batch = batch,
          .key = 5};
}

Batch batch_of(const Numbers& t, std::int64_t index) {
  Batch batch;
  t.make_batch(index, 0, t.batch, batch);
  return batch;
}

void expect_padded(const Batch& batch, const std::vector<Row>& rows, std::int64_t multiple) {
  std::size_t source = 0, target = 0;
  for (const Row& row : rows) {
    source = std::max(source, row.source.size());
    target = std::max(target, row.target.size());
  }
  const auto rounded = [&](std::size_t n) {
    return (std::int64_t(n) + multiple - 1) / multiple * multiple;
  };
  EXPECT_EQ(batch.source_length, rounded(source));
  EXPECT_EQ(batch.input_length, rounded(target));
}

TEST(Addition, SumsAreRight) {
  const Numbers t = task(Numbers::Kind::addition, false, 2, 16);
  std::set<std::size_t> first, second, together;
  std::set<std::uint64_t> carried;
  for (std::int64_t index = 0; index < 60; ++index) {
    const Batch batch = batch_of(t, index);
    EXPECT_EQ(batch.source_length, 0);
    const std::vector<Row> rows = rows_of(batch);
    expect_padded(batch, rows, 32);
    EXPECT_LE(batch.input_length, t.longest().input);
    for (const Row& row : rows) {
      // S x + y S z, of which z is asked for.
      ASSERT_GE(row.told, 5u);
      EXPECT_EQ(row.target.front(), kSeparator);
      EXPECT_EQ(row.target[row.told - 1], kSeparator);
      const Question q = question_of(part(row.target, 1, std::ptrdiff_t(row.told) - 1));
      EXPECT_EQ(number_of(q.x) + number_of(q.y), number_of(row.asked));
      EXPECT_EQ(row.told, q.x.size() + 1 + q.y.size() + 2);
      first.insert(q.x.size());
      second.insert(q.y.size());
      together.insert(q.x.size() + q.y.size());
      carried.insert(row.asked.size() - std::max(q.x.size(), q.y.size()));
    }
  }
  // The reference with (min, max) = (3, 17): l1 in [1, 8], l2 in [1, 16 - l1].
  EXPECT_EQ(*first.begin(), 1u);
  EXPECT_EQ(*first.rbegin(), 8u);
  EXPECT_EQ(first.size(), 8u);
  EXPECT_EQ(*second.begin(), 1u);
  EXPECT_EQ(*second.rbegin(), 15u);
  EXPECT_EQ(second.size(), 15u);
  EXPECT_EQ(*together.begin(), 2u);
  EXPECT_EQ(*together.rbegin(), 16u);
  EXPECT_EQ(carried, (std::set<std::uint64_t>{0, 1}));
}

/// The paper's ranges as the reference states them: (3, 129) and (257, 301).
TEST(Addition, RangesOfTheReference) {
  for (const bool trains : {true, false}) {
    const Numbers t = trains ? task(Numbers::Kind::addition, false, 2, 128)
                             : task(Numbers::Kind::addition, false, 256, 300);
    std::set<std::size_t> first;
    std::size_t least = 1000, most = 0;
    for (std::int64_t index = 0; index < 40; ++index) {
      for (const Row& row : rows_of(batch_of(t, index))) {
        const Question q = question_of(part(row.target, 1, std::ptrdiff_t(row.told) - 1));
        first.insert(q.x.size());
        EXPECT_GE(q.y.size(), 1u);
        const std::size_t positions = q.x.size() + 1 + q.y.size();
        least = std::min(least, positions);
        most = std::max(most, positions);
      }
    }
    EXPECT_EQ(*first.begin(), trains ? 1u : 128u);
    EXPECT_EQ(*first.rbegin(), trains ? 64u : 214u);
    EXPECT_EQ(first.size(), trains ? 64u : 87u);
    EXPECT_GE(least, trains ? 3u : 130u);
    EXPECT_LE(most, trains ? 129u : 301u);
    EXPECT_GE(most, trains ? 128u : 299u);
  }
}

TEST(Addition, LongSumsAreRightDigitByDigit) {
  const Numbers t = task(Numbers::Kind::addition, true, 256, 300);
  for (const Row& row : rows_of(batch_of(t, 3))) {
    const Question q = question_of(row.source);
    int carry = 0;
    for (std::size_t i = 0; i < row.asked.size(); ++i) {
      const int sum = carry + (i < q.x.size() ? q.x[i] - 1 : 0) + (i < q.y.size() ? q.y[i] - 1 : 0);
      EXPECT_EQ(row.asked[i] - 1, sum % 10);
      carry = sum / 10;
    }
    EXPECT_EQ(carry, 0);
    EXPECT_NE(row.asked.back(), 1);
    EXPECT_GE(row.asked.size(), std::max(q.x.size(), q.y.size()));
  }
}

TEST(Addition, PairsHaveTheQuestionAsSource) {
  const Numbers t = task(Numbers::Kind::addition, true, 2, 16);
  for (std::int64_t index = 0; index < 10; ++index) {
    const Batch batch = batch_of(t, index);
    const std::vector<Row> rows = rows_of(batch);
    expect_padded(batch, rows, 32);
    EXPECT_LE(batch.source_length, t.longest().source);
    EXPECT_LE(batch.input_length, t.longest().input);
    for (const Row& row : rows) {
      EXPECT_EQ(row.told, 0u);
      const Question q = question_of(row.source);
      EXPECT_EQ(number_of(q.x) + number_of(q.y), number_of(row.target));
      EXPECT_LE(q.x.size() + q.y.size(), 16u);
    }
  }
}

/// Every digit but a leading one is any of ten; a lone one may be 0.
TEST(Addition, DigitsAreUniform) {
  const Numbers t = task(Numbers::Kind::addition, true, 2, 16, 256);
  std::map<int, int> lowest, highest, alone;
  for (std::int64_t index = 0; index < 20; ++index) {
    for (const Row& row : rows_of(batch_of(t, index))) {
      const Question q = question_of(row.source);
      if (q.x.size() == 1) {
        ++alone[q.x[0]];
        continue;
      }
      ++lowest[q.x.front()];
      ++highest[q.x.back()];
    }
  }
  // About 4,480 numbers of several digits, 640 of one.
  ASSERT_EQ(lowest.size(), 10u);
  ASSERT_EQ(alone.size(), 10u);
  EXPECT_EQ(highest.size(), 9u);
  EXPECT_EQ(highest.count(1), 0u);
  for (const auto& [id, count] : lowest) EXPECT_NEAR(count, 448, 100) << id;
  for (const auto& [id, count] : highest) EXPECT_NEAR(count, 498, 105) << id;
  for (const auto& [id, count] : alone) EXPECT_NEAR(count, 64, 40) << id;
}

TEST(Addition, SmallestRanges) {
  for (const auto& [least, most] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 2}, {2, 2}, {1, 3}, {3, 3}, {4, 4}, {5, 5}, {1, 5}, {7, 8}}) {
    const Numbers t = task(Numbers::Kind::addition, false, least, most);
    for (std::int64_t index = 0; index < 5; ++index) {
      for (const Row& row : rows_of(batch_of(t, index))) {
        const Question q = question_of(part(row.target, 1, std::ptrdiff_t(row.told) - 1));
        EXPECT_EQ(number_of(q.x) + number_of(q.y), number_of(row.asked));
        EXPECT_LE(q.x.size() + q.y.size(), std::size_t(most));
      }
    }
  }
}

/// Both addends together have as many digits as asked for, neither less nor more.
TEST(Addition, StrictRanges) {
  for (const auto& [least, most] : std::vector<std::pair<std::int64_t, std::int64_t>>{
           {1, 4}, {2, 2}, {9, 12}, {12, 12}, {17, 18}}) {
    Numbers t = task(Numbers::Kind::addition, false, least, most);
    t.is_strict = true;
    std::set<std::size_t> totals;
    for (std::int64_t index = 0; index < 20; ++index) {
      for (const Row& row : rows_of(batch_of(t, index))) {
        const Question q = question_of(part(row.target, 1, std::ptrdiff_t(row.told) - 1));
        EXPECT_EQ(number_of(q.x) + number_of(q.y), number_of(row.asked));
        totals.insert(q.x.size() + q.y.size());
      }
    }
    EXPECT_EQ(*totals.begin(), std::size_t(std::max<std::int64_t>(2, least)));
    EXPECT_EQ(*totals.rbegin(), std::size_t(most));
  }
}

TEST(Copy, TheSecondNumberIsTheFirst) {
  const Numbers t = task(Numbers::Kind::copy, false, 3, 20);
  std::set<std::size_t> lengths;
  std::map<int, int> digits;
  for (std::int64_t index = 0; index < 200; ++index) {
    const Batch batch = batch_of(t, index);
    EXPECT_EQ(batch.source_length, 0);
    const std::vector<Row> rows = rows_of(batch);
    expect_padded(batch, rows, 32);
    std::set<std::size_t> of_batch;
    for (const Row& row : rows) {
      // 0 w 0 w, of which the second w is asked for.
      const std::size_t n = row.asked.size();
      ASSERT_EQ(row.target.size(), 2 * n + 2);
      EXPECT_EQ(row.told, n + 2);
      EXPECT_EQ(row.target[0], 0);
      EXPECT_EQ(row.target[n + 1], 0);
      EXPECT_EQ(part(row.target, 1, std::ptrdiff_t(n) + 1), row.asked);
      for (const int id : row.asked) ++digits[id];
      of_batch.insert(n);
    }
    EXPECT_EQ(of_batch.size(), 1u) << "all examples of a batch have one length";
    lengths.insert(of_batch.begin(), of_batch.end());
  }
  EXPECT_EQ(*lengths.begin(), 3u);
  EXPECT_EQ(*lengths.rbegin(), 20u);
  EXPECT_EQ(lengths.size(), 18u);
  ASSERT_EQ(digits.size(), 10u);
  EXPECT_EQ(digits.begin()->first, 1);
  int all = 0;
  for (const auto& [id, count] : digits) all += count;
  for (const auto& [id, count] : digits) EXPECT_NEAR(count * 10.0 / all, 1, 0.05) << id;
}

TEST(Copy, PairsAreEqual) {
  const Numbers t = task(Numbers::Kind::copy, true, 256, 300);
  EXPECT_EQ(t.longest().source, 320);
  EXPECT_EQ(t.longest().input, 320);
  for (std::int64_t index = 0; index < 5; ++index) {
    const Batch batch = batch_of(t, index);
    const std::vector<Row> rows = rows_of(batch);
    expect_padded(batch, rows, 32);
    for (const Row& row : rows) {
      EXPECT_EQ(row.source, row.target);
      EXPECT_EQ(row.told, 0u);
      EXPECT_GE(row.source.size(), 256u);
      EXPECT_LE(row.source.size(), 300u);
    }
  }
}

TEST(Numbers, BatchesAreAFunctionOfKeyAndIndex) {
  for (const auto kind : {Numbers::Kind::copy, Numbers::Kind::addition}) {
    for (const bool has_source : {false, true}) {
      Numbers t = task(kind, has_source, 2, 16, 12);
      Batch whole = batch_of(t, 7), other = batch_of(t, 8), piece;
      const std::vector<Row> rows = rows_of(whole);
      EXPECT_NE(whole.target, other.target);
      EXPECT_EQ(batch_of(t, 7).target, whole.target);
      // Pieces have the same examples, padded to their own longest.
      std::size_t at = 0;
      for (std::int64_t first = 0; first < 12; first += 3) {
        t.make_batch(7, first, first + 3, piece);
        for (const Row& row : rows_of(piece)) {
          EXPECT_EQ(row.source, rows[at].source);
          EXPECT_EQ(row.target, rows[at].target);
          EXPECT_EQ(row.told, rows[at].told);
          ++at;
        }
      }
      EXPECT_EQ(at, rows.size());
      std::set<std::vector<int>> distinct;
      for (const Row& row : rows) distinct.insert(row.target);
      EXPECT_GE(distinct.size(), 8u);
      t.key = 6;
      EXPECT_NE(batch_of(t, 7).target, whole.target);
    }
  }
}

// -- as data sets ---------------------------------------------------------------------------------

TrainConfig config_of(const std::string& name) {
  TrainConfig c;
  c.task = name;
  c.corpus = "";
  c.batch = 12;
  c.digits_max = 6;
  c.eval_digits_min = 8;
  c.eval_digits_max = 10;
  c.evaluate_batches = 3;
  c.gemm = "eigen";
  return c;
}

const char* const kTasks[] = {"copy", "addition", "copy_pairs", "addition_pairs"};

TEST(NumberTask, EvaluationSpreadsOverTheLengthsToCopy) {
  TrainConfig c = config_of("copy");
  c.eval_digits_min = 32;
  c.eval_digits_max = 38;
  c.evaluate_batches = 14;
  const auto data = make_task(c, 13, "/nowhere");
  std::map<double, int> times;  // by the examples' weight, which is their length
  Batch batch;
  for (std::int64_t index = 0; index < data->validation_batches(); ++index) {
    data->validation_batch(0, index, batch);
    const double weight = std::accumulate(batch.weights.begin(), batch.weights.end(), 0.0);
    ++times[weight / double(batch.examples)];
    if (index == 3) {
      EXPECT_EQ(times.size(), 4U);
    }
  }
  EXPECT_EQ(times.size(), 7U);
  EXPECT_EQ(times.begin()->first, 32);
  EXPECT_EQ(times.rbegin()->first, 38);
  for (const auto& [length, count] : times) EXPECT_LE(count, 3) << length;
}

TEST(NumberTask, BatchesOfTrainingAndEvaluation) {
  for (const std::string name : kTasks) {
    TrainConfig c = config_of(name);
    const auto data = make_task(c, 13, "/nowhere");
    EXPECT_EQ(needs_of(c).has_source(), name.find("_pairs") != std::string::npos);
    Batch a, b;
    data->train_batch(5, 0, 1, a);
    rows_of(a);
    EXPECT_EQ(a.examples, 12);
    EXPECT_EQ(a.source_length > 0, needs_of(c).has_source());
    EXPECT_EQ(a.input_length % 8, 0);
    EXPECT_LE(a.source_length, needs_of(c).trained.source);
    EXPECT_LE(a.input_length, needs_of(c).trained.input);
    EXPECT_FALSE(data->floor().has_value());
    EXPECT_EQ(data->text(), nullptr);
    EXPECT_NE(data->description().find("1 to 6 digits"), std::string::npos) << data->description();

    // Evaluation: other lengths, the same whatever seed and accumulation.
    const auto evaluated = [&](const TrainConfig& config) {
      const auto set = make_task(config, 13, "/nowhere");
      std::vector<std::vector<int>> all;
      Batch batch;
      EXPECT_EQ(set->validation_batches(), 3 * config.accumulate);
      for (std::int64_t i = 0; i < set->validation_batches(); ++i) {
        set->validation_batch(0, i, batch);
        EXPECT_EQ(batch.examples, 12 / config.accumulate);
        for (const Row& row : rows_of(batch)) all.push_back(row.target);
      }
      return all;
    };
    const auto expected = evaluated(c);
    EXPECT_EQ(expected.size(), 36u);
    EXPECT_EQ(std::set<std::vector<int>>(expected.begin(), expected.end()).size(), 36u);
    c.accumulate = 4;
    c.data_seed = 9;
    EXPECT_EQ(evaluated(c), expected);
    const auto other = make_task(c, 13, "/nowhere");
    EXPECT_NE(other->identity(Purpose::resuming), data->identity(Purpose::resuming));
    other->train_batch(5, 0, 1, b);
    EXPECT_NE(a.target, b.target);
  }
}

TEST(NumberTask, FingerprintFollowsTheTask) {
  std::set<std::string> seen;
  const auto add = [&](const std::function<void(TrainConfig&)>& change) {
    TrainConfig c = config_of("copy");
    change(c);
    EXPECT_TRUE(seen.insert(make_task(c, 13, "/nowhere")->identity(Purpose::resuming)).second);
  };
  add([](TrainConfig&) {});
  add([](TrainConfig& c) { c.task = "addition"; });
  add([](TrainConfig& c) { c.task = "copy_pairs"; });
  add([](TrainConfig& c) { c.digits_min = 2; });
  add([](TrainConfig& c) { c.digits_max = 7; });
  add([](TrainConfig& c) { c.eval_digits_min = 9; });
  add([](TrainConfig& c) { c.eval_digits_max = 11; });
  add([](TrainConfig& c) { c.batch = 24; });
  add([](TrainConfig& c) { c.data_seed = 2; });
}

TEST(NumberTask, RefusesWhatItCannotDo) {
  const auto refusal = [](const std::string& name, const std::function<void(TrainConfig&)>& change,
                          std::int64_t vocab_size = 13) {
    TrainConfig c = config_of(name);
    change(c);
    return message_of([&] { make_task(c, vocab_size, "/nowhere"); });
  };
  const auto nothing = [](TrainConfig&) {};
  EXPECT_EQ(refusal("copy", nothing, 12), "no error");
  expect_mentions(refusal("copy", nothing, 11), {"vocab_size 11", "copy", "12"});
  expect_mentions(refusal("addition", nothing, 12), {"vocab_size 12", "addition", "13"});
  expect_mentions(refusal("copy", [](TrainConfig& c) { c.digits_min = 0; }), {"digits_min 0"});
  expect_mentions(refusal("copy", [](TrainConfig& c) { c.digits_min = 7; }),
                  {"digits_min 7", "digits_max 6"});
  expect_mentions(refusal("copy", [](TrainConfig& c) { c.eval_digits_max = 7; }),
                  {"eval_digits_min 8", "eval_digits_max 7"});
  expect_mentions(refusal("addition", [](TrainConfig& c) { c.digits_max = 1; }), {"digits_max 1"});
  EXPECT_EQ(refusal("copy", [](TrainConfig& c) { c.digits_max = 1; }), "no error");
  expect_mentions(refusal("copy", [](TrainConfig& c) { c.task = "multiplication"; }),
                  {"multiplication", "addition", "copy_pairs"});
}

// -- trained on -----------------------------------------------------------------------------------

ModelConfig model_of(bool has_encoder) {
  ModelConfig c = config_of_shape("tiny");
  c.vocab_size = 13;
  c.encoder_layers = has_encoder ? 1 : 0;
  c.decoder_layers = 1;
  return c;
}

struct Training {
  Training(const ModelConfig& model_config, const TrainConfig& config, const std::string& folder)
      : model(model_config), task(make_task(config, model_config.vocab_size, "/nowhere")) {
    set_gemm_threads(1);
    {
      Team team(1);
      model.allocate_for_training(team);
    }
    trainer = std::make_unique<Trainer>(model, *task, config, folder);
  }
  Transformer model;
  std::unique_ptr<Task> task;
  std::unique_ptr<Trainer> trainer;
};

TEST(NumberTraining, EvaluationCountsTokensAndSequences) {
  Folder folder;
  for (const std::string name : kTasks) {
    const TrainConfig c = config_of(name);
    Training run(model_of(needs_of(c).has_source()), c, folder / name);
    EXPECT_GT(run.trainer->flops_per_step(), 0);
    const Evaluation evaluation = run.trainer->evaluate();
    // The same by hand, from the logits of each example.
    double tokens = 0, right = 0, sequences = 0, right_sequences = 0;
    Batch batch;
    for (std::int64_t i = 0; i < run.task->validation_batches(); ++i) {
      run.task->validation_batch(0, i, batch);
      for (const Row& row : rows_of(batch)) {
        const Mat logits = run.model.forward(row.source, row.target);
        bool whole = true;
        for (std::size_t t = row.told; t < row.target.size(); ++t) {
          Eigen::Index best = 0;
          logits.row(std::int64_t(t)).maxCoeff(&best);
          const bool hit = best == row.target[t];
          tokens += 1;
          right += hit ? 1 : 0;
          whole = whole && hit;
        }
        sequences += 1;
        right_sequences += whole ? 1 : 0;
      }
    }
    EXPECT_EQ(evaluation.accuracy, right / tokens) << name;
    EXPECT_EQ(evaluation.sequence_accuracy, right_sequences / sequences) << name;
    EXPECT_EQ(sequences, 36);
    EXPECT_EQ(evaluation.bits_per_byte, 0);
  }
}

/// One digit is learnt in moments, and then every sequence is right.
TEST(NumberTraining, LearnsToCopyOneDigit) {
  Folder folder;
  TrainConfig c = config_of("copy");
  c.digits_max = c.eval_digits_min = c.eval_digits_max = 1;
  c.batch = 32;
  c.steps = 400;
  c.evaluate_every = 400;
  c.optimizer = OptimizerKind::adam;
  c.schedule = Schedule::constant;
  c.learning_rate = 0.003;
  Training run(model_of(false), c, folder / "run");
  Evaluation last;
  EXPECT_TRUE(run.trainer->run(
      [&](const TrainReport& r) {
        if (r.evaluation) last = *r.evaluation;
      },
      nullptr));
  EXPECT_EQ(last.accuracy, 1);
  EXPECT_EQ(last.sequence_accuracy, 1);
  EXPECT_LT(last.log_perplexity, 0.1);
}

TEST(NumberTraining, RefusesModelsThatDoNotFit) {
  Folder folder;
  const auto refusal = [&](const std::string& name, const ModelConfig& model) {
    return message_of([&] { Training(model, config_of(name), folder / "run"); });
  };
  expect_mentions(refusal("copy", model_of(true)),
                  {"copy", "encoder_layers 1", "set encoder_layers 0"});
  expect_mentions(refusal("addition_pairs", model_of(false)),
                  {"addition_pairs", "encoder_layers 0", "give it an encoder"});
  ModelConfig small = model_of(false);
  small.max_length = 23;
  expect_mentions(refusal("copy", small), {"24", "eval_digits_max", "max_length 23"});
  small.max_length = 24;
  EXPECT_EQ(refusal("copy", small), "no error");
}

}  // namespace
}  // namespace scaling
