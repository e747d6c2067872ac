// SPDX-License-Identifier: Apache-2.0
// The use of MPI in this process, which has one MPI, no matter who initialised it.
#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <string>

namespace muster::mpi {

/// Throws Error (backend) with MPI's text unless `code` is MPI_SUCCESS.
void check(int code, const char* what);

/// Throws Error (unsupported) unless this process was started by mpirun or has initialised MPI.
void require_mpirun();

/// Initialises MPI unless the program has; in that case MPI is finalised when the program exits.
void initialize();

/// Whether MPI was initialised for several threads at once (MPI_THREAD_MULTIPLE).
bool takes_all_threads();

/// Returns a lock to be held around every call of MPI if MPI was not initialised for several threads at once.
/// Throws Error (state) on a thread that may not call MPI at all.
std::unique_lock<std::mutex> guard();

/// Notes that a group has failed: perhaps not all ranks will come to MPI_Finalize, so exiting must not wait
/// long.
void note_failure();

/// Waits for requests by checking them repeatedly: first without a pause, then giving the core away, then
/// sleeping.
class Poll {
 public:
  void pause();

 private:
  int looks_ = 0;
};

}  // namespace muster::mpi
