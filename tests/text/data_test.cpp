// From files to batches: corpora of every kind, tokenizers, caches, tasks, the built-in generator.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "models/tasks/catalog.h"
#include "models/tasks/span_corruption.h"
#include "models/text/corpus.h"
#include "models/text/generator.h"
#include "models/text/hash.h"
#include "models/text/permutation.h"
#include "models/text/tokenizer.h"
#include "tests/helpers.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;

void write_file(const std::string& path, const std::string& text) {
  std::ofstream(path, std::ios::binary) << text;
}

/// mode "ab" appends a further gzip member.
void write_gzip(const std::string& path, const std::string& text, const char* mode = "wb") {
  gzFile file = gzopen(path.c_str(), mode);
  ASSERT_NE(file, nullptr);
  ASSERT_EQ(gzwrite(file, text.data(), unsigned(text.size())), int(text.size()));
  ASSERT_EQ(gzclose(file), Z_OK);
}

void write_zstd(const std::string& path, const std::string& text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  const std::size_t size = ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3);
  ASSERT_EQ(ZSTD_isError(size), 0u);
  packed.resize(size);
  write_file(path, packed);
}

void cut_short(const std::string& path) { fs::resize_file(path, fs::file_size(path) * 2 / 3); }

struct Documents {
  std::vector<std::string> texts;
  CorpusCounts counts;
};

Documents read_all(const std::string& name) {
  Documents read;
  std::string text;
  read.counts = Corpus(name).read([&](std::string_view piece, bool last) {
    text += piece;
    if (!last) return;
    read.texts.push_back(text);
    text.clear();
  });
  return read;
}

/// Records of nine bytes, each different.
std::string numbered(int records) {
  std::string text;
  for (int i = 0; i < records; ++i) {
    char record[16];
    std::snprintf(record, sizeof record, "%08d ", i);
    text += record;
  }
  return text;
}

/// Incompressible enough that a file cut short loses text.
std::string noise(int bytes, std::uint64_t seed) {
  Rng rng(seed);
  std::string text;
  for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>('a' + rng.below(26)));
  return text;
}

TrainConfig config_for(const std::string& corpus) {
  TrainConfig config;
  config.corpus = corpus;
  config.batch = 4;
  config.length = 18;
  config.steps = 10;
  config.evaluate_batches = 3;
  return config;
}

constexpr std::int64_t kByteVocab = 320;

/// The examples of a batch as text.
std::vector<std::string> texts_of(const Task& task, const Batch& batch) {
  std::vector<std::string> texts;
  for (std::int64_t e = 0; e < batch.examples; ++e) {
    const auto first = batch.target.begin() + e * batch.input_length;
    texts.push_back(task.text()->tokenizer().decode({first, first + batch.input_length}));
  }
  return texts;
}

std::string file_starting(const std::string& folder, const std::string& start) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().filename().string().rfind(start, 0) == 0) return entry.path().string();
  }
  ADD_FAILURE() << "no " << start << "* in " << folder;
  return "";
}

/// The process's peak (VmHWM), in MB.
double peak_megabytes() {
  std::ifstream in("/proc/self/status");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::stod(line.substr(6)) / 1000;
  }
  return 0;
}

// ---- hash, permutation, spans

TEST(Hash, DependsOnBytesAndNotOnPieces) {
  const std::string text = noise(1000, 1);
  Hash whole, pieces;
  whole.add(text.data(), text.size());
  for (std::size_t at = 0, size = 1; at < text.size(); at += size, size = size % 13 + 1) {
    size = std::min(size, text.size() - at);
    pieces.add(text.data() + at, size);
  }
  EXPECT_EQ(whole.value(), pieces.value());
  std::set<std::uint64_t> values = {whole.value()};
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::string other = text;
    other[at] = static_cast<char>(other[at] ^ 1);
    Hash changed;
    changed.add(other.data(), other.size());
    values.insert(changed.value());
  }
  EXPECT_EQ(values.size(), 1001u);
  EXPECT_NE(Hash().text("ab").text("c").value(), Hash().text("a").text("bc").value());
}

TEST(Permutation, IsOneForEverySizeAndKey) {
  for (std::uint64_t n = 1; n < 200; ++n) {
    for (std::uint64_t key = 0; key < 3; ++key) {
      const Permutation order(n, key);
      std::set<std::uint64_t> seen;
      for (std::uint64_t i = 0; i < n; ++i) {
        EXPECT_LT(order(i), n);
        seen.insert(order(i));
      }
      EXPECT_EQ(seen.size(), n);
    }
  }
  int fixed = 0;
  const Permutation order(10000, 7);
  for (std::uint64_t i = 0; i < 10000; ++i) fixed += order(i) == i;
  EXPECT_LT(fixed, 8);
}

