// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/mpi/mpi_library.hpp"

#include "muster/error.hpp"

#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

namespace muster::mpi {
namespace {

/// The time that an exiting rank waits after a failure for the others to exit; then mpirun ends them.
constexpr auto kFailedExitTime = std::chrono::seconds(3);

/// The state of MPI, of which a process has one.
struct Library {
  std::mutex mutex;  ///< held during initialize(), and during MPI's calls if MPI needs that
  bool known = false;
  int level = MPI_THREAD_SINGLE;
  pid_t owner = 0;  ///< the process in which we initialised MPI
  std::atomic<bool> failed{false};
};

Library& library() {
  static Library instance;
  return instance;
}

/// Whether all ranks come to an end within `limit`; MPI_Finalize itself waits for them without a limit.
bool all_come(std::chrono::milliseconds limit) {
  MPI_Request request = MPI_REQUEST_NULL;
  if (MPI_Ibarrier(MPI_COMM_WORLD, &request) != MPI_SUCCESS) return false;
  const auto deadline = std::chrono::steady_clock::now() + limit;
  Poll poll;
  for (int done = 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS; poll.pause()) {
    if (done != 0) return true;
    if (std::chrono::steady_clock::now() >= deadline) return false;
  }
  return false;
}

void finalize_at_exit() {
  const Library& mpi = library();
  int done = 0;
  if (mpi.owner != getpid() || MPI_Finalized(&done) != MPI_SUCCESS || done != 0) return;
  if (mpi.failed && !all_come(kFailedExitTime)) return;
  MPI_Finalize();
}

/// Makes MPI's symbols global. Open MPI's own components look for them among the global ones, where the
/// libraries of a plug-in are not.
void make_symbols_global() {
  Dl_info info{};
  if (dladdr(reinterpret_cast<void*>(&MPI_Init_thread), &info) != 0 && info.dli_fname != nullptr)
    dlopen(info.dli_fname, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
}

bool is_initialized() {
  int flag = 0;
  check(MPI_Initialized(&flag), "MPI_Initialized");
  return flag != 0;
}

}  // namespace

void check(int code, const char* what) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  throw Error(ErrorCode::backend, std::string(what) +
                                      " failed (MPI: " + std::string(text, static_cast<std::size_t>(length)) +
                                      "); the group cannot be used any more");
}

void require_mpirun() {
  if (is_initialized()) return;
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"})
    if (getenv(name) != nullptr) return;
  throw Error(
      ErrorCode::unsupported,
      "the backend 'mpi' works only where MPI started the ranks; start the program with mpirun, or choose "
      "the backend shm, gloo or auto");
}

void initialize() {
  Library& mpi = library();
  const std::lock_guard lock(mpi.mutex);
  if (mpi.known) return;
  require_mpirun();
  int finalized = 0;
  check(MPI_Finalized(&finalized), "MPI_Finalized");
  if (finalized != 0)
    throw Error(ErrorCode::state, "the program has finalised MPI; make the world before that");
  if (is_initialized()) {
    check(MPI_Query_thread(&mpi.level), "MPI_Query_thread");
  } else {
    make_symbols_global();
    check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &mpi.level), "MPI_Init_thread");
    check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    mpi.owner = getpid();
    std::atexit(finalize_at_exit);
  }
  mpi.known = true;
}

bool takes_all_threads() {
  return library().level == MPI_THREAD_MULTIPLE;
}

std::unique_lock<std::mutex> guard() {
  Library& mpi = library();
  if (takes_all_threads()) return {};
  std::unique_lock lock(mpi.mutex);
  if (mpi.level == MPI_THREAD_SERIALIZED) return lock;
  int main_thread = 0;
  check(MPI_Is_thread_main(&main_thread), "MPI_Is_thread_main");
  if (main_thread == 0)
    throw Error(
        ErrorCode::state,
        "the program initialised MPI for its main thread only, and this call is on another thread; use "
        "MPI_Init_thread with MPI_THREAD_MULTIPLE, or only calls that wait, on the main thread");
  return lock;
}

void note_failure() {
  library().failed = true;
}

void Poll::pause() {
  constexpr int kAtOnce = 50;
  constexpr int kYields = 2000;
  if (++looks_ <= kAtOnce) return;
  if (looks_ <= kYields) {
    sched_yield();
  } else {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

}  // namespace muster::mpi
