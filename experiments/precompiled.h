// What most sources of experiments include, parsed once; every source includes what it uses all the
// same.
#pragma once

#include <nlohmann/json.hpp>

#include "models/precompiled.h"
