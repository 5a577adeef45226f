// Every implementation, by component and name. A new one is a line here.
#include "models/layers/catalog.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "kernels/check.h"
#include "models/layers/attention/full.h"
#include "models/layers/attention/inter_paragraph.h"
#include "models/layers/attention/linformer.h"
#include "models/layers/attention/lsh.h"
#include "models/layers/attention/patterns/banded.h"
#include "models/layers/attention/patterns/bigbird.h"
#include "models/layers/attention/patterns/fixed.h"
#include "models/layers/attention/patterns/longformer.h"
#include "models/layers/attention/patterns/paragraph.h"
#include "models/layers/attention/patterns/strided.h"
#include "models/layers/attention/patterns/window.h"
#include "models/layers/attention/performer.h"
#include "models/layers/attention/routing.h"
#include "models/layers/attention/sparsefinder.h"
#include "models/layers/attention/split_heads.h"
#include "models/layers/attention_list.h"
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
      entry<SelfAttention, ParagraphAttention>("paragraph"),
      entry<SelfAttention, InterParagraphAttention>("inter_paragraph"),
      entry<SelfAttention, PerformerAttention>("performer"),
      entry<SelfAttention, LinformerAttention>("linformer"),
      entry<SelfAttention, RoutingAttention>("routing"),
      entry<SelfAttention, SparsefinderDistanceAttention>("sparsefinder_distance"),
      entry<SelfAttention, SparsefinderQuantizationAttention>("sparsefinder_quantization"),
      entry<SelfAttention, SparsefinderClusterAttention>("sparsefinder_kmeans"),
  };
  return all;
}

