// Products with the rows of one example after another, and the tiles of exact attention between the
// queries and what these make.
#include "models/layers/attention/linformer.h"

#include <algorithm>
#include <string>

#include "kernels/check.h"
#include "models/config_checks.h"
#include "models/layers/attention/patterns/all.h"

namespace scaling {
namespace {

[[noreturn]] void refuse_causal(const char* what) {
  throw UserError(
      std::string("attention linformer cannot ") + what +
      ": it adds up all positions before a query meets them, the later ones too; take a "
      "task that is read from both sides (masked), or another attention");
}

/// Rows of one example.
struct Example {
  std::int64_t index, length;
  const std::uint8_t* seen;  // of all examples, or null

  const float* of(const Mat& all) const { return all.row(index * length).data(); }
  float* of(Mat& all) const { return all.row(index * length).data(); }
  bool sees(std::int64_t position) const {
    return seen == nullptr || seen[index * length + position] != 0;
  }
  /// Whose rows of padding are zero: those of x, or a copy.
  const float* seen_rows(const Mat& x, Mat& copy) const {
    if (seen == nullptr) return of(x);
    copy = x.middleRows(index * length, length);
    clear_unseen(copy.data(), copy.cols());
    return copy.data();
  }
  void clear_unseen(float* rows, std::int64_t width) const {
    for (std::int64_t t = 0; t < length; ++t) {
      if (!sees(t)) std::fill_n(rows + t * width, width, 0.0f);
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

struct LinformerAttention::Kept : Activations {
  std::unique_ptr<Activations> tiles;
  Mat k, v, dk, dv;  // (examples * rank, d_model): the sums and their gradients
  Mat seen;          // (length, d_model): of one example, without padding
  Mat e, f;          // (rank, length), where weights are not stored so
};

void LinformerAttention::validate(const ModelConfig& config) {
  const auto knobs = config.options<LinformerKnobs>();
  require_positive("linformer_rank", knobs.linformer_rank);
  require_not_negative("linformer_length", knobs.linformer_length);
}

void LinformerAttention::shrink(ModelConfig& config) {
  set_field(config, "linformer_rank", 5);
  set_field(config, "linformer_length", 0);
}

LinformerAttention::LinformerAttention(const ModelConfig& config)
    : tiles_{config.n_heads, config.d_head(), std::make_unique<AllKeys>(), nullptr} {
  const auto knobs = config.options<LinformerKnobs>();
  rank_ = knobs.linformer_rank;
  length_ = knobs.linformer_length > 0 ? knobs.linformer_length : config.max_length;
  shares_ = knobs.linformer_sharing == LinformerSharing::key_value;
  const Initializer init = glorot_uniform(length_, rank_);
  e_ = Parameter::make_matrix("e", rank_, length_, Layout::rows, init);
  f_ = Parameter::make_matrix("f", rank_, length_, Layout::rows, init);
}

void LinformerAttention::visit_parameters(const ParameterVisitor& visit) {
  visit(e_);
  if (!shares_) visit(f_);
}

std::unique_ptr<Activations> LinformerAttention::make_activations() const {
  auto kept = std::make_unique<Kept>();
  kept->tiles = tiles_.make_activations();
  return kept;
}

void LinformerAttention::require_length(std::int64_t length) const {
  if (length <= length_) return;
  throw UserError("a sequence of " + std::to_string(length) +
                  " positions exceeds the linformer attention's " + std::to_string(length_) +
                  ", for which alone it has weights; raise linformer_length, or max_length if that "
                  "is 0, or shorten sequences");
}

void LinformerAttention::forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                                 const AttentionMask& mask, Activations& kept, Mat& o) const {
  if (mask.causal) refuse_causal("be causal");
  const std::int64_t length = pass.length(q), width = q.cols();
  require_length(length);
  SCALING_CHECK(q.rows() == pass.examples * length && k.rows() == q.rows() && v.rows() == q.rows());
  SCALING_CHECK(k.cols() == width && v.cols() == width && e_.data != nullptr);
  auto& own = static_cast<Kept&>(kept);
  own.k.resize(pass.examples * rank_, width);
  own.v.resize(pass.examples * rank_, width);
  const float* e = values_of(e_, own.e);
  const float* f = shares_ ? e : values_of(f_, own.f);
  const auto sum = [&](const float* w, const float* rows, float* sums) {
    pass.gemm.product(false, false, rank_, width, length, w, length_, rows, width, 0, sums, width);
  };
  for (std::int64_t i = 0; i < pass.examples; ++i) {
    const Example example{i, length, mask.keys};
    sum(e, example.seen_rows(k, own.seen), own.k.row(i * rank_).data());
    sum(f, example.seen_rows(v, own.seen), own.v.row(i * rank_).data());
  }
  // Draws of this layer are the tiles': a forward that is computed again finds them there.
  static_cast<Decisions&>(*own.tiles) = own;
  tiles_.forward(pass, q, own.k, own.v, {}, *own.tiles, o);
  static_cast<Decisions&>(own) = *own.tiles;
}

void LinformerAttention::backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                                  const AttentionMask& mask, Activations& kept, const Mat& do_,
                                  Mat& dq, Mat& dk, Mat& dv) const {
  const std::int64_t length = pass.length(q), width = q.cols();
  auto& own = static_cast<Kept&>(kept);
  SCALING_CHECK(own.k.rows() == pass.examples * rank_ && do_.rows() == q.rows());
  tiles_.backward(pass, q, own.k, own.v, {}, *own.tiles, do_, dq, own.dk, own.dv);
  dk.resize(k.rows(), width);
  dv.resize(v.rows(), width);
  const float* e = values_of(e_, own.e);
  const float* f = shares_ ? e : values_of(f_, own.f);
  const auto add = [&](const float* dsums, const float* rows, float* gradient) {
    if (gradient == nullptr) return;
    pass.gemm.product(false, true, rank_, length, width, dsums, width, rows, width, 1, gradient,
                      length_);
  };
  const auto of_rows = [&](const float* w, const float* dsums, const Example& to, float* drows) {
    pass.gemm.product(true, false, length, width, rank_, w, length_, dsums, width, 0, drows, width);
    to.clear_unseen(drows, width);
  };
  for (std::int64_t i = 0; i < pass.examples; ++i) {
    const Example example{i, length, mask.keys};
    const float* dk_sums = own.dk.row(i * rank_).data();
    const float* dv_sums = own.dv.row(i * rank_).data();
    add(dk_sums, example.seen_rows(k, own.seen), e_.gradient);
    add(dv_sums, example.seen_rows(v, own.seen), of_values().gradient);
    of_rows(e, dk_sums, example, example.of(dk));
    of_rows(f, dv_sums, example, example.of(dv));
  }
}

std::unique_ptr<AttentionCache> LinformerAttention::make_cache(int, std::int64_t) const {
  refuse_causal("decode");
}

void LinformerAttention::step(const StepContext&, AttentionCache&, const float*, const float*,
                              const float*, float*) const {
  refuse_causal("decode");
}

AttentionWork LinformerAttention::work(std::int64_t length, bool) const {
  // Sums of keys and values, and two products of a query with each of them; each product has two
  // gradients.
  const double width = double(tiles_.heads * tiles_.d_head);
  const double products = 8 * double(length * rank_) * width;
  return {.products = products, .backward_products = 2 * products};
}

}  // namespace scaling
