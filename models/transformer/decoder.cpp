// A decode step whole: embedding, blocks, final norm, loss layer, sampling, in one team.run. The
// residual streams are private to each thread: adding a branch's result and taking the norm is
// cheap enough to do in every thread, and saves two barriers a branch. What a branch does between
// them is its own (self_attention_branch.cpp, cross_attention_branch.cpp, feed_forward_branch.cpp).
#include "models/transformer/decoder.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "kernels/check.h"
#include "kernels/clock.h"
#include "models/layers/catalog.h"
#include "models/layers/parts/partial_sums.h"
#include "models/row_moves.h"

namespace scaling {

// -- a step ---------------------------------------------------------------------------------------

/// One token of every sequence; executed by every thread of the team.
void Decoder::step_of_thread(int thread) {
  const Clock::time_point start = Clock::now();
  const StepContext ctx = context(thread, prefix_length() + position_, ids_->data());
  ThreadBuffers mine = threads_[std::size_t(thread)];

  embed(*ids_, mine.x);
  start_streams(mine);

  const Clock::time_point first_block = Clock::now();
  if (ctx.clock) ctx.clock->start(first_block, ctx.barrier.meetings());
  run_blocks(ctx, mine);
  ctx.enter(BlockPart::layer_norms);
  const Clock::time_point last_block = ctx.clock ? ctx.clock->entered : Clock::now();

  mean_of_streams(mine);
  stack_.norm.step(ctx, mine.x, mine.step.normed);
  model_.loss().step(ctx, loss_state_.get(), mine.step.normed, logits_.data());
  sampler_.sample(ctx, logits_.data(), sampling_, next_.data());
  if (thread != 0) return;
  timing_ = {seconds_since(start), std::chrono::duration<double>(last_block - first_block).count() /
                                       double(stack_.blocks.size())};
}

/// x = a row for the token + a row for the position.
void Decoder::embed(const std::vector<int>& ids, float* x) const {
  for (int t = 0; t < tokens_; ++t) {
    embed_one(model_.embedding(), stack_.positions, ids[std::size_t(t)], position_, x + t * d_);
  }
}

/// A reversible stack's two streams begin alike; a plain one's are one.
void Decoder::start_streams(const ThreadBuffers& mine) const {
  if (mine.acc != mine.x) std::copy_n(mine.x, tokens_ * d_, mine.acc);
}

/// Every branch reads x and adds to acc; in reversible stacks the two then change places.
void Decoder::run_blocks(const StepContext& ctx, ThreadBuffers& mine) {
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const auto& branches = stack_.blocks[i]->branches;
    for (std::size_t j = 0; j < branches.size(); ++j) {
      const bool is_last = j + 1 == branches.size();
      ctx.ahead = {};
      if (!is_last || i + 1 < states_.size()) {
        const Branch& next = is_last ? *stack_.blocks[i + 1]->branches[0] : *branches[j + 1];
        next.reads_first(ctx, ctx.ahead);
      }
      branches[j]->step(ctx, *states_[i][j], mine.x, mine.acc, mine.step);
      if (stack_.swaps(j, branches.size())) std::swap(mine.x, mine.acc);
    }
  }
}

/// To x.
void Decoder::mean_of_streams(const ThreadBuffers& mine) const {
  if (mine.acc == mine.x) return;
  for (std::int64_t i = 0; i < tokens_ * d_; ++i) mine.x[i] = 0.5f * (mine.acc[i] + mine.x[i]);
}

StepContext Decoder::context(int thread, std::int64_t at, const int* ids) {
  return {.kernels = kernels_,
          .barrier = team_.barrier(),
          .thread = thread,
          .threads = team_.threads(),
          .tokens = tokens_,
          .position = at,
          .workspace = workspace_,
          .ids = ids,
          .clock = is_profiling_ && thread == 0 ? &clock_ : nullptr};
}

StepTiming Decoder::step(const std::vector<int>& ids, std::vector<int>& next, Sampling how) {
  SCALING_CHECK(int(ids.size()) == tokens_ && position_ < capacity_ && has_begun_);
  ids_ = &ids;
  sampling_ = how;
  team_.run(job_);
  next.assign(next_.begin(), next_.end());
  ++position_;
  if (is_profiling_) {
    part_seconds_ = clock_.seconds;
    part_barriers_ = clock_.barriers;
    for (double& seconds : part_seconds_) seconds /= double(stack_.blocks.size());
    for (double& barriers : part_barriers_) barriers /= double(stack_.blocks.size());
  }
  return timing_;
}

void Decoder::reorder(std::span<const int> source) {
  SCALING_CHECK(int(source.size()) == tokens_ && has_begun_);
  const RowMoves moves(source);
  if (moves.empty()) return;
  team_.run([&](int thread) {
    const StepContext ctx = context(thread, prefix_length() + position_, nullptr);
    for (const auto& block : states_) {
      for (const auto& state : block) state->reorder(ctx, moves);
    }
    if (loss_state_) loss_state_->reorder(ctx, moves);
  });
}

