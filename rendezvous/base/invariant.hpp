// SPDX-License-Identifier: Apache-2.0
// Invariants of our own code, checked in every build: each costs one comparison. What comes from outside (the
// network, a file, the caller of a public function) is never asserted: it gets an error.
#pragma once

namespace muster {

/// Writes "muster: internal error: <invariant> does not hold (<file>:<line>); ..." to stderr and aborts the
/// process. Allocates nothing and takes no lock, so it may be called from any thread in any state.
[[noreturn, gnu::cold]] void invariant_violated(const char* invariant, const char* file, int line) noexcept;

}  // namespace muster

/// Ends the process if `condition` is false. `invariant` names what has to be true: "a session has one
/// member".
#define MUSTER_ASSERT(condition, invariant) \
  ((condition) ? static_cast<void>(0) : ::muster::invariant_violated(invariant, __FILE__, __LINE__))
