// Every residual branch writes the next state of the stream to a buffer of its own, so that the
// states are there for the norms' backward passes; the stream's gradient is one matrix, added to.
#include "models/block.h"

#include <utility>

#include "kernels/check.h"
#include "kernels/parallel.h"
#include "models/catalog.h"
#include "models/layers/product.h"

namespace scaling {
namespace {

void prefix_names(Layer& layer, const std::string& prefix) {
  layer.visit_parameters([&](Parameter& p) { p.name = prefix + p.name; });
}

/// out = x + dropout(y).
void add_branch(Pass& pass, Activations& dropout, const Mat& x, const Mat& y, Mat& out) {
  dropout.take_stream(pass);
  const std::int64_t d = x.cols();
  out.resize(x.rows(), d);
  parallel_for(x.rows(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      if (!pass.drops()) {
        out.row(row) = x.row(row) + y.row(row);
        continue;
      }
      // The row stays in the first cache level between the two.
      out.row(row) = y.row(row);
      drop(pass, dropout.stream, row * d, d, out.data() + row * d);
      out.row(row) += x.row(row);
    }
  });
}

/// The gradient of a branch's y, given that of the stream; `buffer` holds it if it is another.
const Mat& branch_gradient(const Pass& pass, const Activations& dropout, const Mat& dx,
                           Mat& buffer) {
  if (!pass.drops()) return dx;
  const std::int64_t d = dx.cols();
  buffer.resize(dx.rows(), d);
  parallel_for(dx.rows(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      buffer.row(row) = dx.row(row);
      drop(pass, dropout.stream, row * d, d, buffer.data() + row * d);
    }
  });
  return buffer;
}

}  // namespace

void add_to(Mat& to, const Mat& more) {
  SCALING_CHECK(to.rows() == more.rows() && to.cols() == more.cols());
  parallel_for(to.rows(), [&](std::int64_t begin, std::int64_t end) {
    to.middleRows(begin, end - begin) += more.middleRows(begin, end - begin);
  });
}

Block::Block(const ModelConfig& c, Place place)
    : attention_norm(c.d_model),
      cross_norm(c.d_model),
      feed_forward_norm(c.d_model),
      recurrence_norm(c.d_model) {
  const bool decodes = place == Place::decoder;
  projection = make_projection(decodes ? c.projection : "dense", c);
  if (decodes && !c.decoder_only()) cross_projection = make_cross_projection(c.cross_projection, c);
  feed_forward = make_feed_forward(c.feed_forward, c);
  recurrence = make_recurrence(c.recurrence, c);
}

void Block::name_parameters(const std::string& with) {
  prefix = with;
  prefix_names(*projection, prefix + "projection.");
  if (cross_projection) prefix_names(*cross_projection, prefix + "cross_projection.");
  prefix_names(*feed_forward, prefix + "feed_forward.");
  if (recurrence) prefix_names(*recurrence, prefix + "recurrence.");
}

void Block::visit_parameters(const ParameterVisitor& visit) {
  attention_norm.visit_parameters(prefix + "attention_norm.", visit);
  projection->visit_parameters(visit);
  if (cross_projection) {
    cross_norm.visit_parameters(prefix + "cross_norm.", visit);
    cross_projection->visit_parameters(visit);
  }
  feed_forward_norm.visit_parameters(prefix + "feed_forward_norm.", visit);
  feed_forward->visit_parameters(visit);
  if (!recurrence) return;
  recurrence_norm.visit_parameters(prefix + "recurrence_norm.", visit);
  recurrence->visit_parameters(visit);
}

Block::Kept Block::make_kept(const Attention& self_attention,
                             const Attention& cross_attention) const {
  Kept kept;
  kept.self.projection = projection->make_activations();
  kept.self.attention = self_attention.make_activations();
  if (cross_projection) {
    kept.cross.projection = cross_projection->make_activations();
    kept.cross.attention = cross_attention.make_activations();
  }
  kept.feed_forward.layer = feed_forward->make_activations();
  if (recurrence) kept.recurrence.layer = recurrence->make_activations();
  return kept;
}

const Mat& Block::forward_self(Pass& pass, const Surroundings& around, const Mat& x,
                               Kept::Self& kept, BlockScratch& scratch) const {
  attention_norm.forward(x, kept.norm, kept.normed);
  projection->forward(pass, kept.normed, *kept.projection, kept.qkv);
  around.self_attention.forward(pass, kept.qkv.q, kept.qkv.k, kept.qkv.v, around.self,
                                *kept.attention, kept.o);
  const bool has_output = projection->has_output();
  if (has_output) projection->forward_output(pass, kept.o, *kept.projection, scratch.y);
  add_branch(pass, kept.dropout, x, has_output ? scratch.y : kept.o, kept.out);
  return kept.out;
}

