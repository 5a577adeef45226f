// One team.run a token. The residual stream is private to each thread: adding y and taking the
// layer norm is cheap enough to do in every thread, and saves two barriers a residual.
#include "models/decoder.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include "kernels/arena.h"
#include "kernels/check.h"
#include "models/initialize.h"
#include "models/layers/partial_sums.h"
#include "models/sampler.h"

namespace scaling {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

struct BlockState {
  BlockState(const ModelConfig& c, int tokens, std::int64_t capacity, std::int64_t source_length)
      : self(tokens, c.n_heads, capacity, c.d_head()),
        cross(tokens, c.n_heads, source_length, c.d_head()) {}
  KeyValueCache self, cross;
  std::unique_ptr<LayerState> projection, cross_projection, feed_forward, recurrence;
};

/// A thread's own copies of the residual stream and of its norm, (tokens, d_model) each.
struct Private {
  float* x;
  float* normed;
};

void check_sizes(const Transformer& model, int tokens, std::int64_t capacity,
                 std::int64_t source_length) {
  const ModelConfig& c = model.config();
  if (tokens < 1 || tokens > kMaxTokens) {
    throw UserError(std::to_string(tokens) + " sequences at once are not in [1, " +
                    std::to_string(kMaxTokens) + "]; choose a number in that range");
  }
  if (capacity < 1 || (source_length < 1 && !c.decoder_only())) {
    throw UserError("capacity " + std::to_string(capacity) + " and source length " +
                    std::to_string(source_length) + " must be at least 1");
  }
  if (std::max(capacity, c.encoder ? source_length : 0) > c.max_length) {
    throw UserError("a decode of " + std::to_string(std::max(capacity, source_length)) +
                    " positions exceeds max_length " + std::to_string(c.max_length) +
                    "; raise --max_length");
  }
  const auto floats = std::uint64_t(tokens) * std::uint64_t(capacity + source_length) *
                      std::uint64_t(2 * c.d_model + c.n_heads);
  require_memory(std::uint64_t(model.blocks()) * floats * 4, "the key/value cache",
                 "decode fewer sequences (--batch), a shorter context (--context), fewer blocks "
                 "(--blocks) or a smaller shape (--shape)");
}

}  // namespace

struct Decoder::Impl {
  Impl(const Transformer& model_, const KernelSet& kernels_, Team& team_, int tokens_,
       std::int64_t capacity_, std::int64_t source_length_);

  void reset();
  void fill_memory(const Mat& rows);
  StepContext context(int thread, std::int64_t at, int count, const int* of_tokens) const {
    return {kernels, team.barrier(), thread, team.threads(), count, at, workspace, of_tokens};
  }
  std::int64_t workspace_floats() const;
  void run(int thread);
  void embed(float* x) const;
  void attend_to_memory(const StepContext& ctx, const Block& block, BlockState& state,
                        const Private& mine);
  void decode_block(const StepContext& ctx, std::size_t index, const Private& mine);
  void normalise(const StepContext& ctx, const Norm& norm, const Private& mine) const;
  void add(const float* from, const Private& mine) const;

  const Transformer& model;
  const KernelSet& kernels;
  Team& team;
  const int tokens;
  const std::int64_t d, capacity, source_length;
  std::vector<BlockState> blocks;
  std::unique_ptr<LayerState> loss_state;
  Sampler sampler;
  Arena arena;
  float *q, *k, *v, *o, *y, *workspace;  // shared by the team
  std::vector<Private> own;              // by thread
  std::int64_t memory_length = 0;        // cached positions of the encoder output
  bool has_begun = false;
  const std::function<void(int)> job;  // made once: no allocation in a step

  // Of the step that runs.
  std::int64_t position = 0;
  const std::vector<int>* ids = nullptr;
  std::vector<int> next;
  float temperature = 0;
  float* logits = nullptr;
  StepTiming timing;
};

