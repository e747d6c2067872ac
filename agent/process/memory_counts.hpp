// SPDX-License-Identifier: Apache-2.0
// Reads the kernel's counts about memory, by which the agent finds out that a worker ended for want of it.
#pragma once

#include "agent/core/memory_end.hpp"

#include <string>

namespace muster::agent {

/// Returns what the kernel counts now for the control group of this process, the groups below it (where
/// workers may have gone) and those above it, of version 1 or 2. What cannot be read is left out. `root` is
/// put before every path; a test gives a tree of its own.
MemorySnapshot read_memory_counts(const std::string& root = "");

/// The same without limits and peaks, which only the later one of two snapshots is asked for.
MemorySnapshot read_memory_counts_before(const std::string& root = "");

/// Whether the kernel can have ended a process for memory since a snapshot: false only where its count of the
/// whole host, which includes those of all control groups, is still the same. One file is read. `root` as
/// above.
bool may_have_killed_since(const MemorySnapshot& before, const std::string& root = "");

}  // namespace muster::agent
