// The reversible residual stack (paper 5): whichever layers it holds, going
// backwards by inversion finds what stored activations say; what is kept does not grow with depth.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "models/layers/attention/lsh.h"
#include "models/tasks/catalog.h"
#include "models/training/optimizer.h"
#include "models/training/trainer.h"
#include "tests/gemms.h"
#include "tests/helpers.h"
#include "tests/layers/layer_harness.h"
#include "tests/models/allocation_counter.h"
#include "tests/models/model_harness.h"
#include "tests/training/training_harness.h"

namespace scaling {
namespace {

constexpr double kGradientTolerance = 1e-4, kInverseTolerance = 1e-4;
constexpr float kDropout = 0.1f;

/// A small Terraformer whose feed-forward selects with noise, two blocks each side.
ModelConfig terraformer() {
  ModelConfig c = small_config();
  c.encoder_layers = c.decoder_layers = 2;
  c.residual_stack = ResidualStack::reversible;
  c.attention_layers = 2;
  c.source = SourceUse::concatenated;
  c.feed_forward = "sparse";
  c.recurrence = "sru";
  set_field(c, "recurrence_width", 7);
  set_field(c, "lsh_chunk", 4);
  set_field(c, "lsh_buckets", 4);
  return c;
}

ModelConfig decoder_only(std::int64_t layers) {
  ModelConfig c = terraformer();
  c.encoder_layers = 0;
  c.decoder_layers = layers;
  return c;
}

ModelConfig with(ModelConfig c, const std::vector<std::pair<std::string, std::string>>& knobs) {
  for (const auto& [name, value] : knobs) set_field(c, name, value);
  return c;
}

// -- against stored activations -------------------------------------------------------------------

struct Case {
  std::string label;
  ModelConfig config;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.label; }
};

/// Every entry of every component, and what knobs make of them.
std::vector<Case> cases() {
  std::vector<Case> all;
  for (const std::string& component : component_names()) {
    for (const std::string& name : causal_implementations_of(component)) {
      ModelConfig c = with(terraformer(), {{component, name}});
      if (component.starts_with("cross_")) c.source = SourceUse::cross_attention;
      all.push_back({component + "_" + name, c});
    }
  }
  const ModelConfig sparse =
      with(terraformer(), {{"projection", "mult_conv"}, {"loss", "multiplicative"}});
  all.push_back({"ff_qkv_loss", sparse});
  all.push_back({"longformer_own", with(terraformer(), {{"attention", "longformer"},
                                                        {"longformer_projections", "own"},
                                                        {"longformer_global", "2"}})});
  all.push_back({"attentions_in_turn", with(terraformer(), {{"attention", "lsh,window"}})});
  all.push_back({"heads_shared", with(terraformer(), {{"attention", "full+banded,window+full"}})});
  all.push_back({"heads_routed", with(terraformer(), {{"attention", "window+routing"},
                                                      {"routing_clusters", "3"}})});
  all.push_back({"heads_hashed", with(terraformer(), {{"attention", "performer+lsh"}})});
  all.push_back({"ff_qkv_loss_lsh", with(sparse, {{"attention", "lsh"}})});
  all.push_back({"hard", with(sparse, {{"hard_probability", "1"}})});
  all.push_back(
      {"balanced", with(sparse, {{"selection_balance", "0.1"}, {"selection_entropy", "0.01"}})});
  all.push_back({"selector_random", with(sparse, {{"selector", "random"}})});
  all.push_back({"selector_hash", with(sparse, {{"selector", "hash"}})});
  all.push_back({"one_swap", with(sparse, {{"encoder_swaps", "1"}})});
  all.push_back({"one_attention", with(sparse, {{"attention_layers", "1"}})});
  all.push_back({"three_attentions", with(sparse, {{"attention_layers", "3"}})});
  all.push_back({"cross_attention", with(sparse, {{"source", "cross_attention"}})});
  all.push_back({"joined_streams", with(sparse, {{"source", "concatenated_streams"}})});
  all.push_back({"joined_streams_one_swap",
                 with(sparse, {{"source", "concatenated_streams"}, {"encoder_swaps", "1"}})});
  all.push_back({"decoder_only", with(sparse, {{"encoder_layers", "0"}})});
  all.push_back({"one_block", with(sparse, {{"encoder_layers", "1"}, {"decoder_layers", "1"}})});
  return all;
}

class ReversibleTest : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    set_gemm_threads(1);
    ModelConfig c = GetParam().config;
    reversible_ = trainable(c);
    c.residual_stack = ResidualStack::reversible_stored;
    stored_ = trainable(c);
    batch_ = batch_of(three_examples(c));
  }
  std::unique_ptr<Transformer> reversible_, stored_;
  Batch batch_;
};

