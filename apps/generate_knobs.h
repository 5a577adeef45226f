// What can be said to `generate`, and which of it goes together.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "kernels/check.h"
#include "kernels/kernels.h"
#include "models/knobs.h"
#include "models/transformer/beam_search.h"

namespace scaling {

struct GenerateKnobs {
  std::string checkpoint, tokenizer, prompt, source, sources, cue, out;
  std::string text_key = "text";
  std::int64_t tokens = 100, sentences = 0;
  double temperature = 0;
  std::int64_t top_k = 0;
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
    visit("sources", k.sources,
          "in place of source a file of them, one a line or in JSON lines; a text for each into "
          "--out");
    visit("cue", k.cue,
          "of sources, where the model has no encoder: what stands behind each, such as ' TL;DR:', "
          "before the text that is written");
    visit("out", k.out,
          "of sources: the texts, one a line; what the file has already of the same run is "
          "continued");
    visit("text_key", k.text_key, "of sources in JSON lines: keys of the text, comma between");
    visit("tokens", k.tokens,
          "to generate, at most; of sources that an encoder reads, the model's target length");
    visit("sentences", k.sentences, "of each text of sources, so many at most; 0: all of them");
    visit("temperature", k.temperature, "0: the likeliest token each time");
    visit("top_k", k.top_k,
          "of the likeliest tokens that may be drawn at a temperature above 0; 0: any may");
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

inline constexpr std::int64_t kMostTopK = 1 << 20;

/// Flags that were given, with their texts.
using GivenFlags = std::map<std::string, std::string>;

inline void check_beam(const GenerateKnobs& knobs, const GivenFlags& given) {
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

inline void check_draws(const GenerateKnobs& knobs, const GivenFlags& given) {
  if (!(knobs.temperature >= 0 && knobs.temperature <= 100)) {
    throw UserError("--temperature is " + std::to_string(knobs.temperature) +
                    " but must be in [0, 100]; 0 takes the likeliest token each time");
  }
  if (knobs.top_k < 0 || knobs.top_k > kMostTopK) {
    throw UserError("--top_k is " + std::to_string(knobs.top_k) + " but must be in [0, " +
                    std::to_string(kMostTopK) + "]; 0 draws from all tokens");
  }
  if (knobs.top_k > 0 && knobs.beam > 0) {
    throw UserError("--top_k " + given.at("top_k") +
                    " is of tokens to draw from, but a beam search draws none; leave it out");
  }
  if (knobs.top_k > 0 && knobs.temperature == 0) {
    throw UserError("--top_k " + given.at("top_k") +
                    " is of tokens to draw from, but at temperature 0 none is drawn; add "
                    "--temperature 1");
  }
}

inline void check_sources(const GenerateKnobs& knobs, const GivenFlags& given) {
  if (knobs.sources.empty()) {
    for (const char* flag : {"out", "text_key", "cue", "sentences"}) {
      if (given.count(flag) == 0) continue;
      throw UserError(std::string("--") + flag + " is for a file of sources; add --sources FILE");
    }
    return;
  }
  for (const char* flag : {"source", "prompt"}) {
    if (given.count(flag) == 0) continue;
    throw UserError(std::string("--") + flag + " is one text, but --sources '" + knobs.sources +
                    "' has its own; leave one of them out");
  }
  if (knobs.sentences < 0) {
    throw UserError("--sentences is " + std::to_string(knobs.sentences) +
                    " but must be at least 0; 0 keeps all of a text");
  }
  if (knobs.out.empty()) {
    throw UserError("--out is missing; name a file for the texts that --sources '" + knobs.sources +
                    "' comes to");
  }
}

/// Throws UserError for the first of the flags that does not fit.
inline void check(const GenerateKnobs& knobs, const GivenFlags& given) {
  if (knobs.checkpoint.empty()) {
    throw UserError("no checkpoint was given; add --checkpoint FILE, written by a training run");
  }
  if (knobs.tokens < 1) {
    throw UserError("--tokens is " + std::to_string(knobs.tokens) + " but must be at least 1");
  }
  check_draws(knobs, given);
  check_beam(knobs, given);
  check_sources(knobs, given);
}

}  // namespace scaling
