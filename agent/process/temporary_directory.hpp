// SPDX-License-Identifier: Apache-2.0
// Where an agent keeps what only its own node's workers use while a job runs.
#pragma once

#include <string>

namespace muster::agent {

/// Returns TMPDIR if that is an absolute path, else "/tmp".
std::string temporary_directory();

}  // namespace muster::agent
