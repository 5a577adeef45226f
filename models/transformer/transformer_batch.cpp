// A batch through both stacks, forward and back; evaluation of one example is a batch of one.
#include <algorithm>
#include <cstddef>
#include <utility>

#include "kernels/check.h"
#include "models/initialize.h"
#include "models/transformer/transformer.h"

namespace scaling {
namespace {

/// 1 for an id whose key may be seen; all are 1 in an example that is padding alone.
void mark_seen(const std::vector<int>& ids, std::int64_t examples,
               std::vector<std::uint8_t>& seen) {
  seen.resize(ids.size());
  const auto length = std::ptrdiff_t(ids.size()) / examples;
  for (std::ptrdiff_t e = 0; e < examples; ++e) {
    const auto first = ids.begin() + e * length, last = first + length;
    const bool all = std::all_of(first, last, [](int id) { return id == 0; });
    std::transform(first, last, seen.begin() + e * length,
                   [all](int id) { return std::uint8_t(all || id != 0); });
  }
}

/// An example's input, and behind it as many ids 0 for each further stream.
void spread(const Batch& batch, std::int64_t streams, std::vector<int>& input) {
  input.assign(batch.input.size() * std::size_t(streams), 0);
  const auto length = std::ptrdiff_t(batch.input_length);
  for (std::ptrdiff_t e = 0; e < std::ptrdiff_t(batch.examples); ++e) {
    std::copy_n(batch.input.begin() + e * length, length, input.begin() + e * streams * length);
  }
}

}  // namespace

std::unique_ptr<Transformer::Kept> Transformer::make_activations(bool stored) const {
  auto kept = std::make_unique<Kept>();
  kept->encoder = encoder_.make_activations(stored);
  kept->decoder = decoder_.make_activations(stored);
  kept->loss = loss_->make_activations();
  return kept;
}

BlockInputs Transformer::encoder_inputs(const Kept& kept) const {
  return {.self = {.causal = false, .keys = kept.seen.data()}};
}

BlockInputs Transformer::decoder_inputs(const Kept& kept, bool causal, std::int64_t streams) const {
  BlockInputs inputs{.self = {.causal = causal, .streams = streams}};
  if (config_.decoder_only()) return inputs;
  inputs.encoded = config_.encoder ? &kept.encoder.normed : &kept.drawn;
  inputs.cross.keys = kept.seen.data();
  if (config_.is_concatenated()) {
    inputs.joined = &kept.joined;
    inputs.source = &kept.source;
  }
  return inputs;
}

/// From kept.source to what decoder blocks attend to.
void Transformer::encode_batch(Pass& pass, Kept& kept) const {
  mark_seen(kept.source, pass.examples, kept.seen);
  if (config_.encoder) {
    const WithoutGraphs all(pass);
    encoder_.forward(pass, embedding_, encoder_inputs(kept), kept.source, kept.encoder);
    return;
  }
  const std::int64_t rows = std::int64_t(kept.source.size()), length = rows / pass.examples;
  const std::int64_t width = config_.encoded_width();
  kept.drawn.resize(rows, width);
  for (std::int64_t row = 0; row < rows; row += length) {
    draw_values(config_.seed, "encoder_output", {Initializer::Kind::normal, 1}, 0, length * width,
                kept.drawn.data() + row * width);
  }
}

void Transformer::run(Pass& pass, const Batch& batch, Kept& kept, bool is_encoded) const {
  SCALING_CHECK(arena_.data() != nullptr && batch.examples > 0);
  SCALING_CHECK(std::int64_t(batch.input.size()) == batch.examples * batch.input_length);
  SCALING_CHECK(std::int64_t(batch.source.size()) == batch.examples * batch.source_length);
  SCALING_CHECK(config_.decoder_only() == (batch.source_length == 0));
  pass.examples = batch.examples;
  if (is_encoded) {
    SCALING_CHECK(!config_.decoder_only() && !pass.training && kept.source == batch.source);
    pass.streams = kept.streams;  // as if the encoder had drawn its own
  } else if (!config_.decoder_only()) {
    kept.source.assign(batch.source.begin(), batch.source.end());
    encode_batch(pass, kept);
    kept.streams = pass.streams;
  }
  if (config_.is_concatenated()) {
    kept.joined.set(kept.seen, batch.examples, batch.input_length);
  }
  const std::int64_t streams = streams_of(pass);
  SCALING_CHECK(streams == 1 || (batch.causal && !config_.is_concatenated()));
  if (streams > 1) spread(batch, streams, kept.future.input);
  pass.examples = batch.examples * streams;
  decoder_.forward(pass, embedding_, decoder_inputs(kept, batch.causal, streams),
                   streams > 1 ? kept.future.input : batch.input, kept.decoder);
  pass.examples = batch.examples;
}

Mat Transformer::encode(const std::vector<int>& source) const {
  SCALING_CHECK(arena_.data() != nullptr);
  if (config_.decoder_only()) return Mat(0, config_.d_model);
  const auto kept = make_activations();
  Pass pass = evaluation_pass();
  kept->source = source;
  encode_batch(pass, *kept);
  return config_.encoder ? std::move(kept->encoder.normed) : std::move(kept->drawn);
}

Mat Transformer::forward(const std::vector<int>& source, const std::vector<int>& target) const {
  Batch batch;
  batch.examples = 1;
  if (!config_.decoder_only()) batch.source = source;
  batch.source_length = std::int64_t(batch.source.size());
  shift_right(target, 1, batch.input);
  batch.input_length = std::int64_t(target.size());
  const auto kept = make_activations();
  Pass pass = evaluation_pass();
  Mat logits;
  logits_of(pass, batch, *kept, logits);
  return logits;
}

void Transformer::logits_of(Pass& pass, const Batch& batch, Kept& kept, Mat& logits) const {
  run(pass, batch, kept);
  loss_->forward(pass, kept.decoder.normed, *kept.loss, logits);
}

CrossEntropy Transformer::loss_of(Pass& pass, const Batch& batch, float scale, Kept& kept,
                                  Mat* dnormed) const {
  SCALING_CHECK(batch.target.size() == batch.input.size());
  SCALING_CHECK(batch.weights.size() == batch.target.size());
  run(pass, batch, kept);
  if (streams_of(pass) > 1) return loss_of_streams(pass, batch, scale, kept, dnormed);
  return loss_->cross_entropy(pass, kept.decoder.normed, batch.target.data(), batch.weights.data(),
                              scale, *kept.loss, dnormed);
}

CrossEntropy Transformer::loss_of_streams(Pass& pass, const Batch& batch, float scale, Kept& kept,
                                          Mat* dnormed) const {
  const std::int64_t streams = streams_of(pass), length = batch.input_length;
  const Mat& normed = kept.decoder.normed;
  Kept::Future& own = kept.future;
  own.x.resize(batch.examples * length, normed.cols());
  if (dnormed) dnormed->resize(normed.rows(), normed.cols());
  CrossEntropy all;
  float share = 1;
  for (std::int64_t stream = 0; stream < streams; ++stream, share *= pass.future_weight) {
    own.targets.assign(batch.target.size(), 0);
    own.weights.assign(batch.target.size(), 0.0f);
    for (std::int64_t e = 0; e < batch.examples; ++e) {
      own.x.middleRows(e * length, length) =
          normed.middleRows((e * streams + stream) * length, length);
      // What the first stream predicts at t + stream, this one does at t.
      for (std::int64_t t = 0; t + stream < length; ++t) {
        const auto to = std::size_t(e * length + t), from = to + std::size_t(stream);
        own.targets[to] = batch.target[from];
        own.weights[to] = share * batch.weights[from];
      }
    }
    const CrossEntropy one =
        loss_->cross_entropy(pass, own.x, own.targets.data(), own.weights.data(), scale, *kept.loss,
                             dnormed ? &own.dx : nullptr);
    if (stream == 0) {
      all = one;
    } else {
      all.future_loss += one.loss;
    }
    for (std::int64_t e = 0; dnormed && e < batch.examples; ++e) {
      dnormed->middleRows((e * streams + stream) * length, length) =
          own.dx.middleRows(e * length, length);
    }
  }
  return all;
}

CrossEntropy Transformer::loss_of(Pass& pass, const Batch& batch, Kept& kept) const {
  return loss_of(pass, batch, 0, kept, nullptr);
}

std::vector<double> Transformer::losses_by_example(Pass& pass, const Batch& batch, Kept& kept,
                                                   bool is_encoded) const {
  SCALING_CHECK(!pass.training && batch.target.size() == batch.input.size());
  SCALING_CHECK(batch.weights.size() == batch.target.size());
  run(pass, batch, kept, is_encoded);
  std::vector<double> losses;
  loss_->cross_entropy(pass, kept.decoder.normed, batch.target.data(), batch.weights.data(), 0,
                       *kept.loss, nullptr, &losses);
  return losses;
}

CrossEntropy Transformer::loss_and_gradients(Pass& pass, const Batch& batch, float scale,
                                             Kept& kept) const {
  SCALING_CHECK(pass.training && is_for_training());
  pass.loss_scale = scale;
  pass.extra_loss = 0;
  const CrossEntropy loss = loss_of(pass, batch, scale, kept, &kept.decoder.dnormed);
  const std::int64_t streams = streams_of(pass);
  Mat* dencoded = nullptr;
  if (!config_.decoder_only()) {
    dencoded = &kept.encoder.dnormed;
    dencoded->setZero(kept.encoder.normed.rows(), kept.encoder.normed.cols());
  }
  pass.examples = batch.examples * streams;
  decoder_.backward(pass, embedding_, decoder_inputs(kept, batch.causal, streams),
                    streams > 1 ? kept.future.input : batch.input, kept.decoder, dencoded);
  pass.examples = batch.examples;
  if (config_.decoder_only()) return loss;
  encoder_.backward(pass, embedding_, encoder_inputs(kept), kept.source, kept.encoder, nullptr);
  return loss;
}

std::string Transformer::first_not_finite(const Gemm& gemm, const Batch& batch) const {
  const auto kept = make_activations(/*stored=*/true);
  Pass pass{.gemm = gemm};
  run(pass, batch, *kept);
  std::string found;
  if (!config_.decoder_only() && config_.encoder) found = encoder_.first_not_finite(kept->encoder);
  return found.empty() ? decoder_.first_not_finite(kept->decoder) : found;
}

std::vector<AttentionView> Transformer::self_attentions(const Gemm& gemm, const Batch& batch,
                                                        Kept& kept) const {
  Pass pass{.gemm = gemm};
  run(pass, batch, kept);
  return decoder_.self_attentions(kept.decoder);
}

}  // namespace scaling
