// seat + name -> maker: one explicit list.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/attention.h"

namespace scaling {

std::unique_ptr<FeedForward> make_feed_forward(const std::string& name, const ModelConfig& config);
std::unique_ptr<Projection> make_projection(const std::string& name, const ModelConfig& config);
std::unique_ptr<CrossProjection> make_cross_projection(const std::string& name,
                                                       const ModelConfig& config);
std::unique_ptr<SelfAttention> make_attention(const std::string& name, const ModelConfig& config);
/// Always full.
std::unique_ptr<CrossAttention> make_cross_attention(const ModelConfig& config);
std::unique_ptr<Loss> make_loss(const std::string& name, const ModelConfig& config);
/// Null for "none", the one implementation that is the absence of a layer.
std::unique_ptr<Recurrence> make_recurrence(const std::string& name, const ModelConfig& config);

/// Seats: feed_forward, projection, cross_projection, attention, loss, recurrence.
std::vector<std::string> seat_names();
/// Implementations of a seat. All makers throw UserError listing these for an unknown name.
std::vector<std::string> implementations_of(const std::string& seat);

}  // namespace scaling
