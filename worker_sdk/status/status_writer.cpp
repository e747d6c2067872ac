// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/status/status_writer.hpp"

#include "rendezvous/base/fnv1a.hpp"
#include "worker_sdk/status/process_state.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <ctime>
#include <utility>

namespace muster::status {
namespace {

constexpr auto kRelaxed = std::memory_order_relaxed;
constexpr auto kRelease = std::memory_order_release;

std::uint64_t nanoseconds_of(const timespec& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(time.tv_nsec);
}

constexpr std::uint64_t kGone = 1U << 16;

/// The phase of `owner` while a process fills the identity in; readers take it for unclaimed.
constexpr std::uint32_t kClaiming = 3;

std::uint64_t kind_of(const Call& call) {
  return static_cast<std::uint64_t>(call.collective) | static_cast<std::uint64_t>(call.type) << 8 |
         static_cast<std::uint64_t>(call.op) << 16;
}

std::uint64_t partner_of(const Call& call) {
  return pack(static_cast<std::uint32_t>(call.root), static_cast<std::uint32_t>(call.tag));
}

std::uint64_t number_of(ErrorCode code) {
  return static_cast<std::uint64_t>(-static_cast<int>(code)) & 0xFF;
}

/// The number of elements below which a call may take less time than reading the clock twice.
constexpr std::uint64_t kQuickCount = std::uint64_t{16} * 1024;

/// The time to record for a call; for a quick one that of the last tick of the clock, at most a few
/// milliseconds back, at a fifth of the cost.
std::uint64_t time_for(const Call& call) {
  if (call.count >= kQuickCount) return monotonic_ns();
  timespec tick{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &tick);
  return nanoseconds_of(tick);
}

std::uint64_t place_of(const Writer& writer) {
  return pack(static_cast<std::uint32_t>(writer.rank), static_cast<std::uint32_t>(writer.size));
}

/// The record for a new group: that of a group of the same name that is gone, a free one, or that of the
/// group that is gone for longest; those of failed groups are taken last. Null if all groups are alive.
GroupRecord* place_for(Page& page, std::uint64_t hash) {
  const auto age = [hash](const GroupRecord& record) {
    const std::uint64_t other = record.name_hash.load(kRelaxed);
    if (other == 0) return std::uint64_t{1};
    const std::uint64_t state = record.state.load(kRelaxed);
    if ((state & kGone) == 0) return ~std::uint64_t{0};
    if (other == hash) return std::uint64_t{0};
    const bool failed = byte_of(state, 0) == static_cast<std::uint8_t>(GroupState::failed);
    return record.changed_ns.load(kRelaxed) / 2 + 2 + (failed ? ~std::uint64_t{0} / 2 : 0);
  };
  const auto oldest = std::min_element(page.groups.begin(), page.groups.end(),
                                       [&age](const auto& a, const auto& b) { return age(a) < age(b); });
  return age(*oldest) == ~std::uint64_t{0} ? nullptr : &*oldest;
}

/// Whether the process that has the file can still write into it.
bool is_taken(const Identity& identity, std::uint64_t owner) {
  const auto phase = high_of(owner);
  if (phase != static_cast<std::uint32_t>(ProcessPhase::active) && phase != kClaiming) return false;
  const auto pid = static_cast<std::int32_t>(low_of(owner));
  if (pid == ::getpid()) return true;
  const ProcessLook look = look_at(pid);
  if (look.state == ProcessState::gone) return false;
  return phase == kClaiming || look.start_time == identity.start_time.load(kRelaxed);
}

}  // namespace

std::uint64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return nanoseconds_of(now);
}

std::uint64_t hash_of(std::string_view name) {
  const std::uint64_t hash = fnv1a(name);
  return hash == 0 ? 1 : hash;
}

void reserve(Page& page, const Writer& writer) {
  page.identity.place.store(place_of(writer), kRelease);
}

void CallClock::begin(std::uint64_t now) {
  if (open_.fetch_add(1, std::memory_order_acq_rel) == 0) since_.store(now, kRelease);
}

