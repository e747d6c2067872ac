// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/nccl/communicator.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/quiet_thread.hpp"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <memory>
#include <thread>
#include <utility>

namespace muster::nccl {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// The time for freeing by force, which waits only for graphs.
constexpr milliseconds kAbortTime{1500};

/// The mutex of a device, the only thing that groups of a process share, because NCCL's rule about threads
/// demands it.
std::mutex& mutex_of(int device) {
  static std::array<std::mutex, 64> mutexes;
  return mutexes[static_cast<std::size_t>(device) % mutexes.size()];
}

/// Names a communicator in NCCL's own messages; a header before 2.27 has no place for a name.
template <typename Config>
void set_name(Config& config, const char* name) {
  if constexpr (requires { config.commName; }) config.commName = name;
}

/// Sleeps longer each time, because NCCL answers within microseconds or after seconds.
class Pause {
 public:
  void take() {
    std::this_thread::sleep_for(next_);
    next_ = std::min(next_ * 2, std::chrono::microseconds(2000));
  }

 private:
  std::chrono::microseconds next_{10};
};

/// Runs `work` on a thread of its own. False when it has not ended after `limit`: then the thread is left
/// running.
bool run_apart(milliseconds limit, std::function<void()> work) {
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
  };

  auto shared = std::make_shared<Shared>();
  std::thread thread = quiet_thread([shared, work = std::move(work)] {
    work();
    const std::lock_guard lock(shared->mutex);
    shared->done = true;
    shared->changed.notify_all();
  });
  std::unique_lock lock(shared->mutex);
  const bool done = shared->changed.wait_for(lock, limit, [&shared] { return shared->done; });
  lock.unlock();
  if (done)
    thread.join();
  else
    thread.detach();
  return done;
}

/// Whether `lock` could be taken before `end`.
bool taken(std::unique_lock<std::mutex>& lock, Clock::time_point end) {
  for (Pause pause; !lock.try_lock(); pause.take())
    if (Clock::now() >= end) return false;
  return true;
}

}  // namespace

Communicator::Communicator(const Library& api, int device, std::string group)
    : api_(api), mutex_(mutex_of(device)), group_(std::move(group)) {}

Communicator::~Communicator() {
  if (comm_ != nullptr) (void)close(milliseconds(2000));
}

std::string Communicator::words(ncclResult_t result) const {
  std::string text = api_.ncclGetErrorString(result);
  const char* const last = api_.ncclGetLastError(comm_);
  if (last != nullptr && *last != '\0') text += " (" + std::string(last) + ")";
  int driver = 0;
  // NCCL does not say which CUDA it is made for, but it cannot begin where that is newer than the driver's.
  if (result == ncclUnhandledCudaError && state_ == State::starting &&
      api_.cuDriverGetVersion(&driver) == CUDA_SUCCESS && driver < 13000)
    text += "; the driver is for CUDA " + plugin::cuda_version_text(driver) +
            ": if NCCL is made for CUDA 13, install that for CUDA 12 (pip install nvidia-nccl-cu12), or "
            "update the driver to 580";
  return text;
}

/// The state that NCCL reports. The mutex must be held.
ncclResult_t Communicator::state_of_comm() {
  if (comm_ == nullptr) check_working();
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = api_.ncclCommGetAsyncError(comm_, &state);
  return asked == ncclSuccess ? state : asked;
}

void Communicator::init(const ncclUniqueId& id, int rank, int size, const Patience& patience) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  set_name(config, group_.c_str());
  {
    const std::lock_guard lock(mutex_);
    state_ = State::starting;
    const ncclResult_t result = api_.ncclCommInitRankConfig(&comm_, size, id, rank, &config);
    if (result != ncclSuccess && result != ncclInProgress) fail("ncclCommInitRankConfig", result);
  }
  settle("ncclCommInitRankConfig", patience);
  const std::lock_guard lock(mutex_);
  state_ = State::working;
}

/// Throws Error (aborted) unless the communicator works. The mutex must be held.
void Communicator::check_working() const {
  if (state_ == State::working && comm_ != nullptr) return;
  throw Error(ErrorCode::aborted, "the communicator of the group '" + group_ + "' has been revoked");
}

/// Launches recorded calls while revoking is locked out: NCCL resets its abort flag when it has revoked
/// (2.28.9, init.cc), and a recorded call that is launched then waits on the device without end. A launch
/// waits if the device's queue is full, so it holds no lock that an abort needs.
void Communicator::launch(const std::function<void()>& work) {
  const std::lock_guard gate(gate_);
  {
    const std::lock_guard lock(mutex_);
    check_working();
  }
  work();
}

