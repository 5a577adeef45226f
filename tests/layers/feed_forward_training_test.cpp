// Sparse and mixture-of-experts feed-forward in training: the reference's formulas written out in
// double precision, the statistics of the draws, and the selectors that are never trained.
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "kernels/check.h"
#include "models/layers/feed_forward/moe.h"
#include "models/layers/feed_forward/sparse.h"
#include "tests/layers/layer_harness.h"
#include "tests/training/training_harness.h"

namespace scaling {
namespace {

using MatD = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Trained = TrainedLayer<FeedForward>;

constexpr std::int64_t kRows = 10;

ModelConfig config_with(double hard_probability, double noise = -1) {
  ModelConfig c = small_config();
  set_field(c, "hard_probability", hard_probability);
  set_field(c, "selection_noise", noise);
  return c;
}

Trained trained(const std::string& name, const ModelConfig& c) {
  return Trained(make_feed_forward(name, c));
}

MatD value(const Trained& held, const std::string& name) {
  return held.parameter(name).matrix().cast<double>();
}

bool has(const Trained& held, const std::string& name) {
  return std::any_of(held.parameters.begin(), held.parameters.end(),
                     [&](const Parameter* p) { return p->name == name; });
}

/// Softmax of every n columns.
MatD softmax(MatD z, std::int64_t n) {
  for (std::int64_t t = 0; t < z.rows(); ++t) {
    for (std::int64_t first = 0; first < z.cols(); first += n) {
      auto block = z.row(t).segment(first, n).array();
      block = (block - block.maxCoeff()).exp().eval();
      block /= block.sum();
    }
  }
  return z;
}

/// One at the chosen column of every n.
MatD onehot(const std::vector<std::int32_t>& chosen, std::int64_t rows, std::int64_t n) {
  const std::int64_t blocks = std::int64_t(chosen.size()) / rows;
  MatD m = MatD::Zero(rows, blocks * n);
  for (std::int64_t i = 0; i < rows * blocks; ++i) {
    m(i / blocks, i % blocks * n + chosen[std::size_t(i)]) = 1;
  }
  return m;
}

enum class Mask { hard, soft, scaled };  // straight-through; softmax; Switch

struct Naive {
  MatD p, y, dx;
  std::map<std::string, MatD> gradients;
};

/// Paper 1.2 and 1.3 line by line. choices: onehot of what was chosen among every n.
Naive naive(const Trained& held, const Mat& x_, const Mat& dy_, const MatD& choices, Mask kind,
            std::int64_t n, bool learns = true) {
  const MatD x = x_.cast<double>(), dy = dy_.cast<double>();
  const MatD w1 = value(held, "w1"), w2 = value(held, "w2");
  const bool is_moe = has(held, "router"), has_controller = has(held, "c1");
  MatD hidden, z = MatD::Zero(choices.rows(), choices.cols());
  if (is_moe) z = x * value(held, "router").transpose();
  if (has_controller) {
    hidden = x * value(held, "c1").transpose();
    z = hidden * value(held, "c2");
    z.rowwise() += value(held, "controller_bias").row(0);
  }
  Naive all;
  all.p = softmax(z, n);
  const MatD m = kind == Mask::hard   ? choices
                 : kind == Mask::soft ? all.p
                                      : MatD(choices.cwiseProduct(all.p));
  // From choices to neurons: themselves, or every expert's slice.
  const std::int64_t width = w1.rows() / choices.cols();
  MatD expand = MatD::Zero(choices.cols(), w1.rows());
  for (std::int64_t j = 0; j < w1.rows(); ++j) expand(j / width, j) = 1;
  const MatD mask = m * expand;
  MatD u = x * w1.transpose();
  if (has(held, "b1")) u.rowwise() += value(held, "b1").row(0);
  const MatD mid = u.cwiseProduct(mask), h = mid.cwiseMax(0.0);
  all.y = h * w2;
  all.y.rowwise() += value(held, "b2").row(0);

  const MatD dh = dy * w2.transpose();
  const MatD dmid = (mid.array() > 0).select(dh, 0.0);
  const MatD du = dmid.cwiseProduct(mask);
  MatD dp = dmid.cwiseProduct(u) * expand.transpose();
  if (kind == Mask::scaled) dp = dp.cwiseProduct(choices).eval();
  MatD dz = all.p.cwiseProduct(dp);
  for (std::int64_t first = 0; first < dz.cols(); first += n) {
    const Eigen::VectorXd sum = dz.middleCols(first, n).rowwise().sum();
    dz.middleCols(first, n).array() -= all.p.middleCols(first, n).array().colwise() * sum.array();
  }
  all.dx = du * w1;
  all.gradients["w1"] = du.transpose() * x;
  all.gradients["w2"] = h.transpose() * dy;
  all.gradients["b1"] = du.colwise().sum();
  all.gradients["b2"] = dy.colwise().sum();
  if (!learns) return all;
  if (is_moe) {
    all.gradients["router"] = dz.transpose() * x;
    all.dx += dz * value(held, "router");
  } else {
    const MatD dhidden = dz * value(held, "c2").transpose();
    all.gradients["controller_bias"] = dz.colwise().sum();
    all.gradients["c2"] = hidden.transpose() * dz;
    all.gradients["c1"] = dhidden.transpose() * x;
    all.dx += dhidden * value(held, "c1");
  }
  return all;
}

/// A forward and a backward of random rows.
struct Outcome {
  Outcome(Trained& held, Pass& pass, std::int64_t rows = kRows)
      : x(random_mat(rows, 48, 3)),
        dy(random_mat(rows, 48, 4)),
        dx(Mat::Constant(rows, 48, 1e30f)),
        kept(held.layer->make_activations()) {
    held.zero_gradients();
    held.layer->forward(pass, x, *kept, y);
    held.layer->backward(pass, x, *kept, dy, dx);
  }
  const SparseFeedForward::Kept& sparse() const {
    return static_cast<const SparseFeedForward::Kept&>(*kept);
  }
  const MoeFeedForward::Kept& moe() const {
    return static_cast<const MoeFeedForward::Kept&>(*kept);
  }