void CallClock::end(std::uint64_t now) {
  // Read before this call is taken off: as long as it counts, nobody else begins at 0 and changes the time.
  const std::uint64_t since = since_.load(std::memory_order_acquire);
  if (open_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  // The times of quick calls are those of the last tick of the clock.
  if (now > since) total_.fetch_add(now - since, kRelaxed);
}

std::uint64_t CallClock::total(std::uint64_t now) const {
  const std::uint64_t total = total_.load(kRelaxed);
  if (open_.load(std::memory_order_acquire) == 0) return total;
  const std::uint64_t since = since_.load(std::memory_order_acquire);
  return now > since ? total + (now - since) : total;
}

GroupWriter::GroupWriter(Page& page, GroupRecord* record, std::uint64_t name_hash,
                         std::chrono::milliseconds report_after, CallClock& clock)
    : page_(page),
      record_(record),
      name_hash_(name_hash),
      report_after_(static_cast<std::uint64_t>(std::clamp<std::int64_t>(report_after.count(), 0, UINT32_MAX))
                    << 32),
      clock_(clock) {
  open_.reserve(16);
  // A record that was left in the middle of a write becomes readable again with the next write.
  if (record_ != nullptr) version_ = (record_->version.load(kRelaxed) + 1) / 2 * 2;
}

void GroupWriter::begin_write() {
  record_->version.store(version_ + 1, kRelaxed);
}

void GroupWriter::end_write() {
  version_ += 2;
  record_->version.store(version_, kRelease);
}

void GroupWriter::write_state(GroupState state, std::uint64_t code, std::uint64_t now) {
  record_->state.store(static_cast<std::uint64_t>(state) | code << 8 | report_after_, kRelease);
  record_->changed_ns.store(now, kRelease);
}

void GroupWriter::joined() {
  if (record_ == nullptr) return;
  begin_write();
  write_state(GroupState::idle, 0, monotonic_ns());
  end_write();
}

void GroupWriter::write_call(const Call& call, std::uint64_t now) {
  record_->sequence.store(call.sequence, kRelease);
  record_->count.store(call.count, kRelease);
  record_->kind.store(kind_of(call), kRelease);
  record_->partner.store(partner_of(call), kRelease);
  record_->entered_ns.store(now, kRelease);
}

void GroupWriter::entering(const Call& call) {
  const std::uint64_t now = time_for(call);
  remember(call, now);
  if (!std::exchange(in_call_, true)) clock_.begin(now);
  if (record_ == nullptr) return;
  begin_write();
  write_call(call, now);
  write_state(GroupState::in_call, 0, now);
  end_write();
}

void GroupWriter::completed(const Call& call) {
  const std::uint64_t now = time_for(call);
  if (next_open_ < open_.size()) finish(open_[next_open_++], CallState::completed, 0, now);
  const bool last = next_open_ >= open_.size();
  if (last) {
    open_.clear();
    next_open_ = 0;
    stop_clock(now);
  }
  if (record_ == nullptr) return;
  begin_write();
  record_->completed.store(call.sequence, kRelease);
  if (last) write_state(GroupState::idle, 0, now);
  end_write();
}

void GroupWriter::failed(const Call* call, ErrorCode code) {
  const std::uint64_t now = monotonic_ns();
  for (; next_open_ < open_.size(); ++next_open_)
    finish(open_[next_open_], CallState::failed, number_of(code), now);
  open_.clear();
  next_open_ = 0;
  stop_clock(now);
  if (record_ == nullptr) return;
  begin_write();
  if (call != nullptr && call->sequence != record_->sequence.load(kRelaxed)) write_call(*call, now);
  write_state(GroupState::failed, number_of(code), now);
  end_write();
}

void GroupWriter::stop_clock(std::uint64_t now) {
  if (std::exchange(in_call_, false)) clock_.end(now);
}

void GroupWriter::remember(const Call& call, std::uint64_t now) {
  const std::uint64_t ticket = page_.identity.next_ticket.fetch_add(1, kRelaxed) + 1;
  RingRecord& entry = page_.ring[(ticket - 1) % kRing];
  entry.ticket.store(0, kRelaxed);
  entry.name_hash.store(name_hash_, kRelease);
  entry.sequence.store(call.sequence, kRelease);
  entry.count.store(call.count, kRelease);
  entry.kind.store(kind_of(call), kRelease);
  entry.partner.store(partner_of(call), kRelease);
  entry.entered_ns.store(now, kRelease);
  entry.finished_ns.store(0, kRelease);
  entry.ticket.store(ticket, kRelease);
  open_.push_back(ticket);
}

void GroupWriter::finish(std::uint64_t ticket, CallState state, std::uint64_t code, std::uint64_t now) {
  RingRecord& entry = page_.ring[(ticket - 1) % kRing];
  if (entry.ticket.load(kRelaxed) != ticket) return;  // the entry was overwritten by later calls
  entry.finished_ns.store(now, kRelease);
  entry.kind.store(
      (entry.kind.load(kRelaxed) & 0xFFFFFF) | static_cast<std::uint64_t>(state) << 24 | code << 32,
      kRelease);
}

std::unique_ptr<StatusWriter> StatusWriter::claim(StatusFile file, const Writer& writer) {
  Identity& identity = file.page().identity;
  const auto pid = static_cast<std::uint32_t>(::getpid());
  const std::uint64_t reserved = identity.place.load(std::memory_order_acquire);
  if (reserved != 0 && reserved != place_of(writer)) return nullptr;
  std::uint64_t owner = identity.owner.load(std::memory_order_acquire);
  do {
    if (is_taken(identity, owner)) return nullptr;
  } while (!identity.owner.compare_exchange_weak(owner, pack(pid, kClaiming), std::memory_order_acq_rel));
  identity.start_time.store(look_at(static_cast<std::int32_t>(pid)).start_time, kRelaxed);
  identity.place.store(place_of(writer), kRelaxed);
  identity.round.store(static_cast<std::uint64_t>(writer.round), kRelaxed);
  for (Word* word : {&identity.step, &identity.step_version, &identity.step_ns, &identity.step_calls_ns,
                     &identity.calls_ns})
    word->store(0, kRelaxed);
  for (GroupRecord& record : file.page().groups) record.name_hash.store(0, kRelaxed);
  identity.owner.store(pack(pid, static_cast<std::uint32_t>(ProcessPhase::active)), kRelease);
  return std::unique_ptr<StatusWriter>(new StatusWriter(std::move(file)));
}

StatusWriter::~StatusWriter() {
  const auto pid = static_cast<std::uint32_t>(::getpid());
  file_.page().identity.owner.store(pack(pid, static_cast<std::uint32_t>(ProcessPhase::finished)), kRelease);
}

std::unique_ptr<GroupWriter> StatusWriter::open_group(std::string_view name, int rank, int size,
                                                      std::chrono::milliseconds report_after) {
  const std::lock_guard lock(mutex_);
  Page& page = file_.page();
  const std::uint64_t hash = hash_of(name);
  GroupRecord* const record = place_for(page, hash);
  auto group = std::make_unique<GroupWriter>(page, record, hash, report_after, clock_);
  if (record == nullptr) return group;
  const std::uint64_t now = monotonic_ns();
  group->begin_write();
  record->name_hash.store(hash, kRelease);
  record->place.store(pack(static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(size)), kRelease);
  group->write_call(Call{}, now);
  group->write_state(GroupState::joining, 0, now);
  record->completed.store(0, kRelease);
  for (std::size_t i = 0; i < record->name.size(); ++i) {
    std::uint64_t word = 0;
    const std::string_view rest = name.substr(std::min(i * sizeof word, name.size()));
    std::memcpy(&word, rest.data(), std::min(sizeof word, rest.size()));
    record->name[i].store(word, kRelease);
  }
  group->end_write();
  return group;
}

void StatusWriter::close_group(GroupWriter& group) {
  const std::lock_guard lock(mutex_);
  group.stop_clock(monotonic_ns());
  if (group.record_ == nullptr) return;
  group.begin_write();
  group.record_->state.store(group.record_->state.load(kRelaxed) | kGone, kRelease);
  group.end_write();
  group.record_ = nullptr;
}

void StatusWriter::set_step(std::uint64_t step) {
  const std::lock_guard lock(mutex_);
  Identity& identity = file_.page().identity;
  const std::uint64_t now = monotonic_ns();
  const std::uint64_t version = identity.step_version.load(kRelaxed) / 2 * 2;
  identity.step_version.store(version + 1, kRelaxed);
  identity.step.store(step, kRelease);
  identity.step_ns.store(now, kRelease);
  identity.step_calls_ns.store(clock_.total(now), kRelease);
  identity.step_version.store(version + 2, kRelease);
}

}  // namespace muster::status
