// Text from a trained checkpoint through the decode path: sparse layers read only what they select.
#include <algorithm>
#include <boost/program_options.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/study/counts.h"
#include "experiments/study/flags.h"
#include "experiments/study/interrupt.h"
#include "experiments/study/run_experiment.h"
#include "kernels/check.h"
#include "models/tasks/catalog.h"
#include "models/text/tokenizer.h"
#include "models/training/checkpoint.h"
#include "models/training/run_state.h"
#include "models/transformer/decoder.h"

namespace scaling {
namespace {

namespace fs = std::filesystem;
namespace po = boost::program_options;

constexpr int kEnd = 1;
/// Stands for a missing span in sources and targets: the sentinels of span corruption.
const std::string kBlank = "___";

struct GenerateOptions {
  std::string checkpoint, tokenizer, prompt, source, kernels;
  bool has_source = false, help = false;
  std::int64_t tokens = 0;
  double temperature = 0;
  std::uint64_t seed = 0;
  int threads = 1;
  WeightType weight_type = WeightType::f32;
};

po::options_description flags() {
  po::options_description all("generate continues a text with a trained model", 100);
  auto add = all.add_options();
  add("checkpoint", po::value<std::string>(), "file written by a training run");
  add("tokenizer", po::value<std::string>()->default_value(""),
      "SentencePiece model, if it is no longer where the training run had it");
  add("prompt", po::value<std::string>()->default_value(""), "how the generated text begins");
  add("source", po::value<std::string>(),
      "what the encoder reads, ___ for every span that is missing (encoder-decoder models)");
  add("tokens", po::value<std::int64_t>()->default_value(100), "to generate, at most");
  add("temperature", po::value<double>()->default_value(0), "0: the likeliest token each time");
  add("seed", po::value<std::uint64_t>()->default_value(1),
      "of the draws at a temperature above 0");
  add("threads", po::value<std::string>()->default_value("all"), "a number, or all");
  add("weight_type", po::value<std::string>()->default_value("f32"), "f32 or bf16");
  add("kernels", po::value<std::string>()->default_value("simd"), "kernel set");
  add("help", "this text");
  return all;
}

GenerateOptions parse_generate_options(int argc, const char* const* argv) {
  const po::variables_map values = parse_flags(argc, argv, {flags()});
  GenerateOptions options;
  options.help = values.count("help") > 0;
  if (options.help) return options;
  if (!values.count("checkpoint")) {
    throw UserError("no checkpoint was given; add --checkpoint FILE, written by a training run");
  }
  options.checkpoint = values["checkpoint"].as<std::string>();
  options.tokenizer = values["tokenizer"].as<std::string>();
  options.prompt = values["prompt"].as<std::string>();
  options.has_source = values.count("source") > 0;
  if (options.has_source) options.source = values["source"].as<std::string>();
  options.tokens = values["tokens"].as<std::int64_t>();
  if (options.tokens < 1) {
    throw UserError("--tokens is " + std::to_string(options.tokens) + " but must be at least 1");
  }
  options.temperature = values["temperature"].as<double>();
  if (!(options.temperature >= 0 && options.temperature <= 100)) {
    throw UserError("--temperature is " + std::to_string(options.temperature) +
                    " but must be in [0, 100]; 0 takes the likeliest token each time");
  }
  options.seed = values["seed"].as<std::uint64_t>();
  options.threads = parse_threads(values["threads"].as<std::string>()).back();
  options.weight_type = parse_weight_type(values["weight_type"].as<std::string>());
  options.kernels = values["kernels"].as<std::string>();
  return options;
}

/// As the run that wrote the checkpoint had it.
std::unique_ptr<Tokenizer> tokenizer_of(const CheckpointInfo& info, const RunState& run,
                                        const GenerateOptions& options) {
  if (run.config.tokenizer == TokenizerKind::bytes) {
    return make_byte_tokenizer(info.model.vocab_size);
  }
  const std::string& own = run.tokenizer_model;
  std::string path = options.tokenizer.empty() ? own : options.tokenizer;
  std::error_code error;
  if (path == own && !fs::exists(path, error)) {
    path = (fs::path(options.checkpoint).parent_path() / fs::path(own).filename()).string();
  }
  if (!fs::is_regular_file(path, error)) {
    throw UserError("the SentencePiece model '" + (path.empty() ? own : path) +
                    "' of checkpoint '" + options.checkpoint +
                    "' is not there; name it with --tokenizer FILE");
  }
  return load_sentencepiece(path, info.model.vocab_size);
}

/// Ids of a text for the encoder; the k-th blank is the k-th sentinel, vocab_size - k
/// (paper 9.1).
std::vector<int> source_ids(const Tokenizer& tokenizer, const std::string& text,
                            std::int64_t vocab_size) {
  std::vector<int> ids;
  std::int64_t sentinel = vocab_size;
  for (std::size_t at = 0;;) {
    const std::size_t blank = text.find(kBlank, at);
    tokenizer.encode(std::string_view(text).substr(at, blank - at), ids);
    if (blank == std::string::npos) break;
    ids.push_back(int(--sentinel));
    at = blank + kBlank.size();
  }
  ids.push_back(kEnd);
  return ids;
}

/// With sentinels, in the order in which a target has them, shown as blanks.
std::string target_text(const Tokenizer& tokenizer, const std::vector<int>& ids,
                        std::int64_t vocab_size) {
  std::string text;
  std::vector<int> piece;
  std::int64_t sentinel = vocab_size - 1;
  for (const int id : ids) {
    if (id != sentinel) {
      piece.push_back(id);
      continue;
    }
    --sentinel;
    text += tokenizer.decode(piece) + " " + kBlank + " ";
    piece.clear();
  }
  return text + tokenizer.decode(piece);
}

struct Generated {
  std::vector<int> ids;  // the prompt's first
  std::int64_t sampled = 0;
  double seconds = 0;  // of the sampled ones
};

/// Windows of `window` positions: when one is full the next starts from the later half of its text.
Generated continue_prompt(Decoder& decoder, const std::vector<int>& source,
                          const std::vector<int>& prompt, std::int64_t tokens, std::int64_t window,
                          float temperature) {
  Generated all;
  all.ids = prompt;
  std::vector<int> context = prompt, ids(1), next;
  while (all.sampled < tokens) {
    decoder.begin(source);
    ids[0] = 0;
    const auto given = std::int64_t(context.size());
    for (std::int64_t t = 0; t < window && all.sampled < tokens; ++t) {
      if (interrupt_arrived()) return all;
      const StepTiming timing = decoder.step(ids, next, temperature);
      ids[0] = t < given ? context[std::size_t(t)] : next[0];
      if (t < given) continue;
      ++all.sampled;
      all.seconds += timing.token_seconds;
      if (ids[0] == kEnd) return all;
      all.ids.push_back(ids[0]);
    }
    const auto kept = std::min(std::ptrdiff_t(all.ids.size()), std::ptrdiff_t(window / 2));
    context.assign(all.ids.end() - kept, all.ids.end());
  }
  return all;
}

/// Share of the feed-forward neurons that the last token read.
double share_read(const Decoder& decoder, std::int64_t d_ff) {
  double read = 0, blocks = 0;
  for (const auto& rows : decoder.touched_rows()) {
    read += rows.empty() ? 1 : double(rows.size()) / double(d_ff);
    ++blocks;
  }
  return read / blocks;
}

void check_texts(const GenerateOptions& options, const TrainConfig& train,
                 const ModelConfig& config) {
  if (!needs_of(train).causal) {
    throw UserError("this model was trained for the task " + train.task +
                    ", which reads texts from both sides and continues none; name a checkpoint of "
                    "another task");
  }
  if (config.decoder_only() && options.has_source) {
    throw UserError("this model has no encoder that could read --source; give --prompt");
  }
  if (!config.decoder_only() && !options.has_source) {
    throw UserError(
        "this model's encoder needs a text; give --source, with ___ for spans that are missing");
  }
}

void check_length(const char* what, std::size_t ids, std::int64_t room) {
  if (std::int64_t(ids) <= room) return;
  throw UserError(std::string(what) + " is " + std::to_string(ids) +
                  " tokens long, but this model " + "takes at most " + std::to_string(room) +
                  "; shorten it");
}

int generate(int argc, char** argv) {
  const GenerateOptions options = parse_generate_options(argc, argv);
  if (options.help) {
    std::fputs(help_of({flags()}).c_str(), stdout);
    return 0;
  }
  const CheckpointInfo info = read_checkpoint_info(options.checkpoint);
  const RunState run = parse_run_state(info.training);
  const auto tokenizer = tokenizer_of(info, run, options);
  ModelConfig config = info.model;
  config.weight_type = options.weight_type;
  config.blocks = config.decoder_layers;
  check_texts(options, run.config, config);
  std::vector<int> source, prompt;
  if (options.has_source) source = source_ids(*tokenizer, options.source, config.vocab_size);
  if (!options.prompt.empty()) tokenizer->encode(options.prompt, prompt);
  check_length("--source", source.size(), config.max_length);
  check_length("--prompt", prompt.size(), config.max_length - 1);
  const auto given = std::int64_t(prompt.size());
  std::int64_t tokens = options.tokens;
  if (!config.decoder_only() && tokens > config.max_length - given) {
    tokens = config.max_length - given;
    std::fprintf(stderr, "note: this model's targets end after %lld tokens (max_length)\n",
                 static_cast<long long>(config.max_length));
  }
  const std::int64_t window = std::min(config.max_length, given + tokens);

  Transformer model(config);
  Team team(options.threads);
  model.allocate(team);
  load_weights(options.checkpoint, model.parameters());
  Decoder decoder(model, find_kernel_set(options.kernels), team, 1, window,
                  std::int64_t(source.size()));
  decoder.set_sampling_seed(options.seed);
  const Generated all =
      continue_prompt(decoder, source, prompt, tokens, window, float(options.temperature));
  std::printf("%s\n", (config.decoder_only() ? tokenizer->decode(all.ids)
                                             : target_text(*tokenizer, all.ids, config.vocab_size))
                          .c_str());
  if (all.sampled > 0) {
    std::fprintf(stderr, "%lld tokens, %.3g ms each on %d threads, step %lld; %.3g %% of %s\n",
                 static_cast<long long>(all.sampled), 1e3 * all.seconds / double(all.sampled),
                 options.threads, static_cast<long long>(info.step),
                 100 * share_read(decoder, config.d_ff), "feed-forward rows read");
  }
  return interrupt_arrived() ? kExitInterrupted : 0;
}

}  // namespace
}  // namespace scaling

int main(int argc, char** argv) {
  return scaling::run_experiment([&] { return scaling::generate(argc, argv); });
}
