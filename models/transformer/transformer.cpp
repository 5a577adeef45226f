// Assembly, sizes and memory of the Transformer.
#include "models/transformer/transformer.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/check.h"
#include "kernels/parallel.h"
#include "models/initialize.h"

namespace scaling {
namespace {

/// Beside the weights: what require_memory keeps free, caches, workspaces and the program itself.
constexpr std::uint64_t kKeptFree = 1536ull << 20;

struct Size {
  std::int64_t count = 0;
  std::uint64_t bytes = 0;
  void add(const Parameter& p, WeightType type) {
    count += p.count();
    bytes += Arena::rounded(p.bytes(type));
  }
};

/// Of as many blocks as it takes until their attentions come round again.
Size size_of_round(const ModelConfig& config, Stack::Kind kind) {
  Size size;
  for (std::int64_t i = 0; i < attentions_in_turn(config, kind == Stack::Kind::encoder); ++i) {
    const Block block(config, kind, std::size_t(i));
    block.visit_parameters([&](Parameter& p) { size.add(p, config.weight_type); });
  }
  return size;
}

std::uint64_t gradient_bytes(const Parameter& p) {
  return p.is_frozen ? 0 : Arena::rounded(std::uint64_t(p.count()) * sizeof(float));
}

}  // namespace

std::vector<std::int64_t> unpadded(const std::vector<int>& ids) {
  std::vector<std::int64_t> kept, all;
  for (std::size_t t = 0; t < ids.size(); ++t) {
    all.push_back(std::int64_t(t));
    if (ids[t] != 0) kept.push_back(std::int64_t(t));
  }
  return kept.empty() ? all : kept;
}

Transformer::Transformer(ModelConfig config, std::uint64_t memory)
    : config_((validate(config), std::move(config))),
      embedding_(Parameter::make_matrix(
          "embedding", config_.vocab_size, config_.d_model, Layout::rows,
          {Initializer::Kind::uniform,
           float(config_.embedding_scale) * std::sqrt(3.0f / float(config_.d_model))})),
      encoder_(config_, Stack::Kind::encoder),
      decoder_(config_, Stack::Kind::decoder),
      loss_(make_loss(config_)) {
  loss_->visit_parameters([](Parameter& p) { p.name = "loss." + p.name; });
  for (std::int64_t i = 0; config_.encoder && i < config_.encoder_layers; ++i) {
    encoder_.add_block(config_);
  }
  std::int64_t blocks = config_.blocks;
  if (blocks == 0) {
    const std::uint64_t room = memory ? memory : available_memory();
    const std::uint64_t taken = held_bytes() + kKeptFree;
    // Whole rounds, so that those held are a fair sample of the layers.
    const std::int64_t turns = attentions_in_turn(config_);
    const std::uint64_t round = size_of_round(config_, Stack::Kind::decoder).bytes;
    const std::uint64_t fit = room > taken ? (room - taken) / round : 0;
    blocks = turns * std::clamp<std::int64_t>(std::int64_t(std::min<std::uint64_t>(fit, 1u << 30)),
                                              1, config_.decoder_layers / turns);
  }
  for (std::int64_t i = 0; i < blocks; ++i) decoder_.add_block(config_);
}

void Transformer::visit_parameters(const ParameterVisitor& visit) {
  visit(embedding_);
  if (config_.encoder && !config_.decoder_only()) encoder_.visit_parameters(visit);
  decoder_.visit_parameters(visit);
  loss_->visit_parameters(visit);
}

std::vector<Parameter*> Transformer::parameters() {
  std::vector<Parameter*> all;
  visit_parameters([&](Parameter& p) { all.push_back(&p); });
  return all;
}

std::int64_t Transformer::parameter_count() const {
  std::int64_t count = embedding_.count() + decoder_.positions.weights.count() +
                       decoder_.streams.count() + 2 * config_.d_model;
  if (config_.encoder_layers > 0) {
    count += encoder_.positions.weights.count() +
             config_.encoder_layers / attentions_in_turn(config_, true) *
                 size_of_round(config_, Stack::Kind::encoder).count;
    if (!config_.joins_streams()) count += 2 * config_.d_model;
    if (encoder_.output) count += config_.d_model * (config_.d_model + 1);
  }
  count += config_.decoder_layers / attentions_in_turn(config_) *
           size_of_round(config_, Stack::Kind::decoder).count;
  loss_->visit_parameters([&](Parameter& p) { count += p.count(); });
  return count;
}

std::uint64_t Transformer::held_bytes() const {
  // Visiting hands out mutable parameters, but counting changes none.
  Size size;
  const_cast<Transformer*>(this)->visit_parameters(
      [&](Parameter& p) { size.add(p, config_.weight_type); });
  return size.bytes;
}

void Transformer::allocate(Team& team, Layout dense) {
  const std::vector<Parameter*> all = parameters();
  lay_out(all, dense);
  const std::uint64_t bytes = arena_bytes(all, config_.weight_type);
  require_memory(bytes,
                 "the model " + config_.shape + " with " + std::to_string(blocks()) +
                     " decoder blocks in " + name_of(config_.weight_type),
                 "hold fewer blocks (--blocks), store bf16 (--weight_type bf16), leave out the "
                 "encoder (--encoder false) or choose a smaller shape (--shape)");
  arena_ = Arena(bytes);
  initialize(all, config_.weight_type, config_.seed, arena_, team);
}

void Transformer::allocate_for_training(Team& team) {
  if (!config_.encoder) {
    throw UserError(
        "encoder = false draws the encoder's output at random, which cannot be trained; build it "
        "(--encoder true), with --encoder_layers 0 for a decoder-only model");
  }
  if (config_.weight_type != WeightType::f32) {
    throw UserError(std::string("weight_type ") + name_of(config_.weight_type) +
                    " is for decoding; train in f32 (--weight_type f32)");
  }
  if (blocks() != config_.decoder_layers) {
    throw UserError("only " + std::to_string(blocks()) + " of decoder_layers " +
                    std::to_string(config_.decoder_layers) +
                    " would be in memory, and training needs them all; give --blocks auto and, "
                    "if memory is short, choose a smaller model");
  }
  const std::vector<Parameter*> all = parameters();
  std::uint64_t of_gradients = 64;  // never none: is_for_training looks at it
  for (Parameter* p : all) {
    p->layout = Layout::rows;
    of_gradients += gradient_bytes(*p);
  }
  const std::uint64_t of_weights = arena_bytes(all, WeightType::f32);
  require_memory(of_weights + of_gradients,
                 "training the model " + config_.shape + " (weights and gradients)",
                 "choose a smaller one (--d_model, --d_ff, --encoder_layers, --decoder_layers, "
                 "--vocab_size)");
  arena_ = Arena(of_weights);
  gradients_ = Arena(of_gradients);
  initialize(all, WeightType::f32, config_.seed, arena_, team);
  for (Parameter* p : all) {
    if (!p->is_frozen) p->gradient = static_cast<float*>(gradients_.take(gradient_bytes(*p)));
  }
}

void Transformer::zero_gradients() {
  visit_parameters([](Parameter& p) {
    if (!p.gradient) return;
    parallel_for(p.count(), [&](std::int64_t begin, std::int64_t end) {
      std::fill(p.gradient + begin, p.gradient + end, 0.0f);
    });
  });
}

}  // namespace scaling