const Mat& Block::forward_cross(Pass& pass, const Surroundings& around, const Mat& x,
                                Kept::Cross& kept, BlockScratch& scratch) const {
  SCALING_CHECK(around.encoded != nullptr);
  cross_norm.forward(x, kept.norm, kept.normed);
  cross_projection->forward_memory(pass, *around.encoded, *kept.projection, kept.memory);
  cross_projection->forward_query(pass, kept.normed, *kept.projection, kept.q);
  around.cross_attention.forward(pass, kept.q, kept.memory.k, kept.memory.v, around.cross,
                                 *kept.attention, kept.o);
  const bool has_output = cross_projection->has_output();
  if (has_output) cross_projection->forward_output(pass, kept.o, *kept.projection, scratch.y);
  add_branch(pass, kept.dropout, x, has_output ? scratch.y : kept.o, kept.out);
  return kept.out;
}

const Mat& Block::forward_feed_forward(Pass& pass, const Mat& x, Kept& kept,
                                       BlockScratch& scratch) const {
  Kept::FeedForwardPart& own = kept.feed_forward;
  feed_forward_norm.forward(x, own.norm, own.normed);
  feed_forward->forward(pass, own.normed, *own.layer, scratch.y);
  add_branch(pass, own.dropout, x, scratch.y, own.out);
  if (recurrence) {
    Kept::RecurrencePart& beside = kept.recurrence;
    recurrence_norm.forward(x, beside.norm, beside.normed);
    recurrence->forward(pass, beside.normed, *beside.layer, scratch.y);
    add_to(own.out, scratch.y);
  }
  return own.out;
}

const Mat& Block::forward(Pass& pass, const Surroundings& around, const Mat& x, Kept& kept,
                          BlockScratch& scratch) const {
  const Mat* state = &forward_self(pass, around, x, kept.self, scratch);
  if (cross_projection) state = &forward_cross(pass, around, *state, kept.cross, scratch);
  return forward_feed_forward(pass, *state, kept, scratch);
}

void Block::backward_feed_forward(Pass& pass, const Mat& x, Kept& kept, BlockScratch& scratch,
                                  Mat& dx) const {
  Kept::FeedForwardPart& own = kept.feed_forward;
  const Mat& dy = branch_gradient(pass, own.dropout, dx, scratch.dy);
  feed_forward->backward(pass, own.normed, *own.layer, dy, scratch.dnormed);
  // Both branches read the stream's gradient before either norm adds to it.
  if (recurrence) {
    recurrence->backward(pass, kept.recurrence.normed, *kept.recurrence.layer, dx,
                         scratch.drecurrent);
  }
  feed_forward_norm.backward(x, own.norm, scratch.dnormed, dx);
  if (recurrence) recurrence_norm.backward(x, kept.recurrence.norm, scratch.drecurrent, dx);
}

void Block::backward_cross(Pass& pass, const Surroundings& around, const Mat& x, Kept::Cross& kept,
                           BlockScratch& scratch, Mat& dx, Mat& dencoded) const {
  const Mat& dy = branch_gradient(pass, kept.dropout, dx, scratch.dy);
  const bool has_output = cross_projection->has_output();
  if (has_output) {
    cross_projection->backward_output(pass, kept.o, *kept.projection, dy, scratch.do_);
  }
  around.cross_attention.backward(pass, kept.q, kept.memory.k, kept.memory.v, around.cross,
                                  *kept.attention, has_output ? scratch.do_ : dy, scratch.dq,
                                  scratch.dmemory.k, scratch.dmemory.v);
  cross_projection->backward_query(pass, kept.normed, *kept.projection, scratch.dq,
                                   scratch.dnormed);
  cross_projection->backward_memory(pass, *around.encoded, *kept.projection, scratch.dmemory,
                                    scratch.dmemory_input);
  add_to(dencoded, scratch.dmemory_input);
  cross_norm.backward(x, kept.norm, scratch.dnormed, dx);
}

void Block::backward_self(Pass& pass, const Surroundings& around, const Mat& x, Kept::Self& kept,
                          BlockScratch& scratch, Mat& dx) const {
  const Mat& dy = branch_gradient(pass, kept.dropout, dx, scratch.dy);
  const bool has_output = projection->has_output();
  if (has_output) projection->backward_output(pass, kept.o, *kept.projection, dy, scratch.do_);
  around.self_attention.backward(pass, kept.qkv.q, kept.qkv.k, kept.qkv.v, around.self,
                                 *kept.attention, has_output ? scratch.do_ : dy, scratch.dqkv.q,
                                 scratch.dqkv.k, scratch.dqkv.v);
  projection->backward(pass, kept.normed, *kept.projection, scratch.dqkv, scratch.dnormed);
  attention_norm.backward(x, kept.norm, scratch.dnormed, dx);
}

void Block::backward(Pass& pass, const Surroundings& around, const Mat& x, Kept& kept,
                     BlockScratch& scratch, Mat& dx, Mat* dencoded) const {
  const Mat& before = cross_projection ? kept.cross.out : kept.self.out;
  backward_feed_forward(pass, before, kept, scratch, dx);
  if (cross_projection) {
    SCALING_CHECK(dencoded != nullptr);
    backward_cross(pass, around, kept.self.out, kept.cross, scratch, dx, *dencoded);
  }
  backward_self(pass, around, x, kept.self, scratch, dx);
}

}  // namespace scaling
