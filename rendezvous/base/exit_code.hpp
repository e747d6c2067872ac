// SPDX-License-Identifier: Apache-2.0
// Exit codes of `muster`. A failed job ends with the root cause's own code, or 128 + n for signal n.
#pragma once

namespace muster {

constexpr int kExitSuccess = 0;
/// The job was hung, and --on-hang did not let it stand.
constexpr int kExitHung = 1;
/// A flag, a value or a variable is wrong, and nothing was started.
constexpr int kExitUsage = 2;
/// The time of --timeout has passed.
constexpr int kExitDeadline = 124;
/// The launcher, an agent or the rendezvous failed, not a worker.
constexpr int kExitLauncherFailure = 125;
/// The program exists but cannot be executed.
constexpr int kExitNotExecutable = 126;
/// The program or its interpreter does not exist.
constexpr int kExitNotFound = 127;
/// The number that is added to a signal's number: a signal interrupted the job, or killed its root cause.
constexpr int kExitSignalBase = 128;
/// SIGINT interrupted the job, which means a person at a keyboard.
constexpr int kExitInterrupted = kExitSignalBase + 2;

}  // namespace muster