TEST(SpanCorruption, CountsOfReference) {
  EXPECT_EQ(span_counts(512).noise, 77);
  EXPECT_EQ(span_counts(512).spans, 26);
  EXPECT_EQ(span_counts(10).noise, 2);  // 1.5, to even
  EXPECT_EQ(span_counts(30).noise, 4);  // 4.5, to even
  EXPECT_EQ(span_counts(2).noise, 1);
  EXPECT_EQ(span_counts(2).spans, 1);
  EXPECT_EQ(span_counts(256, 0.5).noise, 128);
  EXPECT_EQ(span_counts(256, 0.5).spans, 43);
  EXPECT_EQ(span_counts(10, 0.75).noise, 8);  // 7.5, to even
  EXPECT_EQ(span_counts(10, 0.75).spans, 2);  // two kept tokens
  std::vector<int> ids(512, 5);
  Rng rng(1);
  CorruptedText corrupted;
  corrupt_spans(ids.data(), 512, 32000, rng, corrupted);
  EXPECT_EQ(corrupted.input.size(), 462u);
  EXPECT_EQ(corrupted.target.size(), 104u);
  EXPECT_EQ(corrupted.target[0], 31999);
  EXPECT_EQ(std::count(corrupted.taken.begin(), corrupted.taken.end(), 1), 77);
}

TEST(SpanCorruption, CompositionsAreUniform) {
  std::map<std::vector<int>, int> seen;
  Rng rng(3);
  std::vector<int> parts;
  for (int draw = 0; draw < 6000; ++draw) {
    random_composition(5, 3, rng, parts);
    EXPECT_EQ(std::accumulate(parts.begin(), parts.end(), 0), 5);
    ++seen[parts];
  }
  EXPECT_EQ(seen.size(), 6u);
  for (const auto& [composition, count] : seen) {
    EXPECT_EQ(composition.size(), 3u);
    EXPECT_NEAR(count, 1000, 130);
  }
  random_composition(4, 4, rng, parts);
  EXPECT_EQ(parts, (std::vector<int>{1, 1, 1, 1}));
  random_composition(4, 1, rng, parts);
  EXPECT_EQ(parts, (std::vector<int>{4}));
}

TEST(SpanCorruption, SourceAndTargetGiveTheTextBack) {
  constexpr int kVocab = 5000;
  for (const double density : {kNoiseDensity, 0.5, kMostNoiseDensity}) {
    for (int n = 2; n < 700; n += n < 40 ? 1 : 37) {
      std::vector<int> ids(static_cast<std::size_t>(n));
      std::iota(ids.begin(), ids.end(), 3);
      Rng rng(9, std::uint64_t(n));
      CorruptedText corrupted;
      corrupt_spans(ids.data(), n, kVocab, rng, corrupted, density);
      const int spans = int(span_counts(n, density).spans);
      std::vector<int> rebuilt;
      std::size_t at = 0;
      int sentinel = kVocab - 1;
      for (const int id : corrupted.input) {
        if (id == 1) break;
        if (id < kVocab - spans) {
          rebuilt.push_back(id);
          continue;
        }
        EXPECT_EQ(id, sentinel);
        ASSERT_LT(at, corrupted.target.size());
        EXPECT_EQ(corrupted.target[at], sentinel);
        --sentinel;
        for (++at; corrupted.target[at] != 1 && corrupted.target[at] < kVocab - spans; ++at) {
          EXPECT_EQ(corrupted.taken[at], 1);
          rebuilt.push_back(corrupted.target[at]);
        }
      }
      EXPECT_EQ(rebuilt, ids);
      EXPECT_EQ(sentinel, kVocab - 1 - spans);
      EXPECT_EQ(corrupted.input.back(), 1);
      EXPECT_EQ(corrupted.target.back(), 1);
      EXPECT_EQ(at + 1, corrupted.target.size());
    }
  }
}

TEST(SpanCorruption, AnotherDensityIsPartOfTheIdentity) {
  TrainConfig config;
  config.length = 64;
  EXPECT_EQ(needs_of_span_corruption(config).recipe, "");  // as before there was a choice
  config.noise_density = 0.5;
  EXPECT_EQ(needs_of_span_corruption(config).recipe, "noise_density=0.5");
  EXPECT_EQ(needs_of_span_corruption(config).least_vocab_size, 14);  // 11 sentinels
  for (const double refused : {0.0, 0.8}) {
    config.noise_density = refused;
    expect_mentions(message_of([&] { needs_of_span_corruption(config); }),
                    {"noise_density 0", "from 0.01 to 0.75"});
  }
}

// ---- corpora

TEST(Corpus, PlainTextIsOneDocumentAFile) {
  Folder folder;
  write_file(folder / "a.txt", "\xef\xbb\xbfone\n\ntwo\r\n");
  const Documents read = read_all(folder / "a.txt");
  EXPECT_EQ(read.texts, (std::vector<std::string>{"one\n\ntwo\r\n"}));
  EXPECT_EQ(read.counts.bytes, 10u);
}

