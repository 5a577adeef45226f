// What global positions see, by projections of their own: beside the tiles of all other rows, those
// of a few queries with keys and values made for them.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "models/config_checks.h"
#include "models/layers/attention/patterns/all.h"
#include "models/layers/attention/patterns/longformer.h"
#include "models/layers/parts/counting.h"

namespace scaling {

struct LongformerAttention::Rows {
  std::int64_t width, global;
  WeightType type;
  TiledAttention tiles;
  DenseProduct q, k, v;

  std::int64_t globals(std::int64_t n) const { return std::min(n, global); }
  /// FLOP of one position's product with a matrix.
  double product() const { return 2 * double(width) * double(width); }
};

struct LongformerAttention::Kept : Activations {
  std::unique_ptr<Activations> local, rows;
  const Mat* x = nullptr;
  std::int64_t length = 0, globals = 0;  // of an example
  bool sees_all = false;                 // keys are of all positions, not of global ones alone
  Mat first;                             // (examples * globals, d_model): of x
  Mat q, k, v, o;                        // o, and so q, of global positions; k, v of what they see
  Mat do_, dq, dk, dv, dfirst, dx;       // dx: by keys and values of all positions
  std::vector<std::uint8_t> seen;        // (examples * globals): of the mask
  DenseProduct::Kept of_q, of_k, of_v;
};

struct LongformerAttention::Cache : AttentionCache {
  Cache(int tokens, std::int64_t heads, std::int64_t globals, std::int64_t d_head)
      : global(tokens, heads, globals, d_head) {}
  void pretend(const StepContext& ctx, std::int64_t length, std::uint64_t seed,
               const std::string& stream) override {
    local->pretend(ctx, length, seed, stream);
    global.pretend(ctx, length, seed, stream + ".global");
  }
  void reorder(const StepContext& ctx, const RowMoves& moves) override {
    local->reorder(ctx, moves);
    global.reorder(ctx, moves);
  }
  std::unique_ptr<AttentionCache> local;
  KeyValueCache global;           // keys and values of global positions for global rows
  std::vector<float> x, q, k, v;  // (tokens, d_model), of one step
  std::vector<float> sorted;      // as its scores, if there is a threshold to find
};

namespace {

/// The first `n` rows of each example of `length`.
void take_first(const Mat& all, std::int64_t length, std::int64_t n, Mat& first) {
  const std::int64_t examples = all.rows() / length;
  first.resize(examples * n, all.cols());
  for (std::int64_t i = 0; i < examples; ++i) {
    first.middleRows(i * n, n) = all.middleRows(i * length, n);
  }
}

DenseProduct product_for(const std::string& part, std::int64_t width) {
  DenseProduct product("global_" + part, "global_" + part + "_bias", width, width);
  product.visit_parameters([&](Parameter& p) { p.drawn_as = p.is_vector ? part + "_bias" : part; });
  return product;
}

}  // namespace

void LongformerAttention::validate(const ModelConfig& config) {
  WindowAttention::validate(config);
  const auto knobs = config.options<LongformerKnobs>();
  require_positive("longformer_dilation", knobs.longformer_dilation);
  require_not_negative("longformer_global", knobs.longformer_global);
  if (knobs.longformer_projections == GlobalProjections::own && knobs.longformer_global == 0) {
    throw UserError(
        "longformer_projections own are those of global positions, of which longformer_global 0 "
        "leaves none; give it at least 1, or take shared ones");
  }
}

void LongformerAttention::shrink(ModelConfig& config) {
  WindowAttention::shrink(config);
  set_field(config, "longformer_dilation", 2);
  set_field(config, "longformer_global", 2);
}

LongformerAttention::LongformerAttention(const ModelConfig& config, const LongformerKnobs& knobs)
    : PatternAttention(config,
                       std::make_unique<Longformer>(
                           knobs.window_width, knobs.longformer_dilation, knobs.longformer_global,
                           knobs.longformer_projections == GlobalProjections::shared)) {
  if (knobs.longformer_projections == GlobalProjections::shared) return;
  const std::int64_t d = config.d_model;
  rows_ = std::make_unique<Rows>(
      Rows{.width = d,
           .global = knobs.longformer_global,
           .type = config.weight_type,
           .tiles = {config.n_heads, config.d_head(), std::make_unique<AllKeys>(),
                     make_normaliser(knobs.normaliser, knobs.entmax_alpha)},
           .q = product_for("q", d),
           .k = product_for("k", d),
           .v = product_for("v", d)});
}

LongformerAttention::~LongformerAttention() = default;

void LongformerAttention::visit_parameters(const ParameterVisitor& visit) {
  if (!rows_) return;
  for (DenseProduct* product : {&rows_->q, &rows_->k, &rows_->v}) product->visit_parameters(visit);
}

void LongformerAttention::take_heads(Range heads) {
  if (rows_) {
    throw UserError(
        "attention longformer with longformer_projections own takes all heads of a block, which "
        "its projections are of; share heads with shared ones, or give it a block of its own");
  }
  PatternAttention::take_heads(heads);
}

void LongformerAttention::take_input(const Mat& x, Activations& kept) const {
  if (rows_) static_cast<Kept&>(kept).x = &x;
}

void LongformerAttention::take_input(const StepContext& ctx, AttentionCache& cache,
                                     const float* x) const {
  if (!rows_ || ctx.thread != 0 || ctx.position >= rows_->global) return;
  // The step's first barrier is before whoever reads it.
  std::copy_n(x, ctx.tokens * rows_->width, static_cast<Cache&>(cache).x.data());
}

std::unique_ptr<Activations> LongformerAttention::make_activations() const {
  if (!rows_) return PatternAttention::make_activations();
  auto kept = std::make_unique<Kept>();
  kept->local = PatternAttention::make_activations();
  kept->rows = rows_->tiles.make_activations();
  return kept;
}

// -- a batch --------------------------------------------------------------------------------------

void LongformerAttention::forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                                  const AttentionMask& mask, Activations& kept, Mat& o) const {
  if (!rows_) {
    PatternAttention::forward(pass, q, k, v, mask, kept, o);
    return;
  }
  Kept& own = static_cast<Kept&>(kept);
  SCALING_CHECK(own.x != nullptr && own.x->rows() == q.rows() && own.x->cols() == rows_->width);
  const std::int64_t n = pass.length(q), g = rows_->globals(n);
  own.length = n;
  own.globals = g;
  own.sees_all = !mask.causal;
  // Two streams, one after the other: a forward that is computed again finds them there.
  own.local->stream = own.stream;
  PatternAttention::forward(pass, q, k, v, mask, *own.local, o);
  own.stream = own.local->stream;
  own.rows->stream = own.stream + 1;

  take_first(*own.x, n, g, own.first);
  const Mat& looked_at = own.sees_all ? *own.x : own.first;
  rows_->q.forward(pass, own.first, own.of_q, own.q);
  rows_->k.forward(pass, looked_at, own.of_k, own.k);
  rows_->v.forward(pass, looked_at, own.of_v, own.v);
  AttentionMask of_rows = mask;
  if (mask.keys && !own.sees_all) {
    own.seen.resize(std::size_t(pass.examples * g));
    for (std::int64_t i = 0; i < pass.examples; ++i) {
      std::copy_n(mask.keys + i * n, g, own.seen.data() + i * g);
    }
    of_rows.keys = own.seen.data();
  }
  rows_->tiles.forward(pass, own.q, own.k, own.v, of_rows, *own.rows, own.o);
  SCALING_CHECK(own.rows->stream == own.stream + 1);
  for (std::int64_t i = 0; i < pass.examples; ++i) {
    o.middleRows(i * n, g) = own.o.middleRows(i * g, g);
  }
}

