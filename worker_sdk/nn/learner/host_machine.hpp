// SPDX-License-Identifier: Apache-2.0
// This machine's processors.
#pragma once

#include "worker_sdk/nn/learner/machine.hpp"

#include <memory>

namespace muster::train {

/// `group` (null: a world of one) outlives it. A collective call.
std::unique_ptr<Machine> make_host_machine(const LearnerTask& task, const Samples& data, ProcessGroup* group);

}  // namespace muster::train
