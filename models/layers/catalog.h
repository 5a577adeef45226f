// component + name -> entry: one explicit list.
#pragma once

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

/// feed_forward, projection, cross_projection, attention, loss, recurrence.
std::vector<std::string> component_names();
/// Throws UserError listing the components for an unknown one, as the next.
const std::vector<EntryInfo>& entries_of(const std::string& component);
std::vector<std::string> implementations_of(const std::string& component);
/// Those that can be causal, so that a model may decode with them.
std::vector<std::string> causal_implementations_of(const std::string& component);
/// Knobs of its implementations, each once.
std::vector<std::string> knobs_of_component(const std::string& component);
/// The implementation that a config names; throws UserError listing the known.
const EntryInfo& chosen_entry(const ModelConfig& config, const std::string& component);
/// Throws UserError that lists those that can be causal, if the config names one that cannot.
void require_causal(const ModelConfig& config);

/// Where in a model a layer goes.
struct Where {
  bool in_encoder = false;
};

// What the config names. An encoder's projection is always the dense one (paper 7.4).
std::unique_ptr<FeedForward> make_feed_forward(const ModelConfig& config);
std::unique_ptr<Projection> make_projection(const ModelConfig& config, Where where);
std::unique_ptr<CrossProjection> make_cross_projection(const ModelConfig& config);
std::unique_ptr<SelfAttention> make_self_attention(const ModelConfig& config);
/// Always full.
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
std::unique_ptr<Loss> make_loss(const std::string& name, const ModelConfig& config);
std::unique_ptr<Recurrence> make_recurrence(const std::string& name, const ModelConfig& config);

}  // namespace scaling
