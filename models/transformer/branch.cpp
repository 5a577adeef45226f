// Forward and backward of the branches. In place of a sum and a dropout one after the other, each
// row is dropped in pieces that stay in the first cache level.
#include "models/transformer/branch.h"

#include <algorithm>
#include <array>

#include "kernels/check.h"
#include "kernels/parallel.h"
#include "models/layers/catalog.h"
#include "models/layers/parts/product.h"

namespace scaling {
namespace {

void prefix_names(Layer& layer, const std::string& prefix) {
  layer.visit_parameters([&](Parameter& p) { p.name = prefix + p.name; });
}

/// "projection" of the first, "projection2" of the second.
std::string numbered(int number) { return number == 1 ? "" : std::to_string(number); }

/// out = base + sign * dropout(y), or without the dropout if `dropout` is null. out may be base.
void add_branch(Pass& pass, Activations* dropout, Masks masks, const Mat& y, const Mat& base,
                float sign, Mat& out) {
  if (dropout) dropout->take_stream(pass);
  const std::int64_t d = y.cols();
  out.resize(y.rows(), d);
  parallel_for(y.rows(), [&](std::int64_t begin, std::int64_t end) {
    std::array<float, 256> piece{};
    for (std::int64_t row = begin; row < end; ++row) {
      if (!dropout || !pass.drops()) {
        out.row(row) = base.row(row) + sign * y.row(row);
        continue;
      }
      const std::int64_t mask = pass.mask_begin(y, masks, row);
      for (std::int64_t first = 0; first < d; first += std::int64_t(piece.size())) {
        const std::int64_t n = std::min(std::int64_t(piece.size()), d - first);
        const std::int64_t at = row * d + first;
        std::copy_n(y.data() + at, n, piece.data());
        drop(pass, dropout->stream, mask + first, n, piece.data());
        const float* from = base.data() + at;
        float* to = out.data() + at;
        for (std::int64_t i = 0; i < n; ++i) to[i] = from[i] + sign * piece[std::size_t(i)];
      }
    }
  });
}

/// The gradient of a branch's y, given that of its result; `buffer` holds it if it is another.
const Mat& branch_gradient(const Pass& pass, const Activations* dropout, Masks masks,
                           const Mat& dout, Mat& buffer) {
  if (!dropout || !pass.drops()) return dout;
  const std::int64_t d = dout.cols();
  buffer.resize(dout.rows(), d);
  parallel_for(dout.rows(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      buffer.row(row) = dout.row(row);
      drop(pass, dropout->stream, pass.mask_begin(dout, masks, row), d, buffer.data() + row * d);
    }
  });
  return buffer;
}

/// Of both attentions.
struct AttentionKept : Branch::Kept {
  void for_each_decisions(const std::function<void(Decisions&)>& fn) override {
    fn(*projection);
    fn(*attention);
    fn(dropout);
  }
  Norm::Kept norm;
  Mat normed, o;
  std::unique_ptr<Activations> projection, attention;
  Activations dropout;
};

}  // namespace

void add_to(Mat& to, const Mat& more, float factor) {
  SCALING_CHECK(to.rows() == more.rows() && to.cols() == more.cols());
  parallel_for(to.rows(), [&](std::int64_t begin, std::int64_t end) {
    to.middleRows(begin, end - begin) += factor * more.middleRows(begin, end - begin);
  });
}

// -- self-attention -------------------------------------------------------------------------------

struct SelfAttentionBranch::Kept : AttentionKept {
  Projection::QKV qkv;
};

SelfAttentionBranch::SelfAttentionBranch(const ModelConfig& config, Place place, int number,
                                         const std::string& prefix)
    : norm(config.d_model),
      projection(make_projection(place == Place::decoder ? config.projection : "dense", config)),
      norm_name_(prefix + "attention" + numbered(number) + "_norm."),
      drops_output_(!config.is_reversible()) {
  prefix_names(*projection, prefix + "projection" + numbered(number) + ".");
}

void SelfAttentionBranch::visit_parameters(const ParameterVisitor& visit) {
  norm.visit_parameters(norm_name_, visit);
  projection->visit_parameters(visit);
}

std::unique_ptr<Branch::Kept> SelfAttentionBranch::make_kept(const Attention& self_attention,
                                                             const Attention&) const {
  auto kept = std::make_unique<Kept>();
  kept->projection = projection->make_activations();
  kept->attention = self_attention.make_activations();
  return kept;
}