TEST(Corpus, DamagedUtf8PassesThrough) {
  Folder folder;
  const std::string damaged = "a\xff\xfe b\xc3 c\xe2\x82 \x80";
  write_file(folder / "a.txt", damaged);
  write_file(folder / "b.jsonl", "{\"text\": \"" + damaged + "\"}\n");
  const Documents read = read_all(folder.path());
  EXPECT_EQ(read.texts, (std::vector<std::string>{damaged, damaged}));
  const auto bytes = make_byte_tokenizer(kByteVocab);
  std::vector<int> ids;
  bytes->encode(damaged, ids);
  EXPECT_EQ(bytes->decode(ids), damaged);
}

TEST(Corpus, JsonLines) {
  Folder folder;
  write_file(
      folder / "a.jsonl",
      "{\"url\": [1, -2.5e3, {\"text\": \"no\"}, true, null, []], \"text\": \"one\"}\r\n"
      "\n"
      "{\"text\":\"\"}\n"
      "{ \"text\" : \"q\\\" b\\\\ s\\/ \\n\\t \\u0041\\u00e9\\u20ac\\ud83d\\ude00\" , \"x\":{} }\n"
      "{\"text\": \"half \\ud83d. \\ude00\"}\n"
      "{\"text\": \"open\n"
      "[\"text\"]\n"
      "{\"text\": 5}\n"
      "{\"text\": \"bad \\x\"}\n"
      "{\"text\": \"more\"} more\n"
      "{\"text\": \"last\"}");
  const Documents read = read_all(folder / "a.jsonl");
  EXPECT_EQ(read.texts, (std::vector<std::string>{"one", "q\" b\\ s/ \n\t A\u00e9\u20ac\U0001F600",
                                                  "half \ufffd. \ufffd", "last"}));
  EXPECT_EQ(read.counts.skipped_lines, 5u);
  EXPECT_EQ(read.counts.documents, 4u);
}

TEST(Corpus, RefusesWhatHasNoText) {
  Folder folder;
  write_file(folder / "bad.jsonl", "\n{\"txt\": \"a\"}\nnothing\n");
  expect_mentions(message_of([&] { read_all(folder / "bad.jsonl"); }),
                  {"bad.jsonl:2", "2 unusable", "'text'", "--text_key"});
  write_file(folder / "empty.txt", "");
  expect_mentions(message_of([&] { read_all(folder / "empty.txt"); }), {"empty.txt", "empty"});
  expect_mentions(message_of([&] { Corpus(folder / "absent*.txt"); }),
                  {"absent*.txt", "generated"});
  fs::create_directory(folder / "other");
  write_file(folder / "other/picture.png", "x");
  expect_mentions(message_of([&] { Corpus(folder / "other"); }), {"other", ".jsonl"});
}

TEST(Corpus, TextUnderOtherKeys) {
  Folder folder;
  write_file(folder / "a.jsonl",
             "{\"article\": \"one\", \"title\": \"no\"}\n{\"title\": \"no\", \"body\": \"two\"}\n");
  std::string text;
  Corpus(folder / "a.jsonl", "article,body").read([&](std::string_view piece, bool last) {
    text += piece;
    if (last) text += '|';
  });
  EXPECT_EQ(text, "one|two|");
  EXPECT_NE(Corpus(folder / "a.jsonl", "article").hash(folder / "cache"),
            Corpus(folder / "a.jsonl", "body").hash(folder / "cache"));
}

TEST(Corpus, FoldersAndGlobsInOrder) {
  Folder folder;
  fs::create_directories(folder / "b/c");
  write_file(folder / "z.txt", "4");
  write_file(folder / "a.text", "1");
  write_file(folder / "b/c/x.txt", "2");
  write_file(folder / "b/y.json", "{\"text\": \"3\"}\n");
  write_file(folder / "b/README.md", "no");
  EXPECT_EQ(read_all(folder.path()).texts, (std::vector<std::string>{"1", "2", "3", "4"}));
  EXPECT_EQ(Corpus(folder.path()).ignored_files(), 1u);
  EXPECT_EQ(read_all(folder / "[bz]*").texts, (std::vector<std::string>{"2", "3", "4"}));
  EXPECT_EQ(read_all(folder / "b/README.md").texts, (std::vector<std::string>{"no"}));
}

TEST(Corpus, Compressed) {
  Folder folder;
  const std::string text = noise(700000, 1);
  write_gzip(folder / "a.txt.gz", text);
  write_gzip(folder / "a.txt.gz", "more", "ab");
  write_zstd(folder / "b.txt.zst", text);
  write_gzip(folder / "c.jsonl.gz", "{\"text\": \"gz\"}\n");
  write_zstd(folder / "d.jsonl.zst", "{\"text\": \"zst\"}\n");
  EXPECT_EQ(read_all(folder.path()).texts,
            (std::vector<std::string>{text + "more", text, "gz", "zst"}));
  for (const std::string name : {"a.txt.gz", "b.txt.zst"}) {
    cut_short(folder / name);
    expect_mentions(message_of([&] { read_all(folder / name); }), {name, "end too early"});
    write_file(folder / name, "");
    EXPECT_NE(message_of([&] { read_all(folder / name); }).find(name), std::string::npos);
    write_file(folder / name, "plain text");
    EXPECT_NE(message_of([&] { read_all(folder / name); }).find(name), std::string::npos);
  }
}

