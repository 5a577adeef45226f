// Text from a trained checkpoint through the decode path: sparse layers read only what they select.
#include <algorithm>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/study/counts.h"
#include "experiments/study/flags.h"
#include "experiments/study/interrupt.h"
#include "experiments/study/study.h"
#include "kernels/check.h"
#include "kernels/clock.h"
#include "kernels/kernels.h"
#include "models/tasks/catalog.h"
#include "models/text/tokenizer.h"
#include "models/training/checkpoint.h"
#include "models/training/run_state.h"
#include "models/training/run_tokenizer.h"
#include "models/transformer/beam_search.h"
#include "models/transformer/decoder.h"

namespace scaling {
namespace {

constexpr int kEnd = 1;
/// Stands for a missing span in sources and targets: the sentinels of span corruption.
const std::string kBlank = "___";

struct GenerateKnobs {
  std::string checkpoint, tokenizer, prompt, source;
  std::int64_t tokens = 100;
  double temperature = 0;
  std::uint64_t seed = 1;
  std::int64_t beam = 0;
  LengthPenalty length_penalty = LengthPenalty::none;
  double alpha = 0.6;
  bool block_trigrams = false;
  std::string threads = "all";
  WeightType weight_type = WeightType::f32;
  std::string kernels = "simd";

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("checkpoint", k.checkpoint, "file written by a training run");
    visit("tokenizer", k.tokenizer,
          "SentencePiece model in place of the one that the checkpoint carries; of a file of an "
          "earlier program, if it is no longer where the training run had it");
    visit("prompt", k.prompt, "how the generated text begins");
    visit("source", k.source,
          "what the encoder reads, ___ for every span that is missing (encoder-decoder models)");
    visit("tokens", k.tokens, "to generate, at most");
    visit("temperature", k.temperature, "0: the likeliest token each time");
    visit("seed", k.seed, "of the draws at a temperature above 0");
    visit("beam", k.beam,
          "hypotheses of a beam search for the likeliest text; 0: one token after the other");
    visit("length_penalty", k.length_penalty,
          "what a beam search divides log-probabilities of n tokens by: gnmt, ((5 + n) / 6)^alpha, "
          "power, n^alpha, or none");
    visit("alpha", k.alpha, "exponent of the length penalty");
    visit("block_trigrams", k.block_trigrams, "no three tokens twice in a text of a beam search");
    visit("threads", k.threads, "a number, or all");
    visit("weight_type", k.weight_type, "f32 or bf16");
    visit("kernels", k.kernels, "kernel set");
  }
};

void check(const GenerateKnobs& knobs) {
  if (knobs.checkpoint.empty()) {
    throw UserError("no checkpoint was given; add --checkpoint FILE, written by a training run");
  }
  if (knobs.tokens < 1) {
    throw UserError("--tokens is " + std::to_string(knobs.tokens) + " but must be at least 1");
  }
  if (!(knobs.temperature >= 0 && knobs.temperature <= 100)) {
    throw UserError("--temperature is " + std::to_string(knobs.temperature) +
                    " but must be in [0, 100]; 0 takes the likeliest token each time");
  }
}

/// given: flags with their texts.
void check_beam(const GenerateKnobs& knobs, const std::map<std::string, std::string>& given) {
  if (knobs.beam < 0 || knobs.beam > kMaxTokens) {
    throw UserError("--beam is " + std::to_string(knobs.beam) + " but must be in [0, " +
                    std::to_string(kMaxTokens) + "]; 0 takes one token after the other");
  }
  for (const char* flag : {"length_penalty", "alpha", "block_trigrams"}) {
    if (knobs.beam > 0 || given.count(flag) == 0) continue;
    throw UserError(std::string("--") + flag + " is for a beam search; add --beam N");
  }
  if (knobs.beam > 0 && knobs.temperature > 0) {
    throw UserError("--temperature " + given.at("temperature") + " draws tokens, but --beam " +
                    std::to_string(knobs.beam) +
                    " looks for the likeliest text and draws none; leave one of them out");
  }
  if (!(knobs.alpha >= 0 && knobs.alpha <= 10)) {
    throw UserError("--alpha is " + given.at("alpha") +
                    " but must be in [0, 10]; 0 compares texts as if there were no penalty");
  }
  if (given.count("alpha") > 0 && knobs.length_penalty == LengthPenalty::none) {
    throw UserError(
        "--alpha is the exponent of a length penalty, of which none was chosen; add "
        "--length_penalty gnmt or --length_penalty power");
  }
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
  double seconds = 0;                     // of the sampled ones
  double log_probability = 0, score = 0;  // of a beam search
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

/// The best text of a beam search, of at most `tokens` after the prompt.
Generated search_text(Decoder& decoder, const std::vector<int>& source,
                      const std::vector<int>& prompt, std::int64_t tokens,
                      const GenerateKnobs& knobs) {
  decoder.begin(source);
  DecoderNextToken model(decoder);
  const Clock::time_point start = Clock::now();
  const Hypothesis best = beam_search(model, prompt,
                                      {.length_penalty = knobs.length_penalty,
                                       .alpha = knobs.alpha,
                                       .max_length = tokens,
                                       .end = kEnd,
                                       .block_trigrams = knobs.block_trigrams,
                                       .is_interrupted = interrupt_arrived})
                              .front();
  // The mean step's, the prompt's among them.
  const double seconds_each = seconds_since(start) / double(decoder.position());
  Generated all;
  all.ids = prompt;
  all.ids.insert(all.ids.end(), best.ids.begin(), best.ids.end());
  if (best.has_ended) all.ids.pop_back();
  all.sampled = std::int64_t(best.ids.size());
  all.seconds = seconds_each * double(all.sampled);
  all.log_probability = best.log_probability;
  all.score = best.score;
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

void check_task(const TrainConfig& train) {
  const Needs needs = needs_of(train);
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
  if (!config.decoder_only() && knobs.source.empty()) {
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
  GenerateKnobs options;
  Knobs knobs;
  knobs.add(options);
  FlagGroup flags{"generate continues a text with a trained model", flags_of(knobs)};
  flags.flags.push_back({"help", "this text", true});
  const std::map<std::string, std::string> texts = parse_flags(argc, argv, {flags});
  if (texts.count("help")) {
    std::fputs(help_of({flags}).c_str(), stdout);
    return 0;
  }
  for (const auto& [flag, text] : texts) knobs.set(flag, text);
  check(options);
  check_beam(options, texts);
  const int threads = parse_threads(options.threads).back();
  const CheckpointInfo info = read_checkpoint_info(options.checkpoint);
  RunState run = parse_run_state(info.training);
  run.config.gemm = "auto";  // what it was trained with need not be linked here
  check_task(run.config);
  const auto tokenizer = tokenizer_of(options.checkpoint, info, options.tokenizer);
  ModelConfig config = info.model;
  config.weight_type = options.weight_type;
  config.blocks = config.decoder_layers;
  check_texts(options, config);
  std::vector<int> source, prompt;
  if (!options.source.empty()) source = source_ids(*tokenizer, options.source, config.vocab_size);
  if (!options.prompt.empty()) tokenizer->encode(options.prompt, prompt);
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
  model.allocate(team);
  load_weights(options.checkpoint, model.parameters());
  Decoder decoder(model, find_kernel_set(options.kernels), team,
                  int(std::max<std::int64_t>(options.beam, 1)), window,
                  std::int64_t(source.size()));
  decoder.set_sampling_seed(options.seed);
  const Generated all = options.beam > 0 ? search_text(decoder, source, prompt, tokens, options)
                                         : continue_prompt(decoder, source, prompt, tokens, window,
                                                           float(options.temperature));
  std::printf("%s\n", (config.decoder_only() ? tokenizer->decode(all.ids)
                                             : target_text(*tokenizer, all.ids, config.vocab_size))
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

}  // namespace
}  // namespace scaling

int main(int argc, char** argv) {
  return scaling::run_experiment([&] { return scaling::generate(argc, argv); });
}
