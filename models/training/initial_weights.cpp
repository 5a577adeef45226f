// All is compared before anything is read.
#include "models/training/initial_weights.h"

#include <fstream>
#include <set>

#include "kernels/check.h"
#include "models/text/hash.h"
#include "models/text/safetensors.h"
#include "models/training/checkpoint.h"
#include "models/training/finite.h"

namespace scaling {
namespace {

constexpr std::size_t kChunk = std::size_t(1) << 20;
constexpr const char* kRemedy =
    "; give the model the knobs of the one that the file was written of";

std::string named(const std::string& path) {
  return std::string(kWeightsWords.noun) + " '" + path + "'";
}

bool fits(const TensorEntry& tensor, const Parameter& p) {
  if (p.is_vector && tensor.shape == std::vector<std::int64_t>{p.cols}) return true;
  return tensor.shape == std::vector<std::int64_t>{p.rows, p.cols};
}

void require_tokenizer(const SafetensorsFile& file, const Tokenizer* ours) {
  const auto theirs = file.metadata().find(kTokenizerText);
  if (ours == nullptr) return;
  if (theirs == file.metadata().end()) {
    // Other programs may have dropped the metadata; the vocabulary is a tensor.
    if (ours->model().empty() && file.tensors().count(kVocabularyTensor)) {
      throw UserError(named(file.path()) + " carries a vocabulary of pieces, this run has '" +
                      ours->identity() +
                      "': its ids would mean other text; set tokenizer to sentencepiece");
    }
    return;
  }
  if (theirs->second == ours->identity()) return;
  throw UserError(named(file.path()) + " belongs to the tokenizer '" + theirs->second +
                  "', this run has '" + ours->identity() +
                  "': its ids would mean other text; set tokenizer to the file's");
}

/// The parameter's tensor; throws UserError if there is none that fits.
const TensorEntry& tensor_of(const SafetensorsFile& file, const Parameter& p) {
  const std::string shape = text_of_shape({p.rows, p.cols});
  const auto found = file.tensors().find(p.name);
  if (found == file.tensors().end()) {
    throw UserError(named(file.path()) + " lacks the tensor '" + p.name + "' (" + shape +
                    "), which this model needs" + kRemedy);
  }
  const TensorEntry& tensor = found->second;
  if (!fits(tensor, p)) {
    throw UserError(named(file.path()) + " holds '" + p.name + "' as " +
                    text_of_shape(tensor.shape) + ", but this model's is " + shape + kRemedy);
  }
  if (!tensor.is_float()) {
    throw UserError(named(file.path()) + " holds '" + p.name + "' as " + tensor.dtype +
                    "; write it as F32, F16 or BF16");
  }
  return tensor;
}

}  // namespace

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<char> chunk(kChunk);
  Hash hash;
  while (in.read(chunk.data(), std::streamsize(chunk.size())), in.gcount() > 0) {
    hash.add(chunk.data(), std::size_t(in.gcount()));
  }
  if (!in.eof()) {
    throw UserError(named(path) + " cannot be read; " + kWeightsWords.whence);
  }
  return hex_of(hash.value());
}

void load_initial_weights(const std::string& path, const std::vector<Parameter*>& parameters,
                          const Tokenizer* tokenizer) {
  SafetensorsFile file(path, kWeightsWords, SafetensorsFile::Checksum::if_present);
  require_tokenizer(file, tokenizer);
  std::vector<const TensorEntry*> tensors;
  std::set<std::string> wanted;
  for (const Parameter* p : parameters) {
    tensors.push_back(&tensor_of(file, *p));
    wanted.insert(p->name);
  }
  for (const auto& [name, tensor] : file.tensors()) {
    if (wanted.count(name) || name == kVocabularyTensor || name.rfind(kOptimizerArrays, 0) == 0) {
      continue;
    }
    throw UserError(named(path) + " holds '" + name + "' (" + text_of_shape(tensor.shape) +
                    "), which this model lacks" + kRemedy);
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    file.read_floats(*tensors[i], 0, std::uint64_t(parameters[i]->count()),
                     parameters[i]->values());
  }
  if (!values_are_finite(parameters)) {
    throw UserError(named(path) + " starts no training: " + what_is_not_finite(parameters) +
                    "; write it from weights that are");
  }
}

}  // namespace scaling
