// A row of an experiment as something that decodes: model, decoder, teams.
#pragma once

#include <memory>
#include <string>

#include "experiments/instruments/interleave.h"
#include "kernels/random.h"
#include "models/transformer/decoder.h"

namespace scaling {

/// A row's model in memory with its encoder output, shared by all thread counts.
struct Resident {
  const Row* row = nullptr;
  std::unique_ptr<Transformer> model;
  Mat encoded;  ///< (source_length, d_model)
};

/// Ceilings are measured over as much memory as a token reads, and no more than this.
inline constexpr std::uint64_t kMaxCeilingBytes = 1ull << 30;

/// Bytes of keys and values that decoding the row needs beside the weights.
std::uint64_t cache_bytes(const Row& row, const Transformer& model);

/// The cached length at the middle of a decode's timed tokens; costs are counted there.
std::int64_t middle_length(const Row& row);

/// Ids 1, 2, ... of the source sequence.
std::vector<int> source_ids(const Row& row);

class RowSubject : public Subject {
 public:
  /// The resident and the teams outlive this. decode_team runs the steps, ceiling_team measures the
  /// machine (they differ where a library brings its own threads). Throws UserError if the caches
  /// do not fit.
  RowSubject(const Resident& resident, const KernelSet& kernels, Team& decode_team,
             Team& ceiling_team, const ProtocolSettings& settings);

  std::string name() const override;
  void warm_up() override;
  void prepare(int number) override;
  Decode decode(int number) override;
  Ceilings ceilings() override;

 private:
  void begin();
  /// One token a sequence, of random ids.
  StepTiming step(Rng& ids);

  const Resident& resident_;
  const KernelSet& kernels_;
  const int library_threads_;
  Team& ceiling_team_;
  const ProtocolSettings& settings_;
  Decoder decoder_;
  std::uint64_t ceiling_bytes_;
  bool has_long_tokens_ = false;  ///< known after the warm-up
  std::vector<int> ids_, next_;
};

}  // namespace scaling
