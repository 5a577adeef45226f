// Hashes of texts and of what is made of them.
#include "experiments/training/training_data.h"

#include <filesystem>

#include "models/tasks/dataset.h"
#include "models/text/hash.h"

namespace scaling {

std::string cache_folder(const TrainConfig& train, const std::string& scratch) {
  return train.cache.empty() ? (std::filesystem::path(scratch) / "cache").string() : train.cache;
}

std::string data_fingerprint(TrainConfig train, std::int64_t vocab_size, const std::string& cache,
                             const ReadWatch& watch) {
  if (train.is_toy()) {
    train.task = "copy";
    train.data_seed = 1;
    train.batch = train.accumulate = 1;
    return Dataset(train, vocab_size, cache).fingerprint();
  }
  const auto content = [&](const std::string& text) {
    return text.empty() ? 0 : Corpus(text, train.text_key, watch).hash(cache);
  };
  Hash all;
  all.number(content(train.corpus)).number(content(train.validation));
  all.text(train.tokenizer).number(std::uint64_t(vocab_size));
  all.text(train.task).number(std::uint64_t(train.length));
  all.number(train.has_source() ? std::uint64_t(train.target_length) : 0);
  return hex_of(all.value());
}

}  // namespace scaling