// -- before the first step ------------------------------------------------------------------------

namespace {

/// tokens, if the sizes are possible.
int checked_tokens(const Transformer& model, int tokens, std::int64_t capacity,
                   std::int64_t source_length) {
  SCALING_CHECK(model.arena().data() != nullptr && !model.is_for_training());
  const ModelConfig& c = model.config();
  require_causal(c);
  if (c.decoder_only()) source_length = 0;
  if (tokens < 1 || tokens > kMaxTokens) {
    throw UserError(std::to_string(tokens) + " sequences at once are not in [1, " +
                    std::to_string(kMaxTokens) + "]; choose a number in that range");
  }
  if (capacity < 1 || (source_length < 1 && !c.decoder_only())) {
    throw UserError("capacity " + std::to_string(capacity) + " and source length " +
                    std::to_string(source_length) + " must be at least 1");
  }
  const std::int64_t positions = std::max(capacity, c.encoder ? source_length : 0);
  if (positions > c.max_length) {
    throw UserError("a decode of " + std::to_string(positions) + " positions exceeds max_length " +
                    std::to_string(c.max_length) + "; raise --max_length");
  }
  require_memory(model.state_bytes(model.decode_sizes(tokens, capacity, source_length)),
                 "the key/value cache",
                 "decode fewer sequences (--batch), a shorter context (--context), fewer blocks "
                 "(--blocks) or a smaller shape (--shape)");
  return tokens;
}

/// What the layer that needs most needs.
std::int64_t workspace_floats(const Transformer& model, const DecodeSizes& sizes, int threads) {
  std::int64_t most = model.loss().workspace_floats(sizes.tokens, threads);
  for (const auto& block : model.decoder().blocks) {
    for (const auto& branch : block->branches) {
      most = std::max(most, branch->workspace_floats(sizes, threads));
    }
  }
  return most;
}

}  // namespace

Decoder::Decoder(const Transformer& model, const KernelSet& kernels, Team& team, int tokens,
                 std::int64_t capacity, std::int64_t source_length)
    : model_(model),
      stack_(model.decoder()),
      kernels_(kernels),
      team_(team),
      tokens_(checked_tokens(model, tokens, capacity, source_length)),
      d_(model.config().d_model),
      capacity_(capacity),
      source_length_(model.config().decoder_only() ? 0 : source_length),
      sampler_(model.config().vocab_size, tokens, team.threads(), model.config().seed),
      job_([this](int thread) { step_of_thread(thread); }),
      logits_(std::size_t(tokens * model.config().vocab_size)),
      next_(std::size_t(tokens)) {
  const DecodeSizes sizes = model.decode_sizes(tokens, capacity, source_length_);
  for (const auto& block : stack_.blocks) {
    states_.emplace_back();
    for (const auto& branch : block->branches) {
      states_.back().push_back(branch->make_state(sizes));
    }
  }
  const std::int64_t shared = padded(tokens * d_), wide = padded(kMaxTokens * d_);
  const std::int64_t work = padded(workspace_floats(model, sizes, team.threads()));
  arena_ = Arena(std::uint64_t(3 * wide + 2 * shared + work + 3 * team.threads() * shared) * 4);
  const auto take = [&](std::int64_t n) {
    return static_cast<float*>(arena_.take(std::uint64_t(n) * 4));
  };
  StepBuffers of_team{};
  for (float** buffer : {&of_team.q, &of_team.k, &of_team.v}) *buffer = take(wide);
  for (float** buffer : {&of_team.o, &of_team.y}) *buffer = take(shared);
  workspace_ = take(work);
  for (int thread = 0; thread < team.threads(); ++thread) {
    float* acc = take(shared);
    float* x = take(shared);
    ThreadBuffers mine{stack_.is_reversible() ? x : acc, acc, of_team};
    mine.step.normed = take(shared);
    threads_.push_back(mine);
  }
}

void Decoder::begin(const std::vector<int>& source) {
  const Mat encoded = model_.encode(source);
  if (model_.config().decoder_only()) {
    begin(encoded);
    return;
  }
  SCALING_CHECK(std::int64_t(source.size()) == source_length_);
  const std::vector<std::int64_t> kept = unpadded(source);
  std::vector<int> ids;
  for (const std::int64_t t : kept) ids.push_back(source[std::size_t(t)]);
  begin(Mat(encoded(kept, Eigen::all)), ids);
}

void Decoder::begin(const Mat& encoded) {
  begin(encoded, std::vector<int>(std::size_t(encoded.rows()), 0));
}

