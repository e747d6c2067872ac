// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/shm/waiter.hpp"

#include "rendezvous/base/posix.hpp"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <ctime>
#include <utility>

namespace muster::shm {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;

/// The number of looks at the word before the core is given away, when every rank can have a core: 1 to 5 us.
/// Not more, because on a busy machine two ranks may share a core for a while, and each spin then keeps the
/// other rank waiting.
constexpr int kSpins = 30;
/// The time for which a rank gives its core away before it sleeps: waking costs several microseconds on
/// either side.
constexpr auto kYieldTime = microseconds(500);
/// The time below which a yield ran no other process (such a yield takes 0.2 to 0.6 us, one with two switches
/// 2 us and more). Ranks in different sessions yield in vain: the scheduler groups processes by session
/// (autogroup) or control group, and a yield does not leave the group. Ranks that have no core of their own
/// then sleep, so that they do not wait for one another's time slices of milliseconds.
constexpr auto kVainYield = nanoseconds(1000);
constexpr int kVainYields = 3;
constexpr std::uint32_t kTrustVainFor = 256;
/// The number of yields in vain before a rank sleeps if every rank could have a core: about the cost of being
/// woken.
constexpr int kVainYieldsAlone = 100;
/// The interval in which a waiting rank looks for dead peers, and the longest sleep: it bounds how late a
/// death is noticed.
constexpr auto kLookInterval = milliseconds(10);
/// The length of the first sleep of a wait, which is short because its wake-up can be missed (see Sleepers).
constexpr auto kFirstSleep = milliseconds(1);

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  // The call fails only on machines with more than 1,024 processors.
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return CPU_SETSIZE;
  return CPU_COUNT(&set);
}

void relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

long futex(const std::atomic<std::uint32_t>* word, int operation, std::uint32_t value,
           const timespec* timeout) {
  return syscall(SYS_futex, reinterpret_cast<const std::uint32_t*>(word), operation, value, timeout, nullptr,
                 0);
}

void sleep_while(const std::atomic<std::uint32_t>* word, std::uint32_t value, nanoseconds limit) {
  limit = std::max<nanoseconds>(limit, microseconds(1));
  const timespec timeout{limit.count() / 1'000'000'000, limit.count() % 1'000'000'000};
  futex(word, FUTEX_WAIT, value, &timeout);
}

milliseconds bounded(milliseconds time) {
  return std::clamp<milliseconds>(time, milliseconds(0), std::chrono::hours(24 * 365));
}

/// A time for people: "15.0 s".
std::string seconds_text(std::chrono::steady_clock::duration time) {
  char text[32];
  std::snprintf(text, sizeof(text), "%.1f s", std::chrono::duration<double>(time).count());
  return text;
}

}  // namespace

Waiter::Waiter(Layout layout, const GroupPlan& plan)
    : layout_(layout),
      rank_(plan.rank),
      ranks_(plan.size),
      group_(plan.options.name),
      timeout_(bounded(plan.options.timeout)),
      report_after_(plan.options.report_after > milliseconds(0) ? bounded(plan.options.report_after)
                                                                : std::chrono::hours(24 * 366)),
      roster_(layout, plan),
      spins_(plan.size <= usable_cores() ? kSpins : 0) {}

void Waiter::begin(const Call& call, std::uint64_t turn) {
  call_ = &call;
  turn_ = turn;
  has_clock_ = false;
}

void Waiter::begin_messages(const Call& call, const Entry& next) {
  begin(call, 0);
  next_ = next;
}

/// The time at which the present wait begins; the first wait of a call begins the call's deadline.
Waiter::Clock::time_point Waiter::start_clock() {
  const auto now = Clock::now();
  if (!has_clock_) {
    has_clock_ = true;
    reported_ = false;
    since_ = now;
  }
  suspect_ = -1;
  elsewhere_ = -1;
  // Yielding is tried again from time to time.
  if (spins_ > 0 || ++waits_ % kTrustVainFor == 0) vain_yields_ = 0;
  wait_began_ = now;
  next_look_ = now + kLookInterval;
  return now;
}

