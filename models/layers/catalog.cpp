// Every implementation, by component and name. A new one is a line here.
#include "models/layers/catalog.h"

#include <algorithm>

#include "kernels/check.h"
#include "models/layers/attention/full.h"
#include "models/layers/attention/linformer.h"
#include "models/layers/attention/lsh.h"
#include "models/layers/attention/patterns/banded.h"
#include "models/layers/attention/patterns/bigbird.h"
#include "models/layers/attention/patterns/fixed.h"
#include "models/layers/attention/patterns/longformer.h"
#include "models/layers/attention/patterns/strided.h"
#include "models/layers/attention/patterns/window.h"
#include "models/layers/attention/performer.h"
#include "models/layers/attention/routing.h"
#include "models/layers/catalog_entry.h"
#include "models/layers/feed_forward/dense.h"
#include "models/layers/feed_forward/dense_relu_skip.h"
#include "models/layers/feed_forward/moe.h"
#include "models/layers/feed_forward/sparse.h"
#include "models/layers/loss/dense.h"
#include "models/layers/loss/low_rank.h"
#include "models/layers/loss/multiplicative.h"
#include "models/layers/projection/conv.h"
#include "models/layers/projection/cross_dense.h"
#include "models/layers/projection/cross_mult_conv.h"
#include "models/layers/projection/independent_layers.h"
#include "models/layers/projection/mult_conv.h"
#include "models/layers/recurrence/sru.h"

