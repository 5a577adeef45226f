// Bytes, or a SentencePiece model from where it is.
#include "models/training/run_tokenizer.h"

#include <filesystem>

#include "kernels/check.h"
#include "models/training/run_state.h"

namespace scaling {

namespace fs = std::filesystem;

std::unique_ptr<Tokenizer> tokenizer_of(const std::string& checkpoint, const CheckpointInfo& info,
                                        const std::string& given) {
  const RunState run = parse_run_state(info.training);
  const std::int64_t vocab_size = info.model.vocab_size;
  if (run.config.tokenizer == TokenizerKind::bytes) return make_byte_tokenizer(vocab_size);
  if (given.empty() && !info.vocabulary.empty()) {
    return make_sentencepiece(info.vocabulary, vocab_size,
                              "the vocabulary of '" + checkpoint + "'");
  }
  const std::string& own = run.tokenizer_model;
  std::string path = given.empty() ? own : given;
  std::error_code error;
  if (path == own && !fs::exists(path, error)) {
    path = (fs::path(checkpoint).parent_path() / fs::path(own).filename()).string();
  }
  if (!fs::is_regular_file(path, error)) {
    throw UserError("the SentencePiece model '" + (path.empty() ? own : path) +
                    "' of checkpoint '" + checkpoint +
                    "' is not there; name it with --tokenizer FILE");
  }
  return load_sentencepiece(path, vocab_size);
}

}  // namespace scaling
