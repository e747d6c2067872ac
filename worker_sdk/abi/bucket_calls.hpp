// SPDX-License-Identifier: Apache-2.0
// The callbacks of a C program that the reducer calls, and its options.
#pragma once

#include "muster/abi/reducer.h"
#include "worker_sdk/parallel/reducer.hpp"

namespace muster::abi {

/// Throws Error (invalid_argument) for options that do not go together.
ReducerOptions reducer_options(const muster_reducer_options& given, muster_group* group);

}  // namespace muster::abi
