// Clocks of a decode, with the feed-forward's rows that it touches counted outside them.
#include "experiments/decode/decode_candidate.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <thread>

#include "experiments/instruments/cold_memory.h"
#include "experiments/study/interrupt.h"
#include "kernels/clock.h"
#include "kernels/libraries.h"

namespace scaling {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
/// Seconds. Threads of OpenMP and OpenBLAS turn on the spot for some thousandths after a product.
constexpr double kFallAsleep = 0.1;
constexpr std::uint64_t kIdSeed = 1;
// Streams of the ids; decodes count up from the second.
constexpr std::uint64_t kWarmUpStream = 1000, kDecodeStream = 1001;

/// Which feed-forward rows a decode has read, block by block.
class TouchedRows {
 public:
  explicit TouchedRows(std::int64_t d_ff) : d_ff_(d_ff) {}
  void add(const std::vector<std::vector<std::int32_t>>& blocks) {
    seen_.resize(blocks.size());
    for (std::size_t b = 0; b < blocks.size(); ++b) {
      // No list: the layer reads all its rows always.
      if (blocks[b].empty()) seen_[b].assign(std::size_t(d_ff_), true);
      seen_[b].resize(std::size_t(d_ff_), false);
      for (const std::int32_t row : blocks[b]) seen_[b][std::size_t(row)] = true;
    }
  }
  double mean() const {
    std::int64_t sum = 0;
    for (const auto& block : seen_) sum += std::count(block.begin(), block.end(), true);
    return seen_.empty() ? 0 : double(sum) / double(seen_.size());
  }

 private:
  const std::int64_t d_ff_;
  std::vector<std::vector<bool>> seen_;
};

void note(const Conditions& found, Columns& columns) {
  columns[kBarrier] = found.barrier_us;
  columns[kSteal] = found.steal;
  columns[kPressure] = found.pressure;
  columns[kSwitches] = found.switches;
  columns[kLoad] = found.load;
  columns[kHugePages] = found.huge_pages;
}

}  // namespace

std::uint64_t DecodeModel::cache_bytes() const {
  return model->state_bytes(
      model->decode_sizes(row.tokens(), capacity_of(row), row.decode.source_length));
}

DecodeCandidate::DecodeCandidate(const DecodeModel& loaded, const KernelSet& kernels,
                                 Team& decode_team, Team& ceiling_team, ConditionsMeter* meter,
                                 DecodeProtocol protocol)
    : loaded_(loaded),
      kernels_(kernels),
      library_threads_(loaded.row.decode.own_threads ? ceiling_team.threads() : 1),
      ceiling_team_(ceiling_team),
      meter_(meter),
      protocol_(protocol),
      decoder_(*loaded.model, kernels, decode_team, loaded.row.tokens(), capacity_of(loaded.row),
               loaded.row.decode.source_length),
      ids_(std::size_t(loaded.row.tokens())),
      next_(std::size_t(loaded.row.tokens())) {
  ceiling_bytes_ = std::min(
      {std::uint64_t(loaded.held_token().bytes), loaded.model->arena().used(), kMaxCeilingBytes});
  if (auto trace = replayed_by(loaded_.row)) {
    replay_.emplace(std::move(*trace), decoder_.choices(), loaded_.row.tokens());
  }
  if (!loaded_.row.decode.cold) return;
  const std::uint64_t bytes = more_than_caches_hold(ceiling_team.threads());
  require_memory(bytes, "the memory that cold rows read between tokens", "free some");
  elsewhere_ = Arena(bytes);
  std::memset(elsewhere_.take(bytes), 1, bytes);
}

Candidate DecodeCandidate::candidate() {
  return {.name = loaded_.row.name,
          .trial = [this](int number) { return decode(number); },
          .warm_up = [this] { warm_up(); },
          .prepare = [this] { begin(); },
          .ceilings = [this] { return ceilings(); }};
}

void DecodeCandidate::begin() {
  // Rows of the same library take turns with different numbers of its threads.
  set_library_threads(loaded_.row.decode.kernels, library_threads_);
  decoder_.begin(loaded_.encoded);
  if (loaded_.row.decode.context) decoder_.pretend_position(loaded_.row.decode.context);
}

StepTiming DecodeCandidate::step(Rng& ids) {
  check_interrupt();
  const auto vocabulary = std::uint32_t(loaded_.model->config().vocab_size);
  for (int& id : ids_) id = int(1 + ids.below(vocabulary - 1));
  if (loaded_.row.decode.cold) {
    measure_one_pass(ceiling_team_, elsewhere_.data(), elsewhere_.used(), ReadStreams::one);
  }
  if (replay_) decoder_.replay(replay_->next());
  return decoder_.step(ids_, next_);
}

