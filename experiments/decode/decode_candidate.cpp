// Teacher-forced decodes of random tokens, with the rows they touch counted outside the clock.
#include "experiments/decode/decode_candidate.h"

#include <algorithm>
#include <numeric>

#include "experiments/study/interrupt.h"
#include "experiments/study/statistics.h"
#include "kernels/libraries.h"

namespace scaling {
namespace {

// Streams of the row's random numbers; decodes count up from the second.
constexpr std::uint64_t kWarmUpStream = 1000, kDecodeStream = 1001;

std::int64_t capacity_of(const Row& row) { return row.context + kDecodeTokens; }

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

double middle(const std::vector<double>& values, Protocol protocol) {
  if (protocol == Protocol::steady) return quantile(values, 0.5);
  return std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

}  // namespace

std::uint64_t cache_bytes(const Row& row, const Transformer& model) {
  return model.state_bytes(model.decode_sizes(row.batch, capacity_of(row), row.source_length));
}

std::int64_t middle_length(const Row& row) {
  // Two dropped of twelve: the timed tokens see lengths context + 3 to context + 12.
  return row.context + 8;
}

std::vector<int> source_ids(const Row& row) {
  std::vector<int> ids;
  for (std::int64_t i = 0; i < row.source_length; ++i) {
    ids.push_back(int(1 + i % (row.model.vocab_size - 1)));
  }
  return ids;
}

RowSubject::RowSubject(const Resident& resident, const KernelSet& kernels, Team& decode_team,
                       Team& ceiling_team, const ProtocolSettings& settings)
    : resident_(resident),
      kernels_(kernels),
      library_threads_(resident.row->own_threads ? ceiling_team.threads() : 1),
      ceiling_team_(ceiling_team),
      settings_(settings),
      decoder_(*resident.model, kernels, decode_team, resident.row->batch,
               capacity_of(*resident.row), resident.row->source_length),
      ids_(std::size_t(resident.row->batch)),
      next_(std::size_t(resident.row->batch)) {
  const Row& row = *resident.row;
  const Phase read =
      total(resident.model->held_token_cost(row.batch, middle_length(row), row.source_length));
  ceiling_bytes_ =
      std::min({std::uint64_t(read.bytes), resident.model->arena().used(), kMaxCeilingBytes});
}

std::string RowSubject::name() const { return resident_.row->name; }

void RowSubject::begin() {
  // Rows of the same library take turns with different numbers of its threads.
  set_library_threads(resident_.row->kernels, library_threads_);
  decoder_.begin(resident_.encoded);
  if (resident_.row->context) decoder_.pretend_position(resident_.row->context);
}

StepTiming RowSubject::step(Rng& ids) {
  check_interrupt();
  const auto vocabulary = std::uint32_t(resident_.model->config().vocab_size);
  for (int& id : ids_) id = int(1 + ids.below(vocabulary - 1));
  return decoder_.step(ids_, next_);
}

void RowSubject::warm_up() {
  begin();
  Rng ids(settings_.seed, kWarmUpStream);
  double last = 0;
  for (int i = 0; i < settings_.warm_up_tokens; ++i) last = step(ids).token_seconds;
  // The paper's protocol has one number a decode.
  has_long_tokens_ = last > kLongToken && settings_.kind == Protocol::steady;
}

void RowSubject::prepare(int) { begin(); }

Decode RowSubject::decode(int number) {
  Rng ids(settings_.seed, kDecodeStream + std::uint64_t(number));
  TouchedRows touched(resident_.model->config().d_ff);
  std::vector<double> token, block;
  std::vector<LongToken> long_tokens;
  Ceilings before;
  for (int i = 0; i < settings_.tokens; ++i) {
    if (has_long_tokens_ && i == settings_.dropped) before = ceilings();
    // Where time goes is noted on a token that is not timed, so that noting costs nothing, and on
    // every long one: what it costs is nothing there.
    decoder_.profile(i + 1 == settings_.dropped || has_long_tokens_);
    const StepTiming timing = step(ids);
    touched.add(decoder_.touched_rows());
    if (i < settings_.dropped) continue;
    token.push_back(timing.token_seconds);
    block.push_back(timing.block_seconds);
    if (has_long_tokens_) {
      const Ceilings after = ceilings();
      long_tokens.push_back({{token.back(), block.back(), decoder_.part_seconds()}, before, after});
      before = after;
    }
  }
  return {{middle(token, settings_.kind), middle(block, settings_.kind), decoder_.part_seconds()},
          touched.mean(),
          std::move(long_tokens)};
}

Ceilings RowSubject::ceilings() {
  Ceilings c;
  c.read_bytes_per_second =
      measure_read_rate(ceiling_team_, resident_.model->arena().data(), ceiling_bytes_);
  c.fma_flops_per_second =
      measure_product_rate(ceiling_team_, kernels_, resident_.row->model.weight_type);
  return c;
}

}  // namespace scaling