namespace scaling {
namespace {

template <class Component>
using Entries = std::vector<Entry<Component>>;

template <class Component>
Entries<Component>& entries();

template <>
Entries<FeedForward>& entries() {
  static Entries<FeedForward> all = {
      entry<FeedForward, DenseFeedForward>("dense"),
      entry<FeedForward, DenseReluSkipFeedForward>("dense_relu_skip"),
      entry<FeedForward, SparseFeedForward>("sparse"),
      entry<FeedForward, MoeFeedForward, MoeFeedForward::Kind::block>("moe_block"),
      entry<FeedForward, MoeFeedForward, MoeFeedForward::Kind::switched>("moe_switch"),
  };
  return all;
}

template <>
Entries<Projection>& entries() {
  static Entries<Projection> all = {
      entry<Projection, DenseProjection>("dense"),
      entry<Projection, LocalProjection>("local"),
      entry<Projection, ConvProjection>("conv"),
      entry<Projection, MultiplicativeProjection>("multiplicative"),
      entry<Projection, MultModularProjection>("mult_modular"),
      entry<Projection, MultConvProjection, false>("mult_conv"),
      entry<Projection, MultConvProjection, true>("mult_conv_shared_qk"),
      entry<Projection, LowRankProjection>("low_rank"),
  };
  return all;
}

template <>
Entries<CrossProjection>& entries() {
  static Entries<CrossProjection> all = {
      entry<CrossProjection, DenseCrossProjection>("dense"),
      entry<CrossProjection, MultConvCrossProjection, false>("mult_conv"),
      entry<CrossProjection, MultConvCrossProjection, true>("mult_conv_output"),
  };
  return all;
}

template <>
Entries<SelfAttention>& entries() {
  static Entries<SelfAttention> all = {
      entry<SelfAttention, FullAttention>("full"),
      entry<SelfAttention, LshAttention>("lsh"),
      entry<SelfAttention, WindowAttention>("window"),
      entry<SelfAttention, BandedAttention>("banded"),
      entry<SelfAttention, StridedAttention>("strided"),
      entry<SelfAttention, FixedAttention>("fixed"),
      entry<SelfAttention, BigBirdAttention>("bigbird"),
      entry<SelfAttention, LongformerAttention>("longformer"),
      entry<SelfAttention, PerformerAttention>("performer"),
      entry<SelfAttention, LinformerAttention>("linformer"),
      entry<SelfAttention, RoutingAttention>("routing"),
  };
  return all;
}

template <>
Entries<Loss>& entries() {
  static Entries<Loss> all = {
      entry<Loss, DenseLoss>("dense"),
      entry<Loss, MultiplicativeLoss>("multiplicative"),
      entry<Loss, LowRankLoss>("low_rank"),
  };
  return all;
}

template <>
Entries<Recurrence>& entries() {
  static Entries<Recurrence> all = {
      entry<Recurrence, NoLayer>("none"),
      entry<Recurrence, SruRecurrence>("sru"),
  };
  return all;
}

/// One of models/config.h's names of components.
struct Component {
  const char* name;
  std::string ModelConfig::*chosen;
  std::vector<EntryInfo> entries;
};

template <class C>
Component component(const char* name, std::string ModelConfig::*chosen) {
  return {name, chosen, {entries<C>().begin(), entries<C>().end()}};
}

bool is_read = false;

const std::vector<Component>& components() {
  is_read = true;
  static const std::vector<Component> all = {
      component<FeedForward>("feed_forward", &ModelConfig::feed_forward),
      component<Projection>("projection", &ModelConfig::projection),
      component<CrossProjection>("cross_projection", &ModelConfig::cross_projection),
      component<SelfAttention>("attention", &ModelConfig::attention),
      component<Loss>("loss", &ModelConfig::loss),
      component<Recurrence>("recurrence", &ModelConfig::recurrence),
  };
  return all;
}

const Component& find_component(const std::string& name) {
  for (const Component& c : components()) {
    if (name == c.name) return c;
  }
  refuse_choice("component", name, component_names());
}

template <class E>
const E& find_entry(const std::string& component, const std::vector<E>& all,
                    const std::string& name) {
  std::vector<std::string> known;
  for (const E& e : all) {
    if (name == e.name) return e;
    known.push_back(e.name);
  }
  refuse_choice(component, name, known);
}

template <class C>
const Entry<C>& dense_entry() {
  const Entries<C>& all = entries<C>();
  return *std::find_if(all.begin(), all.end(), [](const Entry<C>& e) { return e.traits.is_dense; });
}

}  // namespace

template <class Component>
bool add_entry(const Entry<Component>& added) {
  SCALING_CHECK(!is_read);
  for (const auto& known : entries<Component>()) {
    SCALING_CHECK(std::string(known.name) != added.name);
  }
  entries<Component>().push_back(added);
  return true;
}

template bool add_entry(const Entry<FeedForward>&);
template bool add_entry(const Entry<Projection>&);
template bool add_entry(const Entry<CrossProjection>&);
template bool add_entry(const Entry<SelfAttention>&);
template bool add_entry(const Entry<Loss>&);
template bool add_entry(const Entry<Recurrence>&);

std::vector<std::string> component_names() {
  std::vector<std::string> names;
  for (const Component& c : components()) names.push_back(c.name);
  return names;
}

const std::vector<EntryInfo>& entries_of(const std::string& component) {
  return find_component(component).entries;
}

std::vector<std::string> implementations_of(const std::string& component) {
  std::vector<std::string> names;
  for (const EntryInfo& e : entries_of(component)) names.push_back(e.name);
  return names;
}

std::vector<std::string> causal_implementations_of(const std::string& component) {
  std::vector<std::string> names;
  for (const EntryInfo& e : entries_of(component)) {
    if (e.traits.step != StepIs::none) names.push_back(e.name);
  }
  return names;
}

std::vector<std::string> knobs_of_component(const std::string& component) {
  std::vector<std::string> names;
  for (const EntryInfo& e : entries_of(component)) {
    for (const KnobInfo& knob : e.knobs()) {
      if (std::find(names.begin(), names.end(), knob.name) == names.end()) {
        names.push_back(knob.name);
      }
    }
  }
  return names;
}

const EntryInfo& chosen_entry(const ModelConfig& config, const std::string& component) {
  const Component& c = find_component(component);
  return find_entry(component, c.entries, config.*c.chosen);
}

void require_causal(const ModelConfig& config) {
  for (const Component& c : components()) {
    const EntryInfo& chosen = find_entry(c.name, c.entries, config.*c.chosen);
    if (chosen.traits.step != StepIs::none) continue;
    std::string others;
    for (const std::string& name : causal_implementations_of(c.name)) {
      others += (others.empty() ? "" : ", ") + name;
    }
    throw UserError(std::string(c.name) + " " + chosen.name +
                    " lets every position depend on later ones, so it neither decodes nor learns a "
                    "causal task; choose one of " +
                    others + ", or a task that is read from both sides (masked)");
  }
}

std::unique_ptr<FeedForward> make_feed_forward(const std::string& name, const ModelConfig& config) {
  return find_entry("feed_forward", entries<FeedForward>(), name).make(config);
}

std::unique_ptr<FeedForward> make_feed_forward(const ModelConfig& config) {
  return make_feed_forward(config.feed_forward, config);
}

std::unique_ptr<Projection> make_projection(const std::string& name, const ModelConfig& config) {
  return find_entry("projection", entries<Projection>(), name).make(config);
}

std::unique_ptr<Projection> make_projection(const ModelConfig& config, Where where) {
  if (where.in_encoder) return dense_entry<Projection>().make(config);
  return make_projection(config.projection, config);
}

std::unique_ptr<CrossProjection> make_cross_projection(const std::string& name,
                                                       const ModelConfig& config) {
  return find_entry("cross_projection", entries<CrossProjection>(), name).make(config);
}

std::unique_ptr<CrossProjection> make_cross_projection(const ModelConfig& config) {
  return make_cross_projection(config.cross_projection, config);
}

std::unique_ptr<SelfAttention> make_attention(const std::string& name, const ModelConfig& config) {
  return find_entry("attention", entries<SelfAttention>(), name).make(config);
}

std::unique_ptr<SelfAttention> make_self_attention(const ModelConfig& config) {
  return make_attention(config.attention, config);
}

std::unique_ptr<CrossAttention> make_cross_attention(const ModelConfig& config) {
  return std::make_unique<FullCrossAttention>(config);
}

std::unique_ptr<Loss> make_loss(const std::string& name, const ModelConfig& config) {
  return find_entry("loss", entries<Loss>(), name).make(config);
}

std::unique_ptr<Loss> make_loss(const ModelConfig& config) {
  return make_loss(config.loss, config);
}

std::unique_ptr<Recurrence> make_recurrence(const std::string& name, const ModelConfig& config) {
  return find_entry("recurrence", entries<Recurrence>(), name).make(config);
}

std::unique_ptr<Recurrence> make_recurrence(const ModelConfig& config) {
  return make_recurrence(config.recurrence, config);
}

}  // namespace scaling
