// Every implementation, by seat and name. A new competitor is a line here.
#include "models/layers/catalog.h"

#include <functional>

#include "kernels/check.h"
#include "models/layers/attention/full.h"
#include "models/layers/attention/lsh.h"
#include "models/layers/feed_forward/dense.h"
#include "models/layers/feed_forward/dense_relu_skip.h"
#include "models/layers/feed_forward/moe.h"
#include "models/layers/feed_forward/sparse.h"
#include "models/layers/loss/dense.h"
#include "models/layers/loss/low_rank.h"
#include "models/layers/loss/multiplicative.h"
#include "models/layers/parts/low_rank_dense.h"
#include "models/layers/parts/mult_modular_dense.h"
#include "models/layers/projection/conv.h"
#include "models/layers/projection/cross_dense.h"
#include "models/layers/projection/cross_mult_conv.h"
#include "models/layers/projection/independent.h"
#include "models/layers/projection/mult_conv.h"
#include "models/layers/recurrence/sru.h"

namespace scaling {
namespace {

template <class Seat>
struct Entry {
  const char* name;
  std::function<std::unique_ptr<Seat>(const ModelConfig&)> make;
};

template <class Seat>
using Entries = std::vector<Entry<Seat>>;

template <class Block, class Make>
std::unique_ptr<Projection> independent(Make&& make) {
  return std::make_unique<IndependentProjection<Block>>(std::forward<Make>(make));
}

const Entries<FeedForward>& feed_forwards() {
  static const Entries<FeedForward> all = {
      {"dense", [](const auto& c) { return std::make_unique<DenseFeedForward>(c); }},
      {"dense_relu_skip",
       [](const auto& c) { return std::make_unique<DenseReluSkipFeedForward>(c); }},
      {"sparse", [](const auto& c) { return std::make_unique<SparseFeedForward>(c); }},
      {"moe_block",
       [](const auto& c) {
         return std::make_unique<MoeFeedForward>(c, MoeFeedForward::Kind::block);
       }},
      {"moe_switch",
       [](const auto& c) {
         return std::make_unique<MoeFeedForward>(c, MoeFeedForward::Kind::switched);
       }},
  };
  return all;
}

const Entries<Projection>& projections() {
  static const Entries<Projection> all = {
      {"dense",
       [](const auto& c) {
         return independent<DenseProduct>([&](const std::string& part) {
           return DenseProduct(part, part + "_bias", c.d_model, c.d_model);
         });
       }},
      {"low_rank",
       [](const auto& c) {
         return independent<LowRankDense>([&](const std::string& part) {
           return LowRankDense(part, c.d_model, c.projection_rank, c.d_model);
         });
       }},
      {"local",
       [](const auto& c) {
         return independent<LocalDense>([&](const std::string& part) {
           return LocalDense(part + ".w", part + ".bias", c.d_model, c.modules);
         });
       }},
      {"conv", [](const auto& c) { return std::make_unique<ConvProjection>(c); }},
      {"multiplicative",
       [](const auto& c) {
         return independent<MultiplicativeDense>([&](const std::string& part) {
           return MultiplicativeDense(part, c.d_model, c.modules, c.d_model);
         });
       }},
      {"mult_modular",
       [](const auto& c) {
         return independent<MultModularDense>(
             [&](const std::string& part) { return MultModularDense(part, c.d_model, c.modules); });
       }},
      {"mult_conv", [](const auto& c) { return std::make_unique<MultConvProjection>(c, false); }},
      {"mult_conv_shared_qk",
       [](const auto& c) { return std::make_unique<MultConvProjection>(c, true); }},
  };
  return all;
}

const Entries<CrossProjection>& cross_projections() {
  static const Entries<CrossProjection> all = {
      {"dense", [](const auto& c) { return std::make_unique<DenseCrossProjection>(c); }},
      {"mult_conv",
       [](const auto& c) { return std::make_unique<MultConvCrossProjection>(c, false); }},
      {"mult_conv_output",
       [](const auto& c) { return std::make_unique<MultConvCrossProjection>(c, true); }},
  };
  return all;
}

const Entries<SelfAttention>& attentions() {
  static const Entries<SelfAttention> all = {
      {"full", [](const auto& c) { return std::make_unique<FullAttention>(c); }},
      {"lsh", [](const auto& c) { return std::make_unique<LshAttention>(c); }},
  };
  return all;
}

const Entries<Loss>& losses() {
  static const Entries<Loss> all = {
      {"dense", [](const auto& c) { return std::make_unique<DenseLoss>(c); }},
      {"multiplicative", [](const auto& c) { return std::make_unique<MultiplicativeLoss>(c); }},
      {"low_rank", [](const auto& c) { return std::make_unique<LowRankLoss>(c); }},
  };
  return all;
}

const Entries<Recurrence>& recurrences() {
  static const Entries<Recurrence> all = {
      {"none", [](const auto&) { return nullptr; }},
      {"sru", [](const auto& c) { return std::make_unique<SruRecurrence>(c); }},
  };
  return all;
}

template <class Seat>
std::vector<std::string> names_of(const Entries<Seat>& entries) {
  std::vector<std::string> names;
  for (const auto& entry : entries) names.emplace_back(entry.name);
  return names;
}

[[noreturn]] void refuse(const std::string& what, const std::string& name,
                         const std::vector<std::string>& known) {
  std::string list;
  for (const std::string& k : known) list += (list.empty() ? "" : ", ") + k;
  throw UserError("unknown " + what + " '" + name + "'; known: " + list);
}

template <class Seat>
std::unique_ptr<Seat> make(const char* seat, const Entries<Seat>& entries, const std::string& name,
                           const ModelConfig& config) {
  for (const auto& entry : entries) {
    if (name == entry.name) return entry.make(config);
  }
  refuse(seat, name, names_of(entries));
}

}  // namespace

std::unique_ptr<FeedForward> make_feed_forward(const std::string& name, const ModelConfig& config) {
  return make("feed_forward", feed_forwards(), name, config);
}

std::unique_ptr<Projection> make_projection(const std::string& name, const ModelConfig& config) {
  return make("projection", projections(), name, config);
}

std::unique_ptr<CrossProjection> make_cross_projection(const std::string& name,
                                                       const ModelConfig& config) {
  return make("cross_projection", cross_projections(), name, config);
}

std::unique_ptr<SelfAttention> make_attention(const std::string& name, const ModelConfig& config) {
  return make("attention", attentions(), name, config);
}

std::unique_ptr<CrossAttention> make_cross_attention(const ModelConfig& config) {
  return std::make_unique<FullCrossAttention>(config);
}

std::unique_ptr<Loss> make_loss(const std::string& name, const ModelConfig& config) {
  return make("loss", losses(), name, config);
}

std::unique_ptr<Recurrence> make_recurrence(const std::string& name, const ModelConfig& config) {
  return make("recurrence", recurrences(), name, config);
}

std::vector<std::string> seat_names() {
  return {"feed_forward", "projection", "cross_projection", "attention", "loss", "recurrence"};
}

std::vector<std::string> implementations_of(const std::string& seat) {
  if (seat == "feed_forward") return names_of(feed_forwards());
  if (seat == "projection") return names_of(projections());
  if (seat == "cross_projection") return names_of(cross_projections());
  if (seat == "attention") return names_of(attentions());
  if (seat == "loss") return names_of(losses());
  if (seat == "recurrence") return names_of(recurrences());
  refuse("seat", seat, seat_names());
}

}  // namespace scaling
