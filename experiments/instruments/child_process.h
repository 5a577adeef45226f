// A measurement in a process of its own: its memory holds nothing of what was measured before.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>

namespace scaling {

/// What `measure` returns, run in a forked child. UserError and Interrupted arrive here as they
/// were thrown there; any other end of the child is a UserError that says which. To be called
/// before this process has run anything on OpenMP or a Team: their threads do not survive a fork.
nlohmann::json in_child(const std::function<nlohmann::json()>& measure);

}  // namespace scaling
