// A measurement in a process of its own: its memory holds nothing of what was measured before.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>

namespace scaling {

nlohmann::json json_from_child(const std::function<nlohmann::json()>& measure);

/// What `measure` returns, of any type that JSON can carry, run in a forked child. UserError and
/// Interrupted arrive here as they were thrown there; any other end of the child is a UserError
/// that says which. To be called before this process has run anything on OpenMP or a Team: their
/// threads do not survive a fork.
template <class Measure>
auto in_child(const Measure& measure) {
  return json_from_child([&measure] { return nlohmann::json(measure()); })
      .template get<decltype(measure())>();
}

}  // namespace scaling