Decoder::Impl::Impl(const Transformer& model_, const KernelSet& kernels_, Team& team_, int tokens_,
                    std::int64_t capacity_, std::int64_t source_length_)
    : model(model_),
      kernels(kernels_),
      team(team_),
      tokens(tokens_),
      d(model_.config().d_model),
      capacity(capacity_),
      source_length(source_length_),
      sampler(model_.config().vocab_size, tokens_, team_.threads(), model_.config().seed),
      job([this](int thread) { run(thread); }),
      next(std::size_t(tokens_)) {
  blocks.reserve(std::size_t(model.blocks()));
  for (std::int64_t i = 0; i < model.blocks(); ++i) {
    blocks.emplace_back(model.config(), tokens, capacity, source_length);
    blocks.back().self.more = model.self_attention().make_memory(tokens, capacity);
  }
  const std::int64_t shared = padded(tokens * d), work = padded(workspace_floats());
  // Encoder output passes through q, k and v kMaxTokens rows at a time.
  const std::int64_t wide = padded(kMaxTokens * d);
  const std::int64_t floats = 3 * wide + 2 * shared + work + 2 * team.threads() * shared;
  arena = Arena(std::uint64_t(floats) * 4);
  const auto take = [&](std::int64_t n) {
    return static_cast<float*>(arena.take(std::uint64_t(n) * 4));
  };
  for (float** buffer : {&q, &k, &v}) *buffer = take(wide);
  for (float** buffer : {&o, &y}) *buffer = take(shared);
  workspace = take(work);
  for (int thread = 0; thread < team.threads(); ++thread) {
    float* x = take(shared);
    own.push_back({x, take(shared)});
  }
}

std::int64_t Decoder::Impl::workspace_floats() const {
  const Block& block = *model.decoder().front();
  std::int64_t most = 0;
  for (const Layer* layer : {static_cast<const Layer*>(block.projection.get()),
                             static_cast<const Layer*>(block.cross_projection.get()),
                             static_cast<const Layer*>(block.feed_forward.get()),
                             static_cast<const Layer*>(block.recurrence.get()),
                             static_cast<const Layer*>(&model.self_attention()),
                             static_cast<const Layer*>(&model.cross_attention()),
                             static_cast<const Layer*>(&model.loss())}) {
    if (layer) most = std::max(most, layer->workspace_floats(tokens, team.threads()));
  }
  return most;
}

void Decoder::Impl::reset() {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Block& block = *model.decoder()[i];
    blocks[i].projection = block.projection->make_state(tokens);
    if (block.cross_projection) {
      blocks[i].cross_projection = block.cross_projection->make_state(tokens);
    }
    blocks[i].feed_forward = block.feed_forward->make_state(tokens);
    if (block.recurrence) blocks[i].recurrence = block.recurrence->make_state(tokens);
  }
  loss_state = model.loss().make_state(tokens);
}

/// Keys and values of the encoder output, kMaxTokens positions at a time, copied to every
/// sequence's cache.
void Decoder::Impl::fill_memory(const Mat& rows) {
  memory_length = rows.rows();
  const std::int64_t heads = model.config().n_heads, d_head = model.config().d_head();
  const auto copy_head = [&](KeyValueCache& cache, std::int64_t head, std::int64_t first, int n) {
    for (int sequence = 0; sequence < tokens; ++sequence) {
      for (int t = 0; t < n; ++t) {
        const std::int64_t from = t * d + head * d_head, to = (first + t) * d_head;
        std::copy_n(k + from, d_head, cache.keys_of(sequence, head) + to);
        std::copy_n(v + from, d_head, cache.values_of(sequence, head) + to);
      }
    }
  };
  team.run([&](int thread) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      for (std::int64_t first = 0; first < memory_length; first += kMaxTokens) {
        const int n = int(std::min<std::int64_t>(kMaxTokens, memory_length - first));
        const StepContext ctx = context(thread, first, n, nullptr);
        model.decoder()[i]->cross_projection->step_memory(ctx, rows.data() + first * d, k, v);
        const Range share = ctx.share(heads);
        for (std::int64_t head = share.begin; head < share.end; ++head) {
          copy_head(blocks[i].cross, head, first, n);
        }
        ctx.sync();
      }
    }
  });
}

