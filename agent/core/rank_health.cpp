// SPDX-License-Identifier: Apache-2.0
#include "agent/core/rank_health.hpp"

#include "agent/core/python_library.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace muster::agent {
namespace {

using rendezvous::Activity;
using rendezvous::CodePlace;
using rendezvous::RankHealth;
using rendezvous::WaitKind;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// Bytes written between two samples that are no sign of life: threads wake each other by a few bytes.
constexpr std::uint64_t kIdleBytesWritten = 256;
/// Bytes read each second that are none: a monitor in the program reads /proc now and then.
constexpr std::uint64_t kIdleBytesReadPerSecond = 16 * 1024;
/// The parts of a core, in percent, from which on helpers move, a rank is busy, and one that waits stirs.
/// Helpers that wait for work look for it some times each second. A thread that waits for the GIL wakes up
/// 200 times each second.
constexpr int kHelpersMovePercent = 5;
constexpr int kBusyPercent = 20;
constexpr int kStirsPercent = 2;
/// A busy rank's line changes all the time.
constexpr seconds kBusyToldEach{10};
/// Bytes of a name that are passed on; of a longer one the end, which tells more of a path.
constexpr std::size_t kHealthNameBytes = 200;

template <typename Number>
Number growth(Number before, Number now) {
  return now > before ? now - before : Number{};
}

milliseconds between(const WorkerSample& before, const WorkerSample& now) {
  return std::chrono::duration_cast<milliseconds>(now.at - before.at);
}

bool uses(milliseconds cpu, milliseconds time, int percent) {
  return time.count() > 0 && cpu.count() * 100 >= time.count() * percent;
}

/// Makes a text of another process fit for a message: one line, and not too long.
std::string clean(const std::string& text) {
  std::string kept =
      text.size() <= kHealthNameBytes ? text : "..." + text.substr(text.size() - kHealthNameBytes);
  std::replace_if(
      kept.begin(), kept.end(),
      [](char c) { return static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) == 0x7f; },
      '?');
  return kept;
}

/// What the frames of libraries tell in which a program stands, up to the user's own line.
struct LibraryView {
  bool prompt = false;
  bool communication = false;
  /// Whether nothing stands further in than code that talks to other ranks, so that its CPU time is spent
  /// there.
  bool communication_innermost = false;
  bool helpers = false;
  bool events = false;
  bool lock = false;
  bool backward = false;
  /// The outermost function that talks to other ranks, which is the one that the program has called.
  std::string operation{};
};

std::string operation_of(const CodePlace& frame) {
  const bool has_class = frame.file.ends_with("/torch/nn/parallel/distributed.py");
  return has_class ? "DistributedDataParallel" : clean(frame.function);
}

LibraryView view_of(const Frames& frames) {
  LibraryView view;
  bool innermost = true;
  for (const CodePlace& frame : frames) {
    if (!is_library(frame.file)) break;
    const LibraryRole role = role_of_file(frame.file);
    if (role == LibraryRole::wrapper) continue;
    if (role == LibraryRole::communication) {
      view.communication = true;
      view.communication_innermost |= innermost;
      view.operation = operation_of(frame);
    }
    view.prompt |= role == LibraryRole::prompt;
    view.helpers |= role == LibraryRole::helpers;
    view.events |= role == LibraryRole::events;
    view.lock |= role == LibraryRole::lock;
    view.backward |= role == LibraryRole::backward && innermost;
    innermost = false;
  }
  return view;
}

/// Kernel functions in which a thread waits, for kernels that do not show the system call: 6.1 to 6.18, and
/// older names. The first that the channel begins with counts.
constexpr std::array<std::pair<std::string_view, WaitKind>, 20> kChannels{{
    {"futex", WaitKind::lock},
    {"do_nanosleep", WaitKind::sleep},
    {"hrtimer_nanosleep", WaitKind::sleep},
    {"ep_poll", WaitKind::events},
    {"do_epoll_wait", WaitKind::events},
    {"do_wait", WaitKind::helpers},
    {"kernel_wait4", WaitKind::helpers},
    {"n_tty_read", WaitKind::terminal},
    {"anon_pipe_", WaitKind::file},
    {"pipe_", WaitKind::file},
    {"fuse_", WaitKind::file},
    {"request_wait_answer", WaitKind::file},
    {"rpc_wait", WaitKind::file},
    {"nfs", WaitKind::file},
    {"io_schedule", WaitKind::file},
    {"folio_wait", WaitKind::file},
    {"wait_on_page", WaitKind::file},
    {"jbd2_", WaitKind::file},
    {"balance_dirty_pages", WaitKind::file},
    {"unix_stream_", WaitKind::file},
}};

