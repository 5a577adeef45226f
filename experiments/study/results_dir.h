// The folder that takes a run's records.
#pragma once

#include <string>

namespace scaling {

/// `chosen`, or results/local/<machine> of the project if it is empty. Makes the folder; throws
/// UserError if it cannot be made or written.
std::string prepare_results_dir(const std::string& chosen, const std::string& machine);

}  // namespace scaling