void SelfAttentionBranch::forward(Pass& pass, const Surroundings& around, const Mat& x,
                                  const Mat& base, float sign, Branch::Kept& kept,
                                  BranchScratch& scratch, Mat& out) const {
  Kept& own = static_cast<Kept&>(kept);
  norm.forward(x, own.norm, own.normed);
  projection->forward(pass, own.normed, *own.projection, own.qkv);
  around.self_attention.forward(pass, own.qkv.q, own.qkv.k, own.qkv.v, around.self, *own.attention,
                                own.o);
  const bool has_output = projection->has_output();
  if (has_output) projection->forward_output(pass, own.o, *own.projection, scratch.y);
  add_branch(pass, drops_output_ ? &own.dropout : nullptr, Masks::of_positions,
             has_output ? scratch.y : own.o, base, sign, out);
}

void SelfAttentionBranch::backward(Pass& pass, const Surroundings& around, const Mat& x,
                                   Branch::Kept& kept, BranchScratch& scratch, const Mat& dout,
                                   Mat& dx, Mat* /*dencoded*/) const {
  Kept& own = static_cast<Kept&>(kept);
  const Mat& dy = branch_gradient(pass, drops_output_ ? &own.dropout : nullptr, Masks::of_positions,
                                  dout, scratch.dy);
  const bool has_output = projection->has_output();
  if (has_output) projection->backward_output(pass, own.o, *own.projection, dy, scratch.do_);
  around.self_attention.backward(pass, own.qkv.q, own.qkv.k, own.qkv.v, around.self, *own.attention,
                                 has_output ? scratch.do_ : dy, scratch.dqkv.q, scratch.dqkv.k,
                                 scratch.dqkv.v);
  projection->backward(pass, own.normed, *own.projection, scratch.dqkv, scratch.dnormed);
  norm.backward(x, own.norm, scratch.dnormed, dx);
}

// -- cross-attention ------------------------------------------------------------------------------

struct CrossAttentionBranch::Kept : AttentionKept {
  Mat q;
  CrossProjection::Memory memory;
};

CrossAttentionBranch::CrossAttentionBranch(const ModelConfig& config, const std::string& prefix)
    : norm(config.d_model),
      projection(make_cross_projection(config.cross_projection, config)),
      norm_name_(prefix + "cross_norm."),
      drops_output_(!config.is_reversible()) {
  prefix_names(*projection, prefix + "cross_projection.");
}

void CrossAttentionBranch::visit_parameters(const ParameterVisitor& visit) {
  norm.visit_parameters(norm_name_, visit);
  projection->visit_parameters(visit);
}

std::unique_ptr<Branch::Kept> CrossAttentionBranch::make_kept(
    const Attention&, const Attention& cross_attention) const {
  auto kept = std::make_unique<Kept>();
  kept->projection = projection->make_activations();
  kept->attention = cross_attention.make_activations();
  return kept;
}

void CrossAttentionBranch::forward(Pass& pass, const Surroundings& around, const Mat& x,
                                   const Mat& base, float sign, Branch::Kept& kept,
                                   BranchScratch& scratch, Mat& out) const {
  SCALING_CHECK(around.encoded != nullptr);
  Kept& own = static_cast<Kept&>(kept);
  norm.forward(x, own.norm, own.normed);
  projection->forward_memory(pass, *around.encoded, *own.projection, own.memory);
  projection->forward_query(pass, own.normed, *own.projection, own.q);
  around.cross_attention.forward(pass, own.q, own.memory.k, own.memory.v, around.cross,
                                 *own.attention, own.o);
  const bool has_output = projection->has_output();
  if (has_output) projection->forward_output(pass, own.o, *own.projection, scratch.y);
  add_branch(pass, drops_output_ ? &own.dropout : nullptr, Masks::of_positions,
             has_output ? scratch.y : own.o, base, sign, out);
}

