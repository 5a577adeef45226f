// What a checkpoint says beside its arrays, and which arrays a run expects.
#include "models/training/checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "kernels/check.h"
#include "models/text/safetensors.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

using Json = nlohmann::ordered_json;

constexpr FileWords kWords = {.noun = "checkpoint",
                              .whence = "name a file that a training run has written",
                              .instead = "use another checkpoint of the run, or train again"};
constexpr std::string_view kVersion1 = "SCALCKPT";  // first bytes before safetensors

std::uint64_t count_of(const std::vector<std::int64_t>& shape) {
  std::uint64_t count = 1;
  for (const std::int64_t n : shape) count *= std::uint64_t(n);
  return count;
}

void write_checkpoint(const std::string& path, const CheckpointInfo& info,
                      const std::vector<NamedArray>& arrays) {
  Json model;
  for (const std::string& field : field_names()) model[field] = get_field(info.model, field);
  std::vector<std::pair<std::string, std::string>> metadata = {{"format", kCheckpointFormat},
                                                               {"step", std::to_string(info.step)},
                                                               {"fingerprint", info.fingerprint},
                                                               {"training", info.training},
                                                               {"model", model.dump()}};
  if (!info.tokenizer.empty()) metadata.emplace_back(kTokenizerText, info.tokenizer);
  std::vector<TensorData> tensors;
  for (const NamedArray& array : arrays) {
    tensors.push_back({array.name, "F32", array.shape, array.values});
  }
  if (!info.vocabulary.empty()) {
    tensors.push_back(
        {kVocabularyTensor, "U8", {std::int64_t(info.vocabulary.size())}, info.vocabulary.data()});
  }
  write_safetensors(path, metadata, tensors);
}

/// An open checkpoint whose checksum was right.
class CheckpointFile {
 public:
  explicit CheckpointFile(const std::string& path)
      : path_(refuse_version_1(path)), file_(path, kWords, SafetensorsFile::Checksum::required) {
    parse();
  }
  const CheckpointInfo& info() const { return info_; }
  /// All but the vocabulary.
  const std::map<std::string, TensorEntry>& arrays() const { return arrays_; }
  /// Throws UserError if there is no such array or its shape is another.
  const TensorEntry& entry(const std::string& name, const std::vector<std::int64_t>& shape) const;
  /// n values from value `first` of the array on.
  void read(const TensorEntry& array, std::uint64_t first, std::uint64_t n, float* to) {
    file_.read_floats(array, first, n, to);
  }

 private:
  static const std::string& refuse_version_1(const std::string& path);
  void parse();

  const std::string path_;
  SafetensorsFile file_;
  CheckpointInfo info_;
  std::map<std::string, TensorEntry> arrays_;
};

const std::string& CheckpointFile::refuse_version_1(const std::string& path) {
  std::string start(kVersion1.size(), '\0');
  std::ifstream(path, std::ios::binary).read(start.data(), std::streamsize(start.size()));
  if (start != kVersion1) return path;
  throw UserError("checkpoint '" + path +
                  "' is of version 1; convert it: python3 tools/convert_checkpoint.py '" + path +
                  "'");
}

void CheckpointFile::parse() try {
  const auto& metadata = file_.metadata();
  const std::string& format = metadata.at("format");
  if (format != kCheckpointFormat) {
    throw UserError("checkpoint '" + path_ + "' has the format '" + format +
                    "', but this program reads '" + kCheckpointFormat +
                    "'; use the program that wrote it, or train again");
  }
  info_.step = std::stoll(metadata.at("step"));
  info_.fingerprint = metadata.at("fingerprint");
  info_.training = metadata.at("training");
  const auto tokenizer = metadata.find(kTokenizerText);
  if (tokenizer != metadata.end()) info_.tokenizer = tokenizer->second;
  const Json model = Json::parse(metadata.at("model"));
  for (const auto& [field, value] : model.items()) {
    if (field == "shape") {
      info_.model.shape = value;  // only the name: all sizes follow
      continue;
    }
    try {
      set_field(info_.model, field, value);
    } catch (const UserError& error) {
      throw UserError("checkpoint '" + path_ + "' is of another version of this program (" +
                      error.what() + "); use the program that wrote it, or train again");
    }
  }
  arrays_ = file_.tensors();
  const auto vocabulary = arrays_.find(kVocabularyTensor);
  if (vocabulary != arrays_.end() && vocabulary->second.dtype == "U8") {
    info_.vocabulary = file_.read_bytes(vocabulary->second);
    arrays_.erase(vocabulary);
  }
  for (const auto& [name, entry] : arrays_) {
    if (entry.dtype != "F32") file_.damaged("its array " + name + " is not F32");
  }
} catch (const std::exception& error) {
  if (dynamic_cast<const UserError*>(&error)) throw;
  file_.damaged(std::string("its header cannot be read (") + error.what() + ")");
}

