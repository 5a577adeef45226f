// The order of the parts, forward and back. A stack that stores has its streams in the branches'
// results; one that does not has two matrices, to which branches add in place.
#include "models/transformer/stack.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/check.h"
#include "kernels/parallel.h"
#include "models/layers/catalog.h"

namespace scaling {
namespace {

/// Puts the decisions of one branch of one block in place for as long as it lives.
class InPlace {
 public:
  InPlace(BranchActivations& kept, std::vector<Decisions>& stored) : kept_(kept), stored_(stored) {
    exchange();
  }
  ~InPlace() { exchange(); }
  InPlace(const InPlace&) = delete;
  InPlace& operator=(const InPlace&) = delete;

 private:
  void exchange() {
    std::size_t i = 0;
    kept_.for_each_decisions([&](Decisions& of) { std::swap(of, stored_[i++]); });
  }
  BranchActivations& kept_;
  std::vector<Decisions>& stored_;
};

}  // namespace

Stack::Stack(const ModelConfig& config, Kind kind_)
    : kind(kind_),
      positions(PositionVectors::make(std::string(name_of(kind_)) + "_positions", config)),
      norm(config.d_model),
      is_reversible_(config.is_reversible()),
      stores_(config.residual_stack != ResidualStack::reversible),
      reselects_(config.recompute_decisions),
      joins_streams_(config.joins_streams()),
      in_turn_(std::size_t(attentions_in_turn(config, kind_ == Kind::encoder))),
      encoder_swaps_(config.encoder_swaps) {
  if (kind == Kind::decoder && config.future_tokens > 1) {
    const float scale =
        float(config.embedding_scale) * std::sqrt(3.0f / float(config.d_model));  // a token's
    streams = Parameter::make_matrix("decoder_streams", config.future_tokens - 1, config.d_model,
                                     Layout::rows, {Initializer::Kind::uniform, scale});
  }
  if (kind == Kind::encoder && config.is_concatenated() && !joins_streams_) {
    output = std::make_unique<DenseProduct>("encoder_output.w", "encoder_output.bias",
                                            config.d_model, config.d_model);
  }
}

void Stack::add_block(const ModelConfig& config) {
  blocks.push_back(std::make_unique<Block>(config, kind, blocks.size()));
}

void Stack::visit_parameters(const ParameterVisitor& visit) {
  visit(positions.weights);
  if (streams.count() > 0) visit(streams);
  for (const auto& block : blocks) block->visit_parameters(visit);
  if (output) output->visit_parameters(visit);
  if (!ends_in_streams()) norm.visit_parameters(std::string(name_of(kind)) + "_norm.", visit);
}

bool Stack::swaps(std::size_t j, std::size_t branches) const {
  return is_reversible_ && !(kind == Kind::encoder && encoder_swaps_ == 1 && j + 1 == branches);
}

Stack::Kept Stack::make_activations(bool stored) const {
  Kept kept;
  if (is_reversible_) kept.embedding.masks = DropoutMask::per_example;  // paper 5.2
  const bool is_shared = !stores_ && !stored;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    for (const auto& branch : blocks[i]->branches) {
      auto own = branch->make_activations();
      if (is_shared) {
        std::size_t count = 0;
        own->for_each_decisions([&](Decisions&) { ++count; });
        kept.decisions.emplace_back(count);
        if (i >= in_turn_) continue;
      }
      kept.branches.push_back(std::move(own));
    }
  }
  return kept;
}

BranchActivations& Stack::shared(const Kept& kept, std::size_t i, std::size_t j) const {
  return *kept.branches[i % in_turn_ * blocks[i]->branches.size() + j];
}

void Stack::run_stored(Pass& pass, const BlockInputs& inputs, const Mat& first_acc,
                       const Mat& first_ctx, Kept& kept) const {
  const Mat *acc = &first_acc, *ctx = &first_ctx;
  kept.inputs.clear();
  for (const auto& block : blocks) {
    const auto& branches = block->branches;
    for (std::size_t j = 0; j < branches.size(); ++j) {
      BranchActivations& own = *kept.branches[kept.inputs.size()];
      kept.inputs.push_back(ctx);
      branches[j]->forward(pass, inputs, *ctx, *acc, 1, own, kept.scratch, own.out);
      acc = &own.out;
      if (!is_reversible_) ctx = acc;
      if (swaps(j, branches.size())) std::swap(acc, ctx);
    }
  }
  end(*acc, *ctx, kept);
}

void Stack::end(const Mat& acc, const Mat& ctx, Kept& kept) const {
  if (ends_in_streams()) {
    kept.normed.resize(acc.rows(), 2 * acc.cols());
    kept.normed << acc, ctx;
  } else if (is_reversible_) {
    kept.mean.resize(acc.rows(), acc.cols());
    kept.mean.noalias() = 0.5f * (acc + ctx);
    kept.last = &kept.mean;
  } else {
    kept.last = &ctx;
  }
}