/// Issues calls and waits until NCCL has taken them. ncclCommWindowRegister() of 2.28.9 and 2.30 returns
/// ncclSuccess while it is still at work, so only the communicator's state tells that calls have ended.
void Communicator::run(const char* what, const Calls& calls, const Patience& patience) {
  {
    const std::lock_guard lock(mutex_);
    check_working();
    const ncclResult_t result = calls(comm_);
    if (result != ncclSuccess && result != ncclInProgress) fail(what, result);
  }
  settle(what, patience);
}

/// Waits until the communicator is ready for the next call.
void Communicator::settle(const char* what, const Patience& patience) {
  for (Pause pause;; pause.take()) {
    {
      const std::lock_guard lock(mutex_);
      const ncclResult_t state = state_of_comm();
      if (state == ncclSuccess) return;
      if (state != ncclInProgress) fail(what, state);
    }
    patience();
  }
}

/// Marks the communicator as broken and throws. The mutex must be held.
void Communicator::fail(const char* what, ncclResult_t result) {
  const std::string text = words(result);
  state_ = State::broken;
  throw Error(ErrorCode::backend,
              std::string(what) + " failed in NCCL " + version_text(api_.version) + ": " + text);
}

std::optional<std::string> Communicator::failure() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock || comm_ == nullptr || state_ != State::working) return std::nullopt;
  const ncclResult_t state = state_of_comm();
  if (state == ncclSuccess || state == ncclInProgress) return std::nullopt;
  return words(state);
}

/// Waits for the state that follows ncclInProgress. Returns ncclInProgress if that lasts until `end`, or
/// longer than `patience`.
ncclResult_t Communicator::wait_for_state(Clock::time_point end, const Patience& patience) {
  try {
    for (Pause pause; Clock::now() < end; pause.take()) {
      {
        const std::lock_guard lock(mutex_);
        const ncclResult_t state = state_of_comm();
        if (state != ncclInProgress) return state;
      }
      patience();
    }
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch) the awaited state will not come
  }
  return ncclInProgress;
}

/// Begins to revoke. Returns whether there is nothing left to revoke, or NCCL has begun to.
bool Communicator::begin_revoke(Clock::time_point end) {
  std::unique_lock gate(gate_, std::defer_lock);
  const bool nothing_launches = taken(gate, Clock::now() + (end - Clock::now()) / 2);
  std::unique_lock lock(mutex_, std::defer_lock);
  if (!taken(lock, end)) return false;
  if (comm_ == nullptr || state_ == State::revoked) return true;
  // A communicator that is still starting has nothing on the device and can only be aborted. While recorded
  // calls are being launched it is aborted as well, because an abort keeps its flag.
  const bool can_revoke = nothing_launches && state_ != State::starting && api_.ncclCommRevoke != nullptr;
  state_ = State::broken;
  if (!can_revoke) return false;
  const ncclResult_t result = api_.ncclCommRevoke(comm_, NCCL_REVOKE_DEFAULT);
  return result == ncclSuccess || result == ncclInProgress;
}

bool Communicator::revoke(milliseconds limit) {
  const auto end = Clock::now() + limit;
  if (!begin_revoke(end)) return free(limit, true);
  const ncclResult_t after = wait_for_state(end, [] {});
  if (after == ncclInProgress) return free(limit, true);
  // Any state but ncclInProgress says that revoking has ended. An error that NCCL's proxy found stays
  // reported, and ncclCommDestroy() refuses such a communicator.
  const std::lock_guard lock(mutex_);
  state_ = after == ncclSuccess ? State::revoked : State::broken;
  return true;
}

/// Frees the communicator; by force even while its calls are on the device, and then they end.
bool Communicator::free(milliseconds limit, bool by_force) {
  ncclComm_t comm = nullptr;
  {
    std::unique_lock lock(mutex_, std::defer_lock);
    if (!taken(lock, Clock::now() + limit)) return false;
    comm = std::exchange(comm_, nullptr);
  }
  if (comm == nullptr) return !thread_left_;
  thread_left_ = !run_apart(limit, [&api = api_, comm, by_force] {
    (void)(by_force ? api.ncclCommAbort(comm) : api.ncclCommDestroy(comm));
  });
  return !thread_left_;
}

bool Communicator::close(milliseconds limit, const Patience& patience) {
  const auto end = Clock::now() + limit;
  bool finalized = false;
  if (comm_ != nullptr && state_ == State::working) {
    ncclResult_t result = ncclSuccess;
    {
      const std::lock_guard lock(mutex_);
      result = api_.ncclCommFinalize(comm_);
    }
    finalized =
        (result == ncclSuccess || result == ncclInProgress) && wait_for_state(end, patience) == ncclSuccess;
  }
  // Destroying waits for calls on the device, so only a communicator that has none there is destroyed.
  const bool quiet = finalized || state_ == State::revoked;
  const auto left = std::max(milliseconds(500), std::chrono::duration_cast<milliseconds>(end - Clock::now()));
  return free(quiet ? left : std::min(left, kAbortTime), !quiet);
}

}  // namespace muster::nccl