TEST_P(ReversibleTest, GradientsAreThoseOfStoredActivations) {
  for (const std::uint64_t seed : {1u, 2u, 3u}) {
    const Pass pass = model_pass(true, kDropout, seed);
    const Step ours = step_of(*reversible_, pass, batch_);
    const Step expected = step_of(*stored_, pass, batch_);
    EXPECT_EQ(ours.sums.loss, expected.sums.loss);
    // The kernels of conv start too large as well (below), which magnifies the inverse's rounding;
    // so does the routing attention's norm of small heads, in the sums that centroids follow.
    const ModelConfig& c = GetParam().config;
    const bool routes = c.attention.find("routing") != std::string::npos;
    const double magnified = routes ? 5 : c.projection == "conv" ? 3 : 1;
    const double tolerance = magnified * kGradientTolerance;
    expect_same_gradients(ours, expected, tolerance, "seed " + std::to_string(seed));
  }
}

TEST_P(ReversibleTest, EvaluationIsThatOfStoredActivations) {
  EXPECT_EQ(evaluated(*reversible_, batch_).loss, evaluated(*stored_, batch_).loss);
  const Example e = three_examples(reversible_->config())[1];
  EXPECT_EQ(reversible_->forward(e.source, e.target), stored_->forward(e.source, e.target));
}

