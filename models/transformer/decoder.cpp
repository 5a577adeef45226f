// One team.run a token. The residual streams are private to each thread: adding y and taking the
// layer norm is cheap enough to do in every thread, and saves two barriers a residual.
#include "models/transformer/decoder.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "kernels/arena.h"
#include "kernels/check.h"
#include "kernels/clock.h"
#include "models/initialize.h"
#include "models/layers/parts/partial_sums.h"
#include "models/transformer/sampler.h"

namespace scaling {
namespace {

struct SelfAttentionState {
  KeyValueCache cache;
  std::unique_ptr<LayerState> projection;
};

struct BlockState {
  BlockState(const ModelConfig& c, int tokens, std::int64_t capacity, std::int64_t source_length)
      : cross(tokens, c.n_heads, c.has_cross_attention() ? source_length : 0, c.d_head()) {
    const std::int64_t cached = capacity + (c.is_concatenated() ? source_length : 0);
    for (std::int64_t i = 0; i < c.attention_layers; ++i) {
      self.push_back({KeyValueCache(tokens, c.n_heads, cached, c.d_head()), nullptr});
    }
  }
  std::vector<SelfAttentionState> self;
  KeyValueCache cross;
  std::unique_ptr<LayerState> cross_projection, feed_forward, recurrence;
};

/// A thread's own copies of the residual streams and of a norm, (tokens, d_model) each. Branches
/// read ctx and add to acc; a plain stack has them in one place.
struct Private {
  float* acc;
  float* ctx;
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
  const std::int64_t positions = c.is_concatenated()
                                     ? c.attention_layers * (capacity + source_length)
                                     : c.attention_layers * capacity + source_length;
  const auto floats =
      std::uint64_t(tokens) * std::uint64_t(positions) * std::uint64_t(2 * c.d_model + c.n_heads);
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
  void prefill(const Mat& rows, const std::vector<int>& row_ids);
  std::int64_t prefix_length() const { return is_concatenated ? memory_length : 0; }
  void run(int thread);
  void embed(float* x) const;
  void start_streams(Private& mine) const;
  void attend(const StepContext& ctx, const SelfAttentionBranch& branch, SelfAttentionState& state,
              const Private& mine);
  void attend_to_memory(const StepContext& ctx, const CrossAttentionBranch& branch,
                        BlockState& state, const Private& mine);
  void feed_forward(const StepContext& ctx, const FeedForwardBranch& branch, BlockState& state,
                    const Private& mine);
  void decode_block(const StepContext& ctx, std::size_t index, Private& mine);
  void decode_blocks(const StepContext& ctx, Private& mine);
  void normalise(const StepContext& ctx, const Norm& norm, const Private& mine);
  void enter(const StepContext& ctx, Seat seat);
  void add(const float* from, const Private& mine) const;

  const Transformer& model;
  const KernelSet& kernels;
  Team& team;
  const int tokens;
  const std::int64_t d, capacity, source_length;
  const bool is_reversible, is_concatenated;
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

