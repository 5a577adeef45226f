// Each instruction set of this processor in turn.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "hwy/targets.h"

namespace scaling {

inline void on_every_target(const std::function<void()>& body) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    SCOPED_TRACE(hwy::TargetName(target));
    body();
  }
  hwy::SetSupportedTargetsForTest(0);
}

}  // namespace scaling
