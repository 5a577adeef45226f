// The table of named sizes, and the knobs a name sets beside them.
#include "models/shapes.h"

#include "models/config.h"

namespace scaling {

const std::vector<Shape>& shapes() {
  const Settings tiny = {{"modules", "4"},
                         {"sparsity", "8"},
                         {"experts", "4"},
                         {"projection_rank", "8"},
                         {"loss_rank", "8"}};
  // The encoder would not fit beside the decoder; paper 7.5 for the sparse knobs.
  const Settings large = {
      {"encoder", "false"}, {"sparsity", "256"}, {"d_lowrank", "32"}, {"modules", "64"}};
  // name, d_model, d_ff, n_heads, vocab_size, max_length, encoder_layers, decoder_layers, knobs.
  // After the paper's own two, public models that have two feed-forward matrices and whose heads
  // fill d_model; max_length is the longer of source and target, 512 where the model states none.
  static const std::vector<Shape> table = {
      {"tiny", 32, 128, 4, 64, 64, 2, 2, tiny},
      {"800m", 1024, 4096, 16, 32000, 512, 24, 24},
      {"17b", 9216, 40960, 96, 32000, 512, 6, 6, large},
      {"transformer-base", 512, 2048, 8, 37000, 512, 6, 6},
      {"transformer-big", 1024, 4096, 16, 37000, 512, 6, 6},
      {"sparsefinder-mt-large", 1024, 4096, 16, 32000, 512, 6, 6},
      {"sparsefinder-mlm-roberta-base", 768, 3072, 12, 50265, 512, 0, 12},
      {"bert-base", 768, 3072, 12, 30522, 512, 0, 12},
      {"bert-large", 1024, 4096, 16, 30522, 512, 0, 24},
      {"gpt", 768, 3072, 12, 40478, 512, 0, 12},
      {"gpt2-small", 768, 3072, 12, 50257, 1024, 0, 12},
      {"gpt2-medium", 1024, 4096, 16, 50257, 1024, 0, 24},
      {"gpt2-large", 1280, 5120, 20, 50257, 1024, 0, 36},
      {"gpt2-xl", 1600, 6400, 25, 50257, 1024, 0, 48},
      {"gpt3-small", 768, 3072, 12, 50257, 2048, 0, 12},
      {"gpt3-medium", 1024, 4096, 16, 50257, 2048, 0, 24},
      {"gpt3-large", 1536, 6144, 16, 50257, 2048, 0, 24},
      {"gpt3-2.7b", 2560, 10240, 32, 50257, 2048, 0, 32},
      {"gpt3-6.7b", 4096, 16384, 32, 50257, 2048, 0, 32},
      {"gpt3-175b", 12288, 49152, 96, 50257, 2048, 0, 96},
      {"gpt3-xl-usable", 2048, 8192, 16, 50257, 2048, 0, 24},
      {"gpt3-13b-usable", 5120, 20480, 40, 50257, 2048, 0, 40},
      {"bart-base", 768, 3072, 12, 50265, 1024, 6, 6},
      {"bart-large", 1024, 4096, 16, 50265, 1024, 12, 12},
      {"t5-small", 512, 2048, 8, 32128, 512, 6, 6},
      {"t5-base", 768, 3072, 12, 32128, 512, 12, 12},
      {"t5-large", 1024, 4096, 16, 32128, 512, 24, 24},
      {"pegasus-large", 1024, 4096, 16, 96103, 1024, 16, 16},
      {"prophetnet-large", 1024, 4096, 16, 30522, 512, 12, 12},
      {"reformer-ablation-3l", 1024, 4096, 8, 256, 65536, 0, 3},
      {"longformer-base-4096", 768, 3072, 12, 50265, 4096, 0, 12},
      {"longformer-large-4096", 1024, 4096, 16, 50265, 4096, 0, 24},
      {"longformer-charlm-small", 512, 2048, 8, 256, 23040, 0, 12},
      {"linformer-roberta-base", 768, 3072, 12, 50265, 512, 0, 12},
      {"bigbird-itc-base", 768, 3072, 12, 50358, 4096, 0, 12},
      {"bigbird-itc-large", 1024, 4096, 16, 50358, 4096, 0, 24},
      {"bigbird-sum-base", 768, 3072, 12, 50358, 3072, 12, 12},
      {"bigbird-sum-large", 1024, 4096, 16, 96103, 3072, 16, 16},
      {"performer-default", 512, 2048, 8, 256, 512, 0, 6},
      {"sparse-transformer-enwik8", 512, 2048, 8, 256, 12288, 0, 30},
  };
  return table;
}

std::vector<std::string> shape_names() {
  std::vector<std::string> names;
  for (const Shape& s : shapes()) names.emplace_back(s.name);
  return names;
}

ModelConfig config_of_shape(const std::string& shape) {
  for (const Shape& s : shapes()) {
    if (shape != s.name) continue;
    ModelConfig c;
    c.shape = s.name;
    c.d_model = s.d_model;
    c.d_ff = s.d_ff;
    c.n_heads = s.n_heads;
    c.vocab_size = s.vocab_size;
    c.max_length = s.max_length;
    c.encoder_layers = s.encoder_layers;
    c.decoder_layers = s.decoder_layers;
    c.encoder = s.encoder_layers > 0;
    for (const auto& [knob, value] : s.knobs) set_field(c, knob, value);
    return c;
  }
  refuse_choice("shape", shape, shape_names());
}

}  // namespace scaling
