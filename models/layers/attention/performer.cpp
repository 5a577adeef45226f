// Heads of all examples are shared among the threads, each in buffers of one thread; decoding is in
// performer_step.cpp.
#include "models/layers/attention/performer.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "kernels/check.h"
#include "kernels/parallel.h"
#include "models/config_checks.h"

namespace scaling {
namespace {

/// Rows of one example and columns of one head.
struct Part {
  std::int64_t row, column, rows, d;
  auto operator()(const Mat& all) const { return all.block(row, column, rows, d); }
  auto operator()(Mat& all) const { return all.block(row, column, rows, d); }
};

}  // namespace

struct PerformerAttention::Kept : Activations {
  Mat directions;          // (heads * features, d_head)
  bool are_fixed = false;  // directions: evaluation's
  // See PerformerCall; of (examples * heads).
  std::vector<float> largest, inverses;
  std::vector<PerformerShifts> shifts;
  Mat o;  // the last result
  // A thread uses the one at its first pair of example and head, so only a few are ever sized.
  std::vector<PerformerHead> scratch;
};

void PerformerAttention::validate(const ModelConfig& config) {
  require_positive("performer_features", config.options<PerformerKnobs>().performer_features);
}

void PerformerAttention::shrink(ModelConfig& config) {
  set_field(config, "performer_features", 20);  // a block of heads of 12, and part of one
}

PerformerAttention::PerformerAttention(const ModelConfig& config)
    : heads_(config.n_heads),
      all_heads_(config.n_heads),
      d_head_(config.d_head()),
      seed_(config.seed) {
  const auto knobs = config.options<PerformerKnobs>();
  features_ = knobs.performer_features;
  kind_ = knobs.performer_directions;
  redraws_ = knobs.performer_redraw == FeatureRedraw::each_step;
  SCALING_CHECK(features_ > 0);
}

void PerformerAttention::take_heads(Range heads) {
  SCALING_CHECK(heads_ == all_heads_ && heads.begin >= 0 && heads.size() > 0);
  SCALING_CHECK(heads.end <= all_heads_);
  first_ = heads.begin;
  heads_ = heads.size();
}

std::unique_ptr<Activations> PerformerAttention::make_activations() const {
  return std::make_unique<Kept>();
}

void PerformerAttention::draw(const Pass& pass, Kept& kept) const {
  const bool anew = pass.training && redraws_;
  if (kept.are_fixed && !anew) return;
  kept.directions.resize(heads_ * features_, d_head_);
  const std::uint64_t seed = anew ? pass.seed : seed_;
  const std::uint64_t stream = anew ? kept.stream : kFixedDirections;
  parallel_for(heads_, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t head = begin; head < end; ++head) {
      draw_directions(kind_, seed, stream, first_ + head, features_, d_head_,
                      kept.directions.row(head * features_).data());
    }
  });
  kept.are_fixed = !anew;
}

Mat PerformerAttention::fixed_directions() const {
  Kept kept;
  draw(evaluation_pass(), kept);
  return std::move(kept.directions);
}

template <class Fn>
void PerformerAttention::for_heads(const Pass& pass, const AttentionMask& mask, Kept& kept,
                                   std::int64_t length, Fn&& fn) const {
  parallel_for(pass.examples * heads_, [&](std::int64_t begin, std::int64_t end) {
    PerformerHead& scratch = kept.scratch[std::size_t(begin)];
    for (std::int64_t pair = begin; pair < end; ++pair) {
      const std::int64_t example = pair / heads_, head = pair % heads_;
      const Part own = {example * length, head * d_head_, length, d_head_};
      const Part part = {own.row, (first_ + head) * d_head_, length, d_head_};
      const PerformerCall call{.pass = pass,
                               .directions = kept.directions.row(head * features_).data(),
                               .features = features_,
                               .length = length,
                               .d = d_head_,
                               .causal = mask.causal,
                               .seen = mask.keys ? mask.keys + example * length : nullptr,
                               .largest = kept.largest.data() + pair * length,
                               .inverses = kept.inverses.data() + pair * length,
                               .shifts = kept.shifts[std::size_t(pair)]};
      fn(call, part, own, scratch);
    }
  });
}

