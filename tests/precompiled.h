// What most tests include, parsed once; every source includes what it uses all the same.
#pragma once

#include <gtest/gtest.h>

#include "models/precompiled.h"
