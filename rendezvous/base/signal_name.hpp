// SPDX-License-Identifier: Apache-2.0
// Names of signals, for C libraries that do not tell them (sigabbrev_np() came with glibc 2.32).
#pragma once

namespace muster {

/// Returns the name of a signal without its "SIG", as "TERM"; nullptr for a number that has none, as those of
/// real-time signals.
const char* signal_abbreviation(int signal);

}  // namespace muster