void Decoder::Impl::embed(float* x) const {
  const auto add_row = [&](const Parameter& table, std::int64_t row, float* to) {
    const WeightView w = table.view();
    for (std::int64_t i = 0; i < d; ++i) {
      to[i] += w.type == WeightType::f32 ? w.f32()[row * d + i] : to_float(w.half()[row * d + i]);
    }
  };
  std::fill_n(x, tokens * d, 0.0f);
  for (int t = 0; t < tokens; ++t) {
    const std::int64_t last = model.config().vocab_size - 1;
    add_row(model.embedding(), std::clamp<std::int64_t>((*ids)[std::size_t(t)], 0, last),
            x + t * d);
    add_row(model.decoder_positions(), position, x + t * d);
  }
}

void Decoder::Impl::normalise(const StepContext& ctx, const Norm& norm, const Private& mine) const {
  ctx.kernels.layer_norm(mine.x, norm.scale.vector(), norm.bias.vector(), ctx.tokens, d,
                         mine.normed);
}

void Decoder::Impl::add(const float* from, const Private& mine) const {
  float* __restrict x = mine.x;
  const float* __restrict sum = from;
  for (std::int64_t i = 0; i < tokens * d; ++i) x[i] += sum[i];
}

void Decoder::Impl::attend_to_memory(const StepContext& ctx, const Block& block, BlockState& state,
                                     const Private& mine) {
  normalise(ctx, block.cross_norm, mine);
  block.cross_projection->step_query(ctx, state.cross_projection.get(), mine.normed, q);
  model.cross_attention().step_fixed(ctx, state.cross, memory_length, q, o);
  if (block.cross_projection->has_output()) {
    block.cross_projection->step_output(ctx, state.cross_projection.get(), o, y);
  }
  add(block.cross_projection->has_output() ? y : o, mine);
}

void Decoder::Impl::decode_block(const StepContext& ctx, std::size_t index, const Private& mine) {
  const Block& block = *model.decoder()[index];
  BlockState& state = blocks[index];

  normalise(ctx, block.attention_norm, mine);
  block.projection->step(ctx, state.projection.get(), mine.normed, q, k, v);
  model.self_attention().step(ctx, state.self, q, k, v, o);
  if (block.projection->has_output()) {
    block.projection->step_output(ctx, state.projection.get(), o, y);
  }
  add(block.projection->has_output() ? y : o, mine);

  if (block.cross_projection) attend_to_memory(ctx, block, state, mine);

  normalise(ctx, block.feed_forward_norm, mine);
  block.feed_forward->step(ctx, state.feed_forward.get(), mine.normed, y);
  if (block.recurrence) {
    // Of the same stream, so y waits; o is free again.
    normalise(ctx, block.recurrence_norm, mine);
    block.recurrence->step(ctx, state.recurrence.get(), mine.normed, o);
    add(o, mine);
  }
  add(y, mine);
}

void Decoder::Impl::run(int thread) {
  const Clock::time_point start = Clock::now();
  const StepContext ctx = context(thread, position, tokens, ids->data());
  const Private& mine = own[std::size_t(thread)];
  embed(mine.x);
  const Clock::time_point first_block = Clock::now();
  for (std::size_t i = 0; i < blocks.size(); ++i) decode_block(ctx, i, mine);
  const double in_blocks = seconds_since(first_block);
  normalise(ctx, model.decoder_norm(), mine);
  model.loss().step(ctx, loss_state.get(), mine.normed, logits);
  sampler.sample(ctx, logits, temperature, next.data());
  if (thread == 0) timing = {seconds_since(start), in_blocks / double(blocks.size())};
}

Decoder::Decoder(const Transformer& model, const KernelSet& kernels, Team& team, int tokens,
                 std::int64_t capacity, std::int64_t source_length) {
  SCALING_CHECK(model.arena().data() != nullptr && !model.is_for_training());
  if (model.config().decoder_only()) source_length = 0;
  check_sizes(model, tokens, capacity, source_length);
  impl_ = std::make_unique<Impl>(model, kernels, team, tokens, capacity, source_length);
  logits_.resize(std::size_t(tokens * model.config().vocab_size));
}

Decoder::~Decoder() = default;

void Decoder::begin(const std::vector<int>& source) {
  const Mat encoded = impl_->model.encode(source);
  if (impl_->model.config().decoder_only()) {
    begin(encoded);
    return;
  }
  SCALING_CHECK(std::int64_t(source.size()) == impl_->source_length);
  begin(Mat(encoded(unpadded(source), Eigen::all)));
}