TEST(Corpus, HashIsOfContentAndNoticesChange) {
  Folder folder;
  write_file(folder / "a.txt", "text one");
  write_file(folder / "b.txt", "text one");
  const std::string cache = folder / "cache";
  const std::uint64_t a = Corpus(folder / "a.txt").hash(cache);
  EXPECT_EQ(a, Corpus(folder / "b.txt").hash(cache));
  write_file(folder / "a.txt", "text two");
  EXPECT_NE(a, Corpus(folder / "a.txt").hash(cache));
  // Old files' hashes are remembered.
  fs::last_write_time(folder / "b.txt", fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_EQ(a, Corpus(folder / "b.txt").hash(cache));
  EXPECT_EQ(contents(file_starting(cache, "contents-")), hex_of(a) + "\n");
  EXPECT_EQ(a, Corpus(folder / "b.txt").hash(cache));
}

TEST(Corpus, HugeLineInBoundedMemory) {
  Folder folder;
  // Two-byte characters from an odd offset on: the pieces' natural ends fall within characters.
  constexpr int kBlocks = 32;
  std::string block;
  while (block.size() < (std::size_t(2) << 20)) block += "\xc3\xa9";
  gzFile file = gzopen((folder / "huge.jsonl.gz").c_str(), "wb1");
  ASSERT_NE(file, nullptr);
  gzputs(file, "{\"url\": \"x\", \"text\": \"a");
  for (int i = 0; i < kBlocks; ++i) gzwrite(file, block.data(), unsigned(block.size()));
  gzputs(file, "\"}\n{\"text\": \"small\"}\n");
  ASSERT_EQ(gzclose(file), Z_OK);

  [[maybe_unused]] const double before = peak_megabytes();
  std::uint64_t bytes = 0;
  std::size_t largest = 0, broken = 0, documents = 0;
  Corpus(folder / "huge.jsonl.gz").read([&](std::string_view piece, bool last) {
    bytes += piece.size();
    largest = std::max(largest, piece.size());
    broken += !piece.empty() && (static_cast<unsigned char>(piece.front()) & 0xc0) == 0x80;
    documents += last;
  });
  EXPECT_EQ(bytes, 1 + kBlocks * block.size() + 5);
  EXPECT_EQ(documents, 2u);
  EXPECT_EQ(broken, 0u);
  EXPECT_LE(largest, DocumentCutter::kPiece);

  TrainConfig config = config_for(folder / "huge.jsonl.gz");
  const auto data = make_task(config, kByteVocab, folder / "cache");
  EXPECT_NE(data->description().find("2 documents"), std::string::npos) << data->description();
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_LT(peak_megabytes() - before, 24) << "of a line of 67 MB";
#endif
}

TEST(Corpus, ALineOfAGigabyteIsRead) {
#if defined(__SANITIZE_ADDRESS__)
  constexpr std::uint64_t kBlocks = 32;
#else
  constexpr std::uint64_t kBlocks = 512;
#endif
  constexpr std::size_t kBlock = std::size_t(1) << 21;
  Folder folder;
  const std::string part = folder / "part.zst", huge = folder / "huge.jsonl.zst";
  // Frames one after another are one text: the block is compressed once.
  std::string packed[3];
  int at = 0;
  for (const std::string& text :
       {std::string("{\"text\": \""), std::string(kBlock, 'a'), std::string("\"}\n")}) {
    write_zstd(part, text);
    packed[at++] = contents(part);
  }
  std::ofstream out(huge, std::ios::binary);
  out << packed[0];
  for (std::uint64_t i = 0; i < kBlocks; ++i) out << packed[1];
  out << packed[2];
  out.close();
  [[maybe_unused]] const double before = peak_megabytes();
  std::uint64_t documents = 0;
  const CorpusCounts counts =
      Corpus(huge).read([&](std::string_view, bool last) { documents += last; });
  EXPECT_EQ(counts.bytes, kBlocks * kBlock);
  EXPECT_EQ(documents, 1u);
#if !defined(__SANITIZE_ADDRESS__)
  EXPECT_LT(peak_megabytes() - before, 24) << "of a line of a gigabyte";
#endif
}

TEST(Corpus, MalformedHugeLineEndsItsDocument) {
  Folder folder;
  write_file(folder / "a.jsonl", "{\"text\": \"" + noise(3 << 20, 1) + "\n{\"text\": \"next\"}\n");
  const Documents read = read_all(folder / "a.jsonl");
  ASSERT_EQ(read.texts.size(), 2u);
  EXPECT_EQ(read.texts[1], "next");
  EXPECT_EQ(read.counts.skipped_lines, 1u);
}

TEST(Corpus, PiecesEndAtWords) {
  EXPECT_EQ(cut_position("ab cd\nef gh", 8), 8u);
  EXPECT_EQ(cut_position("ab cd\nefgh", 8), 6u);
  EXPECT_EQ(cut_position("abcdefgh", 8), 8u);
  EXPECT_EQ(cut_position(" bcdefgh", 8), 8u);
  EXPECT_EQ(cut_position("abc\xe2\x82", 0), 3u);
  EXPECT_EQ(cut_position("abc\xe2\x82\xac", 0), 6u);
  EXPECT_EQ(cut_position("\x80\x80\x80\x80\x80\x80", 0), 6u);
}

// ---- data sets

TEST(TextTask, EveryEpochIsAPermutationOfTheTrainingChunks) {
  Folder folder;
  write_file(folder / "a.txt", numbered(400));  // 200 chunks of 18 bytes
  const auto data = make_task(config_for(folder / "a.txt"), kByteVocab, folder / "cache");
  std::vector<std::string> epochs[2];
  Batch batch;
  for (std::int64_t step = 0; step < 98; ++step) {
    data->train_batch(step, 0, 1, batch);
    EXPECT_EQ(batch.examples, 4);
    EXPECT_EQ(batch.source_length, 0);
    EXPECT_EQ(batch.input_length, 18);
    EXPECT_EQ(batch.bytes, 72);
    EXPECT_EQ(std::accumulate(batch.weights.begin(), batch.weights.end(), 0.0f), 72);
    for (const std::string& text : texts_of(*data, batch)) epochs[step / 49].push_back(text);
  }
  EXPECT_NE(epochs[0], epochs[1]);
  std::set<std::string> trained(epochs[0].begin(), epochs[0].end());
  EXPECT_EQ(trained.size(), 196u);
  EXPECT_EQ(trained, std::set<std::string>(epochs[1].begin(), epochs[1].end()));

  EXPECT_EQ(data->validation_batches(), 1);
  data->validation_batch(0, 0, batch);
  for (const std::string& text : texts_of(*data, batch)) {
    EXPECT_EQ(trained.count(text), 0u) << text;
    trained.insert(text);
  }
  EXPECT_EQ(trained.size(), 200u);
  EXPECT_FALSE(data->floor().has_value());
}

TEST(TextTask, BatchesAreAFunctionOfTheirIndex) {
  Folder folder;
  write_file(folder / "a.txt", numbered(400));
  for (const std::string task : {"causal", "span_corruption"}) {
    TrainConfig config = config_for(folder / "a.txt");
    config.task = task;
    config.target_length = 8;
    const auto one = make_task(config, kByteVocab, folder / "cache");
    const auto two = make_task(config, kByteVocab, folder / "cache");
    EXPECT_EQ(one->identity(Purpose::resuming), two->identity(Purpose::resuming));
    Batch a, b, piece;
    one->train_batch(60, 0, 1, a);
    two->train_batch(3, 0, 1, b);
    two->train_batch(60, 0, 1, b);
    EXPECT_EQ(a.target, b.target);
    EXPECT_EQ(a.source, b.source);
    std::vector<int> joined;
    double bytes = 0;
    for (std::int64_t i = 0; i < 3; ++i) {
      one->train_batch(60, i, 3, piece);
      joined.insert(joined.end(), piece.target.begin(), piece.target.end());
      bytes += piece.bytes;
    }
    EXPECT_EQ(joined, a.target);
    EXPECT_EQ(bytes, a.bytes);

    config.data_seed = 2;
    const auto other = make_task(config, kByteVocab, folder / "cache");
    EXPECT_NE(other->identity(Purpose::resuming), one->identity(Purpose::resuming));
    other->train_batch(60, 0, 1, b);
    EXPECT_NE(a.target, b.target);
    one->validation_batch(0, 0, a);
    other->validation_batch(0, 0, b);
    EXPECT_EQ(a.target, b.target);
    EXPECT_EQ(a.source, b.source);
  }
}

TEST(TextTask, SpansOfDocuments) {
  Folder folder;
  // Chunks of 18 and 7 tokens; the second document's rest of one token is left out.
  write_file(folder / "a.jsonl",
             "{\"text\": \"" + noise(25, 1) + "\"}\n{\"text\": \"" + noise(19, 2) + "\"}\n");
  write_file(folder / "v.jsonl", "{\"text\": \"abcdefghij\"}\n");
  TrainConfig config = config_for(folder / "a.jsonl");
  config.validation = folder / "v.jsonl";
  config.task = "span_corruption";
  config.target_length = 8;
  config.batch = 3;
  const auto data = make_task(config, kByteVocab, folder / "cache");
  Batch batch;
  data->train_batch(0, 0, 1, batch);
  EXPECT_EQ(batch.source_length, 18);
  std::multiset<std::ptrdiff_t> source_lengths;
  for (int e = 0; e < 3; ++e) {
    const auto first = batch.source.begin() + e * 18;
    source_lengths.insert(std::find(first, first + 18, 0) - first);
  }
  // 18 tokens: 3 noise, 1 span, 15 + 1 + 1; 7 tokens: 1 noise, 6 + 1 + 1.
  EXPECT_EQ(source_lengths, (std::multiset<std::ptrdiff_t>{8, 17, 17}));
  EXPECT_EQ(batch.bytes, 3 + 3 + 1);
  for (std::size_t i = 0; i < batch.target.size(); ++i) {
    EXPECT_EQ(batch.weights[i], batch.target[i] == 0 ? 0.0f : 1.0f);
  }
  // One example of ten tokens for a batch of three: the others do not count.
  EXPECT_EQ(data->validation_batches(), 1);
  data->validation_batch(0, 0, batch);
  EXPECT_EQ(batch.bytes, 2);
  EXPECT_EQ(std::accumulate(batch.weights.begin(), batch.weights.end(), 0.0f), 4);

  std::set<std::vector<int>> corruptions;
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    data->train_batch(epoch, 0, 1, batch);
    corruptions.insert(batch.source);
  }
  EXPECT_GT(corruptions.size(), 5u);
  config.length = 1000;
  expect_mentions(message_of([&] { make_task(config, 50, folder / "cache"); }),
                  {"vocab_size 50", "span_corruption", "target_length"});
}