const TensorEntry& CheckpointFile::entry(const std::string& name,
                                         const std::vector<std::int64_t>& shape) const {
  const auto found = arrays_.find(name);
  const char* remedy = "; give the settings that the checkpoint was trained with";
  if (found == arrays_.end()) {
    throw UserError("checkpoint '" + path_ + "' has no array '" + name +
                    "', which this model needs" + remedy);
  }
  if (found->second.shape != shape) {
    throw UserError("checkpoint '" + path_ + "' holds '" + name + "' as " +
                    text_of_shape(found->second.shape) + ", but this model's is " +
                    text_of_shape(shape) + remedy);
  }
  return found->second;
}

void read_parameter(CheckpointFile& file, const TensorEntry& entry, Parameter& p) {
  if (p.type == WeightType::f32 && p.layout == Layout::rows) {
    file.read(entry, 0, std::uint64_t(p.count()), p.values());
    return;
  }
  std::vector<float> row(std::size_t(p.cols));
  for (std::int64_t i = 0; i < p.rows; ++i) {
    file.read(entry, std::uint64_t(i * p.cols), row.size(), row.data());
    for (std::int64_t j = 0; j < p.cols; ++j) p.set(i, j, row[std::size_t(j)]);
  }
}

}  // namespace

std::vector<NamedArray> weight_arrays(const std::vector<Parameter*>& parameters) {
  std::vector<NamedArray> arrays;
  for (Parameter* p : parameters) arrays.push_back({p->name, {p->rows, p->cols}, p->values()});
  return arrays;
}

void save_checkpoint(const std::string& path, const CheckpointInfo& info,
                     const std::vector<NamedArray>& arrays) {
  try {
    write_checkpoint(path, info, arrays);
  } catch (const UserError& error) {
    std::error_code ignored;
    throw UserError("the checkpoint of step " + std::to_string(info.step) +
                    " was not saved: " + error.what() +
                    (fs::exists(path, ignored) ? "; the one before it is still there" : ""));
  }
}

CheckpointInfo read_checkpoint_info(const std::string& path) { return CheckpointFile(path).info(); }

CheckpointInfo load_checkpoint(const std::string& path, const std::vector<NamedArray>& arrays) {
  CheckpointFile file(path);
  std::vector<const TensorEntry*> entries;
  std::set<std::string> asked;
  for (const NamedArray& array : arrays) {
    entries.push_back(&file.entry(array.name, array.shape));
    asked.insert(array.name);
  }
  for (const auto& [name, entry] : file.arrays()) {
    if (asked.count(name)) continue;
    throw UserError("checkpoint '" + path + "' holds '" + name + "' (" +
                    text_of_shape(entry.shape) +
                    "), which this run lacks; give the settings that the checkpoint was trained "
                    "with");
  }
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    file.read(*entries[i], 0, count_of(arrays[i].shape), arrays[i].values);
  }
  return file.info();
}

CheckpointInfo load_weights(const std::string& path, const std::vector<Parameter*>& parameters) {
  CheckpointFile file(path);
  std::vector<const TensorEntry*> entries;
  for (const Parameter* p : parameters) entries.push_back(&file.entry(p->name, {p->rows, p->cols}));
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    SCALING_CHECK(parameters[i]->data != nullptr);
    read_parameter(file, *entries[i], *parameters[i]);
  }
  return file.info();
}

void write_weights(const std::string& checkpoint, const std::string& to,
                   const Tokenizer* tokenizer) {
  CheckpointFile file(checkpoint);
  CheckpointInfo info = file.info();
  if (tokenizer) {
    info.tokenizer = tokenizer->identity();
    info.vocabulary = tokenizer->model();
  }
  std::vector<std::pair<std::string, const TensorEntry*>> kept;
  for (const auto& [name, entry] : file.arrays()) {
    if (name.rfind(kOptimizerArrays, 0) != 0) kept.emplace_back(name, &entry);
  }
  std::sort(kept.begin(), kept.end(),
            [](const auto& a, const auto& b) { return a.second->begin < b.second->begin; });
  std::vector<std::vector<float>> values;
  std::vector<NamedArray> arrays;
  for (const auto& [name, entry] : kept) {
    auto& one = values.emplace_back(std::size_t(count_of(entry->shape)));
    file.read(*entry, 0, one.size(), one.data());
    arrays.push_back({name, entry->shape, one.data()});
  }
  write_checkpoint(to, info, arrays);
}

}  // namespace scaling
