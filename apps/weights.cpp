// A checkpoint's weights with their vocabulary, without the training state: a safetensors file for
// other programs, and for `perplexity --init_from`.
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <system_error>

#include "experiments/study/flags.h"
#include "experiments/study/study.h"
#include "kernels/check.h"
#include "models/tasks/catalog.h"
#include "models/training/checkpoint.h"
#include "models/training/run_state.h"
#include "models/training/run_tokenizer.h"

namespace scaling {
namespace {

struct WeightsKnobs {
  std::string checkpoint, out, tokenizer;

  template <class Self, class Visitor>
  static void fields(Self& k, Visitor&& visit) {
    visit("checkpoint", k.checkpoint, "file written by a training run");
    visit("out", k.out, "safetensors file to write, such as weights.safetensors");
    visit("tokenizer", k.tokenizer,
          "SentencePiece model, if the checkpoint carries none and it is no longer where the "
          "training run had it");
  }
};

int weights(int argc, char** argv) {
  WeightsKnobs options;
  Knobs knobs;
  knobs.add(options);
  FlagGroup flags{"weights writes a checkpoint's weights for other programs and other curves",
                  flags_of(knobs)};
  flags.flags.push_back({"help", "this text", true});
  const std::map<std::string, std::string> texts = parse_flags(argc, argv, {flags});
  if (texts.count("help")) {
    std::fputs(help_of({flags}).c_str(), stdout);
    return 0;
  }
  for (const auto& [flag, text] : texts) knobs.set(flag, text);
  if (options.checkpoint.empty() || options.out.empty()) {
    throw UserError(
        "a file to read and one to write are needed; give --checkpoint FILE, written "
        "by a training run, and --out FILE");
  }
  std::error_code absent;
  if (std::filesystem::equivalent(options.checkpoint, options.out, absent)) {
    throw UserError(
        "--out '" + options.out +
        "' is the checkpoint itself, whose training could not go on; name another file");
  }
  const CheckpointInfo info = read_checkpoint_info(options.checkpoint);
  std::unique_ptr<Tokenizer> tokenizer;
  TrainConfig train = parse_run_state(info.training).config;
  train.gemm = "auto";  // what it was trained with need not be linked here
  if (needs_of(train).text) {
    tokenizer = tokenizer_of(options.checkpoint, info, options.tokenizer);
  }
  write_weights(options.checkpoint, options.out, tokenizer.get());
  std::printf("%s: the weights of step %lld, %s\n", options.out.c_str(),
              static_cast<long long>(info.step),
              tokenizer ? ("tokenizer " + tokenizer->identity()).c_str() : "no tokenizer");
  return 0;
}

}  // namespace
}  // namespace scaling

int main(int argc, char** argv) {
  return scaling::run_experiment([&] { return scaling::weights(argc, argv); });
}
