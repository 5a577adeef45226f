// The safetensors format: named arrays in one file, which other programs write and read too.
//
// The file: 8 bytes, the length of a JSON header (little-endian); the header; the data, one tensor
// behind the other without gaps, little-endian and row-major. The header gives each tensor's dtype,
// shape and data_offsets (first byte and the one behind its last, counted from the data's start) by
// its name, and texts by theirs under "__metadata__".
//
// A file of this project fills the header up with spaces to a multiple of 64 bytes, names itself
// first ("format", which begins with kOwnFormat), and ends the metadata with "checksum": the CRC-32
// of the whole file, in 8 hexadecimal digits, with zeros in their place.
#pragma once

#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace scaling {

inline constexpr const char* kOwnFormat = "scaling_transformers";
/// A tensor of bytes (U8): the SentencePiece model that a model's ids belong to.
inline constexpr const char* kVocabularyTensor = "vocabulary";
/// Metadata: Tokenizer::identity of the text that weights were trained on.
inline constexpr const char* kTokenizerText = "tokenizer";

/// A tensor to be written: `data` are the shape's values, or bytes, as the dtype says.
struct TensorData {
  std::string name;
  std::string dtype;  ///< in the format's words: F32, BF16, U8, ...
  std::vector<std::int64_t> shape;
  const void* data;
};

/// Writes beside `path`, syncs, renames. metadata: "format" first; the checksum is added. Throws
/// UserError (disk full and the like) with the old file in place.
void write_safetensors(const std::string& path,
                       const std::vector<std::pair<std::string, std::string>>& metadata,
                       const std::vector<TensorData>& tensors);

/// What messages about a file say of it.
struct FileWords {
  const char* noun;     ///< "checkpoint"
  const char* whence;   ///< where such a file comes from: "name a file that ..."
  const char* instead;  ///< what helps if it is damaged: "use another ..."
};

/// Of a file that training starts from.
inline constexpr FileWords kWeightsWords = {
    .noun = "file of weights",
    .whence = "name a safetensors file: a checkpoint, what apps/weights writes, or another program",
    .instead = "write it anew; another program leaves \"checksum\" out of the metadata"};

/// A tensor of a file.
struct TensorEntry {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::uint64_t begin, end;  ///< bytes of the file

  /// Values are read as floats: F32, F16 or BF16.
  bool is_float() const;
};

/// An open file whose header is sound: tensors lie within it, one behind the other, each as long as
/// its dtype and shape say. Every error is a UserError that names the file.
class SafetensorsFile {
 public:
  enum class Checksum { required, if_present };

  /// The checksum is compared if the file is one of this project; `required`: others are refused.
  SafetensorsFile(const std::string& path, const FileWords& words, Checksum checksum);

  const std::string& path() const { return path_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  const std::map<std::string, TensorEntry>& tensors() const { return tensors_; }
  /// n values from value `first` of a tensor of floats on; F16 and BF16 are widened, exactly.
  void read_floats(const TensorEntry& tensor, std::uint64_t first, std::uint64_t n, float* to);
  std::string read_bytes(const TensorEntry& tensor);

  /// Throws: the file is damaged, and why.
  [[noreturn]] void damaged(const std::string& why) const;
  /// Throws: this is another kind of file.
  [[noreturn]] void foreign(const std::string& what) const;

 private:
  void read_at(std::uint64_t offset, std::size_t n, void* to);
  void verify(std::string front, Checksum checksum);
  void parse(const std::string& front);
  void check_offsets(std::uint64_t data) const;

  const std::string path_;
  const FileWords words_;
  std::ifstream in_;
  std::uint64_t size_ = 0;
  std::map<std::string, std::string> metadata_;
  std::map<std::string, TensorEntry> tensors_;
};

/// "2 x 3"
std::string text_of_shape(const std::vector<std::int64_t>& shape);

}  // namespace scaling
