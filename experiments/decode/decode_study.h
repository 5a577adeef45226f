// Decode times of an experiment's rows: tables, sweeps and peers are configs of this one study.
#pragma once

#include <memory>

#include "experiments/study/study.h"

namespace scaling {

std::unique_ptr<Study> make_decode_study();

}  // namespace scaling