void Decoder::begin(const Mat& encoded, const std::vector<int>& ids) {
  SCALING_CHECK(encoded.rows() >= int(!model_.config().decoder_only()));
  SCALING_CHECK(encoded.rows() <= source_length_);
  SCALING_CHECK(encoded.cols() == model_.config().encoded_width());
  SCALING_CHECK(std::int64_t(ids.size()) == encoded.rows());
  encoded_ = encoded.rows();
  position_ = 0;
  for (std::size_t i = 0; i < states_.size(); ++i) {
    for (std::size_t j = 0; j < states_[i].size(); ++j) {
      stack_.blocks[i]->branches[j]->restart(*states_[i][j]);
    }
  }
  loss_state_ = model_.loss().make_state(tokens_);
  team_.run([&](int thread) {
    const StepContext ctx = context(thread, 0, nullptr);
    for (std::size_t i = 0; i < states_.size(); ++i) {
      for (std::size_t j = 0; j < states_[i].size(); ++j) {
        stack_.blocks[i]->branches[j]->begin(ctx, *states_[i][j], encoded,
                                             threads_[std::size_t(thread)].step);
      }
    }
  });
  if (model_.config().is_concatenated()) prefill(encoded, ids);
  has_begun_ = true;
}

/// The encoder's rows go through the decoder's blocks as if they were the first tokens, the same
/// for every sequence.
void Decoder::prefill(const Mat& rows, const std::vector<int>& row_ids) {
  std::vector<int> of_tokens(std::size_t(tokens_), 0);
  for (std::int64_t r = 0; r < rows.rows(); ++r) {
    std::fill(of_tokens.begin(), of_tokens.end(), row_ids[std::size_t(r)]);
    team_.run([&](int thread) {
      const StepContext ctx = context(thread, r, of_tokens.data());
      ThreadBuffers mine = threads_[std::size_t(thread)];
      const float* row = rows.data() + r * rows.cols();
      // Both halves of a row where streams are joined; else one and the same.
      const float* second = row + rows.cols() - d_;
      for (int t = 0; t < tokens_; ++t) {
        std::copy_n(row, d_, mine.acc + t * d_);
        std::copy_n(second, d_, mine.x + t * d_);
      }
      run_blocks(ctx, mine);
    });
  }
}

void Decoder::pretend_position(std::int64_t length) {
  SCALING_CHECK(length >= 0 && length < capacity_);
  team_.run([&](int thread) {
    const StepContext ctx = context(thread, 0, nullptr);
    for (std::size_t i = 0; i < states_.size(); ++i) {
      for (std::size_t j = 0; j < states_[i].size(); ++j) {
        const std::string number = j == 0 ? "" : "." + std::to_string(j + 1);
        stack_.blocks[i]->branches[j]->pretend(ctx, *states_[i][j], prefix_length() + length,
                                               model_.config().seed,
                                               "pretended." + std::to_string(i) + number);
      }
    }
  });
  position_ = length;
}

// -- settings and what was found ------------------------------------------------------------------

void Decoder::profile(bool on) { is_profiling_ = on; }

void Decoder::set_sampling_seed(std::uint64_t seed) {
  sampler_ = Sampler(model_.config().vocab_size, tokens_, team_.threads(), seed);
}

std::vector<std::vector<std::int32_t>> Decoder::touched_rows() const {
  std::vector<std::vector<std::int32_t>> rows(states_.size());
  for (std::size_t i = 0; i < states_.size(); ++i) {
    for (std::size_t j = 0; j < states_[i].size(); ++j) {
      const auto more = stack_.blocks[i]->branches[j]->touched_rows(*states_[i][j]);
      rows[i].insert(rows[i].end(), more.begin(), more.end());
    }
  }
  return rows;
}

std::vector<Choices> Decoder::choices() const {
  std::vector<Choices> all(states_.size());
  for (std::size_t i = 0; i < states_.size(); ++i) {
    for (const auto& branch : stack_.blocks[i]->branches) {
      if (branch->choices().count > 0) all[i] = branch->choices();
    }
  }
  return all;
}

std::vector<std::vector<std::int32_t>> Decoder::chosen() const {
  std::vector<std::vector<std::int32_t>> all(states_.size());
  for (std::size_t i = 0; i < states_.size(); ++i) {
    for (std::size_t j = 0; j < states_[i].size(); ++j) {
      const auto& branch = *stack_.blocks[i]->branches[j];
      if (branch.choices().count > 0) all[i] = branch.chosen(*states_[i][j]);
    }
  }
  return all;
}

void Decoder::replay(std::vector<std::vector<std::int32_t>> chosen) {
  const std::vector<Choices> known = choices();
  SCALING_CHECK(chosen.size() == known.size());
  replayed_ = std::move(chosen);
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const std::vector<std::int32_t>& block = replayed_[i];
    SCALING_CHECK(block.empty() || std::int64_t(block.size()) == tokens_ * known[i].count);
    for (std::size_t j = 0; j < states_[i].size(); ++j) {
      stack_.blocks[i]->branches[j]->replay(*states_[i][j], block.empty() ? nullptr : block.data());
    }
  }
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
