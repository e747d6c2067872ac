// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "agent/core/worker_environment.hpp"

namespace muster::agent {

/// This process's own environment, which workers inherit.
Environment process_environment();

}  // namespace muster::agent
