// Heads of all examples are shared among the threads for pooling; between the pooled vectors stand
// the tiles of exact attention.
#include "models/layers/attention/inter_paragraph.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/check.h"
#include "kernels/parallel.h"
#include "models/config_checks.h"
#include "models/layers/attention/patterns/all.h"

namespace scaling {
namespace {

using Vector = Eigen::VectorXf;

[[noreturn]] void refuse_causal(const char* what) {
  throw UserError(std::string("attention inter_paragraph cannot ") + what +
                  ": a paragraph's mean holds its later positions too; leave it to an encoder "
                  "(encoder_attention), take a task that is read from both sides (masked), or "
                  "another attention");
}

/// In place: scores become shares of those that are seen; of none all are 0.
void normalise(const std::uint8_t* seen, Eigen::Map<Vector>& shares) {
  const auto sees = [seen](std::int64_t i) { return seen == nullptr || seen[i] != 0; };
  float most = 0, sum = 0;
  bool is_first = true;
  for (std::int64_t i = 0; i < shares.size(); ++i) {
    if (!sees(i)) continue;
    most = is_first ? shares[i] : std::max(most, shares[i]);
    is_first = false;
  }
  for (std::int64_t i = 0; i < shares.size(); ++i) {
    shares[i] = sees(i) ? std::exp(shares[i] - most) : 0.0f;
    sum += shares[i];
  }
  if (sum > 0) shares /= sum;
}

}  // namespace

struct InterParagraphAttention::Kept : Activations {
  std::unique_ptr<Activations> tiles;
  Floats shares;                   // (examples, heads, length)
  std::vector<std::uint8_t> seen;  // (examples * paragraphs): 0, nothing but padding
  Mat q, k, v, o;                  // (examples * paragraphs, d_model)
  Mat dq, dk, dv, do_;             // their gradients
  Mat dpool;                       // (examples, d_model)

  Eigen::Map<Vector> shares_of(std::int64_t unit, std::int64_t length, std::int64_t row,
                               std::int64_t n) {
    return {shares.data() + unit * length + row % length, n};
  }
};

void InterParagraphAttention::validate(const ModelConfig& config) {
  require_positive("paragraph_length", config.options<ParagraphKnobs>().paragraph_length);
}

void InterParagraphAttention::shrink(ModelConfig& config) { ParagraphAttention::shrink(config); }

InterParagraphAttention::InterParagraphAttention(const ModelConfig& config)
    : length_(config.options<ParagraphKnobs>().paragraph_length),
      tiles_{config.n_heads, config.d_head(), std::make_unique<AllKeys>(), nullptr},
      pool_(Parameter::make_vector("pool", config.n_heads * config.d_head(),
                                   glorot_uniform(config.d_head(), 1),
                                   {config.n_heads, config.d_head()})) {}

std::unique_ptr<Activations> InterParagraphAttention::make_activations() const {
  auto kept = std::make_unique<Kept>();
  kept->tiles = tiles_.make_activations();
  return kept;
}

template <class Visit>
void InterParagraphAttention::for_each_paragraph(std::int64_t example, std::int64_t length,
                                                 const Visit& visit) const {
  const std::int64_t all = paragraphs(length);
  for (std::int64_t i = 0; i < all; ++i) {
    visit(example * all + i, example * length + i * length_,
          std::min(length_, length - i * length_));
  }
}

void InterParagraphAttention::forward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                                      const AttentionMask& mask, Activations& kept, Mat& o) const {
  if (mask.causal) refuse_causal("be causal");
  const std::int64_t length = pass.length(q), heads = tiles_.heads, d = tiles_.d_head;
  const std::int64_t all = pass.examples * paragraphs(length);
  SCALING_CHECK(q.rows() == pass.examples * length && k.rows() == q.rows() && v.rows() == q.rows());
  SCALING_CHECK(q.cols() == heads * d && k.cols() == q.cols() && v.cols() == q.cols());
  SCALING_CHECK(pool_.data != nullptr);
  auto& own = static_cast<Kept&>(kept);
  own.shares.resize(std::size_t(heads * q.rows()));
  for (Mat* pooled : {&own.q, &own.k, &own.v}) pooled->resize(all, q.cols());
  parallel_for(pass.examples * heads, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t first = unit % heads * d;
      const Eigen::Map<const Vector> pool(pool_.vector() + first, d);
      for_each_paragraph(unit / heads, length, [&](auto paragraph, auto row, auto n) {
        Eigen::Map<Vector> shares = own.shares_of(unit, length, row, n);
        shares.noalias() = k.block(row, first, n, d) * pool;
        normalise(mask.keys ? mask.keys + row : nullptr, shares);
        const auto mean = [&](const Mat& of, Mat& to) {
          to.row(paragraph).segment(first, d).noalias() =
              shares.transpose() * of.block(row, first, n, d);
        };
        mean(q, own.q);
        mean(k, own.k);
        mean(v, own.v);
      });
    }
  });
  own.seen.assign(std::size_t(all), 1);
  for (std::int64_t example = 0; mask.keys && example < pass.examples; ++example) {
    for_each_paragraph(example, length, [&](auto paragraph, auto row, auto n) {
      own.seen[std::size_t(paragraph)] =
          std::any_of(mask.keys + row, mask.keys + row + n, [](auto sees) { return sees != 0; });
    });
  }
  // Draws of this layer are the tiles': a forward that is computed again finds them there.
  static_cast<Decisions&>(*own.tiles) = own;
  tiles_.forward(pass, own.q, own.k, own.v, {.keys = mask.keys ? own.seen.data() : nullptr},
                 *own.tiles, own.o);
  static_cast<Decisions&>(own) = *own.tiles;
  o.resize(q.rows(), q.cols());
  for (std::int64_t example = 0; example < pass.examples; ++example) {
    for_each_paragraph(example, length, [&](auto paragraph, auto row, auto n) {
      if (own.seen[std::size_t(paragraph)]) {
        o.middleRows(row, n).rowwise() = own.o.row(paragraph);
      } else {
        o.middleRows(row, n).setZero();
      }
    });
  }
}

