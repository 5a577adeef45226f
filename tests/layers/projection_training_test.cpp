// Projections, attention and losses over batches: examples do not mix, the future stays unseen,
// gradients go where values came from.
#include <cmath>
#include <map>

#include "models/layers/parts/module_knobs.h"
#include "models/layers/parts/multiplicative_dense.h"
#include "tests/layers/layer_harness.h"
#include "tests/training/training_harness.h"

namespace scaling {
namespace {

using Double = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

double dot(const Mat& a, const Mat& b) {
  return a.cast<double>().cwiseProduct(b.cast<double>()).sum();
}

bool equal(const Mat& a, const Mat& b) { return a == b; }

/// What a layer made of a batch: matrices with a row a position, and parameters' gradients.
struct Made {
  std::vector<Mat> rows;
  std::vector<Mat> gradients;
};

template <class L>
std::vector<Mat> gradients_of(const TrainedLayer<L>& held) {
  std::vector<Mat> all;
  for (const Parameter* p : held.parameters) all.push_back(held.gradient(p->name));
  return all;
}

/// Forward and backward with outputs standing in for gradients, so that those belong to their
/// examples.
Made make(TrainedLayer<Projection>& held, const Mat& x, std::int64_t examples) {
  held.zero_gradients();
  const Projection& layer = *held.layer;
  Pass pass = training_pass(examples);
  const auto kept = layer.make_activations();
  Projection::QKV y;
  Mat dx;
  layer.forward(pass, x, *kept, y);
  layer.backward(pass, x, *kept, {y.v, y.q, y.k}, dx);
  Made made{{y.q, y.k, y.v, dx}, {}};
  if (layer.has_output()) {
    Mat out, dout;
    layer.forward_output(pass, y.q, *kept, out);
    layer.backward_output(pass, y.q, *kept, y.v, dout);
    made.rows.insert(made.rows.end(), {out, dout});
  }
  made.gradients = gradients_of(held);
  return made;
}

Made make(TrainedLayer<CrossProjection>& held, const Mat& x, std::int64_t examples) {
  held.zero_gradients();
  const CrossProjection& layer = *held.layer;
  Pass pass = training_pass(examples);
  const auto kept = layer.make_activations();
  CrossProjection::Memory memory;
  Mat q, dx, dencoded;
  layer.forward_memory(pass, x, *kept, memory);
  layer.forward_query(pass, x, *kept, q);
  layer.backward_memory(pass, x, *kept, {memory.v, memory.k}, dencoded);
  layer.backward_query(pass, x, *kept, memory.v, dx);
  Made made{{memory.k, memory.v, q, dencoded, dx}, {}};
  if (layer.has_output()) {
    Mat out, dout;
    layer.forward_output(pass, q, *kept, out);
    layer.backward_output(pass, q, *kept, memory.k, dout);
    made.rows.insert(made.rows.end(), {out, dout});
  }
  made.gradients = gradients_of(held);
  return made;
}

/// Two examples together are both alone, their parameters' gradients added.
template <class L>
void expect_examples_apart(TrainedLayer<L>& held, std::int64_t length) {
  const Mat x = random_mat(2 * length, small_config().d_model, 40);
  const Made both = make(held, x, 2);
  const Made first = make(held, x.topRows(length), 1), second = make(held, x.bottomRows(length), 1);
  for (std::size_t i = 0; i < both.rows.size(); ++i) {
    const std::string what = "matrix " + std::to_string(i);
    expect_close(both.rows[i].topRows(length), first.rows[i], what + " of the first");
    expect_close(both.rows[i].bottomRows(length), second.rows[i], what + " of the second");
  }
  for (std::size_t i = 0; i < both.gradients.size(); ++i) {
    expect_close(both.gradients[i], first.gradients[i] + second.gradients[i],
                 held.parameters[i]->name);
  }
}

class ProjectionTrainingTest : public testing::TestWithParam<std::string> {};

TEST_P(ProjectionTrainingTest, ExamplesDoNotMix) {
  TrainedLayer<Projection> held(make_projection(GetParam(), small_config()));
  for (const std::int64_t length : {1, 2, 7}) {
    SCOPED_TRACE(length);
    expect_examples_apart(held, length);
  }
}

TEST_P(ProjectionTrainingTest, LooksAtNoLaterPosition) {
  const ModelConfig c = small_config();
  const TrainedLayer<Projection> held(make_projection(GetParam(), c));
  const std::int64_t length = 7, same = 4;
  Mat x = random_mat(length, c.d_model, 41);
  Pass pass = training_pass();
  const auto kept = held.layer->make_activations();
  Projection::QKV before, after;
  held.layer->forward(pass, x, *kept, before);
  x.bottomRows(length - same) = random_mat(length - same, c.d_model, 42);
  held.layer->forward(pass, x, *kept, after);
  EXPECT_TRUE(equal(before.q.topRows(same), after.q.topRows(same)));
  EXPECT_TRUE(equal(before.k.topRows(same), after.k.topRows(same)));
  EXPECT_TRUE(equal(before.v.topRows(same), after.v.topRows(same)));
  EXPECT_FALSE(equal(before.q.row(same), after.q.row(same)));
}

/// Every projection is affine, so <dy, f(x) - f(0)> = <dx, x>.
TEST_P(ProjectionTrainingTest, BackwardIsTheAdjoint) {
  const ModelConfig c = small_config();
  const TrainedLayer<Projection> held(make_projection(GetParam(), c));
  const Mat x = random_mat(10, c.d_model, 43), zero = Mat::Zero(10, c.d_model);
  const Projection::QKV dy{random_mat(10, c.d_model, 44), random_mat(10, c.d_model, 45),
                           random_mat(10, c.d_model, 46)};
  Pass pass = training_pass(2);
  const auto kept = held.layer->make_activations();
  Projection::QKV y, y0;
  Mat dx;
  held.layer->forward(pass, zero, *kept, y0);
  held.layer->forward(pass, x, *kept, y);
  held.layer->backward(pass, x, *kept, dy, dx);
  const double expected = dot(dy.q, y.q - y0.q) + dot(dy.k, y.k - y0.k) + dot(dy.v, y.v - y0.v);
  EXPECT_NEAR(dot(dx, x), expected, 1e-5 * dx.norm() * x.norm());
}

INSTANTIATE_TEST_SUITE_P(Catalog, ProjectionTrainingTest,
                         testing::ValuesIn(implementations_of("projection")),
                         [](const auto& tested) { return tested.param; });

class CrossProjectionTrainingTest : public testing::TestWithParam<std::string> {};

TEST_P(CrossProjectionTrainingTest, ExamplesDoNotMix) {
  TrainedLayer<CrossProjection> held(make_cross_projection(GetParam(), small_config()));
  for (const std::int64_t length : {1, 2, 7}) {
    SCOPED_TRACE(length);
    expect_examples_apart(held, length);
  }
}

INSTANTIATE_TEST_SUITE_P(Catalog, CrossProjectionTrainingTest,
                         testing::ValuesIn(implementations_of("cross_projection")),
                         [](const auto& tested) { return tested.param; });

/// Paper 2.4 in so many loops, over a sequence long enough to be cut into pieces.
TEST(ConvProjectionTest, LongSequenceIsTheDefinition) {
  const ModelConfig c = small_config();
  const TrainedLayer<Projection> held(make_projection("conv", c));
  const std::int64_t length = 4000, width = c.d_model / modules_of(c);
  const Mat x = random_mat(length, c.d_model, 47);
  const Parameter &w = held.parameter("q.w"), &bias = held.parameter("q.bias");
  Mat expected(length, c.d_model);
  for (std::int64_t t = 0; t < length; ++t) {
    for (std::int64_t s = 0; s < modules_of(c); ++s) {
      Eigen::RowVectorXd sum =
          Eigen::Map<const Eigen::RowVectorXf>(bias.vector(), width).cast<double>();
      for (std::int64_t a = 0; a < c.options<ConvolutionKnobs>().kernel_size; ++a) {
        for (std::int64_t tap = 0; tap < 3; ++tap) {
          const std::int64_t from = t - (c.options<ConvolutionKnobs>().kernel_size - 1) + a,
                             module = s - 1 + tap;
          if (from < 0 || module < 0 || module >= modules_of(c)) continue;
          const Eigen::Map<const Mat> block(w.view().f32() + (a * 3 + tap) * width * width, width,
                                            width);
          sum += x.row(from).segment(module * width, width).cast<double>() * block.cast<double>();
        }
      }
      expected.row(t).segment(s * width, width) = sum.cast<float>();
    }
  }
  Pass pass = training_pass();
  const auto kept = held.layer->make_activations();
  Projection::QKV y;
  held.layer->forward(pass, x, *kept, y);
  expect_close(y.q, expected, "q");
  const Mat dq = random_mat(length, c.d_model, 48), none = Mat::Zero(length, c.d_model);
  Mat dx, linear = y.q;
  for (std::int64_t col = 0; col < c.d_model; ++col) {
    linear.col(col).array() -= bias.vector()[col % width];
  }
  held.layer->backward(pass, x, *kept, {dq, none, none}, dx);
  EXPECT_NEAR(dot(dx, x), dot(dq, linear), 1e-5 * dx.norm() * x.norm());
  // y is linear in w too.
  EXPECT_NEAR(dot(held.gradient("q.w"), w.matrix()), dot(dq, linear),
              1e-5 * held.gradient("q.w").norm() * w.matrix().norm());
}

TEST(ConvolutionTest, TapScalingStartsWithTheVarianceOfAllTaps) {
  // A value's convolution sees one module of every token, the others three.
  const std::map<std::string, std::vector<std::pair<std::string, double>>> taps = {
      {"conv", {{"q.w", 9}, {"o.w", 9}}},
      {"mult_conv", {{"q.w", 9}, {"k.w", 9}, {"v.w", 3}}},
      {"mult_conv_shared_qk", {{"qk.w", 9}, {"v.w", 3}}}};
  for (const auto& [name, weights] : taps) {
    ModelConfig c = small_config();
    set_field(c, "kernel_size", 3);
    TrainedLayer<Projection> plain(make_projection(name, c));
    set_field(c, "tap_scaling", true);
    TrainedLayer<Projection> scaled(make_projection(name, c));
    for (const auto& [weight, count] : weights) {
      expect_close(scaled.parameter(weight).matrix(),
                   plain.parameter(weight).matrix() / std::sqrt(float(count)), name + " " + weight);
    }
  }
}

/// Paper 2.5: D and E can route every input to any one output, and gradients back.
TEST(MultiplicativeTrainingTest, ReproducesAnyPermutationBothWays) {
  const std::int64_t d = 48, modules = 4, width = d / modules;
  TrainedLayer<MultiplicativeDense> held(std::make_unique<MultiplicativeDense>("m", d, modules, d));
  std::vector<std::int64_t> to;
  for (std::int64_t i = 0; i < d; ++i) to.push_back(i);
  Rng rng(3);
  for (std::uint32_t i = std::uint32_t(d); i > 1; --i) std::swap(to[i - 1], to[rng.below(i)]);
  for (std::int64_t i = 0; i < d; ++i) {
    const std::int64_t target = to[std::size_t(i)];
    held.parameter("m.bias").set(0, i, 0);
    for (std::int64_t s = 0; s < modules; ++s) {
      held.parameter("m.d").set(i, s, s == target / width ? 1.0f : 0.0f);
    }
    for (std::int64_t m = 0; m < width; ++m) {
      held.parameter("m.e").set(i, m, m == target % width ? 1.0f : 0.0f);
    }
  }
  const Mat x = random_mat(5, d, 49), dy = random_mat(5, d, 50);
  Mat y, dx, expected_y(5, d), expected_dx(5, d);
  for (std::int64_t i = 0; i < d; ++i) {
    expected_y.col(to[std::size_t(i)]) = x.col(i);
    expected_dx.col(i) = dy.col(to[std::size_t(i)]);
  }
  Pass pass = training_pass();
  MultiplicativeDense::Kept kept;
  held.layer->forward(pass, x, kept, y);
  held.layer->backward(pass, x, kept, dy, dx);
  EXPECT_EQ(y, expected_y);
  EXPECT_EQ(dx, expected_dx);
}

/// Inputs so many that the composed matrix is cut into columns, within modules too.
TEST(MultiplicativeTrainingTest, ManyColumnsAreTheDefinition) {
  const std::int64_t d = 16384, modules = 3, width = 50, positions = 3;
  TrainedLayer<MultiplicativeDense> held(
      std::make_unique<MultiplicativeDense>("m", d, modules, modules * width, false));
  const Mat x = random_mat(positions, d, 51), dy = random_mat(positions, modules * width, 52);
  const Double dm = held.parameter("m.d").matrix().cast<double>();
  const Double em = held.parameter("m.e").matrix().cast<double>();
  Double y(positions, modules * width), dx = Double::Zero(positions, d);
  Double dd = Double::Zero(d, modules), de = Double::Zero(d, width);
  for (std::int64_t s = 0; s < modules; ++s) {
    const Double scaled = x.cast<double>() * dm.col(s).asDiagonal();
    const Double back = dy.middleCols(s * width, width).cast<double>() * em.transpose();
    y.middleCols(s * width, width) = scaled * em;
    de += scaled.transpose() * dy.middleCols(s * width, width).cast<double>();
    dx += back * dm.col(s).asDiagonal();
    dd.col(s) = x.cast<double>().cwiseProduct(back).colwise().sum().transpose();
  }
  Pass pass = training_pass();
  MultiplicativeDense::Kept kept;
  Mat ours, ours_dx;
  held.layer->forward(pass, x, kept, ours);
  held.layer->backward(pass, x, kept, dy, ours_dx);
  expect_close(ours, y.cast<float>(), "y");
  expect_close(ours_dx, dx.cast<float>(), "dx");
  expect_close(held.gradient("m.d"), dd.cast<float>(), "dD");
  expect_close(held.gradient("m.e"), de.cast<float>(), "dE");
  held.layer->backward(pass, x, kept, dy, ours_dx, /*accumulate=*/true);
  expect_close(ours_dx, (2 * dx).cast<float>(), "dx twice");
  expect_close(held.gradient("m.d"), (2 * dd).cast<float>(), "dD twice");
}

struct AttentionResult {
  Mat o, dq, dk, dv;
};

AttentionResult attend(const SelfAttention& layer, Pass pass, const Mat& q, const Mat& k,
                       const Mat& v, const AttentionMask& mask, const Mat& dout) {
  AttentionResult r;
  const auto kept = layer.make_activations();
  layer.forward(pass, q, k, v, mask, *kept, r.o);
  layer.backward(pass, q, k, v, mask, *kept, dout, r.dq, r.dk, r.dv);
  return r;
}

/// Paper 4.1 for one example in double precision, a logit of padding replaced by -1e9.
AttentionResult attend_plainly(std::int64_t heads, const Mat& q, const Mat& k, const Mat& v,
                               const AttentionMask& mask, const Mat& dout) {
  const std::int64_t d_head = q.cols() / heads;
  const double scale = 1 / std::sqrt(double(d_head));
  AttentionResult r{Mat(q.rows(), q.cols()), Mat(q.rows(), q.cols()), Mat(k.rows(), k.cols()),
                    Mat(k.rows(), k.cols())};
  for (std::int64_t h = 0; h < heads; ++h) {
    const auto head = [&](const Mat& m) -> Double {
      return m.middleCols(h * d_head, d_head).cast<double>();
    };
    Double a = head(q) * head(k).transpose() * scale;
    Double passes = Double::Ones(a.rows(), a.cols());
    for (std::int64_t t = 0; t < a.rows(); ++t) {
      for (std::int64_t j = 0; j < a.cols(); ++j) {
        const bool is_future = mask.causal && j > t;
        const bool is_padding = mask.keys && mask.keys[j] == 0;
        if (!is_future && !is_padding) continue;
        a(t, j) = is_future ? -2e9 : -1e9;
        passes(t, j) = 0;
      }
      a.row(t) = (a.row(t).array() - a.row(t).maxCoeff()).exp().matrix().eval();
      a.row(t) /= a.row(t).sum();
    }
    const Double da = head(dout) * head(v).transpose();
    const Eigen::VectorXd mean = a.cwiseProduct(da).rowwise().sum();
    const Double centred = da.colwise() - mean;
    const Double ds = a.cwiseProduct(centred).cwiseProduct(passes) * scale;
    r.o.middleCols(h * d_head, d_head) = (a * head(v)).cast<float>();
    r.dq.middleCols(h * d_head, d_head) = (ds * head(k)).cast<float>();
    r.dk.middleCols(h * d_head, d_head) = (ds.transpose() * head(q)).cast<float>();
    r.dv.middleCols(h * d_head, d_head) = (a.transpose() * head(dout)).cast<float>();
  }
  return r;
}

struct AttentionInput {
  Mat q, k, v, dout;
  AttentionInput(std::int64_t queries, std::int64_t keys, std::int64_t d)
      : q(random_mat(queries, d, 60)),
        k(random_mat(keys, d, 61)),
        v(random_mat(keys, d, 62)),
        dout(random_mat(queries, d, 63)) {}
};

class AttentionTrainingTest : public testing::TestWithParam<std::string> {};

/// Two examples of different padding, longer than the queries that go through at once.
TEST_P(AttentionTrainingTest, BatchIsTheDefinitionOfEachExample) {
  const ModelConfig c = small_config();
  const auto layer = make_attention(GetParam(), c);
  const std::int64_t queries = 130;
  for (const bool causal : {false, true}) {
    for (const bool padded : {false, true}) {
      SCOPED_TRACE(std::string(causal ? "causal" : "all") + (padded ? " padded" : ""));
      const std::int64_t keys = causal ? queries : 75;
      const AttentionInput in(2 * queries, 2 * keys, c.d_model);
      std::vector<std::uint8_t> seen(std::size_t(2 * keys), 1);
      for (std::int64_t j = 0; j < keys; ++j) {
        seen[std::size_t(j)] = j < 70;                      // the first ends early
        seen[std::size_t(keys + j)] = j % 5 != 3 && j > 0;  // the second has holes
      }
      const AttentionMask mask{causal, padded ? seen.data() : nullptr};
      const AttentionResult both =
          attend(*layer, training_pass(2), in.q, in.k, in.v, mask, in.dout);
      for (std::int64_t example = 0; example < 2; ++example) {
        const AttentionMask own{causal, padded ? seen.data() + example * keys : nullptr};
        const auto q_rows = [&](const Mat& m) -> Mat {
          return m.middleRows(example * queries, queries);
        };
        const auto k_rows = [&](const Mat& m) -> Mat { return m.middleRows(example * keys, keys); };
        const AttentionResult expected = attend_plainly(c.n_heads, q_rows(in.q), k_rows(in.k),
                                                        k_rows(in.v), own, q_rows(in.dout));
        expect_close(q_rows(both.o), expected.o, "o");
        expect_close(q_rows(both.dq), expected.dq, "dq");
        expect_close(k_rows(both.dk), expected.dk, "dk");
        expect_close(k_rows(both.dv), expected.dv, "dv");
        for (std::int64_t j = 0; padded && j < keys; ++j) {
          if (own.keys[j]) continue;
          EXPECT_TRUE(k_rows(both.dk).row(j).isZero(0)) << j;
          // The second's first key is the only one that its first causal query may look at.
          if (causal && example == 1 && j == 0) continue;
          EXPECT_TRUE(k_rows(both.dv).row(j).isZero(0)) << j;
        }
      }
    }
  }
}

TEST_P(AttentionTrainingTest, PaddedKeysMightAsWellBeAbsent) {
  const ModelConfig c = small_config();
  const auto layer = make_attention(GetParam(), c);
  const AttentionInput in(4, 9, c.d_model);
  const std::vector<std::uint8_t> seen = {1, 1, 1, 1, 1, 1, 0, 0, 0};
  const AttentionResult padded =
      attend(*layer, training_pass(), in.q, in.k, in.v, {false, seen.data()}, in.dout);
  const AttentionResult cut =
      attend(*layer, training_pass(), in.q, in.k.topRows(6), in.v.topRows(6), {}, in.dout);
  expect_close(padded.o, cut.o, "o");
  expect_close(padded.dq, cut.dq, "dq");
  expect_close(padded.dk.topRows(6), cut.dk, "dk");
  expect_close(padded.dv.topRows(6), cut.dv, "dv");
}

TEST_P(AttentionTrainingTest, NothingButPaddingIsAveraged) {
  const ModelConfig c = small_config();
  const auto layer = make_attention(GetParam(), c);
  const AttentionInput in(3, 5, c.d_model);
  const std::vector<std::uint8_t> seen(5, 0);
  const AttentionResult r =
      attend(*layer, training_pass(), in.q, in.k, in.v, {false, seen.data()}, in.dout);
  expect_close(r.o, in.v.colwise().mean().replicate(3, 1), "o");
  EXPECT_TRUE(r.dq.isZero(0));
  EXPECT_TRUE(r.dk.isZero(0));
  EXPECT_TRUE(r.dv.allFinite());
}

TEST_P(AttentionTrainingTest, LooksAtNoLaterPosition) {
  const ModelConfig c = small_config();
  const auto layer = make_attention(GetParam(), c);
  const std::int64_t length = 80, same = 66;
  AttentionInput in(length, length, c.d_model);
  const AttentionResult before =
      attend(*layer, training_pass(), in.q, in.k, in.v, {.causal = true}, in.dout);
  for (Mat* m : {&in.q, &in.k, &in.v}) m->bottomRows(length - same) *= -2;
  const AttentionResult after =
      attend(*layer, training_pass(), in.q, in.k, in.v, {.causal = true}, in.dout);
  EXPECT_TRUE(equal(before.o.topRows(same), after.o.topRows(same)));
  EXPECT_FALSE(equal(before.o.row(same), after.o.row(same)));
}

/// o is linear in v whatever is dropped, if backward drops the same.
TEST_P(AttentionTrainingTest, DropoutIsRepeatedInBackward) {
  const ModelConfig c = small_config();
  const auto layer = make_attention(GetParam(), c);
  const AttentionInput in(2 * 70, 2 * 70, c.d_model);
  Pass pass = training_pass(2);
  const AttentionResult kept_all =
      attend(*layer, pass, in.q, in.k, in.v, {.causal = true}, in.dout);
  pass.dropout = 0.3f;
  const AttentionResult dropped = attend(*layer, pass, in.q, in.k, in.v, {.causal = true}, in.dout);
  EXPECT_GT((dropped.o - kept_all.o).norm(), 0.1f * kept_all.o.norm());
  EXPECT_NEAR(dot(in.dout, dropped.o), dot(dropped.dv, in.v),
              1e-5 * dropped.dv.norm() * in.v.norm());
  // The same stream drops the same, another one other things, and evaluation nothing.
  const auto o_of = [&] {
    return attend(*layer, pass, in.q, in.k, in.v, {.causal = true}, in.dout).o;
  };
  EXPECT_TRUE(equal(o_of(), dropped.o));
  pass.streams = 5;
  EXPECT_FALSE(equal(o_of(), dropped.o));
  pass.training = false;
  EXPECT_TRUE(equal(o_of(), kept_all.o));
}

// lsh, which sees other keys, is held to its own definition in lsh_attention_test.
INSTANTIATE_TEST_SUITE_P(Catalog, AttentionTrainingTest, testing::Values("full"),
                         [](const auto& tested) { return tested.param; });

class LossTrainingTest : public testing::TestWithParam<std::string> {};

/// More rows than have logits at once.
TEST_P(LossTrainingTest, CrossEntropyInPiecesIsThatOfAllLogits) {
  const ModelConfig c = small_config();
  TrainedLayer<Loss> held(make_loss(GetParam(), c));
  const std::int64_t rows = 1100;
  const float scale = 0.25f;
  const Mat x = random_mat(rows, c.d_model, 70);
  std::vector<int> targets;
  std::vector<float> weights;
  for (std::int64_t i = 0; i < rows; ++i) {
    targets.push_back(int(i * 7 % c.vocab_size));
    weights.push_back(i % 3 == 0 ? 0.0f : i % 3 == 1 ? 1.0f : 0.5f);
  }
  Pass pass = training_pass();
  const auto kept = held.layer->make_activations(), whole = held.layer->make_activations();
  Mat logits, dx, expected_dx;
  held.layer->forward(pass, x, *whole, logits);
  double loss = 0, weight = 0, correct = 0;
  Mat dlogits(rows, c.vocab_size);
  for (std::int64_t i = 0; i < rows; ++i) {
    const double w = weights[std::size_t(i)];
    const std::int64_t target = targets[std::size_t(i)];
    const Eigen::ArrayXd z = logits.row(i).cast<double>().transpose().array();
    const double log_sum = z.maxCoeff() + std::log((z - z.maxCoeff()).exp().sum());
    loss += w * (log_sum - z(target));
    weight += w;
    std::int64_t best = 0;
    z.maxCoeff(&best);
    correct += best == target ? w : 0;
    Eigen::ArrayXd g = (z - log_sum).exp();
    g(target) -= 1;
    dlogits.row(i) = (g * w * double(scale)).matrix().transpose().cast<float>();
  }
  held.layer->backward(pass, x, *whole, dlogits, expected_dx);
  const std::vector<Mat> expected = gradients_of(held);
  held.zero_gradients();
  const CrossEntropy sums =
      held.layer->cross_entropy(pass, x, targets.data(), weights.data(), scale, *kept, &dx);
  EXPECT_NEAR(sums.loss, loss, 1e-5 * loss);
  EXPECT_NEAR(sums.weight, weight, 1e-6 * weight);
  EXPECT_EQ(sums.correct, correct);
  expect_close(dx, expected_dx, "dx");
  const std::vector<Mat> ours = gradients_of(held);
  for (std::size_t i = 0; i < ours.size(); ++i) {
    expect_close(ours[i], expected[i], held.parameters[i]->name);
  }
  // The last piece's gradients are still where its logits were.
  const Mat& last = static_cast<const LossActivations&>(*kept).logits;
  EXPECT_LE(last.rows(), 512);
  EXPECT_LT(last.rows(), rows);
  EXPECT_LE(last.rowwise().sum().cwiseAbs().maxCoeff(), 1e-6f);
  EXPECT_GT(last.cwiseAbs().maxCoeff(), 1e-2f);
  const CrossEntropy evaluated =
      held.layer->cross_entropy(pass, x, targets.data(), weights.data(), scale, *kept, nullptr);
  EXPECT_EQ(evaluated.loss, sums.loss);
  EXPECT_TRUE(gradients_of(held) == ours);
}

INSTANTIATE_TEST_SUITE_P(Catalog, LossTrainingTest, testing::ValuesIn(implementations_of("loss")),
                         [](const auto& tested) { return tested.param; });

}  // namespace
}  // namespace scaling