template <>
Entries<CrossAttention>& entries() {
  static Entries<CrossAttention> all = {
      entry<CrossAttention, FullCrossAttention>("full"),
      entry<CrossAttention, LinformerCrossAttention>("linformer"),
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
  bool is_list;  ///< what is chosen is a text of models/layers/attention_list.h
};

template <class C>
Component component(const char* name, std::string ModelConfig::*chosen) {
  return {
      name, chosen, {entries<C>().begin(), entries<C>().end()}, std::is_same_v<C, SelfAttention>};
}

bool is_read = false;

const std::vector<Component>& components() {
  is_read = true;
  static const std::vector<Component> all = {
      component<FeedForward>("feed_forward", &ModelConfig::feed_forward),
      component<Projection>("projection", &ModelConfig::projection),
      component<CrossProjection>("cross_projection", &ModelConfig::cross_projection),
      component<SelfAttention>("attention", &ModelConfig::attention),
      component<CrossAttention>("cross_attention", &ModelConfig::cross_attention),
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

/// Knobs that one attention of a list sets for itself, as they would be written.
Settings own_knobs(const EntryInfo& entry, const NamedAttention& one) {
  const std::vector<KnobInfo> knobs = entry.knobs();
  Settings own;
  for (const auto& [name, value] : one.own) {
    const std::string& wanted = name;
    const auto at = std::find_if(knobs.begin(), knobs.end(),
                                 [&wanted](const KnobInfo& knob) { return knob.name == wanted; });
    if (at != knobs.end()) {
      own.emplace_back(name, at->normalised(name, value));
      continue;
    }
    std::vector<std::string> known;
    for (const KnobInfo& knob : knobs) known.push_back(knob.name);
    throw UserError("attention " + one.name + " has no knob '" + name + "'; it has " +
                    joined(known));
  }
  return own;
}

/// For itself, if it can have some of a block's heads.
const EntryInfo& require_shares_heads(const EntryInfo& entry, const std::vector<EntryInfo>& all) {
  if (entry.traits.shares_heads) return entry;
  std::vector<std::string> others;
  for (const EntryInfo& e : all) {
    if (e.traits.shares_heads) others.emplace_back(e.name);
  }
  throw UserError("attention " + std::string(entry.name) +
                  " takes all heads of a block, so that it cannot share them (+); those that can "
                  "are " +
                  joined(others) + ", or give it a block of its own (,)");
}

std::vector<ChosenEntry> entries_of_list(const Component& c, const std::string& text) {
  std::vector<ChosenEntry> all;
  for (const HeadAttentions& of_block : parse_attentions(text)) {
    for (const NamedAttention& one : of_block) {
      const EntryInfo& entry = find_entry(c.name, c.entries, one.name);
      if (of_block.size() > 1) require_shares_heads(entry, c.entries);
      all.push_back({&entry, own_knobs(entry, one)});
    }
  }
  return all;
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
template bool add_entry(const Entry<CrossAttention>&);
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

ModelConfig ChosenEntry::config_of(ModelConfig config) const {
  for (const auto& [name, value] : own) config.component_knobs[name] = value;
  return config;
}

bool ChosenEntry::sets(const std::string& knob) const {
  return std::any_of(own.begin(), own.end(),
                     [&knob](const auto& setting) { return setting.first == knob; });
}

std::vector<ChosenEntry> chosen_entries(const ModelConfig& config, const std::string& component) {
  const Component& c = find_component(component);
  if (!c.is_list) return {ChosenEntry{&find_entry(component, c.entries, config.*c.chosen)}};
  std::vector<ChosenEntry> all = chosen_attentions(config, false);
  if (config.encoder_attention.empty()) return all;
  for (ChosenEntry& one : chosen_attentions(config, true)) all.push_back(std::move(one));
  return all;
}

std::vector<ChosenEntry> chosen_attentions(const ModelConfig& config, bool in_encoder) {
  return entries_of_list(find_component("attention"), config.attention_of(in_encoder));
}

const EntryInfo& chosen_entry(const ModelConfig& config, const std::string& component) {
  const std::vector<ChosenEntry> all = chosen_entries(config, component);
  SCALING_CHECK(all.size() == 1);
  return *all[0].entry;
}

std::int64_t attentions_in_turn(const ModelConfig& config, bool in_encoder) {
  return std::int64_t(parse_attentions(config.attention_of(in_encoder)).size());
}

void require_causal(const ModelConfig& config) {
  for (const Component& c : components()) {
    const std::vector<ChosenEntry> chosen =
        c.is_list ? chosen_attentions(config, false) : chosen_entries(config, c.name);
    const auto never = std::find_if(chosen.begin(), chosen.end(), [](const ChosenEntry& one) {
      return one.entry->traits.step == StepIs::none;
    });
    if (never == chosen.end()) continue;
    const bool has_encoder = c.is_list && !config.decoder_only();
    throw UserError(std::string(c.name) + " " + never->entry->name +
                    " lets every position depend on later ones, so it neither decodes nor learns a "
                    "causal task; choose one of " +
                    joined(causal_implementations_of(c.name)) +
                    (has_encoder ? ", or leave it to the encoder alone (encoder_attention)" : "") +
                    ", or a task that is read from both sides (masked)");
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

namespace {

std::unique_ptr<SelfAttention> make_named(const NamedAttention& one, const ModelConfig& config) {
  const Entry<SelfAttention>& entry = find_entry("attention", entries<SelfAttention>(), one.name);
  return entry.make(ChosenEntry{&entry, own_knobs(entry, one)}.config_of(config));
}

std::unique_ptr<SelfAttention> make_of_block(const HeadAttentions& all, const ModelConfig& config) {
  if (all.size() == 1) return make_named(all[0], config);
  const auto heads = config.n_heads / std::int64_t(all.size());
  SCALING_CHECK(heads * std::int64_t(all.size()) == config.n_heads);
  std::vector<std::unique_ptr<SelfAttention>> parts;
  for (const NamedAttention& one : all) {
    const auto first = std::int64_t(parts.size()) * heads;
    parts.push_back(make_named(one, config));
    parts.back()->take_heads({first, first + heads});
  }
  return std::make_unique<SplitAttention>(std::move(parts));
}

}  // namespace

std::unique_ptr<SelfAttention> make_self_attention(const ModelConfig& config, Where where) {
  const std::vector<HeadAttentions> all = parse_attentions(config.attention_of(where.in_encoder));
  return make_of_block(all[std::size_t(where.block) % all.size()], config);
}

std::unique_ptr<SelfAttention> make_self_attention(const ModelConfig& config) {
  const std::vector<HeadAttentions> all = parse_attentions(config.attention);
  if (all.size() == 1) return make_of_block(all[0], config);
  throw UserError("attention '" + config.attention + "' gives blocks " +
                  std::to_string(all.size()) +
                  " in turn, and here one attention is looked at by itself; name one");
}

std::unique_ptr<CrossAttention> make_cross_attention(const std::string& name,
                                                     const ModelConfig& config) {
  return find_entry("cross_attention", entries<CrossAttention>(), name).make(config);
}

std::unique_ptr<CrossAttention> make_cross_attention(const ModelConfig& config) {
  return make_cross_attention(config.cross_attention, config);
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