  // Of the last profiled step, thread 0's.
  bool is_profiling = false;
  Seat seat = Seat::layer_norms;
  Clock::time_point entered;
  PerSeat<double> seat_seconds{};
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
      is_reversible(model_.config().is_reversible()),
      is_concatenated(model_.config().is_concatenated()),
      sampler(model_.config().vocab_size, tokens_, team_.threads(), model_.config().seed),
      job([this](int thread) { run(thread); }),
      next(std::size_t(tokens_)) {
  blocks.reserve(std::size_t(model.blocks()));
  for (std::int64_t i = 0; i < model.blocks(); ++i) {
    blocks.emplace_back(model.config(), tokens, capacity, source_length);
    for (SelfAttentionState& self : blocks.back().self) {
      self.cache.more = model.self_attention().make_memory(tokens, self.cache.capacity);
    }
  }
  const std::int64_t shared = padded(tokens * d), work = padded(workspace_floats());
  // Encoder output passes through q, k and v kMaxTokens rows at a time.
  const std::int64_t wide = padded(kMaxTokens * d);
  const std::int64_t floats = 3 * wide + 2 * shared + work + 3 * team.threads() * shared;
  arena = Arena(std::uint64_t(floats) * 4);
  const auto take = [&](std::int64_t n) {
    return static_cast<float*>(arena.take(std::uint64_t(n) * 4));
  };
  for (float** buffer : {&q, &k, &v}) *buffer = take(wide);
  for (float** buffer : {&o, &y}) *buffer = take(shared);
  workspace = take(work);
  for (int thread = 0; thread < team.threads(); ++thread) {
    float* acc = take(shared);
    float* ctx = take(shared);
    own.push_back({acc, is_reversible ? ctx : acc, take(shared)});
  }
}

std::int64_t Decoder::Impl::workspace_floats() const {
  const Block& block = *model.decoder().front();
  std::int64_t most = 0;
  std::vector<const Layer*> layers = {block.self_attentions.front()->projection.get(),
                                      block.feed_forward->feed_forward.get(),
                                      block.feed_forward->recurrence.get(),
                                      &model.self_attention(),
                                      &model.cross_attention(),
                                      &model.loss()};
  if (block.cross_attention) layers.push_back(block.cross_attention->projection.get());
  for (const Layer* layer : layers) {
    if (layer) most = std::max(most, layer->workspace_floats(tokens, team.threads()));
  }
  return most;
}

void Decoder::Impl::reset() {
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const Block& block = *model.decoder()[i];
    for (std::size_t j = 0; j < blocks[i].self.size(); ++j) {
      blocks[i].self[j].projection = block.self_attentions[j]->projection->make_state(tokens);
    }
    if (block.cross_attention) {
      blocks[i].cross_projection = block.cross_attention->projection->make_state(tokens);
    }
    const FeedForwardBranch& last = *block.feed_forward;
    blocks[i].feed_forward = last.feed_forward->make_state(tokens);
    if (last.recurrence) blocks[i].recurrence = last.recurrence->make_state(tokens);
  }
  loss_state = model.loss().make_state(tokens);
}

/// Keys and values of the encoder output, kMaxTokens positions at a time, copied to every
/// sequence's cache.
void Decoder::Impl::fill_memory(const Mat& rows) {
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
        model.decoder()[i]->cross_attention->projection->step_memory(ctx, rows.data() + first * d,
                                                                     k, v);
        const Range share = ctx.share(heads);
        for (std::int64_t head = share.begin; head < share.end; ++head) {
          copy_head(blocks[i].cross, head, first, n);
        }
        ctx.sync();
      }
    }
  });
}

