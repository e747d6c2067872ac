// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/status/status_reader.hpp"

#include <algorithm>
#include <cstring>

namespace muster::status {
namespace {

constexpr auto kAcquire = std::memory_order_acquire;
constexpr auto kRelaxed = std::memory_order_relaxed;

/// The most looks at a record that is being written. A write takes nanoseconds: one that is not over then was
/// cut off by the writer's death, or the writer does not have a core, or writes repeatedly. The record is
/// then marked as torn.
constexpr int kTries = 200;

int bounded(std::uint32_t value) {
  constexpr std::uint32_t kMost = 1U << 24;
  return static_cast<int>(std::min(value, kMost));
}

Call call_from(std::uint64_t sequence, std::uint64_t count, std::uint64_t kind, std::uint64_t partner) {
  Call call;
  call.sequence = sequence;
  call.count = count;
  call.collective = static_cast<Collective>(byte_of(kind, 0));
  call.type = static_cast<DataType>(byte_of(kind, 1));
  call.op = static_cast<ReduceOp>(byte_of(kind, 2));
  call.root = static_cast<std::int32_t>(low_of(partner));
  call.tag = static_cast<std::int32_t>(high_of(partner));
  return call;
}

std::string printable(const char* text, std::size_t limit) {
  std::string name;
  for (std::size_t i = 0; i < limit && text[i] != '\0'; ++i)
    name += text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
  return name;
}

GroupStatus group_from(const GroupRecord& record) {
  GroupStatus group;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const std::uint64_t before = record.version.load(kAcquire);
    group.name_hash = record.name_hash.load(kAcquire);
    if (group.name_hash == 0) return group;
    const std::uint64_t place = record.place.load(kAcquire);
    const std::uint64_t state = record.state.load(kAcquire);
    group.rank = bounded(low_of(place));
    group.size = bounded(high_of(place));
    group.state = static_cast<GroupState>(
        std::min<std::uint8_t>(byte_of(state, 0), static_cast<std::uint8_t>(GroupState::failed)));
    group.error_code = -static_cast<int>(byte_of(state, 1));
    group.gone = byte_of(state, 2) != 0;
    group.report_after = std::chrono::milliseconds(high_of(state));
    const std::uint64_t sequence = record.sequence.load(kAcquire);
    const std::uint64_t count = record.count.load(kAcquire);
    const std::uint64_t kind = record.kind.load(kAcquire);
    group.call = call_from(sequence, count, kind, record.partner.load(kAcquire));
    group.entered_ns = record.entered_ns.load(kAcquire);
    group.changed_ns = record.changed_ns.load(kAcquire);
    group.completed = record.completed.load(kAcquire);
    char name[kNameBytes];
    for (std::size_t i = 0; i < record.name.size(); ++i) {
      const std::uint64_t word = record.name[i].load(kAcquire);
      std::memcpy(name + i * sizeof word, &word, sizeof word);
    }
    group.name = printable(name, sizeof name);
    const std::uint64_t after = record.version.load(kRelaxed);
    group.torn = before % 2 != 0 || after != before;
    if (!group.torn) break;
  }
  return group;
}

/// Reads the step with what belongs to it. One that is being written all the time has no times.
void read_step(const Identity& identity, RankStatus& status) {
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const std::uint64_t before = identity.step_version.load(kAcquire);
    status.step = identity.step.load(kAcquire);
    status.step_ns = identity.step_ns.load(kAcquire);
    status.step_calls_ns = identity.step_calls_ns.load(kAcquire);
    if (before % 2 == 0 && identity.step_version.load(kRelaxed) == before) return;
  }
  status.step_ns = status.step_calls_ns = 0;
}

}  // namespace

bool is_claimed(const Page& page) {
  return high_of(page.identity.owner.load(kRelaxed)) != static_cast<std::uint32_t>(ProcessPhase::unclaimed);
}

RankStatus read_status(const Page& page) {
  RankStatus status;
  const Identity& identity = page.identity;
  const std::uint64_t owner = identity.owner.load(kAcquire);
  if (high_of(owner) > static_cast<std::uint32_t>(ProcessPhase::finished)) return status;
  status.phase = static_cast<ProcessPhase>(high_of(owner));
  status.pid = static_cast<std::int32_t>(low_of(owner));
  status.start_time = identity.start_time.load(kAcquire);
  const std::uint64_t place = identity.place.load(kAcquire);
  status.rank = bounded(low_of(place));
  status.size = bounded(high_of(place));
  status.round = bounded(low_of(identity.round.load(kAcquire)));
  read_step(identity, status);
  for (const GroupRecord& record : page.groups)
    if (GroupStatus group = group_from(record); group.name_hash != 0 && group.state != GroupState::none)
      status.groups.push_back(std::move(group));
  status.calls = identity.next_ticket.load(kAcquire);
  status.calls_ns = identity.calls_ns.load(kAcquire);
  return status;
}

std::vector<RecentCall> read_recent(const Page& page, std::size_t limit) {
  std::vector<RecentCall> calls;
  const std::uint64_t newest = page.identity.next_ticket.load(kAcquire);
  const std::uint64_t wanted = std::min<std::uint64_t>({limit, kRing, newest});
  for (std::uint64_t ticket = newest - wanted + 1; ticket <= newest && ticket != 0; ++ticket) {
    const RingRecord& entry = page.ring[(ticket - 1) % kRing];
    if (entry.ticket.load(kAcquire) != ticket) continue;
    RecentCall recent;
    recent.name_hash = entry.name_hash.load(kAcquire);
    const std::uint64_t sequence = entry.sequence.load(kAcquire);
    const std::uint64_t count = entry.count.load(kAcquire);
    const std::uint64_t kind = entry.kind.load(kAcquire);
    recent.call = call_from(sequence, count, kind, entry.partner.load(kAcquire));
    recent.state = static_cast<CallState>(
        std::min<std::uint8_t>(byte_of(kind, 3), static_cast<std::uint8_t>(CallState::failed)));
    recent.error_code = -static_cast<int>(byte_of(kind, 4));
    recent.entered_ns = entry.entered_ns.load(kAcquire);
    recent.finished_ns = entry.finished_ns.load(kAcquire);
    if (entry.ticket.load(kRelaxed) == ticket) calls.push_back(recent);
  }
  return calls;
}

}  // namespace muster::status