void PerformerAttention::forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                                 const AttentionMask& mask, Activations& kept, Mat& o) const {
  const std::int64_t length = pass.length(q), pairs = pass.examples * heads_;
  SCALING_CHECK(q.rows() == pass.examples * length && k.rows() == q.rows() && v.rows() == q.rows());
  SCALING_CHECK(q.cols() == all_heads_ * d_head_ && k.cols() == q.cols() && v.cols() == q.cols());
  auto& own = static_cast<Kept&>(kept);
  own.take_stream(pass);
  if (!pass.recomputes) pass.new_stream();  // directions have two
  draw(pass, own);
  own.largest.resize(std::size_t(pairs * length));
  own.inverses.resize(own.largest.size());
  if (own.shifts.size() < std::size_t(pairs)) own.shifts.resize(std::size_t(pairs));
  if (own.scratch.size() < std::size_t(pairs)) own.scratch.resize(std::size_t(pairs));
  own.o.resize(q.rows(), heads_ * d_head_);
  o.resize(q.rows(), q.cols());
  for_heads(
      pass, mask, own, length,
      [&](const PerformerCall& call, const Part& of, const Part& of_own, PerformerHead& head) {
        const std::int64_t chunks =
            call.causal ? (length + PerformerCall::kChunk - 1) / PerformerCall::kChunk : 1;
        call.shifts.ends.reserve(std::size_t(chunks));
        call.shifts.maxima.reserve(std::size_t(chunks * features_));
        head.forward(call, of(q), of(k), of(v), of_own(own.o));
        of(o) = of_own(own.o);
      });
}

void PerformerAttention::backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                                  const AttentionMask& mask, Activations& kept, const Mat& do_,
                                  Mat& dq, Mat& dk, Mat& dv) const {
  const std::int64_t length = pass.length(q);
  auto& own = static_cast<Kept&>(kept);
  SCALING_CHECK(std::int64_t(own.largest.size()) == q.rows() * heads_ && own.o.rows() == q.rows());
  SCALING_CHECK(do_.rows() == q.rows() && do_.cols() == q.cols());
  for (Mat* d : {&dq, &dk, &dv}) d->resize(q.rows(), q.cols());
  for_heads(
      pass, mask, own, length,
      [&](const PerformerCall& call, const Part& of, const Part& of_own, PerformerHead& head) {
        head.backward(call, of(q), of(k), of(v), of_own(std::as_const(own.o)), of(do_), of(dq),
                      of(dk), of(dv));
      });
}

AttentionWork PerformerAttention::work(std::int64_t length, bool) const {
  const double weights = double(heads_ * length * features_), d = double(d_head_);
  // Exponents of a query and a key; a key into the sums and a query from them, each d values and a
  // weight.
  const double exponents = 2 * 2 * weights * d, sums = 2 * 2 * weights * (d + 1);
  // Directions have no gradient; each of the other products has two, but for that of the weight's
  // own factor 1.
  const double backward = exponents + 2 * sums - 2 * weights;
  return {.products = exponents + sums, .backward_products = backward};
}

double PerformerAttention::activation_floats() const {
  const double maxima = double(features_) / double(PerformerCall::kChunk);
  return double(heads_) * (double(d_head_) + 2 + maxima);
}

double PerformerAttention::thread_floats(std::int64_t length) const {
  // Of one chunk, and the sums.
  const double n = double(std::min(length, PerformerCall::kChunk)), row = double(d_head_ + 1);
  const double features = double(features_);
  return n * (3 * features + 3 * row + n) + features * (2 * row + 4);
}

}  // namespace scaling