void LongformerAttention::backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                                   const AttentionMask& mask, Activations& kept, const Mat& do_,
                                   Mat& dq, Mat& dk, Mat& dv) const {
  if (!rows_) {
    PatternAttention::backward(pass, q, k, v, mask, kept, do_, dq, dk, dv);
    return;
  }
  Kept& own = static_cast<Kept&>(kept);
  // Global rows see nothing there, so that their gradients do not enter.
  PatternAttention::backward(pass, q, k, v, mask, *own.local, do_, dq, dk, dv);
  AttentionMask of_rows = mask;
  if (mask.keys && !own.sees_all) of_rows.keys = own.seen.data();
  take_first(do_, own.length, own.globals, own.do_);
  rows_->tiles.backward(pass, own.q, own.k, own.v, of_rows, *own.rows, own.do_, own.dq, own.dk,
                        own.dv);
  rows_->q.backward(pass, own.first, own.of_q, own.dq, own.dfirst);
  const Mat& looked_at = own.sees_all ? *own.x : own.first;
  Mat& to = own.sees_all ? own.dx : own.dfirst;
  rows_->k.backward(pass, looked_at, own.of_k, own.dk, to, /*accumulate=*/!own.sees_all);
  rows_->v.backward(pass, looked_at, own.of_v, own.dv, to, /*accumulate=*/true);
}

void LongformerAttention::add_input_gradient(const Activations& kept, Mat& dx) const {
  if (!rows_) return;
  const Kept& own = static_cast<const Kept&>(kept);
  if (own.sees_all) dx += own.dx;
  const std::int64_t n = own.length, g = own.globals;
  for (std::int64_t i = 0; i < dx.rows() / n; ++i) {
    dx.middleRows(i * n, g) += own.dfirst.middleRows(i * g, g);
  }
}

