// SPDX-License-Identifier: Apache-2.0
// Which processors this process may use, and its part of them.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace muster {

/// A digit for each processor of the host, '1' where this thread may run on it (sched_getaffinity). At least
/// one digit.
std::string processor_mask();

/// Processors for the process `own` of those whose masks, all of one host, are given: its own ones, divided
/// by the processes that may run on any of them. So ranks that are bound to different processors have them
/// whole, and ranks that are not bound share. At least 1.
int processor_share(std::span<const std::string> masks, std::size_t own);

}  // namespace muster