WaitKind kind_of_kernel(const WorkerSample& now) {
  switch (now.call) {
    case SystemCall::lock:
      return WaitKind::lock;
    case SystemCall::sleep:
      return WaitKind::sleep;
    case SystemCall::events:
      return WaitKind::events;
    case SystemCall::child:
      return WaitKind::helpers;
    case SystemCall::read:
      return now.descriptor == DescriptorKind::terminal ? WaitKind::terminal : WaitKind::file;
    case SystemCall::write:
      return WaitKind::file;
    case SystemCall::poll:
    case SystemCall::unknown:
      break;
  }
  if (now.state == 'D') return WaitKind::file;
  for (const auto& [beginning, kind] : kChannels)
    if (std::string_view(now.wait_channel).starts_with(beginning)) return kind;
  return WaitKind::unknown;
}

/// What a rank that is neither stopped nor busy waits for, besides other ranks.
WaitKind kind_of_wait(const WorkerSample& now, const LibraryView& view) {
  if (view.helpers && now.helpers > 0) return WaitKind::helpers;
  if (view.events) return WaitKind::events;
  const WaitKind kernel = kind_of_kernel(now);
  return view.lock && kernel == WaitKind::unknown ? WaitKind::lock : kernel;
}

/// Whether the main thread may be the one that waits for the store's answer: not, if it sleeps or waits for
/// a child meanwhile. Then another thread does.
bool may_ask_store(const WorkerSample& now) {
  return now.call == SystemCall::unknown || now.call == SystemCall::poll || now.call == SystemCall::read ||
         now.call == SystemCall::lock;
}

/// Whether the main thread sleeps in a library that talks to other ranks, called from the program itself as
/// in PyTorch's work.wait(), which is no function in Python. They wait for locks and connections only.
bool sleeps_in_communication(const WorkerSample& now, const StackSummary& stack) {
  const bool waits =
      now.call == SystemCall::lock || now.call == SystemCall::poll || now.call == SystemCall::events;
  return waits && role_of_shared_library(stack.library) == LibraryRole::communication;
}

void wait_for_ranks(RankHealth& health, std::string operation) {
  health.activity = Activity::waits;
  health.wait = WaitKind::communication;
  health.operation = std::move(operation);
}

void wait_for_nccl(RankHealth& health, const WorkerSample& now) {
  wait_for_ranks(health, clean(now.nccl_operation));
  health.group = clean(now.nccl_communicator);
  health.sequence = now.nccl_sequence;
}

/// Whether a rank that waits wakes up by itself, or works in another thread.
bool stirs(const WorkerSample& first, const WorkerSample& now, WaitKind wait, bool waits_for_gil) {
  const bool computes = uses(growth(first.cpu, now.cpu), between(first, now), kStirsPercent);
  // Who waits for another process wakes up to look at it. That it is locked counts, or that nothing tells.
  if (wait == WaitKind::helpers) return now.helpers_in_lock == 0;
  return computes || (!waits_for_gil && now.voluntary_switches > first.voluntary_switches);
}

/// Leaves out of a counter what was left out of it before, and with `all` also what it has grown since.
template <typename Number>
void leave_out(Number& counter, Number& left_out, Number before, bool all) {
  counter = growth(left_out, counter);
  const Number more = all ? growth(before, counter) : Number{};
  left_out += more;
  counter -= more;
}

/// What NCCL tells for the first time is no launch.
bool has_launched(const WorkerSample& before, const WorkerSample& now) {
  return before.nccl_launched && now.nccl_launched && *before.nccl_launched != *now.nccl_launched;
}

}  // namespace

bool has_moved(const WorkerSample& before, const WorkerSample& now) {
  const milliseconds time = between(before, now);
  const auto ms = static_cast<std::uint64_t>(std::max<std::int64_t>(time.count(), 0));
  return now.output_bytes != before.output_bytes || now.slot_calls != before.slot_calls ||
         now.slot_step != before.slot_step || has_launched(before, now) ||
         now.flight_changes != before.flight_changes || now.disk_bytes > before.disk_bytes ||
         growth(before.bytes_written, now.bytes_written) > kIdleBytesWritten ||
         growth(before.bytes_read, now.bytes_read) * 1000 > kIdleBytesReadPerSecond * ms ||
         uses(growth(before.helpers_cpu, now.helpers_cpu), time, kHelpersMovePercent);
}