/// The encoder's rows go through the decoder's blocks as if they were the first tokens, the same
/// for every sequence.
void Decoder::Impl::prefill(const Mat& rows, const std::vector<int>& row_ids) {
  std::vector<int> of_tokens(std::size_t(tokens), 0);
  for (std::int64_t r = 0; r < rows.rows(); ++r) {
    std::fill(of_tokens.begin(), of_tokens.end(), row_ids[std::size_t(r)]);
    team.run([&](int thread) {
      const StepContext ctx = context(thread, r, tokens, of_tokens.data());
      Private mine = own[std::size_t(thread)];
      for (int t = 0; t < tokens; ++t) std::copy_n(rows.data() + r * d, d, mine.ctx + t * d);
      start_streams(mine);
      decode_blocks(ctx, mine);
    });
  }
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

/// Both streams begin as what is in ctx.
void Decoder::Impl::start_streams(Private& mine) const {
  if (is_reversible) std::copy_n(mine.ctx, tokens * d, mine.acc);
}

/// Ends the time of the seat that was entered last.
void Decoder::Impl::enter(const StepContext& ctx, Seat next_seat) {
  if (!is_profiling || ctx.thread != 0) return;
  const Clock::time_point now = Clock::now();
  seat_seconds[std::size_t(seat)] += std::chrono::duration<double>(now - entered).count();
  seat = next_seat;
  entered = now;
}

void Decoder::Impl::normalise(const StepContext& ctx, const Norm& norm, const Private& mine) {
  ctx.kernels.layer_norm(mine.ctx, norm.scale.vector(), norm.bias.vector(), ctx.tokens, d,
                         mine.normed);
}

void Decoder::Impl::add(const float* from, const Private& mine) const {
  float* __restrict acc = mine.acc;
  const float* __restrict sum = from;
  for (std::int64_t i = 0; i < tokens * d; ++i) acc[i] += sum[i];
}

void Decoder::Impl::attend(const StepContext& ctx, const SelfAttentionBranch& branch,
                           SelfAttentionState& state, const Private& mine) {
  normalise(ctx, branch.norm, mine);
  enter(ctx, Seat::projection);
  branch.projection->step(ctx, state.projection.get(), mine.normed, q, k, v);
  enter(ctx, Seat::self_attention);
  model.self_attention().step(ctx, state.cache, q, k, v, o);
  enter(ctx, Seat::projection);
  const bool has_output = branch.projection->has_output();
  if (has_output) branch.projection->step_output(ctx, state.projection.get(), o, y);
  enter(ctx, Seat::layer_norms);
  add(has_output ? y : o, mine);
}

void Decoder::Impl::attend_to_memory(const StepContext& ctx, const CrossAttentionBranch& branch,
                                     BlockState& state, const Private& mine) {
  normalise(ctx, branch.norm, mine);
  enter(ctx, Seat::cross_projection);
  branch.projection->step_query(ctx, state.cross_projection.get(), mine.normed, q);
  enter(ctx, Seat::cross_attention);
  model.cross_attention().step_fixed(ctx, state.cross, memory_length, q, o);
  enter(ctx, Seat::cross_projection);
  const bool has_output = branch.projection->has_output();
  if (has_output) branch.projection->step_output(ctx, state.cross_projection.get(), o, y);
  enter(ctx, Seat::layer_norms);
  add(has_output ? y : o, mine);
}

void Decoder::Impl::feed_forward(const StepContext& ctx, const FeedForwardBranch& branch,
                                 BlockState& state, const Private& mine) {
  normalise(ctx, branch.norm, mine);
  enter(ctx, Seat::feed_forward);
  branch.feed_forward->step(ctx, state.feed_forward.get(), mine.normed, y);
  enter(ctx, Seat::layer_norms);
  if (branch.recurrence) {
    // Reads the stream to which y may be added, so y waits; o is free again.
    normalise(ctx, branch.recurrence_norm, mine);
    enter(ctx, Seat::recurrence);
    branch.recurrence->step(ctx, state.recurrence.get(), mine.normed, o);
    enter(ctx, Seat::layer_norms);
    add(o, mine);
  }
  add(y, mine);
}

void Decoder::Impl::decode_block(const StepContext& ctx, std::size_t index, Private& mine) {
  const Block& block = *model.decoder()[index];
  BlockState& state = blocks[index];
  const auto next_branch = [&] {
    if (is_reversible) std::swap(mine.acc, mine.ctx);
  };
  for (std::size_t j = 0; j < state.self.size(); ++j) {
    attend(ctx, *block.self_attentions[j], state.self[j], mine);
    next_branch();
  }
  if (block.cross_attention) {
    attend_to_memory(ctx, *block.cross_attention, state, mine);
    next_branch();
  }
  feed_forward(ctx, *block.feed_forward, state, mine);
  next_branch();
}

void Decoder::Impl::decode_blocks(const StepContext& ctx, Private& mine) {
  for (std::size_t i = 0; i < blocks.size(); ++i) decode_block(ctx, i, mine);
}

void Decoder::Impl::run(int thread) {
  const Clock::time_point start = Clock::now();
  const StepContext ctx = context(thread, prefix_length() + position, tokens, ids->data());
  Private mine = own[std::size_t(thread)];
  embed(mine.ctx);
  start_streams(mine);
  const Clock::time_point first_block = Clock::now();
  if (is_profiling && thread == 0) {
    seat_seconds.fill(0);
    seat = Seat::layer_norms;
    entered = first_block;
  }
  decode_blocks(ctx, mine);
  enter(ctx, Seat::layer_norms);
  const double in_blocks = is_profiling && thread == 0
                               ? std::chrono::duration<double>(entered - first_block).count()
                               : seconds_since(first_block);
  if (is_reversible) {
    for (std::int64_t i = 0; i < tokens * d; ++i) mine.ctx[i] = 0.5f * (mine.acc[i] + mine.ctx[i]);
  }
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
  const std::vector<std::int64_t> kept = unpadded(source);
  std::vector<int> ids;
  for (const std::int64_t t : kept) ids.push_back(source[std::size_t(t)]);
  begin(Mat(encoded(kept, Eigen::all)), ids);
}

void Decoder::begin(const Mat& encoded) {
  begin(encoded, std::vector<int>(std::size_t(encoded.rows()), 0));
}

void Decoder::begin(const Mat& encoded, const std::vector<int>& ids) {
  const ModelConfig& c = impl_->model.config();
  SCALING_CHECK(encoded.rows() >= int(!c.decoder_only()));
  SCALING_CHECK(encoded.rows() <= impl_->source_length && encoded.cols() == impl_->d);
  SCALING_CHECK(std::int64_t(ids.size()) == encoded.rows());
  impl_->reset();
  impl_->memory_length = encoded.rows();
  if (c.has_cross_attention()) impl_->fill_memory(encoded);
  if (c.is_concatenated()) impl_->prefill(encoded, ids);
  impl_->has_begun = true;
  position_ = 0;
}

void Decoder::pretend_position(std::int64_t length) {
  SCALING_CHECK(length >= 0 && length < impl_->capacity);
  const ModelConfig& c = impl_->model.config();
  const Initializer uniform = {Initializer::Kind::uniform, 1};
  const auto pretend = [&](KeyValueCache& cache, const std::string& stream, int thread) {
    const std::int64_t units = cache.tokens * c.n_heads;
    const std::int64_t n = (impl_->prefix_length() + length) * c.d_head();
    const Range share = share_of(units, thread, impl_->team.threads());
    for (std::int64_t unit = share.begin; unit < share.end; ++unit) {
      const int token = int(unit / c.n_heads);
      const std::int64_t head = unit % c.n_heads;
      draw_values(c.seed, stream, uniform, 2 * unit * n, n, cache.keys_of(token, head));
      draw_values(c.seed, stream, uniform, (2 * unit + 1) * n, n, cache.values_of(token, head));
    }
  };
  impl_->team.run([&](int thread) {
    for (std::size_t i = 0; i < impl_->blocks.size(); ++i) {
      std::vector<SelfAttentionState>& self = impl_->blocks[i].self;
      for (std::size_t j = 0; j < self.size(); ++j) {
        const std::string number = j == 0 ? "" : "." + std::to_string(j + 1);
        pretend(self[j].cache, "pretended." + std::to_string(i) + number, thread);
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
  if (impl_->is_profiling) {
    for (double& seconds : impl_->seat_seconds) seconds /= double(impl_->blocks.size());
  }
  return impl_->timing;
}

void Decoder::profile(bool on) { impl_->is_profiling = on; }

const PerSeat<double>& Decoder::seat_seconds() const { return impl_->seat_seconds; }

void Decoder::set_sampling_seed(std::uint64_t seed) {
  impl_->sampler =
      Sampler(impl_->model.config().vocab_size, impl_->tokens, impl_->team.threads(), seed);
}

std::vector<std::vector<std::int32_t>> Decoder::touched_rows() const {
  std::vector<std::vector<std::int32_t>> rows;
  for (std::size_t i = 0; i < impl_->blocks.size(); ++i) {
    rows.push_back(impl_->model.decoder()[i]->feed_forward->feed_forward->touched_rows(
        impl_->blocks[i].feed_forward.get()));
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
