// component + name -> entry: one explicit list.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "models/attention.h"
#include "models/config.h"
#include "models/layers/traits.h"

namespace scaling {

/// What is known of an implementation without making it.
struct EntryInfo {
  const char* name;
  Traits traits;
  /// Its own; one that two entries have is declared in a struct that both use.
  std::vector<KnobInfo> (*knobs)();
  /// Throws UserError naming both numbers.
  void (*validate)(const ModelConfig&);
  /// Sets its knobs for shrunk() of models/config.h.
  void (*shrink)(ModelConfig&);
  /// Whether training draws soft selections of a learned distribution in some calls.
  bool (*selects_softly)(const ModelConfig&);
};

/// feed_forward, projection, cross_projection, attention, cross_attention, loss, recurrence.
std::vector<std::string> component_names();
/// Throws UserError listing the components for an unknown one, as the next.
const std::vector<EntryInfo>& entries_of(const std::string& component);
std::vector<std::string> implementations_of(const std::string& component);
/// Those that can be causal, so that a model may decode with them.
std::vector<std::string> causal_implementations_of(const std::string& component);
/// Knobs of its implementations, each once.
std::vector<std::string> knobs_of_component(const std::string& component);
/// An implementation that a config names.
struct ChosenEntry {
  const EntryInfo* entry;
  Settings own = {};  ///< knobs that it sets for itself alone
  /// With its own knobs instead of the config's.
  ModelConfig config_of(ModelConfig config) const;
  bool sets(const std::string& knob) const;
};
/// One; of attention as many as the texts of models/layers/attention_list.h name, the decoder's
/// first. Throws UserError listing the known for an unknown name and for a knob of its own that an
/// attention has not, and for attentions that are to share heads and cannot.
std::vector<ChosenEntry> chosen_entries(const ModelConfig& config, const std::string& component);
/// The one; aborts if there are several.
const EntryInfo& chosen_entry(const ModelConfig& config, const std::string& component);
/// The same of attention, of one of the stacks.
std::vector<ChosenEntry> chosen_attentions(const ModelConfig& config, bool in_encoder);
/// How many blocks of a stack it takes until attentions come round again.
std::int64_t attentions_in_turn(const ModelConfig& config, bool in_encoder = false);
/// Throws UserError that lists those that can be causal, if the config names one that cannot where
/// a decoder has it.
void require_causal(const ModelConfig& config);

/// Where in a model a layer goes.
struct Where {
  bool in_encoder = false;
  std::int64_t block = 0;  ///< from 0, of its stack
};

// What the config names. An encoder's projection is always the dense one (paper 7.4).
std::unique_ptr<FeedForward> make_feed_forward(const ModelConfig& config);
std::unique_ptr<Projection> make_projection(const ModelConfig& config, Where where);
std::unique_ptr<CrossProjection> make_cross_projection(const ModelConfig& config);
std::unique_ptr<SelfAttention> make_self_attention(const ModelConfig& config, Where where);
/// That of every block of a decoder; throws UserError if blocks differ.
std::unique_ptr<SelfAttention> make_self_attention(const ModelConfig& config);
std::unique_ptr<CrossAttention> make_cross_attention(const ModelConfig& config);
std::unique_ptr<Loss> make_loss(const ModelConfig& config);
/// Null for "none", the one implementation that is the absence of a layer.
std::unique_ptr<Recurrence> make_recurrence(const ModelConfig& config);

// By name, whatever the config names. Throw UserError listing the known for an unknown one.
std::unique_ptr<FeedForward> make_feed_forward(const std::string& name, const ModelConfig& config);
std::unique_ptr<Projection> make_projection(const std::string& name, const ModelConfig& config);
std::unique_ptr<CrossProjection> make_cross_projection(const std::string& name,
                                                       const ModelConfig& config);
std::unique_ptr<SelfAttention> make_attention(const std::string& name, const ModelConfig& config);
std::unique_ptr<CrossAttention> make_cross_attention(const std::string& name,
                                                     const ModelConfig& config);
std::unique_ptr<Loss> make_loss(const std::string& name, const ModelConfig& config);
std::unique_ptr<Recurrence> make_recurrence(const std::string& name, const ModelConfig& config);

}  // namespace scaling