CodePlace own_place(const Frames& frames) {
  if (frames.empty()) return {};
  auto own = std::find_if(frames.begin(), frames.end(),
                          [](const CodePlace& frame) { return !is_library(frame.file); });
  if (own == frames.end()) own = frames.begin();
  return {clean(own->file), std::max(own->line, 0), clean(own->function)};
}

RankHealth judge_still(const WorkerSample& first, const WorkerSample& before, const WorkerSample& now,
                       const StackSummary& stack) {
  RankHealth health;
  health.activity = Activity::waits;
  health.place = own_place(stack.main);
  const LibraryView view = view_of(stack.main);
  if (now.state == 'T') {
    health.wait = WaitKind::stopped;
    return health;
  }
  // Its debugger's user is the one who is waited for.
  if (now.state == 't' || view.prompt) {
    health.wait = WaitKind::terminal;
    return health;
  }
  if (!now.operation.empty()) {
    wait_for_ranks(health, clean(now.operation));
    health.group = clean(now.group);
    health.sequence = now.sequence;
    return health;
  }
  const bool busy = uses(growth(before.cpu, now.cpu), between(before, now), kBusyPercent);
  if (!now.store_key.empty() && !busy && may_ask_store(now)) {
    wait_for_ranks(health, view.operation);
    health.wait = WaitKind::store_key;
    health.key = clean(now.store_key);
    health.nearest = clean(now.nearest_key);
  } else if (!now.nccl_operation.empty() && (busy || view.communication || view.backward)) {
    wait_for_nccl(health, now);
  } else if (view.communication && (!busy || view.communication_innermost)) {
    wait_for_ranks(health, view.operation);
    health.stirs = busy;
  } else if (busy) {
    health.activity = Activity::busy;
  } else if (view.backward) {
    wait_for_ranks(health, "backward");
  } else if (!view.lock && !view.events && !view.helpers && sleeps_in_communication(now, stack)) {
    wait_for_ranks(health, "");
  } else {
    const bool waits_for_gil = !stack.main_holds_gil && !stack.gil_holder.empty();
    if (waits_for_gil) health.place = own_place(stack.gil_holder);
    health.wait = waits_for_gil ? WaitKind::lock : kind_of_wait(now, view);
    // Whoever waits for other ranks does so by a lock, too: only a stack tells the two apart.
    if (health.wait == WaitKind::lock && stack.main.empty()) health.wait = WaitKind::unknown;
    if (health.wait == WaitKind::unknown && !now.nccl_operation.empty()) wait_for_nccl(health, now);
    health.stirs = stirs(first, now, health.wait, waits_for_gil);
  }
  return health;
}

RankTracker::RankTracker(int rank, rendezvous::RoundNumber round, milliseconds tell_after, milliseconds gap)
    : tell_after_(tell_after), gap_(gap) {
  health_.rank = rank;
  health_.round = round;
}

/// A recorder writes its file, logs that, and may start processes that find the names of functions. Of the
/// CPU time its part is what is more than before: a worker that seems busy because it waits for a GPU still
/// does.
void RankTracker::leave_out_recorder(WorkerSample& sample) {
  const bool worked = sample.recorder_worked && first_still_;
  const WorkerSample before = last_.value_or(WorkerSample{});
  for (const auto counter : {&WorkerSample::output_bytes, &WorkerSample::bytes_read,
                             &WorkerSample::bytes_written, &WorkerSample::disk_bytes})
    leave_out(sample.*counter, left_out_.*counter, before.*counter, worked);
  leave_out(sample.helpers_cpu, left_out_.helpers_cpu, before.helpers_cpu, worked);
  milliseconds usual{0};
  if (worked)
    usual = growth(before_->cpu, before.cpu) * between(before, sample).count() /
            std::max<std::int64_t>(between(*before_, before).count(), 1);
  leave_out(sample.cpu, left_out_.cpu, before.cpu + usual, worked);
}

bool RankTracker::add(WorkerSample sample) {
  leave_out_recorder(sample);
  before_ = std::exchange(last_, std::move(sample));
  const bool stands = before_ && between(*before_, *last_) <= gap_ && !has_moved(*before_, *last_);
  hold(stands);
  if (stands) {
    if (!first_still_) first_still_ = last_;
    return true;
  }
  first_still_.reset();
  moved_at_ = last_->at;
  if (health_.activity != Activity::moves || !before_) since_ = last_->at;
  RankHealth moving;
  moving.rank = health_.rank;
  moving.round = health_.round;
  health_ = std::move(moving);
  return false;
}