void InterParagraphAttention::backward(Pass& pass, const Mat& q, const Mat& k, const Mat& v,
                                       const AttentionMask& mask, Activations& kept, const Mat& do_,
                                       Mat& dq, Mat& dk, Mat& dv) const {
  const std::int64_t length = pass.length(q), heads = tiles_.heads, d = tiles_.d_head;
  auto& own = static_cast<Kept&>(kept);
  SCALING_CHECK(own.q.rows() == pass.examples * paragraphs(length) && do_.rows() == q.rows());
  own.do_.resize(own.q.rows(), q.cols());
  for (std::int64_t example = 0; example < pass.examples; ++example) {
    for_each_paragraph(example, length, [&](auto paragraph, auto row, auto n) {
      own.do_.row(paragraph) = do_.middleRows(row, n).colwise().sum();
      if (!own.seen[std::size_t(paragraph)]) own.do_.row(paragraph).setZero();
    });
  }
  tiles_.backward(pass, own.q, own.k, own.v, {.keys = mask.keys ? own.seen.data() : nullptr},
                  *own.tiles, own.do_, own.dq, own.dk, own.dv);
  for (Mat* gradient : {&dq, &dk, &dv}) gradient->resize(q.rows(), q.cols());
  own.dpool.setZero(pass.examples, q.cols());
  parallel_for(pass.examples * heads, [&](std::int64_t begin, std::int64_t end) {
    Vector dshares;
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t first = unit % heads * d;
      const Eigen::Map<const Vector> pool(pool_.vector() + first, d);
      for_each_paragraph(unit / heads, length, [&](auto paragraph, auto row, auto n) {
        const Eigen::Map<Vector> shares = own.shares_of(unit, length, row, n);
        dshares.setZero(n);
        const auto back = [&](const Mat& of, const Mat& dmean, Mat& to) {
          const auto own_dmean = dmean.row(paragraph).segment(first, d);
          dshares.noalias() += of.block(row, first, n, d) * own_dmean.transpose();
          to.block(row, first, n, d).noalias() = shares * own_dmean;
        };
        back(q, own.dq, dq);
        back(k, own.dk, dk);
        back(v, own.dv, dv);
        // From here on of the scores.
        const float mean = shares.dot(dshares);
        dshares = shares.cwiseProduct((dshares.array() - mean).matrix());
        dk.block(row, first, n, d).noalias() += dshares * pool.transpose();
        own.dpool.row(unit / heads).segment(first, d).noalias() +=
            dshares.transpose() * k.block(row, first, n, d);
      });
    }
  });
  if (pool_.gradient == nullptr) return;
  Eigen::Map<Eigen::RowVectorXf>(pool_.gradient, q.cols()) += own.dpool.colwise().sum();
}

std::unique_ptr<AttentionCache> InterParagraphAttention::make_cache(int, std::int64_t) const {
  refuse_causal("decode");
}

void InterParagraphAttention::step(const StepContext&, AttentionCache&, const float*, const float*,
                                   const float*, float*) const {
  refuse_causal("decode");
}

AttentionWork InterParagraphAttention::work(std::int64_t length, bool) const {
  const double d = double(tiles_.d_head), heads = double(tiles_.heads);
  const auto all = double(paragraphs(length));
  // Each product has two gradients.
  const double products = heads * d * (8 * double(length) + 4 * all * all);
  return {.products = products, .backward_products = 2 * products};
}

double InterParagraphAttention::activation_floats() const {
  const auto width = double(tiles_.heads * tiles_.d_head);
  return double(tiles_.heads) + (8 * width + tiles_.activation_floats()) / double(length_);
}

double InterParagraphAttention::thread_floats(std::int64_t length) const {
  return tiles_.thread_floats(paragraphs(length), paragraphs(length));
}

}  // namespace scaling