/// The buffers that blocks share and the decisions that they do not.
TEST_P(ReversibleTest, TheSameCallGivesTheSameBits) {
  const Pass pass = model_pass(true, kDropout);
  const Step first = step_of(*reversible_, pass, batch_);
  const auto kept = reversible_->make_activations();
  Pass other = model_pass(true, kDropout, 6);
  reversible_->loss_and_gradients(other, batch_of({three_examples(reversible_->config())[2]}), 1,
                                  *kept);
  for (int time = 0; time < 2; ++time) {
    reversible_->zero_gradients();
    Pass again = pass;
    EXPECT_EQ(reversible_->loss_and_gradients(again, batch_, 1, *kept).loss, first.sums.loss);
    const std::vector<Parameter*> parameters = reversible_->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      const Parameter& p = *parameters[i];
      if (!p.gradient) continue;
      EXPECT_EQ(Mat(Eigen::Map<const Mat>(p.gradient, p.rows, p.cols)), first.gradients[i])
          << p.name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Catalog, ReversibleTest, testing::ValuesIn(cases()),
                         [](const auto& test) { return test.param.label; });

TEST(ReversibleStack, IsNotThePlainOne) {
  const ModelConfig c = with(terraformer(), {{"feed_forward", "dense"}});
  const Batch batch = batch_of(three_examples(c));
  const double ours = evaluated(*trainable(c), batch).loss;
  const double plain = evaluated(*trainable(with(c, {{"residual_stack", "plain"}})), batch).loss;
  EXPECT_GT(std::abs(ours - plain), 1e-3 * plain);
}

// -- finite differences ---------------------------------------------------------------------------

/// The loss of a pass whose selections, buckets and dropout masks are those of the last one.
double replayed_loss(const Transformer& model, Pass pass, const Batch& batch,
                     Transformer::Kept& kept) {
  pass.recomputes = true;
  return model.loss_of(pass, batch, kept).loss;
}

/// Central differences along +-1 of `parameter`'s own stream, curvature taken out by a second step.
double slope_of(const Transformer& model, const Pass& pass, const Batch& batch,
                Transformer::Kept& kept, const Parameter& parameter, std::uint64_t stream) {
  auto* values = static_cast<float*>(parameter.data);
  const std::vector<float> before(values, values + parameter.count());
  const auto difference = [&](float step) {
    double losses[2];
    for (const int side : {0, 1}) {
      Rng signs(stream);
      for (std::size_t i = 0; i < before.size(); ++i) {
        values[i] = before[i] + ((signs.bits() & 1u) == (side == 0 ? 1u : 0u) ? step : -step);
      }
      losses[side] = replayed_loss(model, pass, batch, kept);
    }
    std::copy(before.begin(), before.end(), values);
    return (losses[0] - losses[1]) / (2 * double(step));
  };
  constexpr float kStep = 0x1p-9f;
  return (4 * difference(kStep / 2) - difference(kStep)) / 3;
}

TEST(ReversibleStack, GradientsAreTheSlopesOfTheLoss) {
  set_gemm_threads(1);
  // Soft calls only, since a straight-through gradient is no slope.
  ModelConfig c = with(terraformer(), {{"projection", "mult_conv"},
                                       {"loss", "multiplicative"},
                                       {"feed_forward_bias", "true"},
                                       {"hard_probability", "0"}});
  for (const ModelConfig& config :
       {c, with(c, {{"attention", "lsh"}}), with(c, {{"source", "cross_attention"}})}) {
    const auto model = trainable(config);
    // No step of a difference crosses a ReLU's kink: half of the neurons are on, half off.
    model->visit_parameters([](Parameter& p) {
      if (p.name.find("feed_forward.b1") == std::string::npos) return;
      for (std::int64_t i = 0; i < p.cols; ++i) p.set(0, i, i % 2 == 0 ? 9.0f : -9.0f);
    });
    const Batch batch = batch_of(three_examples(config));
    const auto kept = model->make_activations();
    const Pass pass = model_pass(true, kDropout);
    Pass first = pass;
    model->zero_gradients();
    const double loss = model->loss_and_gradients(first, batch, 1, *kept).loss;
    EXPECT_EQ(replayed_loss(*model, pass, batch, *kept), loss);
    int seen = 0;
    for (const Parameter* p : model->parameters()) {
      double expected = 0, squares = 0;
      Rng signs(9);
      for (std::int64_t i = 0; i < p->count(); ++i) {
        const double g = double(p->gradient[i]);
        expected += (signs.bits() & 1u) ? g : -g;
        squares += g * g;
      }
      const double size = std::sqrt(squares);
      // Rounding of two losses of some hundred nats in f32 is the constant.
      EXPECT_NEAR(slope_of(*model, pass, batch, *kept, *p, 9), expected, 5e-3 * size + 2e-2)
          << config.attention << " " << print_value(config.source) << " " << p->name;
      seen += size > 0.1;
    }
    EXPECT_GT(seen, 50) << "hardly a parameter has a gradient";
  }
}

// -- recalled decisions ---------------------------------------------------------------------------

/// Every block's controller columns nearly alike, so that rounding decides which logit is largest.
void make_selections_close(Transformer& model, std::int64_t n) {
  Rng rng(11, 3);
  model.visit_parameters([&](Parameter& p) {
    if (!p.name.ends_with("c2") && !p.name.ends_with("controller_bias")) return;
    for (std::int64_t row = 0; row < p.rows; ++row) {
      for (std::int64_t column = 0; column < p.cols; ++column) {
        const float first = p.get(row, column - column % n);
        if (column % n > 0)
          p.set(row, column, p.is_vector ? first : first * (1 + rng.uniform(-1e-6f, 1e-6f)));
      }
    }
  });
}

/// The paper's warning (paper 5.3): selections made anew from reconstructed activations are others.
TEST(ReversibleStack, ChoosingAnewChangesGradients) {
  set_gemm_threads(1);
  const ModelConfig recalling =
      with(decoder_only(24),
           {{"hard_probability", "1"}, {"selection_noise", "0"}, {"projection", "mult_conv"}});
  const auto recalls = trainable(recalling);
  const auto chooses = trainable(with(recalling, {{"recompute_decisions", "true"}}));
  const auto stored = trainable(with(recalling, {{"residual_stack", "reversible_stored"}}));
  for (Transformer* model : {recalls.get(), chooses.get(), stored.get()}) {
    make_selections_close(*model, sparsity_of(recalling));
  }
  const Batch batch =
      batch_of({{{}, draw_ids(recalling, 60, 1)}, {{}, draw_ids(recalling, 60, 2)}});
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    const Pass pass = model_pass(true, 0, seed);
    const Step ours = step_of(*recalls, pass, batch), anew = step_of(*chooses, pass, batch);
    EXPECT_EQ(ours.sums.loss, anew.sums.loss) << "the forward pass is the same";
    const Step expected = step_of(*stored, pass, batch);
    const double recalled = relative_difference(ours, expected, nullptr);
    const double chosen = relative_difference(anew, expected, nullptr);
    EXPECT_LE(recalled, kGradientTolerance) << seed;
    EXPECT_GT(chosen, 10 * recalled) << seed;
  }
}

