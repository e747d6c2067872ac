// SPDX-License-Identifier: Apache-2.0
// MPI in this process: there is one, whoever initialised it.
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

/// Initialises MPI unless the program has; then MPI is finalised when the program exits.
void initialize();

/// Whether MPI was initialised for several threads at once (MPI_THREAD_MULTIPLE).
bool takes_all_threads();

/// Held around every call of MPI where it was not initialised for several threads at once. Throws Error
/// (state) on a thread that may not call MPI at all.
std::unique_lock<std::mutex> guard();

/// A group failed: perhaps not all ranks will come to MPI_Finalize, so exiting does not wait long for them.
void note_failure();

/// Waits for requests by looking again and again: at once at first, then giving the core away, then sleeping.
class Poll {
 public:
  void pause();

 private:
  int looks_ = 0;
};

}  // namespace muster::mpi
