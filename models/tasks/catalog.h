// Every task by its name: a task is one line here and a pair of files.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "models/tasks/task.h"

namespace scaling {

std::vector<std::string> task_names();
/// What config.task needs. Throws UserError for knobs that no run can have: an unknown task (lists
/// the known), sizes that are out of range or do not fit together.
Needs needs_of(const TrainConfig& config);
/// Opens the text that the task needs, see TextStore. Throws UserError as that and needs_of do, and
/// for a vocabulary without room for the task.
std::unique_ptr<Task> make_task(const TrainConfig& config, std::int64_t vocab_size,
                                const std::string& cache_folder, const ReadWatch& watch = {});
/// Task::identity(Purpose::comparison) without tokenising anything: a text is read at most, and not
/// even that if `cache_folder` knows its content. Throws UserError if the text is missing or cannot
/// be read.
std::string data_identity(const TrainConfig& config, std::int64_t vocab_size,
                          const std::string& cache_folder, const ReadWatch& watch = {});

}  // namespace scaling