// -- a stack alone --------------------------------------------------------------------------------

struct Table {
  Parameter embedding;
  void visit_parameters(const ParameterVisitor& visit) { visit(embedding); }
};

/// A decoder's stack without a model around it.
class StackUnderTest {
 public:
  explicit StackUnderTest(const ModelConfig& c)
      : table_(std::make_unique<Table>(Table{Parameter::make_matrix(
            "embedding", c.vocab_size, c.d_model, Layout::rows,
            {Initializer::Kind::uniform, std::sqrt(3.0f / float(c.d_model))})})),
        stack_(stack_of(c), 1, 0) {}

  Stack::Kept make_activations() const { return stack_.layer->make_activations(); }
  void run(Pass pass, const std::vector<int>& ids, Stack::Kept& kept) const {
    const BlockInputs inputs{.self = {.causal = true}};
    const Parameter& embedding = table_.layer->embedding;
    stack_.layer->forward(pass, embedding, inputs, ids, kept);
    kept.dnormed.setConstant(kept.normed.rows(), kept.normed.cols(), 0.01f);
    stack_.layer->backward(pass, embedding, inputs, ids, kept, nullptr);
  }

 private:
  static std::unique_ptr<Stack> stack_of(const ModelConfig& c) {
    auto stack = std::make_unique<Stack>(c, Stack::Kind::decoder);
    stack->positions.weights.init = {Initializer::Kind::uniform, 1};
    for (std::int64_t i = 0; i < c.decoder_layers; ++i) stack->add_block(c);
    return stack;
  }

  TrainedLayer<Table> table_;
  TrainedLayer<Stack> stack_;
};

TEST(ReversibleStack, InverseOfForwardIsTheInput) {
  set_gemm_threads(1);
  const ModelConfig base = decoder_only(24);
  for (const ModelConfig& c :
       {base, with(base, {{"feed_forward", "dense"}, {"recurrence", "none"}}),
        with(base, {{"projection", "mult_conv"}}),
        with(base, {{"projection", "mult_conv"}, {"attention", "lsh"}, {"attention_layers", "1"}}),
        with(base, {{"feed_forward", "moe_switch"}, {"projection", "low_rank"}})}) {
    const StackUnderTest stack(c);
    Stack::Kept kept = stack.make_activations();
    Pass pass = model_pass(true, kDropout);
    pass.examples = 3;
    stack.run(pass, draw_ids(c, 3 * 20, 1), kept);
    const Mat& x = kept.embedded;
    ASSERT_EQ(x.rows(), 60);
    const float scale = x.cwiseAbs().maxCoeff();
    double error = 0;
    for (const Mat* found : {&kept.acc, &kept.ctx}) {
      ASSERT_EQ(found->rows(), x.rows());
      ASSERT_EQ(found->cols(), x.cols());
      error = std::max(error, double((*found - x).cwiseAbs().maxCoeff()));
    }
    // Glorot of mult_conv's kernels ignores their nine taps (paper 2.4): queries and keys start
    // nine times as large in variance, and exact attention among them magnifies rounding.
    const bool is_sharp = c.projection == "mult_conv" && c.attention == "full";
    EXPECT_LE(error, (is_sharp ? 10 : 1) * kInverseTolerance * double(scale))
        << c.feed_forward << " " << c.projection << " " << c.attention;
    // They are what was computed, not what was there.
    EXPECT_GT(error, 0);
    EXPECT_EQ(kept.reconstruction_error(), error);
  }
}

