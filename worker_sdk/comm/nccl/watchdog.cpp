// SPDX-License-Identifier: Apache-2.0
// The thread of a group that watches the calls on the device, so that the calling thread need not wait.
// It repeats these steps until the group is destroyed: it drops the batches that are done, checks the
// deadline of the oldest one, asks NCCL for errors, looks whether a peer has ended, and compares the calls
// with the other ranks. When the group has failed it revokes the communicator once.
#include "muster/error.hpp"
#include "worker_sdk/comm/nccl/group.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace muster::nccl {
namespace {

using std::chrono::milliseconds;

constexpr auto kBusyPeriod = milliseconds(20);
/// The pause of an idle watchdog. Calls on memory of the host do not wake it, so this is also the time in
/// which it notices the calls that other ranks make on the device.
constexpr auto kIdlePeriod = milliseconds(100);
/// The interval of comparisons: a mismatch is found this long after the later rank's call, at the latest
/// twice as long.
constexpr auto kExchangePeriod = milliseconds(100);
/// The time after which a peer that has ended counts as lost: it may end right after its last call, while
/// this rank's part of the call is still on the device.
constexpr auto kGoneTime = milliseconds(100);
/// The time that an error of NCCL waits for its cause to show, which is most often another rank's end.
constexpr auto kCauseTime = milliseconds(400);
constexpr auto kRevokeTime = milliseconds(2000);
constexpr std::size_t kMostNames = 8;

long long ms(std::chrono::steady_clock::duration time) {
  return std::chrono::duration_cast<milliseconds>(time).count();
}

}  // namespace

void Group::watch() noexcept {
  try {
    const DeviceGuard device = device_->make_current();
    const CaptureGuard capture(api_);
    std::unique_lock lock(mutex_);
    while (!stop_) {
      lock.unlock();
      try {
        look(Clock::now());
      } catch (const Error& error) {
        declare(error);
      }
      lock.lock();
      if (stop_) break;
      const bool busy = !pending_.empty() && !failed_.load();
      sleeps_long_.store(!busy);
      if (!failed_.load() || revoked_) (void)wake_.wait_for(lock, busy ? kBusyPeriod : kIdlePeriod);
      sleeps_long_.store(false);
    }
  } catch (const std::exception& error) {
    declare(Error(ErrorCode::backend, here() + ": its watchdog ended: " + error.what()));
  }
}

void Group::look(Clock::time_point now) {
  if (!failed_.load()) {
    if (const auto aborted = host_.aborted()) (void)set_failure(*aborted);
  }
  if (failed_.load()) {
    if (std::exchange(revoked_, true)) return;
    // The kernels of every group of the process are ended first, each by its own watchdog. Memory is freed
    // later, in destroy(), because freeing waits for kernels of other groups as well.
    if (!communicator_.revoke(kRevokeTime))
      host_.log(
          here() +
          ": NCCL has not freed its communicator yet; destroy graphs with its calls, and where the device "
          "still waits then, end the process");
    oldest_.reset();
    return;
  }
  drop_done();
  look_at_calls(now);
  look_at_nccl();
  if (oldest_)
    look_at_peers(now, oldest_->first());
  else
    gone_at_.reset();
  exchange();
}

/// Forgets the oldest batches as far as they are complete.
void Group::drop_done() {
  for (;;) {
    std::shared_ptr<Batch> front;
    {
      const std::lock_guard lock(mutex_);
      if (pending_.empty()) break;
      front = pending_.front();
    }
    if (!observe(*front)) break;
    const std::lock_guard lock(mutex_);
    pending_.pop_front();
  }
}

void Group::look_at_nccl() {
  std::optional<std::pair<Call, Error>> refused;
  {
    const std::lock_guard lock(mutex_);
    refused = std::exchange(refused_, std::nullopt);
  }
  if (refused) return declare_cause(refused->second, refused->first);
  const auto text = communicator_.failure();
  if (!text) return;
  const Call waiting = oldest_ ? oldest_->first() : Call{};
  declare_cause(Error(ErrorCode::backend, here() + ": NCCL reports " + *text +
                                              (oldest_ ? ", while it waits for " + describe(waiting) : "") +
                                              "; NCCL_DEBUG=WARN says more"),
                waiting);
}

/// Fails the group with the cause of `error` if that shows in time, and otherwise with `error` itself.
void Group::declare_cause(const Error& error, const Call& waiting) {
  const auto end = Clock::now() + kCauseTime;
  while (Clock::now() < end) {
    if (const auto aborted = host_.aborted()) {
      (void)set_failure(*aborted);
      return;
    }
    look_at_peers(Clock::now(), waiting);
    // A rank that leaves, or has failed, says so before NCCL closes its connections.
    exchange();
    if (failed_.load()) return;
    std::this_thread::sleep_for(kBusyPeriod);
  }
  declare(error);
}