TEST(TextTask, EndsOfDocumentsAreTokensOfOneByte) {
  Folder folder;
  for (const char* name : {"a.jsonl", "v.jsonl"}) {
    write_file(folder / name, "{\"text\": \"ab\"}\n{\"text\": \"cd\"}\n");
  }
  TrainConfig config = config_for(folder / "a.jsonl");
  config.validation = folder / "v.jsonl";
  config.length = 6;
  config.batch = 1;
  const auto data = make_task(config, kByteVocab, folder / "cache");
  Batch batch;
  data->validation_batch(0, 0, batch);
  EXPECT_EQ(batch.target, (std::vector<int>{'a' + 3, 'b' + 3, 1, 'c' + 3, 'd' + 3, 1}));
  EXPECT_EQ(batch.bytes, 6);
  config.length = 7;
  expect_mentions(message_of([&] { make_task(config, kByteVocab, folder / "cache"); }),
                  {"too small", "7"});
  config.length = 6;
  config.validation = "";
  expect_mentions(message_of([&] { make_task(config, kByteVocab, folder / "cache"); }),
                  {"too small", "50th"});
}

TEST(TextTask, WhatIsTrainedOnIsNoValidation) {
  Folder folder;
  write_file(folder / "a.txt", std::string(500, 'a'));
  write_file(folder / "valid.txt", std::string(500, 'b'));
  const auto refusal = [&](const std::string& corpus, const std::string& validation) {
    TrainConfig config = config_for(corpus);
    config.validation = validation;
    return message_of([&] { make_task(config, kByteVocab, folder / "cache"); });
  };
  // A folder holds its validation text, whatever way it is named.
  const std::string around = folder.path() + "/../" +
                             std::filesystem::path(folder.path()).filename().string() +
                             "/valid.txt";
  for (const std::string& validation : {folder / "valid.txt", around}) {
    expect_mentions(refusal(folder.path(), validation),
                    {validation, folder.path(), "trained on", "without it"});
  }
  expect_mentions(refusal("generated", "generated"), {"generated", "trained on"});
  TrainConfig config = config_for(folder / "a.txt");
  config.validation = folder / "valid.txt";
  EXPECT_NO_THROW(make_task(config, kByteVocab, folder / "cache"));
}