void CrossAttentionBranch::backward(Pass& pass, const Surroundings& around, const Mat& x,
                                    Branch::Kept& kept, BranchScratch& scratch, const Mat& dout,
                                    Mat& dx, Mat* dencoded) const {
  SCALING_CHECK(dencoded != nullptr);
  Kept& own = static_cast<Kept&>(kept);
  const Mat& dy = branch_gradient(pass, drops_output_ ? &own.dropout : nullptr, Masks::of_positions,
                                  dout, scratch.dy);
  const bool has_output = projection->has_output();
  if (has_output) projection->backward_output(pass, own.o, *own.projection, dy, scratch.do_);
  around.cross_attention.backward(pass, own.q, own.memory.k, own.memory.v, around.cross,
                                  *own.attention, has_output ? scratch.do_ : dy, scratch.dq,
                                  scratch.dmemory.k, scratch.dmemory.v);
  projection->backward_query(pass, own.normed, *own.projection, scratch.dq, scratch.dnormed);
  projection->backward_memory(pass, *around.encoded, *own.projection, scratch.dmemory,
                              scratch.dmemory_input);
  add_to(*dencoded, scratch.dmemory_input);
  norm.backward(x, own.norm, scratch.dnormed, dx);
}

// -- feed-forward ---------------------------------------------------------------------------------

struct FeedForwardBranch::Kept : Branch::Kept {
  void for_each_decisions(const std::function<void(Decisions&)>& fn) override {
    fn(*layer);
    fn(dropout);
    if (recurrence) fn(*recurrence);
  }
  Norm::Kept norm, recurrence_norm;
  Mat normed, recurrence_normed;
  std::unique_ptr<Activations> layer, recurrence;
  Activations dropout;
};

FeedForwardBranch::FeedForwardBranch(const ModelConfig& config, const std::string& prefix)
    : norm(config.d_model),
      recurrence_norm(config.d_model),
      feed_forward(make_feed_forward(config.feed_forward, config)),
      recurrence(make_recurrence(config.recurrence, config)),
      prefix_(prefix),
      masks_(config.is_reversible() ? Masks::of_examples : Masks::of_positions) {
  prefix_names(*feed_forward, prefix + "feed_forward.");
  if (recurrence) prefix_names(*recurrence, prefix + "recurrence.");
}

void FeedForwardBranch::visit_parameters(const ParameterVisitor& visit) {
  norm.visit_parameters(prefix_ + "feed_forward_norm.", visit);
  feed_forward->visit_parameters(visit);
  if (!recurrence) return;
  recurrence_norm.visit_parameters(prefix_ + "recurrence_norm.", visit);
  recurrence->visit_parameters(visit);
}

std::unique_ptr<Branch::Kept> FeedForwardBranch::make_kept(const Attention&,
                                                           const Attention&) const {
  auto kept = std::make_unique<Kept>();
  kept->layer = feed_forward->make_activations();
  if (recurrence) kept->recurrence = recurrence->make_activations();
  return kept;
}

void FeedForwardBranch::forward(Pass& pass, const Surroundings&, const Mat& x, const Mat& base,
                                float sign, Branch::Kept& kept, BranchScratch& scratch,
                                Mat& out) const {
  SCALING_CHECK(&x != &out);
  Kept& own = static_cast<Kept&>(kept);
  norm.forward(x, own.norm, own.normed);
  feed_forward->forward(pass, own.normed, *own.layer, scratch.y);
  add_branch(pass, &own.dropout, masks_, scratch.y, base, sign, out);
  if (!recurrence) return;
  recurrence_norm.forward(x, own.recurrence_norm, own.recurrence_normed);
  recurrence->forward(pass, own.recurrence_normed, *own.recurrence, scratch.y);
  add_to(out, scratch.y, sign);
}

void FeedForwardBranch::backward(Pass& pass, const Surroundings&, const Mat& x, Branch::Kept& kept,
                                 BranchScratch& scratch, const Mat& dout, Mat& dx,
                                 Mat* /*dencoded*/) const {
  Kept& own = static_cast<Kept&>(kept);
  const Mat& dy = branch_gradient(pass, &own.dropout, masks_, dout, scratch.dy);
  feed_forward->backward(pass, own.normed, *own.layer, dy, scratch.dnormed);
  // dout may be dx: both layers read it before either norm adds to it.
  if (recurrence) {
    recurrence->backward(pass, own.recurrence_normed, *own.recurrence, dout, scratch.drecurrent);
  }
  norm.backward(x, own.norm, scratch.dnormed, dx);
  if (recurrence) recurrence_norm.backward(x, own.recurrence_norm, scratch.drecurrent, dx);
}

double FeedForwardBranch::selection_entropy(const Branch::Kept& kept) const {
  return feed_forward->selection_entropy(*static_cast<const Kept&>(kept).layer);
}

}  // namespace scaling