  Mat x, dy, y, dx;
  std::unique_ptr<Activations> kept;
};

void expect_naive(const Trained& held, const Outcome& run, const Naive& expected) {
  expect_close(run.y, expected.y.cast<float>(), "y");
  expect_close(run.dx, expected.dx.cast<float>(), "dx");
  for (const Parameter* p : held.parameters) {
    if (p->is_frozen) continue;
    expect_close(held.gradient(p->name), expected.gradients.at(p->name).cast<float>(), p->name);
  }
}

TEST(SparseTrainingTest, HardAndSoftCallsAreTheReferencesFormulas) {
  for (const bool b1 : {false, true}) {
    for (const bool hard : {false, true}) {
      SCOPED_TRACE(std::string(b1 ? "b1 " : "") + (hard ? "hard" : "soft"));
      ModelConfig c = config_with(hard ? 1 : 0);
      set_field(c, "feed_forward_bias", b1);
      Trained held = trained("sparse", c);
      Pass pass = training_pass(2);
      const Outcome run(held, pass);
      ASSERT_EQ(run.sparse().is_hard, hard);
      expect_naive(held, run,
                   naive(held, run.x, run.dy, onehot(run.sparse().chosen, kRows, sparsity_of(c)),
                         hard ? Mask::hard : Mask::soft, sparsity_of(c)));
    }
  }
}

TEST(MoeTrainingTest, BlockAndSwitchAreTheReferencesFormulas) {
  for (const bool hard : {false, true}) {
    for (const char* name : {"moe_block", "moe_switch"}) {
      SCOPED_TRACE(std::string(name) + (hard ? " hard" : " soft"));
      const ModelConfig c = config_with(hard ? 1 : 0);
      const bool is_switch = name == std::string("moe_switch");
      Trained held = trained(name, c);
      Pass pass = training_pass(2);
      const Outcome run(held, pass);
      EXPECT_EQ(run.moe().is_hard, hard || is_switch);
      expect_naive(held, run,
                   naive(held, run.x, run.dy, onehot(run.moe().chosen, kRows, experts_of(c)),
                         is_switch ? Mask::scaled
                         : hard    ? Mask::hard
                                   : Mask::soft,
                         experts_of(c)));
    }
  }
}

TEST(SparseTrainingTest, BackwardAddsToGradientsAndOverwritesDx) {
  const ModelConfig c = config_with(1);
  Trained held = trained("sparse", c);
  Pass pass = training_pass();
  Outcome run(held, pass);
  const Mat once = held.gradient("c1"), dx = run.dx;
  held.layer->backward(pass, run.x, *run.kept, run.dy, run.dx);
  expect_close(held.gradient("c1"), 2 * once, "c1");
  EXPECT_EQ(run.dx, dx);
}

/// A dense feed-forward, whose controller learns nothing; evaluation chooses all the same.
TEST(SparseTrainingTest, APassOfAllNeuronsChoosesNone) {
  for (const char* selector : {"learned", "random", "hash"}) {
    SCOPED_TRACE(selector);
    ModelConfig c = small_config();
    set_field(c, "selector", selector);
    set_field(c, "feed_forward_bias", true);
    set_field(c, "selection_balance", 1.0);
    Trained held = trained("sparse", c);
    Pass pass = training_pass(2);
    pass.all_neurons = true;
    const Outcome run(held, pass);
    EXPECT_EQ(pass.extra_loss, 0);
    const Naive expected = naive(held, run.x, run.dy, MatD::Ones(kRows, c.d_ff), Mask::hard,
                                 sparsity_of(c), /*learns=*/false);
    expect_close(run.y, expected.y.cast<float>(), "y");
    expect_close(run.dx, expected.dx.cast<float>(), "dx");
    for (const Parameter* p : held.parameters) {
      if (p->is_frozen) continue;
      if (p->role == Role::selector) {
        EXPECT_TRUE(held.gradient(p->name).isZero(0)) << p->name;
      } else {
        expect_close(held.gradient(p->name), expected.gradients.at(p->name).cast<float>(), p->name);
      }
    }

    const std::vector<int> ids(kRows, 7);
    Mat evaluated, chosen;
    pass.training = false;
    pass.ids = ids.data();
    held.layer->forward(pass, run.x, *run.kept, evaluated);
    pass.all_neurons = false;
    held.layer->forward(pass, run.x, *held.layer->make_activations(), chosen);
    EXPECT_EQ(evaluated, chosen);
  }
}

TEST(SparseTrainingTest, HardCallTeachesOnlyChosenAndActiveNeurons) {
  const ModelConfig c = config_with(1);
  const std::int64_t n = sparsity_of(c);
  Trained held = trained("sparse", c);
  Pass pass = training_pass();
  const Outcome run(held, pass, 1);
  const Mat bias = held.gradient("controller_bias"), w1 = held.gradient("w1");
  std::int64_t active = 0;
  for (std::int64_t b = 0; b < c.d_ff / n; ++b) {
    const std::int64_t k = b * n + run.sparse().chosen[std::size_t(b)];
    const bool is_active = run.sparse().active(0, b) > 0;
    active += is_active;
    for (std::int64_t j = b * n; j < (b + 1) * n; ++j) {
      EXPECT_EQ(w1.row(j).squaredNorm() > 0, is_active && j == k) << j;
      const float p = run.sparse().p(0, j), p_k = run.sparse().p(0, k);
      // All that comes in through k's probability: signal * (onehot - p).
      if (!is_active) {
        EXPECT_EQ(bias(0, j), 0.0f) << j;
      } else if (j != k) {
        EXPECT_NEAR(bias(0, j), -bias(0, k) * p / (1 - p_k), 1e-5f) << j;
      } else {
        EXPECT_NE(bias(0, j), 0.0f) << j;
      }
    }
  }
  EXPECT_GT(active, 0);
  EXPECT_LT(active, c.d_ff / n);
}

TEST(SparseTrainingTest, EvaluationTakesTheLargestLogitWhateverTheKnobs) {
  for (const double noise : {0.0, 5.0}) {
    const ModelConfig c = config_with(0, noise);
    Trained held = trained("sparse", c);
    const Mat x = random_mat(kRows, c.d_model, 3);
    const auto* sparse = dynamic_cast<const SparseFeedForward*>(held.layer.get());
    const Mat z = sparse->controller_logits(x);
    std::vector<std::int32_t> best;
    for (std::int64_t i = 0; i < kRows * c.d_ff / sparsity_of(c); ++i) {
      const float* block = z.data() + i * sparsity_of(c);
      best.push_back(std::int32_t(std::max_element(block, block + sparsity_of(c)) - block));
    }
    const Naive expected =
        naive(held, x, x, onehot(best, kRows, sparsity_of(c)), Mask::hard, sparsity_of(c));
    expect_close(held.layer->forward(x), expected.y.cast<float>(), "y");
  }
}

TEST(SparseTrainingTest, WithoutNoiseAHardCallIsEvaluation) {
  for (const char* name : {"sparse", "moe_block", "moe_switch"}) {
    Trained held = trained(name, config_with(1, 0));
    Pass pass = training_pass();
    const Outcome run(held, pass);
    EXPECT_EQ(run.y, held.layer->forward(run.x)) << name;
  }
}

/// Share of 2000 calls.
double share_of_hard_calls(const std::string& name, double knob) {
  Trained held = trained(name, config_with(knob));
  Pass pass = training_pass();
  const auto kept = held.layer->make_activations();
  const Mat x = random_mat(1, 48, 3);
  Mat y;
  int hard = 0;
  for (int call = 0; call < 2000; ++call) {
    held.layer->forward(pass, x, *kept, y);
    hard += name == "sparse" ? static_cast<SparseFeedForward::Kept&>(*kept).is_hard
                             : static_cast<MoeFeedForward::Kept&>(*kept).is_hard;
  }
  return hard / 2000.0;
}

TEST(SparseTrainingTest, CallsAreHardAsOftenAsTheReferenceOrTheKnobSays) {
  // Five standard deviations of 2000 draws.
  EXPECT_NEAR(share_of_hard_calls("sparse", -1), 0.3, 0.052);
  EXPECT_NEAR(share_of_hard_calls("sparse", 0.8), 0.8, 0.045);
  EXPECT_EQ(share_of_hard_calls("sparse", 0), 0.0);
  EXPECT_EQ(share_of_hard_calls("sparse", 1), 1.0);
  EXPECT_NEAR(share_of_hard_calls("moe_block", -1), 0.5, 0.056);
  EXPECT_EQ(share_of_hard_calls("moe_switch", -1), 1.0);
}

TEST(SparseTrainingTest, APassMayHaveItsOwnShareOfHardCalls) {
  for (const std::string name : {"sparse", "moe_block", "moe_switch"}) {
    for (const double share : {0.0, 1.0}) {
      // The knob says the contrary, then the same: values and gradients do not see it.
      Trained other = trained(name, config_with(1 - share)),
              same = trained(name, config_with(share));
      Pass annealed = training_pass(), pass = training_pass();
      annealed.hard_share = share;
      const Outcome a(other, annealed), b(same, pass);
      EXPECT_EQ(a.kept->is_hard, share == 1 || name == "moe_switch") << name;
      EXPECT_EQ(a.y, b.y) << name;
      EXPECT_EQ(a.dx, b.dx) << name;
      for (const Parameter* p : other.parameters) {
        EXPECT_EQ(other.gradient(p->name), same.gradient(p->name)) << name << " " << p->name;
      }
    }
  }
}

TEST(SparseTrainingTest, SelectorsAndWhatTheySelectAreMarked) {
  const auto marked = [](const std::string& name, Role role) {
    std::set<std::string> names;
    const Trained held = trained(name, small_config());
    for (const Parameter* p : held.parameters) {
      if (p->role == role) names.insert(p->name);
    }
    return names;
  };
  using Names = std::set<std::string>;
  EXPECT_EQ(marked("sparse", Role::selector), (Names{"c1", "c2", "controller_bias"}));
  EXPECT_EQ(marked("sparse", Role::selected), (Names{"w1", "w2"}));
  for (const char* name : {"moe_block", "moe_switch"}) {
    EXPECT_EQ(marked(name, Role::selector), Names{"router"});
    EXPECT_EQ(marked(name, Role::selected), (Names{"w1", "w2"}));
  }
  EXPECT_EQ(marked("dense", Role::selector), Names{});
  EXPECT_EQ(marked("dense", Role::selected), Names{});
}

TEST(SparseTrainingTest, NoiseChoosesWithTheProbabilitiesOfTheLogitsOverTau) {
  constexpr std::int64_t kDraws = 4000;
  for (const double tau : {-1.0, 0.1, 1.0}) {
    const ModelConfig c = config_with(1, tau);
    Trained held = trained("sparse", c);
    const Mat x = random_mat(1, c.d_model, 3).replicate(kDraws, 1);
    Pass pass = training_pass();
    const auto kept = held.layer->make_activations();
    Mat y;
    held.layer->forward(pass, x, *kept, y);
    const auto& own = static_cast<const SparseFeedForward::Kept&>(*kept);
    const auto* sparse = dynamic_cast<const SparseFeedForward*>(held.layer.get());
    const MatD z = sparse->controller_logits(x.topRows(1)).cast<double>();
    const MatD p = softmax(z / (tau < 0 ? 0.1 : tau), sparsity_of(c));
    const MatD seen = onehot(own.chosen, kDraws, sparsity_of(c)).colwise().mean();
    for (std::int64_t j = 0; j < c.d_ff; ++j) {
      const double sd = std::sqrt(p(0, j) * (1 - p(0, j)) / double(kDraws));
      EXPECT_NEAR(seen(0, j), p(0, j), 5 * sd + 1e-3) << "tau " << tau << " neuron " << j;
    }
  }
}

TEST(SparseTrainingTest, ReplayRepeatsTheDecisions) {
  for (const double hard : {0.0, 1.0}) {
    for (const char* name : {"sparse", "moe_block", "moe_switch"}) {
      Trained held = trained(name, config_with(hard, 2));
      Pass pass = training_pass();
      Outcome run(held, pass);
      const Mat first = run.y;
      Mat y;
      Pass other = training_pass(1, /*seed=*/99);
      other.recomputes = true;
      held.layer->forward(other, run.x, *run.kept, y);
      EXPECT_EQ(y, first) << name;
    }
  }
}

TEST(SparseTrainingTest, EntropyIsThatOfTheSoftmax) {
  const ModelConfig c = config_with(0);
  Trained held = trained("sparse", c);
  Pass pass = training_pass();
  const Outcome run(held, pass);
  const MatD p =
      naive(held, run.x, run.dy, MatD::Zero(kRows, c.d_ff), Mask::soft, sparsity_of(c)).p;
  const std::int64_t blocks = kRows * c.d_ff / sparsity_of(c);
  const double expected = -(p.array() * p.array().log()).sum() / double(blocks);
  EXPECT_NEAR(held.layer->selection_entropy(*run.kept), expected, 1e-5);
  pass.training = false;
  Mat y;
  held.layer->forward(pass, run.x, *run.kept, y);
  EXPECT_NEAR(held.layer->selection_entropy(*run.kept), expected, 1e-5);

  const auto dense = make_feed_forward("dense", c);
  EXPECT_TRUE(std::isnan(dense->selection_entropy(*dense->make_activations())));
}

TEST(SparseTrainingTest, KernelScalingStartsW2LargerByTheRootOfN) {
  ModelConfig c = small_config();
  const Mat plain = trained("sparse", c).parameter("w2").matrix();
  set_field(c, "kernel_scaling", true);
  const Mat large = trained("sparse", c).parameter("w2").matrix();
  expect_close(large, plain * std::sqrt(float(sparsity_of(c))), "w2");
}

std::int64_t parameter_count(FeedForward& layer) {
  std::int64_t n = 0;
  layer.visit_parameters([&](Parameter& p) { n += p.count(); });
  return n;
}

ModelConfig config_of_selector(const std::string& selector) {
  ModelConfig c = small_config();
  set_field(c, "selector", selector);
  return c;
}

std::vector<int> some_ids(std::int64_t n, std::uint64_t stream) {
  Rng rng(9, stream);
  std::vector<int> ids;
  for (std::int64_t i = 0; i < n; ++i) ids.push_back(int(rng.below(60)));
  return ids;
}

TEST(SelectorTest, CountsAndCosts) {
  const ModelConfig c = small_config();
  const std::int64_t r = c.options<SparseKnobs>().d_lowrank,
                     controller = c.d_model * r + r * c.d_ff + c.d_ff;
  const auto learned = make_feed_forward("sparse", config_of_selector("learned"));
  const auto random = make_feed_forward("sparse", config_of_selector("random"));
  const auto hash = make_feed_forward("sparse", config_of_selector("hash"));
  EXPECT_EQ(parameter_count(*random), parameter_count(*learned));
  EXPECT_EQ(parameter_count(*hash), parameter_count(*learned) - controller);
  for (const int tokens : {1, 3}) {
    const Phase all = total(learned->step_cost(tokens, WeightType::f32));
    const Phase same = total(random->step_cost(tokens, WeightType::f32));
    const Phase less = total(hash->step_cost(tokens, WeightType::f32));
    EXPECT_EQ(same.weights, all.weights);
    EXPECT_DOUBLE_EQ(less.weights, all.weights - double(controller));
    EXPECT_DOUBLE_EQ(less.flops,
                     all.flops - 2.0 * double(tokens) * double(r * (c.d_model + c.d_ff)));
  }
}

TEST(SelectorTest, UntrainedSelectorsAreHardNoiselessAndOutOfTheGradient) {
  for (const char* selector : {"random", "hash"}) {
    SCOPED_TRACE(selector);
    ModelConfig c = config_of_selector(selector);
    set_field(c, "hard_probability", 0);
    set_field(c, "selection_noise", 5);
    set_field(c, "feed_forward_bias", true);
    Trained held = trained("sparse", c);
    for (const char* name : {"c1", "c2", "controller_bias"}) {
      EXPECT_EQ(has(held, name), selector == std::string("random"));
      if (has(held, name)) {
        EXPECT_EQ(held.parameter(name).gradient, nullptr);
      }
    }
    const std::vector<int> ids = some_ids(kRows, 0);
    Pass pass = training_pass();
    pass.ids = ids.data();
    const Outcome run(held, pass);
    EXPECT_TRUE(run.sparse().is_hard);
    expect_naive(held, run,
                 naive(held, run.x, run.dy, onehot(run.sparse().chosen, kRows, sparsity_of(c)),
                       Mask::hard, sparsity_of(c), /*learns=*/false));
    EXPECT_TRUE(std::isnan(held.layer->selection_entropy(*run.kept)));
    pass.training = false;
    Mat y;
    held.layer->forward(pass, run.x, *run.kept, y);
    EXPECT_EQ(y, run.y);
  }
}

TEST(SelectorTest, RandomControllerSpreadsItsChoices) {
  const ModelConfig c = config_of_selector("random");
  const Trained held(make_feed_forward("sparse", c), 1, /*bias_range=*/0);
  const auto kept = held.layer->make_activations();
  Pass pass = training_pass();
  const Mat x = random_mat(500, c.d_model, 3);
  Mat y;
  held.layer->forward(pass, x, *kept, y);
  const auto& own = static_cast<const SparseFeedForward::Kept&>(*kept);
  const MatD share = onehot(own.chosen, 500, sparsity_of(c)).colwise().mean();
  EXPECT_LT(share.maxCoeff(), 0.6);
  EXPECT_GT((share.array() > 0.01).count(), c.d_ff / 2);
}

TEST(SelectorTest, HashDependsOnTokenAndBlockAndIsUniform) {
  constexpr std::int64_t kIds = 2000;
  const ModelConfig c = config_of_selector("hash");
  Trained held = trained("sparse", c);
  std::vector<int> ids(kIds);
  std::iota(ids.begin(), ids.end(), 0);
  ids.back() = 7;
  Pass pass = training_pass();
  pass.ids = ids.data();
  const auto kept = held.layer->make_activations();
  const Mat x = random_mat(kIds, c.d_model, 3);
  Mat y;
  held.layer->forward(pass, x, *kept, y);
  const auto& selected = static_cast<const SparseFeedForward::Kept&>(*kept).chosen;
  const std::int64_t blocks = c.d_ff / sparsity_of(c);
  const auto row = [&](std::int64_t t) {
    return std::vector<std::int32_t>(selected.begin() + t * blocks,
                                     selected.begin() + (t + 1) * blocks);
  };
  EXPECT_EQ(row(kIds - 1), row(7));
  EXPECT_NE(row(8), row(7));
  std::set<std::int32_t> first_row;
  for (const std::int32_t k : row(7)) first_row.insert(k);
  EXPECT_GT(first_row.size(), 2u);
  // Each neuron in 1 of N tokens, within five standard deviations.
  const double expected = 1 / double(sparsity_of(c));
  const double sd = std::sqrt(expected * (1 - expected) / double(kIds));
  const MatD share = onehot(selected, kIds, sparsity_of(c)).colwise().mean();
  EXPECT_LT((share.array() - expected).abs().maxCoeff(), 5 * sd);

  ModelConfig reseeded = c;
  reseeded.seed = 2;
  const Trained other = trained("sparse", reseeded);
  const std::vector<std::int32_t> before = selected;
  other.layer->forward(pass, x, *kept, y);
  EXPECT_NE(selected, before);
}

TEST(SelectorTest, StepIsForward) {
  constexpr std::int64_t kPositions = 6;
  for (const char* selector : {"learned", "random", "hash"}) {
    for (const WeightType type : {WeightType::f32, WeightType::bf16}) {
      for (const int threads : {1, 3}) {
        for (const int tokens : {1, 3}) {
          SCOPED_TRACE(std::string(selector) + " " + name_of(type) + " threads " +
                       std::to_string(threads) + " tokens " + std::to_string(tokens));
          const ModelConfig c = config_of_selector(selector);
          const Held<FeedForward> held(make_feed_forward("sparse", c), type);
          const FeedForward& layer = *held.layer;
          std::vector<Mat> x;
          std::vector<std::vector<int>> ids;
          for (int t = 0; t < tokens; ++t) {
            x.push_back(random_mat(kPositions, c.d_model, 10 * std::uint64_t(t)));
            ids.push_back(some_ids(kPositions, std::uint64_t(t)));
          }
          const auto state = layer.make_state(tokens);
          std::vector<Mat> y(std::size_t(tokens), Mat(kPositions, c.d_model));
          Mat in, out(tokens, c.d_model);
          std::vector<int> current(std::size_t(tokens), 0);
          const Stepper stepper{find_kernel_set("simd"), threads, tokens,
                                layer.workspace_floats(tokens, threads)};
          stepper.run(
              kPositions,
              [&](std::int64_t position) {
                in = rows_at(x, position);
                for (std::size_t t = 0; t < ids.size(); ++t) {
                  current[t] = ids[t][std::size_t(position)];
                }
              },
              [&](const StepContext& ctx) {
                StepContext with_ids = ctx;
                with_ids.ids = current.data();
                layer.step(with_ids, state.get(), in.data(), out.data());
              },
              [&](std::int64_t position) {
                for (int t = 0; t < tokens; ++t) y[std::size_t(t)].row(position) = out.row(t);
                const auto touched = std::int64_t(layer.touched_rows(state.get()).size());
                EXPECT_GE(touched, c.d_ff / sparsity_of(c));
                EXPECT_LE(touched, c.d_ff / sparsity_of(c) * tokens);
              });
          for (std::size_t t = 0; t < x.size(); ++t) {
            Pass pass{.gemm = find_gemm("eigen"), .ids = ids[t].data()};
            Mat expected;
            layer.forward(pass, x[t], *layer.make_activations(), expected);
            expect_close(y[t], expected, "sequence " + std::to_string(t));
          }
        }
      }
    }
  }
}

TEST(SelectorTest, KnobsAreReadWrittenAndChecked) {
  ModelConfig c = config_of_shape("tiny");
  c.feed_forward = "sparse";
  set_field(c, "sparsity", 8);
  EXPECT_EQ(get_field(c, "selector"), "learned");
  EXPECT_EQ(get_field(c, "selection_noise"), "-1");
  set_field(c, "selection_noise", "0.25");
  set_field(c, "hard_probability", "1e-1");
  set_field(c, "selector", "hash");
  set_field(c, "kernel_scaling", "true");
  EXPECT_EQ(get_field(c, "selection_noise"), "0.25");
  EXPECT_EQ(get_field(c, "hard_probability"), "0.1");
  validate(c);
  set_field(c, "shape", "tiny");  // sizes only
  EXPECT_EQ(get_field(c, "selection_noise"), "0.25");
  EXPECT_EQ(get_field(c, "hard_probability"), "0.1");
  EXPECT_EQ(get_field(c, "selector"), "hash");
  EXPECT_EQ(get_field(c, "kernel_scaling"), "true");
  for (const char* text : {"", "much", "0.1x", "nan", "inf"}) {
    EXPECT_THROW(set_field(c, "selection_noise", text), UserError) << text;
  }
  set_field(c, "hard_probability", "1.5");
  EXPECT_THROW(validate(c), UserError);
  set_field(c, "hard_probability", "-1");
  EXPECT_THROW(set_field(c, "selector", "coin"), UserError);
}

}  // namespace
}  // namespace scaling
