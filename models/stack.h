// Embedding, blocks and final norm of an encoder or a decoder.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/block.h"
#include "models/embedding.h"

namespace scaling {

struct Stack {
  /// Without blocks yet: `blocks` of them are added by add_block. Names begin with the place's
  /// ("encoder_positions", "encoder.0.", "encoder_norm.").
  Stack(const ModelConfig& config, Block::Place place);
  void add_block(const ModelConfig& config);
  void visit_parameters(const ParameterVisitor& visit);

  /// What a pass keeps of this stack; the same object serves batch after batch.
  struct Kept {
    EmbeddingKept embedding;
    Mat embedded;
    std::vector<Block::Kept> blocks;
    BlockScratch scratch;
    Norm::Kept norm;
    Mat normed;   ///< the result of forward
    Mat dnormed;  ///< what backward starts from; whoever read `normed` fills it
    Mat dx;
  };
  Kept make_kept(const Attention& self_attention, const Attention& cross_attention) const;

  /// ids: pass.examples sequences of one length; they become pass.ids. `embedding` is shared by the
  /// stacks of a model. The result is kept.normed.
  void forward(Pass& pass, const Parameter& embedding, const Surroundings& around,
               const std::vector<int>& ids, Kept& kept) const;
  /// From kept.dnormed down to the tables. dencoded: see Block::backward.
  void backward(Pass& pass, const Parameter& embedding, const Surroundings& around,
                const std::vector<int>& ids, Kept& kept, Mat* dencoded) const;

  Block::Place place;
  Parameter positions;
  std::vector<std::unique_ptr<Block>> blocks;
  Norm norm;

 private:
  std::string name() const { return place == Block::Place::encoder ? "encoder" : "decoder"; }
};

}  // namespace scaling
