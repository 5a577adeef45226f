// Products with the rows of one example after another, and the tiles of exact attention between the
// queries and what these make.
#include "models/layers/attention/linformer_sums.h"

#include <algorithm>
#include <string>

#include "kernels/check.h"
#include "models/config_checks.h"
#include "models/layers/attention/patterns/all.h"

namespace scaling {
namespace {

/// Rows of one example, of which those that are padding are passed over.
struct Example {
  std::int64_t index, length;
  const std::uint8_t* seen;  // of all examples, or null

  bool sees(std::int64_t position) const {
    return seen == nullptr || seen[index * length + position] != 0;
  }
  std::int64_t count() const {
    std::int64_t n = 0;
    for (std::int64_t t = 0; t < length; ++t) n += sees(t);
    return n;
  }
  /// Those that are seen, one after another: in x itself if padding stands behind them, as it does
  /// where sequences are made into batches, or a copy.
  const float* seen_rows(const Mat& x, Mat& copy) const {
    const std::int64_t n = count();
    std::int64_t front = 0;
    while (front < n && sees(front)) ++front;
    if (front == n) return x.row(index * length).data();
    copy.resize(length, x.cols());
    for (std::int64_t t = 0, to = 0; t < length; ++t) {
      if (sees(t)) copy.row(to++) = x.row(index * length + t);
    }
    return copy.data();
  }
  /// The first count() rows of all's go to where they are seen; padding gets zeros.
  void spread(Mat& all) const {
    auto rows = all.middleRows(index * length, length);
    std::int64_t from = count();
    for (std::int64_t t = length; t-- > 0;) {
      if (!sees(t)) {
        rows.row(t).setZero();
      } else if (--from != t) {
        rows.row(t) = rows.row(from);
      }
    }
  }
};

/// (rank, length) in f32, row-major: the weights, or if they are stored otherwise a copy.
const float* values_of(const Parameter& w, Mat& copy) {
  if (w.type == WeightType::f32 && w.layout == Layout::rows) return w.view().f32();
  copy = w.matrix();
  return copy.data();
}

}  // namespace

struct LinformerSums::Kept : Activations {
  std::unique_ptr<Activations> tiles;
  Mat k, v, dk, dv;  // (examples * rank, d_model): the sums and their gradients
  Mat seen;          // (length, d_model): of one example, those that are no padding in front
  Mat e, f;          // (rank, length), where weights are not stored so
};

void LinformerSums::validate(const ModelConfig& config) {
  const auto knobs = config.options<LinformerKnobs>();
  require_positive("linformer_rank", knobs.linformer_rank);
  require_not_negative("linformer_length", knobs.linformer_length);
}

void LinformerSums::shrink(ModelConfig& config) {
  set_field(config, "linformer_rank", 5);
  set_field(config, "linformer_length", 0);
}

LinformerSums::LinformerSums(const ModelConfig& config)
    : tiles_{config.n_heads, config.d_head(), std::make_unique<AllKeys>(), nullptr} {
  const auto knobs = config.options<LinformerKnobs>();
  rank_ = knobs.linformer_rank;
  length_ = knobs.linformer_length > 0 ? knobs.linformer_length : config.max_length;
  shares_ = knobs.linformer_sharing == LinformerSharing::key_value;
  const Initializer init = glorot_uniform(length_, rank_);
  e_ = Parameter::make_matrix("e", rank_, length_, Layout::rows, init);
  f_ = Parameter::make_matrix("f", rank_, length_, Layout::rows, init);
}

void LinformerSums::visit_parameters(const ParameterVisitor& visit) {
  visit(e_);
  if (!shares_) visit(f_);
}

std::unique_ptr<Activations> LinformerSums::make_activations() const {
  auto kept = std::make_unique<Kept>();
  kept->tiles = tiles_.make_activations();
  return kept;
}

void LinformerSums::require_length(std::int64_t length) const {
  if (length <= length_) return;
  throw UserError("a sequence of " + std::to_string(length) +
                  " positions exceeds the linformer attention's " + std::to_string(length_) +
                  ", for which alone it has weights; raise linformer_length, or max_length if that "
                  "is 0, or shorten sequences");
}

void LinformerSums::forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                            const AttentionMask& mask, Activations& kept, Mat& o) const {
  const std::int64_t length = pass.length(k), width = q.cols();
  require_length(length);
  SCALING_CHECK(!mask.causal && k.rows() == pass.examples * length && v.rows() == k.rows());
  SCALING_CHECK(k.cols() == width && v.cols() == width && e_.data != nullptr);
  auto& own = static_cast<Kept&>(kept);
  own.k.resize(pass.examples * rank_, width);
  own.v.resize(pass.examples * rank_, width);
  const float* e = values_of(e_, own.e);
  const float* f = shares_ ? e : values_of(f_, own.f);
  for (std::int64_t i = 0; i < pass.examples; ++i) {
    const Example example{i, length, mask.keys};
    const std::int64_t n = example.count();
    const auto sum = [&](const float* w, const Mat& rows, Mat& sums) {
      if (n == 0) {
        sums.middleRows(i * rank_, rank_).setZero();
        return;
      }
      pass.gemm.product(false, false, rank_, width, n, w, length_,
                        example.seen_rows(rows, own.seen), width, 0, sums.row(i * rank_).data(),
                        width);
    };
    sum(e, k, own.k);
    sum(f, v, own.v);
  }
  // Draws of this layer are the tiles': a forward that is computed again finds them there.
  static_cast<Decisions&>(*own.tiles) = own;
  tiles_.forward(pass, q, own.k, own.v, {}, *own.tiles, o);
  static_cast<Decisions&>(own) = *own.tiles;
}

void LinformerSums::backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                             const AttentionMask& mask, Activations& kept, const Mat& do_, Mat& dq,
                             Mat& dk, Mat& dv) const {
  const std::int64_t length = pass.length(k), width = q.cols();
  auto& own = static_cast<Kept&>(kept);
  SCALING_CHECK(own.k.rows() == pass.examples * rank_ && do_.rows() == q.rows());
  tiles_.backward(pass, q, own.k, own.v, {}, *own.tiles, do_, dq, own.dk, own.dv);
  dk.resize(k.rows(), width);
  dv.resize(v.rows(), width);
  const float* e = values_of(e_, own.e);
  const float* f = shares_ ? e : values_of(f_, own.f);
  for (std::int64_t i = 0; i < pass.examples; ++i) {
    const Example example{i, length, mask.keys};
    const std::int64_t n = example.count();
    const auto back = [&](const float* w, float* gradient, const Mat& dsums, const Mat& rows,
                          Mat& drows) {
      const float* of_sums = dsums.row(i * rank_).data();
      if (n > 0 && gradient != nullptr) {
        pass.gemm.product(false, true, rank_, n, width, of_sums, width,
                          example.seen_rows(rows, own.seen), width, 1, gradient, length_);
      }
      if (n > 0) {
        pass.gemm.product(true, false, n, width, rank_, w, length_, of_sums, width, 0,
                          drows.row(i * length).data(), width);
      }
      example.spread(drows);
    };
    back(e, e_.gradient, own.dk, k, dk);
    back(f, of_values().gradient, own.dv, v, dv);
  }
}

AttentionWork LinformerSums::work(std::int64_t queries, std::int64_t keys) const {
  // Sums of keys and values, and two products of a query with each of them; each product has two
  // gradients.
  const double width = double(tiles_.heads * tiles_.d_head);
  const double products = 4 * double((queries + keys) * rank_) * width;
  return {.products = products, .backward_products = 2 * products};
}

}  // namespace scaling