TEST(TextTask, ReadingCanBeWatchedAndStopped) {
  Folder folder;
  std::string text;
  while (text.size() < std::size_t(7) << 19) text += "some words of a long text\n";  // 3.5 MB
  write_file(folder / "a.txt", text);
  const TrainConfig config = config_for(folder / "a.txt");
  struct Stop {};
  std::vector<std::uint64_t> seen;
  const auto watch = [&](std::uint64_t bytes) {
    seen.push_back(bytes);
    if (seen.size() == 5) throw Stop();  // the text is hashed and then tokenised
  };
  EXPECT_THROW(make_task(config, kByteVocab, folder / "cache", watch), Stop);
  ASSERT_EQ(seen.size(), 5U);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.begin() + 3));
  EXPECT_LT(seen[3], seen[2]) << "the second pass begins anew";
  for (const auto& entry : fs::directory_iterator(folder / "cache")) {
    EXPECT_NE(entry.path().filename().string().rfind("tokens-", 0), 0U) << entry.path();
  }
  const auto data = make_task(config, kByteVocab, folder / "cache", watch);
  EXPECT_GE(seen.back(), std::uint64_t(3) << 20);
}

TEST(TextTask, CacheIsKeptAndRepaired) {
  Folder folder;
  write_file(folder / "a.txt", numbered(400));
  const TrainConfig config = config_for(folder / "a.txt");
  Batch first, again;
  make_task(config, kByteVocab, folder / "cache")->train_batch(0, 0, 1, first);
  const std::string file = file_starting(folder / "cache", "tokens-");
  const auto time = fs::last_write_time(file);
  make_task(config, kByteVocab, folder / "cache")->train_batch(0, 0, 1, again);
  EXPECT_EQ(fs::last_write_time(file), time);
  EXPECT_EQ(first.target, again.target);

  const std::string whole = contents(file);
  for (const std::size_t at : {std::size_t(3), std::size_t(40), whole.size() - 5}) {
    std::string damaged = whole;
    damaged[at] = static_cast<char>(damaged[at] ^ 4);
    write_file(file, damaged);
    const auto data = make_task(config, kByteVocab, folder / "cache");
    EXPECT_NE(data->description().find("damaged"), std::string::npos) << at;
    data->train_batch(0, 0, 1, again);
    EXPECT_EQ(first.target, again.target);
    EXPECT_EQ(contents(file), whole);
  }
  write_file(file, whole.substr(0, whole.size() / 2));
  make_task(config, kByteVocab, folder / "cache")->train_batch(0, 0, 1, again);
  EXPECT_EQ(contents(file), whole);

  write_file(folder / "a.txt", numbered(500));
  const std::string before =
      make_task(config, kByteVocab, folder / "cache")->identity(Purpose::resuming);
  write_file(folder / "a.txt", numbered(401) + noise(900, 1));
  EXPECT_NE(before, make_task(config, kByteVocab, folder / "cache")->identity(Purpose::resuming));
}