#ifdef SCALING_COUNTS_ALLOCATIONS

constexpr std::int64_t kRows = 2 * 128;

struct Bytes {
  std::int64_t kept, decisions;
};

/// Bytes of all that a step keeps, and what the stack says of the decisions among it.
Bytes bytes_of(const ModelConfig& c) {
  const StackUnderTest stack(c);
  Pass pass = model_pass(true, kDropout);
  pass.examples = 2;
  const std::vector<int> ids = draw_ids(c, kRows, 1);
  const std::int64_t before = live_bytes();
  Stack::Kept kept = stack.make_activations();
  stack.run(pass, ids, kept);
  return {live_bytes() - before, std::int64_t(kept.decision_bytes())};
}

/// Bytes of the neurons, experts and buckets that a stack's blocks have chosen: four each.
std::int64_t bytes_decided(const ModelConfig& c) {
  std::int64_t of_row = 0;
  if (c.feed_forward == "sparse") of_row += c.d_ff / sparsity_of(c);
  if (c.feed_forward == "moe_block" || c.feed_forward == "moe_switch") of_row += 1;
  if (c.attention == "lsh")
    of_row += c.attention_layers * c.n_heads * c.options<LshKnobs>().lsh_rounds;
  return 4 * c.decoder_layers * kRows * of_row;
}

TEST(ReversibleStack, KeepsNoMoreOfDeepStacks) {
  set_gemm_threads(1);
  ModelConfig base = decoder_only(2);
  base.max_length = 128;
  bytes_of(base);  // the first pass of a program takes things for good
  std::vector<ModelConfig> all;
  for (const std::string& name : implementations_of("feed_forward")) {
    all.push_back(with(base, {{"feed_forward", name}}));
  }
  for (const std::string& name : implementations_of("projection")) {
    all.push_back(with(base, {{"projection", name}}));
  }
  all.push_back(with(base, {{"attention", "lsh"}, {"lsh_chunk", "16"}}));
  for (const ModelConfig& c : all) {
    SCOPED_TRACE(c.feed_forward + " " + c.projection + " " + c.attention);
    const auto growth = [&](const std::string& residual_stack) {
      double bytes[2];
      int i = 0;
      for (const char* layers : {"2", "12"}) {
        const ModelConfig of =
            with(c, {{"residual_stack", residual_stack}, {"decoder_layers", layers}});
        const Bytes bytes_now = bytes_of(of);
        if (residual_stack == "reversible") {
          EXPECT_EQ(bytes_now.decisions, bytes_decided(of));
        }
        bytes[i++] = double(bytes_now.kept - bytes_decided(of));
      }
      return bytes[1] / bytes[0];
    };
    EXPECT_LE(growth("reversible"), 1.1);
    EXPECT_GT(growth("reversible_stored"), 3);
    EXPECT_GT(growth("plain"), 3);
  }
}

TEST_P(ReversibleTest, StepsAfterTheFirstTakeNothing) {
  set_gemm_threads(1);
  const Gemm& gemm = plain_gemm();
  for (Transformer* model : {reversible_.get(), stored_.get()}) {
    const auto kept = model->make_activations();
    large_allocations = 0;
    for (std::uint64_t step = 0; step < 3; ++step) {
      is_counting = step > 0;
      Pass pass{.gemm = gemm, .training = true, .dropout = kDropout, .seed = step};
      model->zero_gradients();
      model->loss_and_gradients(pass, batch_, 1, *kept);
    }
    is_counting = false;
    EXPECT_EQ(large_allocations, 0) << get_field(model->config(), "residual_stack");
  }
}

