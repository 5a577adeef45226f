// The safetensors format: what we write comes back and is what the format's definition says, what
// NumPy wrote is read, and every kind of damage is refused by name.
#include "models/text/safetensors.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/helpers.h"

namespace scaling {
namespace {

using Checksum = SafetensorsFile::Checksum;

const std::string kFixture =
    (std::filesystem::path(SOURCE_DIR) / "tests/fixtures/weights/numpy.safetensors").string();

SafetensorsFile opened(const std::string& path, Checksum checksum = Checksum::if_present) {
  return SafetensorsFile(path, kWeightsWords, checksum);
}

std::vector<float> floats(SafetensorsFile& file, const std::string& name, std::uint64_t first,
                          std::uint64_t n) {
  std::vector<float> values(n);
  file.read_floats(file.tensors().at(name), first, n, values.data());
  return values;
}

/// Length, header and data, whatever they are.
std::string file_of(const std::string& header, const std::string& data) {
  const std::uint64_t size = header.size();
  return std::string(reinterpret_cast<const char*>(&size), sizeof size) + header + data;
}

class SafetensorsTest : public testing::Test {
 protected:
  void put(const std::string& bytes) {
    std::ofstream(path_, std::ios::binary | std::ios::trunc) << bytes;
  }
  std::string refusal(Checksum checksum = Checksum::if_present) {
    return message_of([&] { opened(path_, checksum); });
  }
  Folder folder_;
  const std::string path_ = folder_ / "some.safetensors";
};

TEST_F(SafetensorsTest, WhatIsWrittenComesBack) {
  const std::vector<float> matrix = {1, 2, 3, 4, 5, -6.5f}, vector = {0.25f};
  const std::string bytes("\0\xff\"x", 4);
  write_safetensors(path_,
                    {{"format", "scaling_transformers 9"}, {"note", "a \"quoted\" \\ text\n"}},
                    {{"w", "F32", {2, 3}, matrix.data()},
                     {"bytes", "U8", {4}, bytes.data()},
                     {"b", "F32", {1}, vector.data()}});
  SafetensorsFile file = opened(path_, Checksum::required);
  EXPECT_EQ(file.metadata().at("note"), "a \"quoted\" \\ text\n");
  ASSERT_EQ(file.tensors().size(), 3u);
  EXPECT_EQ(file.tensors().at("w").shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(floats(file, "w", 0, 6), matrix);
  EXPECT_EQ(floats(file, "w", 2, 3), (std::vector<float>{3, 4, 5}));
  EXPECT_EQ(floats(file, "b", 0, 1), vector);
  EXPECT_EQ(file.read_bytes(file.tensors().at("bytes")), bytes);
  // Whatever byte is another one.
  const std::string whole = contents(path_);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    std::string flipped = whole;
    flipped[at] = char(flipped[at] ^ 0x10);
    put(flipped);
    expect_mentions(refusal(Checksum::required), {path_});
    put(whole.substr(0, at));
    expect_mentions(refusal(), {path_});
  }
  put(whole + "x");
  expect_mentions(refusal(), {"damaged", "checksum"});
}

/// make_weights.py has the values.
TEST_F(SafetensorsTest, WhatNumpyWroteIsRead) {
  SafetensorsFile file = opened(kFixture);
  EXPECT_EQ(file.metadata().at("made by"), "NumPy");
  EXPECT_EQ(floats(file, "single", 0, 6),
            (std::vector<float>{-0.5f, -0.25f, 0, 0.25f, 0.5f, 0.75f}));
  const std::vector<float> half = floats(file, "half", 0, 6);
  EXPECT_EQ(half,
            (std::vector<float>{1.5f, -65504, std::ldexp(1.0f, -14), std::ldexp(1.0f, -24), 0, 0}));
  EXPECT_TRUE(std::signbit(half[5]));
  EXPECT_FALSE(std::signbit(half[4]));
  EXPECT_EQ(floats(file, "brain", 0, 3), (std::vector<float>{1, -3, std::ldexp(1.0f, 100)}));
  EXPECT_EQ(file.tensors().at("brain").shape, (std::vector<std::int64_t>{3, 1}));
  EXPECT_EQ(file.tensors().at("empty").shape, (std::vector<std::int64_t>{0, 4}));
  EXPECT_EQ(file.read_bytes(file.tensors().at("vocabulary")), "some bytes");
  EXPECT_FALSE(file.tensors().at("scalar").is_float());
  EXPECT_TRUE(file.tensors().at("scalar").shape.empty());
  expect_mentions(message_of([] { opened(kFixture, Checksum::required); }),
                  {kFixture, "has no checksum"});
}

/// Without a checksum a changed byte may pass for another number or name, never for more memory
/// than there is, and nothing but a UserError is thrown.
TEST_F(SafetensorsTest, AChangedByteIsReadOrRefused) {
  const std::string whole = contents(kFixture);
  int refused = 0;
  for (std::size_t at = 0; at < whole.size(); ++at) {
    constexpr int kMasks[] = {0x01, 0x02, 0x10, 0x80};
    std::string flipped = whole;
    flipped[at] = char(flipped[at] ^ kMasks[at % 4]);
    put(flipped);
    const std::string message = message_of([&] {
      SafetensorsFile file = opened(path_);
      for (const auto& [name, tensor] : file.tensors()) {
        EXPECT_LE(file.read_bytes(tensor).size(), whole.size());
        std::uint64_t count = 1;
        for (const std::int64_t n : tensor.shape) count *= std::uint64_t(n);
        if (tensor.is_float()) floats(file, name, 0, count);
      }
    });
    refused += message != "no error";
  }
  EXPECT_GT(refused, 200);
}

TEST_F(SafetensorsTest, InfinitiesAndNansOfHalvesStayThat) {
  put(file_of(R"({"h":{"dtype":"F16","shape":[3],"data_offsets":[0,6]}})",
              std::string("\x00\x7c\x00\xfc\x01\x7e", 6)));
  SafetensorsFile file = opened(path_);
  const std::vector<float> values = floats(file, "h", 0, 3);
  EXPECT_EQ(values[0], INFINITY);
  EXPECT_EQ(values[1], -INFINITY);
  EXPECT_TRUE(std::isnan(values[2]));
}

TEST_F(SafetensorsTest, AHeaderThatIsNoneIsRefused) {
  put("");
  expect_mentions(refusal(), {path_, "is no file of weights"});
  put("12345678");
  expect_mentions(refusal(), {"is no file of weights"});  // a length of 4e18
  put(std::string("\xff\xff\xff\xff\xff\xff\xff\xff{}", 10));
  expect_mentions(refusal(), {"is no file of weights"});
  put(file_of("{\"a\":{}}", "").substr(0, 12));
  expect_mentions(refusal(), {"damaged", "ends within its header"});
  for (const char* header : {"", "[]", "{", "{} x", "12", "{\"__metadata__\":{\"a\":1}}",
                             "{\"__metadata__\":\"a\"}", "{\"\xff\":1}"}) {
    put(file_of(header, ""));
    expect_mentions(refusal(), {path_, "damaged", "its header cannot be read"});
  }
  put(file_of(std::string(1000000, '['), ""));
  expect_mentions(refusal(), {"damaged", "nested too deeply"});
  put(file_of("{}", ""));
  EXPECT_EQ(refusal(), "no error");  // of no tensors
  std::filesystem::remove(path_);
  expect_mentions(refusal(), {path_, "does not exist", "name a safetensors file"});
  std::filesystem::create_directory(path_);
  expect_mentions(refusal(), {path_, "is no file"});
}

TEST_F(SafetensorsTest, TensorsThatDoNotLieInTheFileAreRefusedByName) {
  struct Case {
    const char* header;
    std::size_t data;
    std::vector<std::string> words;
  };
  const std::vector<Case> cases = {
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
       R"("b":{"dtype":"F32","shape":[2],"data_offsets":[4,12]}})",
       12,
       {"'a' and 'b' overlap"}},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
       R"("b":{"dtype":"F32","shape":[2],"data_offsets":[12,20]}})",
       20,
       {"bytes 8 to 12", "no tensor"}},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 7, {"'a'", "byte 8", "have 7"}},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", 9, {"1 bytes stand behind"}},
      {R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})",
       8,
       {"'a'", "from byte 0 to 8", "F32 of 3 takes 12 bytes"}},
      {R"({"a":{"dtype":"BF16","shape":[2,2],"data_offsets":[8,0]}})",
       8,
       {"'a'", "from byte 8 to 0", "BF16 of 2 x 2"}},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387904,4],"data_offsets":[0,0]}})",
       0,
       {"'a'", "4611686018427387904 x 4"}},
      {R"({"a":{"dtype":"F32","shape":[4611686018427387905,4],"data_offsets":[0,16]}})",
       16,
       {"'a'", "4611686018427387905 x 4"}},
      {R"({"a":{"dtype":"F32","shape":[18446744073709551615],"data_offsets":[0,8]}})",
       8,
       {"'a'", "whole numbers"}},
      {R"({"a":{"dtype":"F32","shape":[-1],"data_offsets":[0,8]}})", 8, {"'a'", "whole numbers"}},
      {R"({"a":{"dtype":"F32","shape":[1.0],"data_offsets":[0,4]}})", 4, {"'a'", "whole numbers"}},
      {R"({"a":{"dtype":"F32","shape":2,"data_offsets":[0,8]}})", 8, {"'a'", "no lists"}},
      {R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,4,8]}})", 8, {"'a'", "no lists"}},
      {R"({"a":{"dtype":"F31","shape":[2],"data_offsets":[0,8]}})", 8, {"'a'", "dtype 'F31'"}},
      {R"({"a":{"dtype":32,"shape":[2],"data_offsets":[0,8]}})", 8, {"'a'", "not described"}},
      {R"({"a":{"shape":[2],"data_offsets":[0,8]}})", 8, {"'a'", "dtype"}},
      {R"({"a":7})", 0, {"'a'", "not described"}},
      {R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
       R"("a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})",
       8,
       {"'a' twice"}},
      {R"({"a":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
       4,
       {"'dtype' twice"}},
  };
  for (const Case& c : cases) {
    put(file_of(c.header, std::string(c.data, '\0')));
    const std::string message = refusal();
    expect_mentions(message, c.words);
    expect_mentions(message, {path_, "is damaged"});
  }
}

/// Another program may change a file of ours and keep its metadata; then the checksum is stale.
TEST_F(SafetensorsTest, AStaleChecksumIsRefusedAndOneOfOthersPassedOver) {
  const float value = 1;
  write_safetensors(path_, {{"format", "scaling_transformers 9"}}, {{"w", "F32", {1}, &value}});
  std::string changed = contents(path_);
  changed[changed.size() - 1] = 0;
  put(changed);
  expect_mentions(refusal(), {"damaged", "checksum", "metadata"});
  put(file_of(R"({"__metadata__":{"format":"pt","checksum":"12345678"},)"
              R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]}})",
              "1234"));
  EXPECT_EQ(refusal(), "no error");
}

}  // namespace
}  // namespace scaling