AttentionWork LongformerAttention::work(std::int64_t length, bool causal) const {
  AttentionWork work = PatternAttention::work(length, causal);
  if (!rows_) return work;
  const auto g = double(rows_->globals(length)), n = double(length);
  work.pairs += double(rows_->tiles.heads) * (causal ? g * (g + 1) / 2 : g * n);
  const double products = rows_->product() * (g + 2 * (causal ? g : n));
  work.products += products;
  work.backward_products += 2 * products;
  return work;
}

double LongformerAttention::thread_floats(std::int64_t length) const {
  const double floats = PatternAttention::thread_floats(length);
  return rows_ ? floats + rows_->tiles.thread_floats(rows_->globals(length), length) : floats;
}

double LongformerAttention::activation_floats() const {
  // Keys, values, their gradients, and that of the input.
  return PatternAttention::activation_floats() + (rows_ ? 5 * double(rows_->width) : 0);
}

// -- a decode -------------------------------------------------------------------------------------

std::unique_ptr<AttentionCache> LongformerAttention::make_cache(int tokens,
                                                                std::int64_t capacity) const {
  if (!rows_) return PatternAttention::make_cache(tokens, capacity);
  auto cache = std::make_unique<Cache>(tokens, rows_->tiles.heads, rows_->globals(capacity),
                                       rows_->tiles.d_head);
  cache->local = PatternAttention::make_cache(tokens, capacity);
  for (std::vector<float>* all : {&cache->x, &cache->q, &cache->k, &cache->v}) {
    all->resize(std::size_t(tokens * rows_->width));
  }
  if (rows_->tiles.normaliser) cache->sorted.resize(cache->global.scores.size());
  return cache;
}

std::uint64_t LongformerAttention::cache_bytes(int tokens, std::int64_t capacity) const {
  const std::uint64_t bytes = PatternAttention::cache_bytes(tokens, capacity);
  if (!rows_) return bytes;
  const std::int64_t heads = rows_->tiles.heads, globals = rows_->globals(capacity);
  const std::int64_t sorted = rows_->tiles.normaliser ? tokens * heads * globals : 0;
  return bytes + KeyValueCache::bytes(tokens, heads, globals, rows_->tiles.d_head) +
         std::uint64_t(4 * tokens * rows_->width + sorted) * sizeof(float);
}

void LongformerAttention::step(const StepContext& ctx, AttentionCache& cache, const float* q,
                               const float* k, const float* v, float* o) const {
  if (!rows_) {
    PatternAttention::step(ctx, cache, q, k, v, o);
    return;
  }
  Cache& own = static_cast<Cache&>(cache);
  PatternAttention::step(ctx, *own.local, q, k, v, o);
  if (ctx.position >= rows_->global) return;
  // What that made of a global position is made anew.
  rows_->q.phase(0, ctx, nullptr, own.x.data(), own.q.data());
  rows_->k.phase(0, ctx, nullptr, own.x.data(), own.k.data());
  rows_->v.phase(0, ctx, nullptr, own.x.data(), own.v.data());
  ctx.sync();
  const std::int64_t heads = rows_->tiles.heads, d = rows_->tiles.d_head;
  const std::int64_t length = ctx.position + 1;
  const ThresholdNormaliser* normaliser = rows_->tiles.normaliser.get();
  const Range share = ctx.share(ctx.tokens * heads);
  for (std::int64_t unit = share.begin; unit < share.end; ++unit) {
    const int token = int(unit / heads);
    const std::int64_t head = unit % heads, at = unit * d;
    float* keys = own.global.keys_of(token, head);
    float* values = own.global.values_of(token, head);
    float* scores = own.global.scores_of(token, head);
    std::copy_n(own.k.data() + at, d, keys + ctx.position * d);
    std::copy_n(own.v.data() + at, d, values + ctx.position * d);
    if (normaliser) {
      float* sorted = own.sorted.data() + unit * own.global.capacity;
      ctx.kernels.attend_entmax(normaliser->alpha(), own.q.data() + at, {keys, values, length, d},
                                scores, sorted, o + at);
    } else {
      ctx.kernels.attend(own.q.data() + at, {keys, values, length, d}, scores, o + at);
    }
  }
  ctx.sync();
}

Cost LongformerAttention::step_cost(int tokens, std::int64_t length) const {
  Cost cost = PatternAttention::step_cost(tokens, length);
  if (!rows_ || length < 1 || length > rows_->global) return cost;
  append(cost, repeated(rows_->q.step_cost(tokens, rows_->type), 3));
  const double keys = double(length) * double(rows_->width) * tokens;
  const double values = rows_->tiles.normaliser ? double(rows_->width) * tokens : keys;
  append(cost, {{"attention", 0, 4 * (keys + values), 2 * (keys + values)}});
  return {total(cost, "attention")};
}

}  // namespace scaling