TEST(TextTask, LargeVocabulariesTakeFourBytes) {
  Folder folder;
  write_file(folder / "a.txt", numbered(400));
  const TrainConfig config = config_for(folder / "a.txt");
  Batch narrow, wide;
  make_task(config, 65535, folder / "narrow")->train_batch(5, 0, 1, narrow);
  make_task(config, 65536, folder / "wide")->train_batch(5, 0, 1, wide);
  EXPECT_EQ(narrow.target, wide.target);
  EXPECT_LT(fs::file_size(file_starting(folder / "narrow", "tokens-")),
            fs::file_size(file_starting(folder / "wide", "tokens-")));
}

TEST(TextTask, FullDiskIsReported) {
  Folder folder;
  write_file(folder / "a.txt", noise(100000, 1));
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit small{4096, limit.rlim_max};
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const std::string message =
      message_of([&] { make_task(config_for(folder / "a.txt"), kByteVocab, folder / "cache"); });
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  signal(SIGXFSZ, handler);
  expect_mentions(message, {"tokens-", "free space"});
  EXPECT_TRUE(fs::is_empty(folder / "cache"));
}

TEST(TextTask, ValidationIsSpreadAndIndependentOfAccumulation) {
  Folder folder;
  write_file(folder / "a.txt", numbered(4000));  // 2000 chunks, 40 held out
  TrainConfig config = config_for(folder / "a.txt");
  std::vector<std::string> texts[2];
  for (int way = 0; way < 2; ++way) {
    config.accumulate = way == 0 ? 1 : 4;
    const auto data = make_task(config, kByteVocab, folder / "cache");
    EXPECT_EQ(data->validation_batches(), way == 0 ? 3 : 12);
    Batch batch;
    for (std::int64_t i = 0; i < data->validation_batches(); ++i) {
      data->validation_batch(0, i, batch);
      for (const std::string& text : texts_of(*data, batch)) texts[way].push_back(text);
    }
  }
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_EQ(texts[0].size(), 12u);
  EXPECT_EQ(std::set<std::string>(texts[0].begin(), texts[0].end()).size(), 12u);
  EXPECT_GT(std::stoi(texts[0].back()), 3500);
}

// ---- SentencePiece

