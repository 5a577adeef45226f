// What most tests of experiments include, parsed once; every source includes what it uses all the
// same.
#pragma once

#include <gtest/gtest.h>

#include "experiments/precompiled.h"
