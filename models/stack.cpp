// The order of the parts, forward and back.
#include "models/stack.h"

#include "kernels/check.h"

namespace scaling {

Stack::Stack(const ModelConfig& config, Block::Place place_) : place(place_), norm(config.d_model) {
  positions = Parameter::make_matrix(name() + "_positions", config.max_length, config.d_model,
                                     Layout::rows, {Initializer::Kind::positions, 0});
}

void Stack::add_block(const ModelConfig& config) {
  auto block = std::make_unique<Block>(config, place);
  block->name_parameters(name() + "." + std::to_string(blocks.size()) + ".");
  blocks.push_back(std::move(block));
}

void Stack::visit_parameters(const ParameterVisitor& visit) {
  visit(positions);
  for (const auto& block : blocks) block->visit_parameters(visit);
  norm.visit_parameters(name() + "_norm.", visit);
}

Stack::Kept Stack::make_kept(const Attention& self_attention,
                             const Attention& cross_attention) const {
  Kept kept;
  for (const auto& block : blocks)
    kept.blocks.push_back(block->make_kept(self_attention, cross_attention));
  return kept;
}

void Stack::forward(Pass& pass, const Parameter& embedding, const Surroundings& around,
                    const std::vector<int>& ids, Kept& kept) const {
  SCALING_CHECK(kept.blocks.size() == blocks.size());
  pass.ids = ids.data();
  embed(pass, embedding, positions, ids, kept.embedding, kept.embedded);
  const Mat* x = &kept.embedded;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    x = &blocks[i]->forward(pass, around, *x, kept.blocks[i], kept.scratch);
  }
  norm.forward(*x, kept.norm, kept.normed);
}

void Stack::backward(Pass& pass, const Parameter& embedding, const Surroundings& around,
                     const std::vector<int>& ids, Kept& kept, Mat* dencoded) const {
  pass.ids = ids.data();
  const auto input_of = [&](std::size_t i) -> const Mat& {
    return i == 0 ? kept.embedded : kept.blocks[i - 1].feed_forward.out;
  };
  kept.dx.setZero(kept.normed.rows(), kept.normed.cols());
  norm.backward(input_of(blocks.size()), kept.norm, kept.dnormed, kept.dx);
  for (std::size_t i = blocks.size(); i > 0; --i) {
    blocks[i - 1]->backward(pass, around, input_of(i - 1), kept.blocks[i - 1], kept.scratch,
                            kept.dx, dencoded);
  }
  embed_backward(pass, embedding, positions, ids, kept.embedding, kept.dx);
}

}  // namespace scaling
