// SPDX-License-Identifier: Apache-2.0
// The program as a process: how its threads wait, what stops it, and which rank reports an error for all.
#pragma once

#include "worker_sdk/world/world.hpp"

#include <atomic>
#include <exception>
#include <string>

namespace muster::examples {

/// Lets threads of one parallel loop spin for some 50 us before they sleep. GCC's OpenMP spins for
/// milliseconds, LLVM's for 200: where another program wants the processor, threads then wait in turn for one
/// that does not run, and training takes many times as long. OpenMP reads how long from the environment when
/// it is loaded, so this starts the program anew, as the same process, with the variables that say it;
/// returns when one is set, by this or by the user (GOMP_SPINCOUNT, KMP_BLOCKTIME, OMP_WAIT_POLICY), or it
/// cannot be done. The first thing that a program does.
void wait_shortly(char** argv);

/// Makes SIGTERM set the flag that is returned, and nothing else. Where a scheduler signals every process of
/// a job and a launcher passes its own on, a process gets two, and the second must not cost the checkpoint.
/// SIGKILL ends a stop that takes too long. The flag is the program's: there is one.
const std::atomic<bool>& catch_stop_signal();

/// Ends the process as SIGTERM would have, so that whoever waits for it sees why.
[[noreturn]] void end_by_signal();

/// One line on stderr, and the error file for the agent's report. With a world of several ranks only the
/// first that comes writes the line; the others come back when it has, under a launcher some seconds after
/// that, which is time for it to end them. Before there is a world (null), each rank speaks for itself.
void report(const std::exception& error, const std::string& error_file, World* world);

/// Reports a wrong command line on stderr, and returns the exit code. The ranks of a host have the same one:
/// the first of them says it and the launcher then ends the others; they speak only if that does not happen.
int report_usage(const std::string& text);

}  // namespace muster::examples
