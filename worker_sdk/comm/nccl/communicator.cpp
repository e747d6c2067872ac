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

/// The one thing that groups of a process share, as NCCL's rule about threads demands.
std::mutex& mutex_of(int device) {
  static std::array<std::mutex, 64> mutexes;
  return mutexes[static_cast<std::size_t>(device) % mutexes.size()];
}

/// Sleeps longer and longer: NCCL answers within microseconds or after seconds.
class Pause {
 public:
  void take() {
    std::this_thread::sleep_for(next_);
    next_ = std::min(next_ * 2, std::chrono::microseconds(2000));
  }

 private:
  std::chrono::microseconds next_{10};
};

/// Runs `work` on a thread of its own. False when it has not ended after `limit`: the thread goes on alone.
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
  return text;
}

ncclResult_t Communicator::state_of_comm() {
  ncclResult_t state = ncclSuccess;
  const ncclResult_t asked = api_.ncclCommGetAsyncError(comm_, &state);
  return asked == ncclSuccess ? state : asked;
}

void Communicator::init(const ncclUniqueId& id, int rank, int size, const Patience& patience) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.commName = group_.c_str();
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

void Communicator::run(const char* what, const Calls& calls, const Patience& patience, bool grouped) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ != State::working)
      throw Error(ErrorCode::aborted, "the communicator of the group '" + group_ + "' has been revoked");
    if (grouped) (void)api_.ncclGroupStart();
    const ncclResult_t result = calls(comm_);
    const ncclResult_t ended = grouped ? api_.ncclGroupEnd() : result;
    if (result != ncclSuccess && result != ncclInProgress) fail(what, result);
    if (ended == ncclSuccess) return;
    if (ended != ncclInProgress) fail(what, ended);
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

/// The mutex is held.
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

bool Communicator::settle_before(Clock::time_point end) {
  for (Pause pause; Clock::now() < end; pause.take()) {
    const std::lock_guard lock(mutex_);
    const ncclResult_t state = state_of_comm();
    if (state == ncclInProgress) continue;
    return state == ncclSuccess;
  }
  return false;
}

bool Communicator::revoke(milliseconds limit) {
  const auto end = Clock::now() + limit;
  {
    std::unique_lock lock(mutex_, std::try_to_lock);
    for (Pause pause; !lock && Clock::now() < end; pause.take()) (void)lock.try_lock();
    if (!lock) return false;
    if (comm_ == nullptr || state_ == State::revoked) return true;
    // What has not come up has nothing on the device, and can only be aborted.
    const bool can_revoke = state_ != State::starting && api_.ncclCommRevoke != nullptr;
    state_ = State::broken;
    if (!can_revoke) return false;
    const ncclResult_t result = api_.ncclCommRevoke(comm_, NCCL_REVOKE_DEFAULT);
    if (result != ncclSuccess && result != ncclInProgress) return false;
  }
  if (!settle_before(end)) return false;
  const std::lock_guard lock(mutex_);
  state_ = State::revoked;
  return true;
}

bool Communicator::close(milliseconds limit) {
  const auto end = Clock::now() + limit;
  bool finalized = false;
  if (comm_ != nullptr && state_ == State::working) {
    ncclResult_t result = ncclSuccess;
    {
      const std::lock_guard lock(mutex_);
      result = api_.ncclCommFinalize(comm_);
    }
    finalized = (result == ncclSuccess || result == ncclInProgress) && settle_before(end);
  }
  ncclComm_t comm = nullptr;
  {
    const std::lock_guard lock(mutex_);
    comm = std::exchange(comm_, nullptr);
  }
  if (comm == nullptr) return true;
  // Destroying waits for what is on the device, so only a communicator that has nothing there is destroyed.
  const bool quiet = finalized || state_ == State::revoked;
  return run_apart(
      std::max(milliseconds(500), std::chrono::duration_cast<milliseconds>(end - Clock::now())),
      [&api = api_, comm, quiet] { (void)(quiet ? api.ncclCommDestroy(comm) : api.ncclCommAbort(comm)); });
}

}  // namespace muster::nccl