void Stack::run_in_place(Pass& pass, const BlockInputs& inputs, const Mat& acc, const Mat& ctx,
                         Kept& kept) const {
  kept.acc = acc;
  kept.ctx = ctx;
  std::size_t at = 0;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const auto& branches = blocks[i]->branches;
    for (std::size_t j = 0; j < branches.size(); ++j, ++at) {
      BranchActivations& own = shared(kept, i, j);
      const InPlace decisions(own, kept.decisions[at]);
      branches[j]->forward(pass, inputs, kept.ctx, kept.acc, 1, own, kept.scratch, kept.acc);
      if (swaps(j, branches.size())) kept.acc.swap(kept.ctx);
    }
  }
  end(kept.acc, kept.ctx, kept);
}

void Stack::run(Pass& pass, const BlockInputs& inputs, const Mat& acc, const Mat& ctx,
                Kept& kept) const {
  if (kept.decisions.empty()) {
    run_stored(pass, inputs, acc, ctx, kept);
  } else {
    run_in_place(pass, inputs, acc, ctx, kept);
  }
}

void Stack::back_in_place(Pass& pass, const BlockInputs& inputs, Kept& kept, Mat* dencoded) const {
  std::size_t at = kept.decisions.size();
  for (std::size_t i = blocks.size(); i-- > 0;) {
    const auto& branches = blocks[i]->branches;
    for (std::size_t j = branches.size(); j-- > 0;) {
      if (swaps(j, branches.size())) {
        kept.acc.swap(kept.ctx);
        kept.dacc.swap(kept.dctx);
      }
      BranchActivations& own = shared(kept, i, j);
      const InPlace decisions(own, kept.decisions[--at]);
      pass.recomputes = true;
      pass.reselects = reselects_;
      branches[j]->forward(pass, inputs, kept.ctx, kept.acc, -1, own, kept.scratch, kept.acc);
      pass.recomputes = pass.reselects = false;
      branches[j]->backward(pass, inputs, kept.ctx, own, kept.scratch, kept.dacc, kept.dctx,
                            dencoded);
    }
  }
}

void Stack::run_back(Pass& pass, const BlockInputs& inputs, Kept& kept, Mat& dx,
                     Mat* dencoded) const {
  if (ends_in_streams()) {
    kept.dacc = kept.dnormed.leftCols(dx.cols());
    kept.dctx = kept.dnormed.rightCols(dx.cols());
  } else if (is_reversible_) {
    kept.dacc.resize(dx.rows(), dx.cols());
    kept.dacc.noalias() = 0.5f * dx;
    kept.dctx = kept.dacc;
  }
  if (!kept.decisions.empty()) {
    back_in_place(pass, inputs, kept, dencoded);
  } else {
    std::size_t i = kept.inputs.size();
    for (auto block = blocks.rbegin(); block != blocks.rend(); ++block) {
      const auto& branches = (*block)->branches;
      for (std::size_t j = branches.size(); j-- > 0;) {
        --i;
        if (swaps(j, branches.size())) kept.dacc.swap(kept.dctx);
        branches[j]->backward(pass, inputs, *kept.inputs[i], *kept.branches[i], kept.scratch,
                              is_reversible_ ? kept.dacc : dx, is_reversible_ ? kept.dctx : dx,
                              dencoded);
      }
    }
  }
  if (is_reversible_) dx.noalias() = kept.dacc + kept.dctx;
}

void Stack::add_streams(const Pass& pass, std::int64_t count, Mat& x) const {
  const std::int64_t d = x.cols(), length = pass.length(x);
  SCALING_CHECK(streams.data && streams.type == WeightType::f32 && streams.rows == count - 1);
  parallel_for(x.rows(), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t stream = row / length % count;
      if (stream == 0) continue;
      const float* from = streams.vector() + (stream - 1) * d;
      float* to = x.data() + row * d;
      for (std::int64_t i = 0; i < d; ++i) to[i] += from[i];
    }
  });
}

void Stack::add_streams_backward(const Pass& pass, std::int64_t count, const Mat& dx) const {
  if (!streams.gradient) return;
  const std::int64_t d = dx.cols(), length = pass.length(dx);
  // Columns are shared among the threads, since all rows of a stream add to one.
  parallel_for(d, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = 0; row < dx.rows(); ++row) {
      const std::int64_t stream = row / length % count;
      if (stream == 0) continue;
      const float* from = dx.data() + row * d;
      float* to = streams.gradient + (stream - 1) * d;
      for (std::int64_t i = begin; i < end; ++i) to[i] += from[i];
    }
  });
}

