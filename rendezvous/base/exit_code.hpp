// SPDX-License-Identifier: Apache-2.0
// Exit codes of `muster`. A failed job ends with the root cause's own code, or 128 + n for signal n.
#pragma once

namespace muster {

constexpr int kExitSuccess = 0;
/// Wrong flag, value or variable: nothing was started.
constexpr int kExitUsage = 2;
/// --timeout has passed.
constexpr int kExitDeadline = 124;
/// The launcher, an agent or the rendezvous failed, not a worker.
constexpr int kExitLauncherFailure = 125;
/// The program exists but cannot be executed.
constexpr int kExitNotExecutable = 126;
/// The program or its interpreter does not exist.
constexpr int kExitNotFound = 127;
/// Added to a signal's number: the job was interrupted by it, or its root cause was killed by it.
constexpr int kExitSignalBase = 128;
/// By SIGINT, which is a person at a keyboard.
constexpr int kExitInterrupted = kExitSignalBase + 2;

}  // namespace muster