void Group::look_at_calls(Clock::time_point now) {
  std::shared_ptr<Batch> oldest;
  {
    const std::lock_guard lock(mutex_);
    if (!pending_.empty()) oldest = pending_.front();
  }
  if (oldest != oldest_) {
    // A call's time begins when the call before it is complete, because a stream may hold many calls.
    progress_at_ = oldest_ || !oldest ? now : oldest->started();
    reported_ = false;
    oldest_ = oldest;
  }
  if (!oldest || failed_.load()) return;
  const auto waited = now - progress_at_;
  if (waited >= timeout_) {
    declare(Error(ErrorCode::deadline, here() + " waited " + std::to_string(ms(waited)) + " ms for " +
                                           describe(oldest->first()) + missing_from(oldest->first())));
  } else if (report_after_.count() > 0 && waited >= report_after_ && !std::exchange(reported_, true)) {
    host_.log(here() + " waits since " + std::to_string(ms(waited)) + " ms for " + describe(oldest->first()) +
              missing_from(oldest->first()));
  }
}

/// The text about the ranks that have not entered a call, as far as it can be known: "; rank 1 (...) has not
/// entered it (its last: call 6: barrier)".
std::string Group::missing_from(const Call& call) {
  std::string text;
  std::size_t names = 0;
  try {
    for (int peer = 0; peer < place_.size; ++peer) {
      if (peer == place_.rank || (is_point_to_point(call.collective) && peer != call.root)) continue;
      const auto record = board_.read(peer);
      const Call* const last = record && !record->links.empty() ? &record->links.back().call : nullptr;
      if (is_point_to_point(call.collective) || (last != nullptr && last->sequence >= call.sequence))
        continue;
      if (++names > kMostNames) continue;
      text += (names == 1 ? "; " : ", ") + peers_->name_of(peer) +
              (last == nullptr ? std::string(" (no call yet)") : " (its last: " + describe(*last) + ")");
    }
  } catch (const Error&) {
    return "; who is missing is unknown, because the store does not answer";
  }
  if (is_point_to_point(call.collective)) return "; " + peers_->name_of(call.root) + " has not taken part";
  if (names == 0) return "; all ranks have entered it, so look at the network and at the ranks' devices";
  if (names > kMostNames) text += " and " + std::to_string(names - kMostNames) + " more";
  return text + (names == 1 ? " has not entered it" : " have not entered it");
}

/// Fails the group if a rank has ended without which `waiting` cannot complete.
void Group::look_at_peers(Clock::time_point now, const Call& waiting) {
  const auto gone = peers_->find_gone();
  if (!gone) return;
  if (!gone_at_) gone_at_ = now;
  if (now - *gone_at_ < kGoneTime) return;
  std::optional<Record> record;
  try {
    record = board_.read(*gone);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch) then it counts as not having left in order
  }
  // The rank did its part and left in order, so the calls on the device end without it.
  if (record && record->left && record->count >= board_.count()) return;
  declare(Error(ErrorCode::peer_lost, peers_->name_of(*gone) + " of the group '" + name_ +
                                          "' ended while rank " + std::to_string(place_.rank) +
                                          " waits for it in " + describe(waiting) +
                                          "; look at its output for the cause"));
}

void Group::exchange() {
  const auto now = Clock::now();
  if (failed_.load() || !store_works_ || now < next_exchange_ || board_.is_settled()) return;
  next_exchange_ = now + kExchangePeriod;
  std::optional<Board::Finding> finding;
  try {
    finding = board_.exchange();
  } catch (const Error& error) {
    store_works_ = false;
    host_.log(here() +
              ": calls are no longer compared between ranks, because the store failed: " + error.what());
    return;
  }
  if (!finding) return;
  const std::string own = peers_->name_of(place_.rank);
  const std::string other = peers_->name_of(finding->peer);
  if (!finding->theirs) {
    declare(Error(ErrorCode::peer_lost, other + " has left the group '" + name_ + "' and will not make " +
                                            describe(finding->mine) + ", which " + own + " waits in"));
    return;
  }
  const std::string mine = own + " " + describe(finding->mine);
  const std::string theirs = other + " " + describe(*finding->theirs);
  declare(Error(ErrorCode::mismatch,
                "the ranks of the group '" + name_ + "' made different calls: " +
                    (place_.rank < finding->peer ? mine + ", " + theirs : theirs + ", " + mine)));
}

}  // namespace muster::nccl