void Stack::forward(Pass& pass, const Parameter& embedding, const BlockInputs& inputs,
                    const std::vector<int>& ids, Kept& kept) const {
  pass.ids = ids.data();
  embed(pass, embedding, positions, ids, kept.embedding, kept.embedded, inputs.self.streams);
  if (inputs.self.streams > 1) add_streams(pass, inputs.self.streams, kept.embedded);
  const Concatenation* joined = inputs.joined;
  const Mat *acc = &kept.embedded, *ctx = acc;
  if (joined) {
    joined->join(*inputs.encoded, 0, kept.embedded, kept.joint);
    acc = ctx = &kept.joint;
    if (joins_streams_) {
      joined->join(*inputs.encoded, kept.embedded.cols(), kept.embedded, kept.second_joint);
      ctx = &kept.second_joint;
    }
    joined->join_ids(*inputs.source, ids, kept.ids);
    pass.ids = kept.ids.data();
  }
  run(pass, inputs, *acc, *ctx, kept);
  if (ends_in_streams()) return;
  if (joined) {
    joined->strip(*kept.last, kept.stripped);
    kept.last = &kept.stripped;
  }
  kept.before_norm = kept.last;
  if (output) {
    output->forward(pass, *kept.last, kept.dense, kept.output);
    kept.before_norm = &kept.output;
  }
  norm.forward(*kept.before_norm, kept.norm, kept.normed);
}

void Stack::backward(Pass& pass, const Parameter& embedding, const BlockInputs& inputs,
                     const std::vector<int>& ids, Kept& kept, Mat* dencoded) const {
  const Concatenation* joined = inputs.joined;
  kept.dx.setZero(kept.normed.rows(), kept.embedded.cols());
  if (!ends_in_streams()) norm.backward(*kept.before_norm, kept.norm, kept.dnormed, kept.dx);
  if (output) {
    kept.dlast = kept.dx;
    output->backward(pass, *kept.last, kept.dense, kept.dlast, kept.dx);
  }
  pass.ids = joined ? kept.ids.data() : ids.data();
  if (joined) {
    SCALING_CHECK(dencoded != nullptr);
    joined->strip_backward(kept.dx, kept.dlast);
    kept.dx.swap(kept.dlast);
  }
  run_back(pass, inputs, kept, kept.dx, dencoded);
  if (joined && joins_streams_) {
    joined->join_backward(kept.dacc, 0, *dencoded, kept.dlast);
    // What the norm saw is not needed any more, and has the right size.
    joined->join_backward(kept.dctx, kept.dacc.cols(), *dencoded, kept.stripped);
    kept.dlast += kept.stripped;
  } else if (joined) {
    joined->join_backward(kept.dx, 0, *dencoded, kept.dlast);
  }
  if (joined) kept.dx.swap(kept.dlast);
  pass.ids = ids.data();
  if (inputs.self.streams > 1) add_streams_backward(pass, inputs.self.streams, kept.dx);
  embed_backward(pass, embedding, positions, ids, kept.embedding, kept.dx);
}

std::string Stack::first_not_finite(const Kept& kept) const {
  SCALING_CHECK(kept.decisions.empty());
  std::size_t i = 0;
  for (const auto& block : blocks) {
    for (const auto& branch : block->branches) {
      if (!kept.branches[i++]->out.allFinite()) return branch->name();
    }
  }
  return "";
}

std::vector<AttentionView> Stack::self_attentions(const Kept& kept) const {
  SCALING_CHECK(kept.decisions.empty());
  std::vector<AttentionView> views;
  std::size_t i = 0;
  for (const auto& block : blocks) {
    for (const auto& branch : block->branches) {
      const AttentionView view = branch->attention_of(*kept.branches[i++]);
      if (view.q) views.push_back(view);
    }
  }
  return views;
}

std::vector<double> Stack::selection_entropies(const Kept& kept) const {
  SCALING_CHECK(kept.decisions.empty());
  std::vector<double> entropies;
  std::size_t i = 0;
  for (const auto& block : blocks) {
    double of_block = std::numeric_limits<double>::quiet_NaN();
    for (const auto& branch : block->branches) {
      const double entropy = branch->selection_entropy(*kept.branches[i++]);
      if (!std::isnan(entropy)) of_block = entropy;
    }
    entropies.push_back(of_block);
  }
  return entropies;
}

std::size_t Stack::Kept::decision_bytes() const {
  std::size_t bytes = 0;
  for (const std::vector<Decisions>& of_branch : decisions) {
    for (const Decisions& some : of_branch) bytes += some.chosen.capacity() * sizeof(std::int32_t);
  }
  return bytes;
}

double Stack::Kept::reconstruction_error() const {
  if (decisions.empty()) return std::numeric_limits<double>::quiet_NaN();
  const Mat& x = joint.rows() == acc.rows() ? joint : embedded;
  const Mat& second = second_joint.rows() == acc.rows() ? second_joint : x;
  double error = 0;
  for (std::int64_t row = 0; row < x.rows(); ++row) {
    // Behind a joint sequence: norms of zeros magnify rounding, and nothing depends on it.
    if ((x.row(row).array() == 0).all()) continue;
    const double of_acc = double((acc.row(row) - x.row(row)).cwiseAbs().maxCoeff());
    const double of_ctx = double((ctx.row(row) - second.row(row)).cwiseAbs().maxCoeff());
    error = std::max({error, of_acc, of_ctx});
  }
  return error;
}

}  // namespace scaling