void Waiter::wait_for(int peer, std::uint32_t step) {
  const Progress& progress = layout_.line(peer, turn_).progress;
  for (int i = 0; i < spins_; ++i) {
    relax();
    if (progress.reached(step)) return;
  }
  for (auto now = start_clock(); !progress.reached(step); now = Clock::now()) {
    check();
    if (now >= next_look_ || now - since_ >= timeout_ || progress.left_before(step)) look_around(step, now);
    if (!yielded(now)) sleep_on(peer, step, now);
  }
}

/// Gives the core away and returns true, unless yielding was in vain or has lasted long enough: then it is
/// time to sleep.
bool Waiter::yielded(Clock::time_point now) {
  if (now - wait_began_ >= kYieldTime || vain_yields_ >= (spins_ > 0 ? kVainYieldsAlone : kVainYields))
    return false;
  sched_yield();
  vain_yields_ = Clock::now() - now < kVainYield ? vain_yields_ + 1 : 0;
  return true;
}

Waiter::Clock::duration Waiter::sleep_time(Clock::time_point now) const {
  const auto left = std::min(next_look_, since_ + timeout_) - now;
  return now - wait_began_ < kYieldTime + kFirstSleep ? std::min<Clock::duration>(left, kFirstSleep) : left;
}

void Waiter::sleep_on(int peer, std::uint32_t step, Clock::time_point now) {
  const Progress& progress = layout_.line(peer, turn_).progress;
  Sleepers& sleepers = layout_.block(peer).sleepers;
  sleepers.enter();
  std::uint32_t seen = 0;
  if (progress.may_sleep(step, seen)) sleep_while(progress.word(), seen, sleep_time(now));
  sleepers.leave();
}

int Waiter::wait_for_message(std::uint32_t rings, const std::vector<int>& peers, int& idle) {
  if (idle++ < spins_) {
    relax();
    return -1;
  }
  const auto now = idle == spins_ + 1 ? start_clock() : Clock::now();
  check();
  if (now >= next_look_ || now - since_ >= timeout_) {
    const int elsewhere = look_at_peers(peers, now);
    if (elsewhere >= 0) return elsewhere;
  }
  if (yielded(now)) return -1;
  RankBlock& mine = layout_.block(rank_);
  mine.sleepers.enter();
  sleep_while(mine.doorbell.word(), rings, sleep_time(now));
  mine.sleepers.leave();
  return -1;
}

void Waiter::ring(int peer) const {
  RankBlock& block = layout_.block(peer);
  block.doorbell.ring();
  if (block.sleepers.any()) futex(block.doorbell.word(), FUTEX_WAKE, INT_MAX, nullptr);
}

/// Looks for ranks that will not come, and at the clock. Lost ranks come first, since they explain a passed
/// deadline.
void Waiter::look_around(std::uint32_t step, Clock::time_point now) {
  next_look_ = now + kLookInterval;
  std::string missing;
  std::vector<int> waiting;
  for (int peer = 0; peer < ranks_; ++peer) {
    const Progress& progress = layout_.line(peer, turn_).progress;
    if (progress.reached(step)) {
      waiting.push_back(peer);
      continue;
    }
    const bool left = progress.left_before(step);
    // A rank may have made its last step just before it died, so its progress is checked once more.
    if (left || (roster_.is_dead(peer) && !progress.reached(step))) lose(peer, left);
    if (now - since_ >= std::min(timeout_, report_after_))
      missing += (missing.empty() ? "" : ", ") + roster_.name_of(peer) +
                 roster_.state_of(peer, turn_, *call_, progress.reached(entered_));
  }
  judge(missing, waiting, now);
}