void RankTracker::hold(bool stands) {
  // Who has moved has come out of the kernel since the last look, and whether anybody did whom nobody has
  // looked at is not known.
  if (last_->state != 'D' || !stands) {
    held_since_.reset();
    held_in_.clear();
  }
  if (last_->state == 'D' && !held_since_) held_since_ = last_->at;
}

/// Whatever it wanted to do otherwise, it waits for what the kernel waits for.
void RankTracker::add_held(RankHealth& now) {
  if (!held_since_ || last_->at - *held_since_ < kHeldAfter || now.activity != Activity::waits) return;
  if (held_in_.empty())
    held_in_ = last_->wait_channel.empty() ? "an unknown function" : clean(last_->wait_channel);
  RankHealth held;
  held.activity = Activity::waits;
  held.wait = WaitKind::file;
  held.place = now.place;
  held.held_in = held_in_;
  now = std::move(held);
}

/// Whether a look that came to nothing, as on a machine that is overloaded, is at a rank that waits for
/// others in the very sleep in which the look before found it.
bool RankTracker::sleeps_on(const RankHealth& now, const StackSummary& stack) const {
  const bool blind = stack.main.empty() || stack.library.empty();
  return blind && health_.activity == Activity::waits && health_.wait == WaitKind::communication &&
         last_->state == 'S' && before_->state == 'S' &&
         last_->voluntary_switches == before_->voluntary_switches && now.activity == Activity::waits &&
         (now.wait == WaitKind::lock || now.wait == WaitKind::unknown);
}

void RankTracker::judge(const StackSummary& stack) {
  if (!first_still_) return;
  RankHealth now = judge_still(*first_still_, *before_, *last_, stack);
  if (sleeps_on(now, stack)) return;
  add_held(now);
  now.rank = health_.rank;
  now.round = health_.round;
  // What began with the standstill has lasted as long as that, as far as anybody can tell. That it is for a
  // key was found out later, and so it was that a rank does not compute, but waits for a GPU.
  const bool has_key = now.activity == health_.activity && health_.key.empty() && !now.key.empty() &&
                       now.operation == health_.operation;
  const bool spins = health_.activity == Activity::busy && now.in_communication();
  const bool explained = (has_key || spins) && now.place == health_.place;
  if (health_.activity == Activity::moves)
    since_ = moved_at_;
  else if (!explained &&
           (now.activity != health_.activity || now.wait != health_.wait ||
            now.operation != health_.operation || now.sequence != health_.sequence || now.key != health_.key))
    since_ = last_->at;
  health_ = std::move(now);
}

bool RankTracker::may_ask_recorder() const {
  return first_still_ && !last_->recorder_worked && health().still >= tell_after_;
}

void RankTracker::change_process() {
  last_.reset();
  left_out_ = {};
  first_still_.reset();
  held_since_.reset();
  held_in_.clear();
}

void RankTracker::end(std::chrono::steady_clock::time_point now) {
  WorkerSample end;
  end.at = now;
  last_ = std::move(end);
  moved_at_ = since_ = now;
  first_still_.reset();
  RankHealth ended;
  ended.rank = health_.rank;
  ended.round = health_.round;
  ended.activity = Activity::ended;
  health_ = std::move(ended);
}

RankHealth RankTracker::health() const {
  return last_ ? health(last_->at) : health_;
}

RankHealth RankTracker::health(std::chrono::steady_clock::time_point now) const {
  RankHealth health = health_;
  if (!last_) return health;
  health.still = std::chrono::duration_cast<milliseconds>(now - moved_at_);
  health.lasted = std::chrono::duration_cast<milliseconds>(now - since_);
  return health;
}

bool RankTracker::worth_telling(const RankHealth& now) const {
  if (now.activity == Activity::moves) return told_ && told_->activity != Activity::moves;
  if (now.still < tell_after_ && now.activity != Activity::ended) return false;
  if (!told_) return true;
  // Times differ always; the coordinator counts on by itself.
  RankHealth same = now;
  same.still = told_->still;
  same.lasted = told_->lasted;
  if (now.activity == Activity::busy && told_->activity == Activity::busy &&
      last_->at - told_at_ < kBusyToldEach)
    same.place = told_->place;
  return same != *told_;
}

std::optional<RankHealth> RankTracker::news() {
  const RankHealth now = health();
  if (!last_ || !worth_telling(now)) return std::nullopt;
  told_ = now;
  told_at_ = last_->at;
  return now;
}

}  // namespace muster::agent
