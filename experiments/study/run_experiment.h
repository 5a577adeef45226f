// Every driver's main: the one place where errors become messages and exit statuses.
#pragma once

#include <functional>

namespace scaling {

inline constexpr int kExitFailedRows = 1;
inline constexpr int kExitUserError = 2;
inline constexpr int kExitInterrupted = 130;

/// Runs `body` with signals watched; its result is the exit status. UserError: the sentence and 2.
/// Interrupted: 130. Out of memory or anything else that was thrown: the reason and 1.
int run_experiment(const std::function<int()>& body);

}  // namespace scaling