TEST(SentencePiece, TrainsOnceAndGivesTextBack) {
  Folder folder;
  std::string text = "Stra\u00dfe na\u00efve \u2014 caf\u00e9 ";
  Generator().write(200000, [&](std::string_view piece) { text += piece; });
  write_file(folder / "a.txt", text);
  TrainConfig config = config_for(folder / "a.txt");
  config.tokenizer = TokenizerKind::sentencepiece;
  const auto data = make_task(config, 700, folder / "cache");
  const Tokenizer& tokenizer = data->text()->tokenizer();
  EXPECT_EQ(tokenizer.vocab_size(), 700);
  for (const std::string& sample :
       {text.substr(0, 5000), std::string(" two  spaces\nline\ttab \u65e5\u672c \U0001F600 ")}) {
    std::vector<int> ids;
    tokenizer.encode(sample, ids);
    EXPECT_EQ(tokenizer.decode(ids), sample);
    EXPECT_TRUE(std::all_of(ids.begin(), ids.end(), [](int id) { return id > 2 && id < 700; }));
    std::size_t bytes = 0;
    for (const int id : ids) bytes += std::size_t(tokenizer.bytes_of(id));
    EXPECT_EQ(bytes, sample.size());
  }
  std::vector<int> ids;
  tokenizer.encode(text.substr(0, 5000), ids);
  EXPECT_LT(ids.size(), 3500u);
  ids.clear();
  tokenizer.encode("bad \xff\xc3 utf", ids);
  EXPECT_EQ(tokenizer.decode(ids), "bad \ufffd\ufffd utf");

  const std::string model = file_starting(folder / "cache", "sentencepiece-");
  const auto time = fs::last_write_time(model);
  const auto again = make_task(config, 700, folder / "cache");
  EXPECT_EQ(fs::last_write_time(model), time);
  EXPECT_EQ(again->identity(Purpose::resuming), data->identity(Purpose::resuming));
  Batch batch;
  again->train_batch(0, 0, 1, batch);
  EXPECT_GT(batch.bytes, double(batch.target.size()));

  expect_mentions(message_of([&] { load_sentencepiece(model, 701); }), {"700 pieces", "701"});
  write_file(model, contents(model).substr(0, 1001));
  EXPECT_NE(message_of([&] { load_sentencepiece(model, 700); }).find(model), std::string::npos);
  expect_mentions(message_of([&] { make_task(config, 100, folder / "cache"); }),
                  {"vocab_size 100", "SentencePiece"});
  expect_mentions(message_of([&] { make_task(config, 60000, folder / "cache"); }),
                  {"vocab_size 60000", "SentencePiece"});
}

// ---- generator

TEST(Generator, WhoKnowsItsTablesReachesTheFloor) {
  const Generator generator;
  std::string text;
  generator.write(4'000'000, [&](std::string_view piece) { text += piece; });
  EXPECT_EQ(text.size(), 4'000'000u);

  std::map<std::string, const Generator::Fact*> facts;
  double total = 0;
  for (const auto& fact : generator.facts()) {
    facts[fact.key] = &fact;
    total += fact.probability;
  }
  EXPECT_NEAR(total, 1, 1e-12);
  EXPECT_EQ(int(facts.size()), Generator::kFacts);
  std::map<std::string, int> words;
  for (const std::string& word : generator.words()) words.emplace(word, int(words.size()));
  EXPECT_EQ(int(words.size()), Generator::kWords);

  double nats = 0;
  std::size_t at = 0;
  int word = 0, seen = 0;
  for (std::size_t end = text.find(' '); end != std::string::npos; end = text.find(' ', at)) {
    const std::string item = text.substr(at, end - at);
    at = end + 1;
    if (item.size() == 8 && item[3] == '=') {
      const auto found = facts.find(item.substr(0, 3));
      ASSERT_NE(found, facts.end()) << item;
      ASSERT_EQ(found->second->value, item.substr(4));
      nats -= std::log(Generator::kFactShare * found->second->probability);
      ++seen;
    } else {
      const auto found = words.find(item);
      ASSERT_NE(found, words.end()) << item;
      const double p = generator.follows(word, found->second);
      ASSERT_GT(p, 0) << item;
      nats -= std::log((1 - Generator::kFactShare) * p);
      word = found->second;
    }
  }
  EXPECT_GT(seen, 200000);
  EXPECT_NEAR(nats / double(at), generator.floor(), 0.01 * generator.floor());

  std::string again;
  generator.write(100'000, [&](std::string_view piece) { again += piece; });
  EXPECT_EQ(again, text.substr(0, 100'000));
}

TEST(Generator, NeedsNoFile) {
  Folder folder;
  TrainConfig config = config_for("generated");
  config.length = 128;
  const auto data = make_task(config, kByteVocab, folder / "cache");
  ASSERT_TRUE(data->floor().has_value());
  EXPECT_DOUBLE_EQ(*data->floor(), Generator().floor());
  EXPECT_EQ(data->validation_batches(), 3);
  Batch batch;
  data->validation_batch(0, 2, batch);
  EXPECT_EQ(batch.bytes, 4 * 128);
  EXPECT_NE(texts_of(*data, batch)[0].find('='), std::string::npos);
  // A piece of text has as many nats as its bytes.
  TrainConfig pieces = config;
  pieces.tokenizer = TokenizerKind::sentencepiece;
  const auto coarse = make_task(pieces, 500, folder / "cache");
  double bytes = 0;
  for (std::int64_t i = 0; i < coarse->validation_batches(); ++i) {
    coarse->validation_batch(0, i, batch);
    bytes += batch.bytes;
  }
  EXPECT_GT(bytes, 1.2 * 12 * 128);
  EXPECT_NEAR(*coarse->floor(), Generator().floor() * bytes / (12 * 128), 1e-9);
  EXPECT_NE(data->description().find("20M bytes"), std::string::npos) << data->description();
  config.task = "span_corruption";
  EXPECT_FALSE(make_task(config, kByteVocab, folder / "cache")->floor().has_value());
}

}  // namespace
}  // namespace scaling
