// Assembly, sizes and evaluation of the encoder-decoder Transformer.
#include "models/transformer.h"

#include <algorithm>
#include <cmath>

#include "kernels/check.h"
#include "models/initialize.h"
#include "models/layers/counting.h"
#include "models/layers/product.h"

namespace scaling {
namespace {

/// Beside the weights: what require_memory keeps free, caches, workspaces and the program itself.
constexpr std::uint64_t kKeptFree = 1536ull << 20;

void prefix_names(Layer& layer, const std::string& prefix) {
  layer.visit_parameters([&](Parameter& p) { p.name = prefix + p.name; });
}

void visit_block(EncoderBlock& block, const std::string& prefix, const ParameterVisitor& visit) {
  block.attention_norm.visit_parameters(prefix + "attention_norm.", visit);
  block.projection->visit_parameters(visit);
  block.feed_forward_norm.visit_parameters(prefix + "feed_forward_norm.", visit);
  block.feed_forward->visit_parameters(visit);
}

void visit_block(DecoderBlock& block, const std::string& prefix, const ParameterVisitor& visit) {
  block.attention_norm.visit_parameters(prefix + "attention_norm.", visit);
  block.projection->visit_parameters(visit);
  block.cross_norm.visit_parameters(prefix + "cross_norm.", visit);
  block.cross_projection->visit_parameters(visit);
  block.feed_forward_norm.visit_parameters(prefix + "feed_forward_norm.", visit);
  block.feed_forward->visit_parameters(visit);
}

struct Size {
  std::int64_t count = 0;
  std::uint64_t bytes = 0;
  void add(const Parameter& p, WeightType type) {
    count += p.count();
    bytes += Arena::rounded(p.bytes(type));
  }
};

template <class Block>
Size size_of_block(const ModelConfig& config) {
  Block block(config);
  Size size;
  visit_block(block, "", [&](Parameter& p) { size.add(p, config.weight_type); });
  return size;
}

Mat rows_of_table(const Parameter& table, const std::vector<int>& ids) {
  Mat x(std::int64_t(ids.size()), table.cols);
  for (std::size_t t = 0; t < ids.size(); ++t) {
    const std::int64_t row = std::clamp<std::int64_t>(ids[t], 0, table.rows - 1);
    for (std::int64_t i = 0; i < table.cols; ++i) x(std::int64_t(t), i) = table.get(row, i);
  }
  return x;
}

Mat embed(const Parameter& embedding, const Parameter& positions, const std::vector<int>& ids) {
  if (std::int64_t(ids.size()) > positions.rows) {
    throw UserError(std::to_string(ids.size()) + " positions exceed max_length " +
                    std::to_string(positions.rows) + "; raise --max_length");
  }
  std::vector<int> order(ids.size());
  for (std::size_t t = 0; t < ids.size(); ++t) order[t] = int(t);
  return rows_of_table(embedding, ids) + rows_of_table(positions, order);
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

Norm::Norm(std::int64_t d)
    : scale(Parameter::make_vector("scale", d, {Initializer::Kind::constant, 1})),
      bias(Parameter::make_vector("bias", d, {Initializer::Kind::constant, 0})) {}

void Norm::visit_parameters(const std::string& prefix, const ParameterVisitor& visit) {
  scale.name = prefix + "scale";
  bias.name = prefix + "bias";
  visit(scale);
  visit(bias);
}

Mat Norm::forward(const Mat& x) const {
  Mat y(x.rows(), x.cols());
  const Eigen::Map<const Eigen::RowVectorXf> s(scale.vector(), scale.cols);
  const Eigen::Map<const Eigen::RowVectorXf> b(bias.vector(), bias.cols);
  for (std::int64_t t = 0; t < x.rows(); ++t) {
    const Eigen::RowVectorXf centred = x.row(t).array() - x.row(t).mean();
    const float variance = centred.squaredNorm() / float(x.cols());
    y.row(t) = (centred / std::sqrt(variance + 1e-6f)).cwiseProduct(s) + b;
  }
  return y;
}

EncoderBlock::EncoderBlock(const ModelConfig& c)
    : attention_norm(c.d_model),
      feed_forward_norm(c.d_model),
      projection(make_projection("dense", c)),
      feed_forward(make_feed_forward(c.feed_forward, c)) {}

DecoderBlock::DecoderBlock(const ModelConfig& c)
    : attention_norm(c.d_model),
      cross_norm(c.d_model),
      feed_forward_norm(c.d_model),
      projection(make_projection(c.projection, c)),
      cross_projection(make_cross_projection(c.cross_projection, c)),
      feed_forward(make_feed_forward(c.feed_forward, c)) {}

Transformer::Transformer(ModelConfig config, std::uint64_t memory)
    : config_((config.validate(), std::move(config))),
      embedding_(Parameter::make_matrix(
          "embedding", config_.vocab_size, config_.d_model, Layout::rows,
          {Initializer::Kind::uniform, std::sqrt(3.0f / float(config_.d_model))})),
      encoder_positions_(Parameter::make_matrix("encoder_positions", config_.max_length,
                                                config_.d_model, Layout::rows,
                                                {Initializer::Kind::positions, 0})),
      decoder_positions_(Parameter::make_matrix("decoder_positions", config_.max_length,
                                                config_.d_model, Layout::rows,
                                                {Initializer::Kind::positions, 0})),
      encoder_norm_(config_.d_model),
      decoder_norm_(config_.d_model),
      attention_(make_attention("full", config_)),
      loss_(make_loss(config_.loss, config_)) {
  prefix_names(*loss_, "loss.");
  for (std::int64_t i = 0; config_.encoder && i < config_.encoder_layers; ++i) {
    auto block = std::make_unique<EncoderBlock>(config_);
    const std::string prefix = "encoder." + std::to_string(i) + ".";
    prefix_names(*block->projection, prefix + "projection.");
    prefix_names(*block->feed_forward, prefix + "feed_forward.");
    encoder_.push_back(std::move(block));
  }
  std::int64_t blocks = config_.blocks;
  if (blocks == 0) {
    const std::uint64_t room = memory ? memory : available_memory();
    const std::uint64_t taken = held_bytes() + kKeptFree;
    const std::uint64_t one = size_of_block<DecoderBlock>(config_).bytes;
    const std::uint64_t fit = room > taken ? (room - taken) / one : 0;
    blocks = std::clamp<std::int64_t>(std::int64_t(std::min<std::uint64_t>(fit, 1u << 30)), 1,
                                      config_.decoder_layers);
  }
  for (std::int64_t i = 0; i < blocks; ++i) {
    auto block = std::make_unique<DecoderBlock>(config_);
    const std::string prefix = "decoder." + std::to_string(i) + ".";
    prefix_names(*block->projection, prefix + "projection.");
    prefix_names(*block->cross_projection, prefix + "cross_projection.");
    prefix_names(*block->feed_forward, prefix + "feed_forward.");
    decoder_.push_back(std::move(block));
  }
}

void Transformer::visit_parameters(const ParameterVisitor& visit) {
  visit(embedding_);
  if (config_.encoder) {
    visit(encoder_positions_);
    for (std::size_t i = 0; i < encoder_.size(); ++i) {
      visit_block(*encoder_[i], "encoder." + std::to_string(i) + ".", visit);
    }
    encoder_norm_.visit_parameters("encoder_norm.", visit);
  }
  visit(decoder_positions_);
  for (std::size_t i = 0; i < decoder_.size(); ++i) {
    visit_block(*decoder_[i], "decoder." + std::to_string(i) + ".", visit);
  }
  decoder_norm_.visit_parameters("decoder_norm.", visit);
  loss_->visit_parameters(visit);
}

std::int64_t Transformer::parameter_count() const {
  std::int64_t count = embedding_.count() + decoder_positions_.count() + 2 * config_.d_model;
  if (config_.encoder_layers > 0) {
    count += encoder_positions_.count() + 2 * config_.d_model +
             config_.encoder_layers * size_of_block<EncoderBlock>(config_).count;
  }
  count += config_.decoder_layers * size_of_block<DecoderBlock>(config_).count;
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

void Transformer::allocate(Team& team) {
  std::vector<Parameter*> parameters;
  visit_parameters([&](Parameter& p) { parameters.push_back(&p); });
  const std::uint64_t bytes = arena_bytes(parameters, config_.weight_type);
  require_memory(bytes,
                 "the model " + config_.shape + " with " + std::to_string(blocks()) +
                     " decoder blocks in " + name_of(config_.weight_type),
                 "hold fewer blocks (--blocks), store bf16 (--weight_type bf16), leave out the "
                 "encoder (--encoder false) or choose a smaller shape (--shape)");
  arena_ = Arena(bytes);
  initialize(parameters, config_.weight_type, config_.seed, arena_, team);
}

Mat Transformer::encode(const std::vector<int>& source) const {
  SCALING_CHECK(arena_.data() != nullptr);
  if (!config_.encoder) {
    Mat drawn(std::int64_t(source.size()), config_.d_model);
    draw_values(config_.seed, "encoder_output", {Initializer::Kind::normal, 1}, 0, drawn.size(),
                drawn.data());
    return drawn;
  }
  Mat x = embed(embedding_, encoder_positions_, source);
  const std::vector<std::int64_t> keys = unpadded(source);
  for (const auto& block : encoder_) {
    const Projection::QKV p = block->projection->forward(block->attention_norm.forward(x));
    const Mat k = p.k(keys, Eigen::all), v = p.v(keys, Eigen::all);
    x += block->projection->forward_output(attention_->forward(p.q, k, v, false));
    x += block->feed_forward->forward(block->feed_forward_norm.forward(x));
  }
  return encoder_norm_.forward(x);
}

Mat Transformer::forward(const std::vector<int>& source, const std::vector<int>& target) const {
  const Mat encoded = encode(source)(unpadded(source), Eigen::all);
  std::vector<int> shifted(target.size(), 0);
  if (!target.empty()) std::copy(target.begin(), target.end() - 1, shifted.begin() + 1);
  Mat y = embed(embedding_, decoder_positions_, shifted);
  for (const auto& block : decoder_) {
    const Projection& self = *block->projection;
    const Projection::QKV p = self.forward(block->attention_norm.forward(y));
    const Mat o = attention_->forward(p.q, p.k, p.v, true);
    y += self.has_output() ? self.forward_output(o) : o;
    const CrossProjection& cross = *block->cross_projection;
    const CrossProjection::Memory memory = cross.forward_memory(encoded);
    const Mat q = cross.forward_query(block->cross_norm.forward(y));
    const Mat c = attention_->forward(q, memory.k, memory.v, false);
    y += cross.has_output() ? cross.forward_output(c) : c;
    y += block->feed_forward->forward(block->feed_forward_norm.forward(y));
  }
  return loss_->forward(decoder_norm_.forward(y));
}

}  // namespace scaling