#endif

// -- in training ----------------------------------------------------------------------------------

struct Training {
  Training(const ModelConfig& model_config, const TrainConfig& config, const Task& task,
           const std::string& folder)
      : model(model_config) {
    {
      Team team(1);
      model.allocate_for_training(team);
    }
    trainer = std::make_unique<Trainer>(model, task, config, folder);
  }
  /// Trains until `last` steps are done, or to the config's end.
  void train(std::int64_t last) {
    trainer->run([this](const TrainReport& r) { losses.push_back(r.loss); },
                 [this, last] { return trainer->step() >= last; });
  }
  std::vector<float> weights() {
    std::vector<float> all;
    for (Parameter* p : model.parameters()) {
      all.insert(all.end(), p->values(), p->values() + p->count());
    }
    return all;
  }

  Transformer model;
  std::unique_ptr<Trainer> trainer;
  std::vector<double> losses;
};

TEST(ReversibleTraining, ResumedRunIsTheUninterruptedOneBitForBit) {
  set_gemm_threads(1);
  const ModelConfig sparse =
      with(terraformer(), {{"projection", "mult_conv"}, {"vocab_size", "260"}});
  TrainConfig config;
  config.batch = 4;
  config.accumulate = 2;
  config.length = 32;
  config.digits_max = 6;
  config.eval_digits_min = 7;
  config.eval_digits_max = 9;
  config.steps = 8;
  config.schedule = Schedule::constant;
  config.learning_rate = 0.01;
  config.dropout = 0.1;
  config.evaluate_every = config.checkpoint_every = 3;
  config.evaluate_batches = 1;
  config.gemm = "eigen";
  for (const std::string task : {"causal", "copy_pairs"}) {
    const Folder folder;
    config.task = task;
    ModelConfig c = sparse;
    c.encoder_layers = task == "causal" ? 0 : 1;
    c.attention = task == "causal" ? "lsh" : "full";
    const auto corpus = make_task(config, c.vocab_size, folder / "cache");
    Training whole(c, config, *corpus, folder / "whole");
    whole.train(config.steps);
    ASSERT_EQ(whole.losses.size(), std::size_t(config.steps));
    std::vector<double> losses;
    for (const std::int64_t last : {2, 5, 8}) {
      Training part(c, config, *corpus, folder / "parts");
      EXPECT_EQ(part.trainer->resume(), std::int64_t(losses.size()));
      part.train(last);
      losses.insert(losses.end(), part.losses.begin(), part.losses.end());
      if (last == config.steps) {
        EXPECT_EQ(part.weights(), whole.weights());
      }
    }
    EXPECT_EQ(losses, whole.losses);
  }
}

/// Random targets that no model knows unless it has learnt them.
TEST(ReversibleTraining, OverfitsABatch) {
  set_gemm_threads(1);
  const ModelConfig c =
      with(terraformer(),
           {{"projection", "mult_conv"}, {"loss", "multiplicative"}, {"encoder_layers", "1"}});
  const auto model = std::make_unique<Transformer>(c);
  Team team(1);
  model->allocate_for_training(team);
  TrainConfig training;
  training.optimizer = OptimizerKind::adam;
  training.schedule = Schedule::warmup_rsqrt;
  training.warmup_steps = 50;
  training.learning_rate = 0.07;
  const auto optimizer = make_optimizer(training, model->parameters());
  const auto kept = model->make_activations();
  const Batch batch = batch_of(three_examples(c));
  double loss = HUGE_VAL;
  for (std::int64_t step = 1; step <= 3000 && loss > 0.01; ++step) {
    model->zero_gradients();
    Pass pass = model_pass(true, 0, std::uint64_t(step));
    model->loss_and_gradients(pass, batch, 1.0f / 23, *kept);
    optimizer->update(step, learning_rate_at(training, step));
    if (step % 25 == 0) loss = evaluated(*model, batch).loss / 23;
  }
  EXPECT_LE(loss, 0.01);
}

}  // namespace
}  // namespace scaling