/// Does the same as look_around() for messages, for which only some of the ranks are waited for.
int Waiter::look_at_peers(const std::vector<int>& peers, Clock::time_point now) {
  next_look_ = now + kLookInterval;
  std::string missing;
  int suspect = -1;
  int elsewhere = -1;
  for (const int peer : peers) {
    const bool left = layout_.line(peer, 0).progress.has_left();
    // The peer may have put a message into its rings before its end, so it counts as lost only at the
    // second look.
    if (left || roster_.is_dead(peer)) {
      if (suspect_ == peer) lose(peer, left);
      if (suspect < 0) suspect = peer;
    } else if (layout_.line(peer, next_.turn).progress.reached(next_.step)) {
      // This peer may also have put a message into its rings before, so it also counts only at the second
      // look.
      if (elsewhere_ == peer) return peer;
      if (elsewhere < 0) elsewhere = peer;
    }
    if (now - since_ >= std::min(timeout_, report_after_))
      missing += (missing.empty() ? "" : ", ") + roster_.name_of(peer) + roster_.state_of(peer);
  }
  suspect_ = suspect;
  elsewhere_ = elsewhere;
  judge(missing, {rank_}, now);
  return -1;
}

void Waiter::lose(int peer, bool left) {
  fail(ErrorCode::peer_lost,
       roster_.name_of(peer) + (left ? " has left" : " has died in") + " the group '" + group_ +
           "' on host " + host_name() + " while rank " + std::to_string(roster_.shown(rank_)) + " was in " +
           roster_.describe(*call_) + "; look at the output of that rank for the cause");
}

/// Ends the call at its deadline, and reports once who is missing when it takes long. Of the ranks that wait,
/// the first one reports for all.
void Waiter::judge(const std::string& missing, const std::vector<int>& waiting, Clock::time_point now) {
  if (missing.empty()) return;
  const auto time = now - since_;
  if (time >= timeout_)
    fail(ErrorCode::deadline, "rank " + std::to_string(roster_.shown(rank_)) + " on host " + host_name() +
                                  " waited " + std::to_string(timeout_.count()) + " ms in the group '" +
                                  group_ + "' (" + roster_.describe(*call_) + ") for " + missing + "; " +
                                  roster_.waiting_text(waiting) +
                                  "; see what is wrong there, or raise the group's timeout");
  if (reported_ || time < report_after_) return;
  reported_ = true;
  if (waiting.empty() || waiting.front() != rank_) return;
  std::fprintf(stderr, "muster: rank %d waits since %s in %s (group '%s') for %s; %s\n", roster_.shown(rank_),
               seconds_text(time).c_str(), roster_.describe(*call_).c_str(), group_.c_str(), missing.c_str(),
               roster_.waiting_text(waiting).c_str());
}

void Waiter::leave() {
  for (std::uint64_t turn = 0; turn < 2; ++turn) {
    layout_.line(rank_, turn).progress.leave();
    wake(rank_, turn);
  }
}

void Waiter::throw_failure() const {
  const FailureRecord& failure = layout_.header().failure;
  throw Error(static_cast<ErrorCode>(failure.code()), failure.text());
}

void Waiter::publish(ErrorCode code, const std::string& text) const {
  if (layout_.header().failure.publish(static_cast<std::uint32_t>(code), text)) wake_all();
}

void Waiter::fail(ErrorCode code, const std::string& text) {
  publish(code, text);
  // Another rank may be writing its failure at this instant; if it died while writing, our own failure is
  // thrown.
  for (const auto until = Clock::now() + kLookInterval; Clock::now() < until; sched_yield()) check();
  throw Error(code, text);
}

/// Wakes the ranks that sleep on one word of `peer`.
void Waiter::wake(int peer, std::uint64_t turn) const {
  futex(layout_.line(peer, turn).progress.word(), FUTEX_WAKE, INT_MAX, nullptr);
}

void Waiter::wake_all() const {
  for (int peer = 0; peer < ranks_; ++peer) {
    for (std::uint64_t turn = 0; turn < 2; ++turn) wake(peer, turn);
    ring(peer);
  }
}

}  // namespace muster::shm