void DecodeCandidate::warm_up() {
  begin();
  if (replay_) replay_->begin(kWarmUpStream, kWarmUpTokens);
  Rng ids(kIdSeed, kWarmUpStream);
  double last = 0;
  for (int i = 0; i < kWarmUpTokens; ++i) last = step(ids).token_seconds;
  // The paper's protocol has one number a decode.
  has_long_tokens_ = last > kLongToken && protocol_ == DecodeProtocol::steady;
}

Trial DecodeCandidate::decode(int number) {
  Rng ids(kIdSeed, kDecodeStream + std::uint64_t(number));
  TouchedRows touched(loaded_.model->config().d_ff);
  std::vector<double> token, block;
  Trial trial;
  if (replay_) replay_->begin(kDecodeStream + std::uint64_t(number), kDecodeTokens);
  const auto start = Clock::now();
  const double read_before = read_gbps();
  Look before;
  if (meter_) meter_->start();
  for (int i = 0; i < kDecodeTokens; ++i) {
    if (has_long_tokens_ && i == kUntimedTokens) before = look();
    const double began = seconds_since(start);
    // Where time goes is noted on a token that is not timed, so that noting costs nothing, and on
    // every long one: what it costs is nothing there.
    decoder_.profile(i + 1 == kUntimedTokens || has_long_tokens_);
    const StepTiming timing = step(ids);
    touched.add(decoder_.touched_rows());
    if (i < kUntimedTokens) continue;
    token.push_back(timing.token_seconds);
    block.push_back(timing.block_seconds);
    if (has_long_tokens_) {
      const Look after = look();
      Columns values = columns(token.back(), block.back());
      values[kBegan] = began;
      values[kReadBefore] = before.read_gbps;
      values[kReadAfter] = after.read_gbps;
      trial.parts.push_back({std::move(values), before.ceilings, after.ceilings});
      before = after;
    }
  }
  trial.values = columns(middle(token), middle(block));
  if (!has_long_tokens_) trial.values.insert(trial.values.end(), token.begin(), token.end());
  trial.values[kBegan] = 0;
  trial.values[kReadBefore] = read_before;
  const auto set = [&trial](const auto& what) {
    what(trial.values);
    for (LongPart& part : trial.parts) what(part.values);
  };
  set([&](Columns& values) { values[kRowsTouched] = touched.mean(); });
  if (meter_) {
    const Conditions found = meter_->stop(ceiling_team_, idle_seconds());
    const Arena& weights = loaded_.model->arena();
    const double load_apart = measure_load_apart(weights.data(), weights.used());
    trial.values[kReadAfter] = found.read_gbps;
    set([&](Columns& values) {
      note(found, values);
      values[kLoadApart] = load_apart;
    });
  }
  return trial;
}

double DecodeCandidate::middle(const std::vector<double>& values) const {
  if (protocol_ == DecodeProtocol::steady) return quantile(values, 0.5);
  return std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

Columns DecodeCandidate::columns(double token_seconds, double block_seconds) const {
  Columns columns(kPartSeconds, kUnknown);
  columns[kTokenSeconds] = token_seconds;
  columns[kBlockSeconds] = block_seconds;
  for (const auto* parts : {&decoder_.part_seconds(), &decoder_.part_barriers()}) {
    columns.insert(columns.end(), parts->begin(), parts->end());
  }
  return columns;
}

double DecodeCandidate::idle_seconds() const { return library_threads_ > 1 ? kFallAsleep : 0; }

DecodeCandidate::Look DecodeCandidate::look() {
  std::this_thread::sleep_for(std::chrono::duration<double>(idle_seconds()));
  const Ceilings found = ceilings();
  return {found, read_gbps()};
}

double DecodeCandidate::read_gbps() { return meter_ ? meter_->read_gbps(ceiling_team_) : kUnknown; }

Ceilings DecodeCandidate::ceilings() {
  Ceilings c;
  const bool cold = loaded_.row.decode.cold;
  c.read_bytes_per_second =
      measure_read_rate(ceiling_team_, cold ? elsewhere_.data() : loaded_.model->arena().data(),
                        cold ? elsewhere_.used() : ceiling_bytes_);
  c.fma_flops_per_second =
      measure_product_rate(ceiling_team_, kernels_, loaded_.row.model.weight_type);
  return c;
}

}  // namespace scaling
