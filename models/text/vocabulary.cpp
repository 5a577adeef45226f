// A sample of lines by repeated thinning, then the library's training.
#include "models/text/vocabulary.h"

#include <unistd.h>

#include <filesystem>
#include <string_view>
#include <vector>

#include "kernels/check.h"
#include "models/text/atomic_file.h"
#include "models/text/hash.h"
#include "models/text/safetensors.h"
#include "models/text/tokenizer.h"

namespace scaling {
namespace {

constexpr std::uint64_t kSampleBytes = 10'000'000;
constexpr std::uint64_t kReadBytes = std::uint64_t(1) << 30;
constexpr std::size_t kLineBytes = 2000;  // longer ones the library would pass over

/// Every stride-th line, stride doubling whenever they get too many: evenly spread without knowing
/// how many there will be.
class LineSample {
 public:
  void add(std::string_view line) {
    if (line.empty() || seen_++ % stride_ != 0) return;
    lines_.emplace_back(line);
    bytes_ += line.size() + 1;
    while (bytes_ > kSampleBytes && lines_.size() > 1) thin();
  }
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  void thin() {
    std::size_t kept = 0;
    bytes_ = 0;
    for (std::size_t i = 0; i < lines_.size(); i += 2, ++kept) {
      if (kept != i) lines_[kept] = std::move(lines_[i]);
      bytes_ += lines_[kept].size() + 1;
    }
    lines_.resize(kept);
    stride_ *= 2;
  }
  std::vector<std::string> lines_;
  std::uint64_t seen_ = 0, stride_ = 1, bytes_ = 0;
};

void add_lines(std::string_view text, LineSample& sample) {
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    while (line.size() > kLineBytes) {
      const std::size_t cut = cut_position(line.substr(0, kLineBytes), kLineBytes / 2);
      sample.add(line.substr(0, cut));
      line.remove_prefix(cut);
    }
    sample.add(line);
  }
}

LineSample sample_of(const Corpus& corpus) {
  struct Enough {};
  LineSample sample;
  std::uint64_t read = 0;
  try {
    corpus.read([&](std::string_view piece, bool) {
      add_lines(piece, sample);
      read += piece.size();
      if (read >= kReadBytes) throw Enough();
    });
  } catch (const Enough&) {
  }
  return sample;
}

}  // namespace

std::string sentencepiece_model(const Corpus& corpus, std::uint64_t hash, std::int64_t vocab_size,
                                const std::string& cache_folder) {
  const std::string name = hex_of(hash) + "-" + std::to_string(vocab_size);
  std::string model = cache_folder + "/sentencepiece-" + name + ".model";
  if (std::filesystem::exists(model)) return model;

  make_folder(cache_folder);
  struct Temporary {
    std::string path;
    ~Temporary() {
      std::error_code ignored;
      std::filesystem::remove(path, ignored);
    }
  };
  const Temporary sentences{cache_folder + "/sentences-" + name + "-" + std::to_string(getpid()) +
                            ".txt"};
  {
    AtomicFile out(sentences.path);
    const LineSample sample = sample_of(corpus);
    std::string text;
    for (const std::string& line : sample.lines()) {
      text += line;
      text += '\n';
    }
    out.write(text.data(), text.size());
    out.commit();
  }
  train_sentencepiece(sentences.path, vocab_size, model);
  return model;
}

std::string vocabulary_of_weights(const std::string& path) {
  SafetensorsFile file(path, kWeightsWords, SafetensorsFile::Checksum::if_present);
  const auto found = file.tensors().find(kVocabularyTensor);
  if (found == file.tensors().end() || found->second.dtype != "U8") {
    throw UserError(std::string(kWeightsWords.noun) + " '" + path + "' carries no vocabulary (" +
                    kVocabularyTensor +
                    ", of dtype U8), without which no one knows which pieces of SentencePiece its "
                    "ids are; write one from the checkpoint with apps/weights, or add the bytes of "
                    "its model");
  }
  return file.read_bytes(found->second);
}

}  // namespace scaling