void Decoder::begin(const Mat& encoded) {
  const bool has_memory = !impl_->model.config().decoder_only();
  SCALING_CHECK(encoded.rows() >= int(has_memory) && encoded.rows() <= impl_->source_length);
  SCALING_CHECK(encoded.cols() == impl_->d);
  impl_->reset();
  if (has_memory) impl_->fill_memory(encoded);
  impl_->has_begun = true;
  position_ = 0;
}

void Decoder::pretend_position(std::int64_t length) {
  SCALING_CHECK(length >= 0 && length < impl_->capacity);
  const ModelConfig& c = impl_->model.config();
  const Initializer uniform = {Initializer::Kind::uniform, 1};
  impl_->team.run([&](int thread) {
    for (std::size_t i = 0; i < impl_->blocks.size(); ++i) {
      KeyValueCache& cache = impl_->blocks[i].self;
      const std::string stream = "pretended." + std::to_string(i);
      const std::int64_t units = cache.tokens * c.n_heads, n = length * c.d_head();
      const Range share = share_of(units, thread, impl_->team.threads());
      for (std::int64_t unit = share.begin; unit < share.end; ++unit) {
        const int token = int(unit / c.n_heads);
        const std::int64_t head = unit % c.n_heads;
        draw_values(c.seed, stream, uniform, 2 * unit * n, n, cache.keys_of(token, head));
        draw_values(c.seed, stream, uniform, (2 * unit + 1) * n, n, cache.values_of(token, head));
      }
    }
  });
  position_ = length;
}

StepTiming Decoder::step(const std::vector<int>& ids, std::vector<int>& next, float temperature) {
  SCALING_CHECK(int(ids.size()) == impl_->tokens && position_ < impl_->capacity);
  SCALING_CHECK(impl_->has_begun);
  impl_->position = position_;
  impl_->ids = &ids;
  impl_->temperature = temperature;
  impl_->logits = logits_.data();
  impl_->team.run(impl_->job);
  next.assign(impl_->next.begin(), impl_->next.end());
  ++position_;
  return impl_->timing;
}

void Decoder::set_sampling_seed(std::uint64_t seed) {
  impl_->sampler =
      Sampler(impl_->model.config().vocab_size, impl_->tokens, impl_->team.threads(), seed);
}

std::vector<std::vector<std::int32_t>> Decoder::touched_rows() const {
  std::vector<std::vector<std::int32_t>> rows;
  for (std::size_t i = 0; i < impl_->blocks.size(); ++i) {
    rows.push_back(
        impl_->model.decoder()[i]->feed_forward->touched_rows(impl_->blocks[i].feed_forward.get()));
  }
  return rows;
}

CrossEntropy decode_cross_entropy(Decoder& decoder, const std::vector<int>& source,
                                  const std::vector<int>& target,
                                  const std::vector<float>& weights) {
  SCALING_CHECK(target.size() == weights.size());
  decoder.begin(source);
  CrossEntropy sums;
  std::vector<int> ids(1, 0), next;
  for (std::size_t t = 0; t < target.size(); ++t) {
    decoder.step(ids, next);
    ids[0] = target[t];
    const std::vector<float>& logits = decoder.logits();
    SCALING_CHECK(ids[0] >= 0 && std::size_t(ids[0]) < logits.size());
    const double largest = double(*std::max_element(logits.begin(), logits.end()));
    double sum = 0;
    for (const float logit : logits) sum += std::exp(double(logit) - largest);
    const double weight = double(weights[t]);
    sums.loss += weight * (std::log(sum) + largest - double(logits[std::size_t(ids[0])]));
    sums.weight += weight;
    if (next[0] == ids[0]) sums.correct += weight;
  }
  sums.sequences = sums.weight > 0 ? 1 : 0;
  sums.correct_sequences = sums.weight > 0 && sums.correct == sums.weight ? 1 : 0;
  return sums;
}

double decode_log_perplexity(Decoder& decoder, const std::vector<int>& source,
                             const std::vector<int>& target, const std::vector<float>& weights) {
  const CrossEntropy sums = decode_cross_entropy(decoder, source, target, weights);
  return sums.loss / sums.weight;
}

}  // namespace scaling
