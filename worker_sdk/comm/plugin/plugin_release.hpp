// SPDX-License-Identifier: Apache-2.0
// In every plug-in (muster_plugin in scripts/cmake/MusterTargets.cmake): the version of Muster that it is of.
#pragma once

#include "muster/abi/types.h"

extern "C" MUSTER_API const char muster_plugin_release[];
