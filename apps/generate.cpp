// Text from a trained checkpoint through the decode path: sparse layers read only what they select.
// One text, or one for each of a file of sources, which others score (experiments/scoring/).
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "apps/generate_knobs.h"
#include "experiments/study/counts.h"
#include "experiments/study/flags.h"
#include "experiments/study/interrupt.h"
#include "experiments/study/study.h"
#include "kernels/check.h"
#include "kernels/kernels.h"
#include "kernels/random.h"
#include "models/tasks/catalog.h"
#include "models/text/boundaries.h"
#include "models/text/hash.h"
#include "models/text/line_file.h"
#include "models/text/pair_chunks.h"
#include "models/text/pairs.h"
#include "models/text/text_cost.h"
#include "models/text/tokenizer.h"
#include "models/training/checkpoint.h"
#include "models/training/initial_weights.h"
#include "models/training/run_state.h"
#include "models/training/run_tokenizer.h"
#include "models/transformer/decoder.h"
#include "models/transformer/generation.h"

namespace scaling {
namespace {

/// Stands for a missing span in sources and targets: the sentinels of span corruption.
const std::string kBlank = "___";

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
  ids.push_back(kEndOfText);
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

GenerationOptions options_of(const GenerateKnobs& knobs, std::int64_t tokens) {
  return {.tokens = tokens,
          .sampling = {float(knobs.temperature), int(knobs.top_k)},
          .length_penalty = knobs.length_penalty,
          .alpha = knobs.alpha,
          .block_trigrams = knobs.block_trigrams,
          .is_interrupted = interrupt_arrived};
}

/// Sequences that are decoded together.
int rows_of(const GenerateKnobs& knobs) { return int(std::max<std::int64_t>(knobs.beam, 1)); }

ModelConfig config_of(const GenerateKnobs& knobs, const CheckpointInfo& info) {
  ModelConfig config = info.model;
  config.weight_type = knobs.weight_type;
  config.blocks = config.decoder_layers;
  return config;
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

void check_task(const TrainConfig& train, const Needs& needs) {
  if (!needs.text) {
    throw UserError("this model was trained for the task " + train.task +
                    ", which has numbers and no text; name a checkpoint of a text task");
  }
  if (!needs.causal) {
    throw UserError("this model was trained for the task " + train.task +
                    ", which reads texts from both sides and continues none; name a checkpoint of "
                    "another task");
  }
}

void check_texts(const GenerateKnobs& knobs, const ModelConfig& config) {
  if (config.decoder_only() && !knobs.source.empty()) {
    throw UserError("this model has no encoder that could read --source; give --prompt");
  }
  if (config.decoder_only() && !knobs.sources.empty() && knobs.cue.empty()) {
    throw UserError("this model has no encoder that could read --sources '" + knobs.sources +
                    "'; say with --cue what stands between each and its text, such as --cue ' "
                    "TL;DR:', or name a checkpoint of the task pairs");
  }
  if (!config.decoder_only() && !knobs.cue.empty()) {
    throw UserError("--cue '" + knobs.cue +
                    "' is for models without an encoder, but this one's reads the sources; leave "
                    "it out");
  }
  if (!config.decoder_only() && knobs.source.empty() && knobs.sources.empty()) {
    throw UserError(
        "this model's encoder needs a text; give --source, with ___ for spans that are missing, or "
        "a file of --sources");
  }
}

/// A single text is read as it is, and such a model wants paragraphs.
void check_paragraphs(const GenerateKnobs& knobs, const TrainConfig& train) {
  if (train.paragraph_tokens == 0 || knobs.source.empty()) return;
  throw UserError("this model reads sources in paragraphs of " +
                  std::to_string(train.paragraph_tokens) +
                  " tokens (paragraph_tokens), and --source is one text; give --sources, a file of "
                  "JSON lines whose texts have blank lines between paragraphs");
}

void check_length(const char* what, std::size_t ids, std::int64_t room) {
  if (std::int64_t(ids) <= room) return;
  throw UserError(std::string(what) + " is " + std::to_string(ids) +
                  " tokens long, but this model " + "takes at most " + std::to_string(room) +
                  "; shorten it");
}

/// One text, to standard output.
int generate_one(const GenerateKnobs& options, const CheckpointInfo& info,
                 const Tokenizer& tokenizer, int threads) {
  const ModelConfig config = config_of(options, info);
  std::vector<int> source, prompt;
  if (!options.source.empty()) source = source_ids(tokenizer, options.source, config.vocab_size);
  if (!options.prompt.empty()) tokenizer.encode(options.prompt, prompt);
  check_length("--source", source.size(), config.max_length);
  check_length("--prompt", prompt.size(), config.max_length - 1);
  const auto given = std::int64_t(prompt.size());
  std::int64_t tokens = options.tokens;
  if ((!config.decoder_only() || options.beam > 0) && tokens > config.max_length - given) {
    tokens = config.max_length - given;
    std::fprintf(stderr, "note: %s end after %lld tokens (max_length)\n",
                 config.decoder_only() ? "texts of a beam search" : "this model's targets",
                 static_cast<long long>(config.max_length));
  }
  const std::int64_t window = given + std::min(tokens, config.max_length - given);

  Transformer model(config);
  Team team(threads);
  const KernelSet& kernels = find_kernel_set(options.kernels);
  model.allocate(team, kernels.dense_layout(config.weight_type));
  load_weights(options.checkpoint, model.parameters());
  Decoder decoder(model, kernels, team, rows_of(options), window, std::int64_t(source.size()));
  decoder.set_sampling_seed(options.seed);
  const GenerationOptions how = options_of(options, tokens);
  const Generated all = options.beam > 0 ? search_text(decoder, source, prompt, how)
                                         : continue_prompt(decoder, source, prompt, window, how);
  std::printf("%s\n", (config.decoder_only() ? tokenizer.decode(all.ids)
                                             : target_text(tokenizer, all.ids, config.vocab_size))
                          .c_str());
  std::fflush(stdout);  // before what is said of it
  if (options.beam > 0) {
    std::fprintf(stderr, "beam of %lld: score %.6g, log-probability %.6g\n",
                 static_cast<long long>(options.beam), all.score, all.log_probability);
  }
  if (all.sampled > 0) {
    std::fprintf(stderr, "%lld tokens, %.3g ms each on %d threads, step %lld; %.3g %% of %s\n",
                 static_cast<long long>(all.sampled), 1e3 * all.seconds / double(all.sampled),
                 threads, static_cast<long long>(info.step), 100 * share_read(decoder, config.d_ff),
                 "feed-forward rows read");
  }
  return interrupt_arrived() ? kExitInterrupted : 0;
}

/// What becomes of the sources, for people.
struct Counts {
  std::uint64_t texts = 0;
  std::uint64_t cut_sources = 0, source_tokens = 0, cut_tokens = 0;
  std::uint64_t unended = 0;
  std::uint64_t line_ends = 0;  // in texts, made spaces
  std::int64_t sampled = 0;
  double seconds = 0;
};

/// Where the texts of sources go: into an encoder, or before a cue into a prompt.
struct Room {
  ChunkShape shape = {};      // of an encoder
  std::int64_t prompt = 0;    // tokens of a source in a prompt; 0: an encoder reads it
  std::vector<int> cue = {};  // of a prompt, behind them
  std::int64_t tokens = 0;    // to generate

  std::int64_t source() const { return prompt > 0 ? prompt : shape.source; }
};

Room room_of(const GenerateKnobs& options, const Lengths& lengths, std::int64_t paragraph_tokens,
             const Tokenizer& tokenizer, bool has_tokens) {
  if (options.cue.empty()) {
    return {.shape = {.source = lengths.source, .paragraph = paragraph_tokens},
            .tokens = has_tokens ? std::min(options.tokens, lengths.input) : lengths.input};
  }
  Room room{.tokens = options.tokens};
  tokenizer.encode(options.cue, room.cue);
  room.prompt = lengths.input - room.tokens - std::int64_t(room.cue.size());
  if (room.prompt < 1) {
    throw UserError("this model reads " + std::to_string(lengths.input) + " tokens, which --cue (" +
                    std::to_string(room.cue.size()) + ") and --tokens " +
                    std::to_string(options.tokens) +
                    " leave no source room of; give fewer --tokens");
  }
  return room;
}

/// What a model is given of a source.
struct Given {
  std::vector<int> source, prompt;
};

/// As in training: with an end, or cut, which is counted; padded. Of a prompt the beginning.
Given given_of(const Tokenizer& tokenizer, const std::string& text, const Room& room,
               Counts& counts) {
  Given given;
  if (room.prompt == 0) {
    SourceIds source = lay_out_source(tokenizer, text, room.shape);
    counts.source_tokens += source.tokens;
    counts.cut_tokens += source.cut;
    counts.cut_sources += is_cut(source.ids, room.shape);
    given.source = std::move(source.ids);
    return given;
  }
  tokenizer.encode(text, given.prompt);
  const std::size_t all = given.prompt.size();
  given.prompt.resize(std::min(all, std::size_t(room.prompt)));
  counts.source_tokens += all;
  counts.cut_tokens += all - given.prompt.size();
  counts.cut_sources += all > given.prompt.size();
  given.prompt.insert(given.prompt.end(), room.cue.begin(), room.cue.end());
  return given;
}

/// A line has no line ends within.
std::string line_of(std::string text, Counts& counts) {
  for (char& c : text) {
    if (c != '\n' && c != '\r') continue;
    c = ' ';
    ++counts.line_ends;
  }
  return text;
}

/// Everything that a line depends on.
std::string made_of(const GenerateKnobs& options, const Tokenizer& tokenizer,
                    const std::vector<std::string>& sources, std::int64_t tokens) {
  Hash texts;
  for (const std::string& source : sources) texts.text(source);
  std::string how = "the likeliest token each time";
  if (options.temperature > 0) {
    how = "temperature " + print_value(options.temperature) +
          (options.top_k > 0 ? ", top_k " + std::to_string(options.top_k) : "") + ", seed " +
          std::to_string(options.seed);
  }
  if (options.beam > 0) {
    how = "beam " + std::to_string(options.beam) + ", length_penalty " +
          print_value(options.length_penalty);
    if (options.length_penalty != LengthPenalty::none) how += " " + print_value(options.alpha);
    if (options.block_trigrams) how += ", block_trigrams";
  }
  if (!options.cue.empty()) how += ", cue " + hex_of(Hash().text(options.cue).value());
  if (options.sentences > 0) how += ", sentences " + std::to_string(options.sentences);
  return "checkpoint " + content_of(options.checkpoint) + ", tokenizer " + tokenizer.identity() +
         ", sources " + hex_of(texts.value()) + ", tokens " + std::to_string(tokens) + ", " + how +
         ", weight_type " + name_of(options.weight_type) + ", kernels " + options.kernels;
}

/// Draws of one text, whatever was drawn for those before it.
std::uint64_t seed_of(std::uint64_t seed, std::uint64_t line) {
  constexpr std::uint64_t kStream = 0x6c696e65;
  const auto bits = random_bits(seed, kStream, line);
  return (std::uint64_t(bits[1]) << 32) | bits[0];
}

void report(const Counts& counts, const Room& room, int threads) {
  if (counts.texts == 0) return;
  std::fprintf(stderr, "%s, %.3g tokens each with their ends, %.3g ms a token on %d threads\n",
               plural(counts.texts, "text").c_str(), double(counts.sampled) / double(counts.texts),
               1e3 * counts.seconds / double(counts.sampled), threads);
  std::fprintf(stderr, "%s cut at %lld tokens (%s of %s tokens), ",
               plural(counts.cut_sources, "source").c_str(), static_cast<long long>(room.source()),
               scaled(double(counts.cut_tokens)).c_str(),
               scaled(double(counts.source_tokens)).c_str());
  std::fprintf(stderr, "%s without an end at %lld; %s in texts made spaces\n",
               plural(counts.unended, "text").c_str(), static_cast<long long>(room.tokens),
               plural(counts.line_ends, "line end").c_str());
}

/// A text for each source, into a file.
int generate_lines(const GenerateKnobs& options, const CheckpointInfo& info, const Lengths& lengths,
                   std::int64_t paragraph_tokens, const Tokenizer& tokenizer, int threads,
                   bool has_tokens) {
  const Room room = room_of(options, lengths, paragraph_tokens, tokenizer, has_tokens);
  const Boundaries boundaries(tokenizer);
  const KernelSet& kernels = find_kernel_set(options.kernels);
  const std::vector<std::string> sources =
      read_sources(options.sources, split_at_commas(options.text_key));
  if (sources.empty()) throw UserError("'" + options.sources + "' has no texts to read");
  LineFile out(options.out, made_of(options, tokenizer, sources, room.tokens));
  if (out.lines() == 0) forget_text_cost(options.out);
  if (out.lines() > 0) {
    std::fprintf(stderr, "%s has %llu of %zu texts already\n", options.out.c_str(),
                 static_cast<unsigned long long>(out.lines()), sources.size());
  }
  if (out.lines() >= sources.size()) return 0;

  Transformer model(config_of(options, info));
  Team team(threads);
  model.allocate(team, kernels.dense_layout(model.config().weight_type));
  load_weights(options.checkpoint, model.parameters());
  const std::int64_t window = room.prompt + std::int64_t(room.cue.size()) + room.tokens;
  Decoder decoder(model, kernels, team, rows_of(options), window, room.shape.source);
  const GenerationOptions how = options_of(options, room.tokens);
  Counts counts;
  while (out.lines() < sources.size()) {
    const Given given = given_of(tokenizer, sources[std::size_t(out.lines())], room, counts);
    decoder.set_sampling_seed(seed_of(options.seed, out.lines()));
    Generated text = options.beam > 0
                         ? search_text(decoder, given.source, given.prompt, how)
                         : continue_prompt(decoder, given.source, given.prompt, window, how);
    if (interrupt_arrived()) break;  // this one may be cut off
    text.ids.erase(text.ids.begin(), text.ids.begin() + std::ptrdiff_t(given.prompt.size()));
    keep_sentences(boundaries, options.sentences, text.ids);
    ++counts.texts;
    counts.sampled += text.sampled;
    counts.seconds += text.seconds;
    counts.unended += !text.has_ended;
    out.add(line_of(tokenizer.decode(text.ids), counts));
  }
  report(counts, room, threads);
  if (counts.texts > 0) {
    add_text_cost(options.out, {counts.texts, counts.sampled, counts.seconds}, threads);
  }
  if (out.lines() == sources.size()) return 0;
  std::fprintf(stderr, "interrupted after %llu of %zu; the same command continues\n",
               static_cast<unsigned long long>(out.lines()), sources.size());
  return kExitInterrupted;
}

int generate(int argc, char** argv) {
  GenerateKnobs options;
  Knobs knobs;
  knobs.add(options);
  FlagGroup flags{"generate continues a text with a trained model, or makes a text of each source",
                  flags_of(knobs)};
  flags.flags.push_back({"help", "this text", true});
  const GivenFlags given = parse_flags(argc, argv, {flags});
  if (given.count("help")) {
    std::fputs(help_of({flags}).c_str(), stdout);
    return 0;
  }
  for (const auto& [flag, text] : given) knobs.set(flag, text);
  check(options, given);
  const int threads = parse_threads(options.threads).back();
  const CheckpointInfo info = read_checkpoint_info(options.checkpoint);
  RunState run = parse_run_state(info.training);
  run.config.gemm = "auto";  // what it was trained with need not be linked here
  const Needs needs = needs_of(run.config);
  check_task(run.config, needs);
  const auto tokenizer = tokenizer_of(options.checkpoint, info, options.tokenizer);
  check_texts(options, info.model);
  if (options.sources.empty()) {
    check_paragraphs(options, run.config);
    return generate_one(options, info, *tokenizer, threads);
  }
  return generate_lines(options, info, needs.evaluated, run.config.paragraph_tokens, *tokenizer,
                        threads, given.count("tokens") > 0);
}

}  // namespace
}  // namespace scaling

int main(int argc, char** argv) {
  return scaling::run_experiment([&] { return scaling::generate(argc, argv); });
}
