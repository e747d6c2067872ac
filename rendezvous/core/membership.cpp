// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/core/membership.hpp"

#include "rendezvous/base/invariant.hpp"

#include <algorithm>
#include <utility>

namespace muster::rendezvous {

std::string title_of(const Hello& hello) {
  if (hello.role == Role::launcher) return "the launcher";
  return "node " + (named_by_host(hello.node, hello.host) ? hello.host : hello.node);
}

std::string other_version(const Hello& hello, const std::string& us, const std::string& software) {
  if (hello.version_max >= kProtocolVersionMin && hello.version_min <= kProtocolVersionMax) return "";
  const auto text = [](int low, int high, const std::string& version) {
    return std::to_string(low) + ".." + std::to_string(high) +
           (version.empty() ? "" : " (muster " + version + ")");
  };
  return title_of(hello) + " speaks control protocol " +
         text(hello.version_min, hello.version_max, hello.software) + ", " + us + " " +
         text(kProtocolVersionMin, kProtocolVersionMax, software) + "; install the same muster on both";
}

NodeName Membership::key(Role role, const NodeName& name) {
  // The launcher's key holds a control character, which no node's name may hold.
  return role == Role::launcher ? NodeName(1, '\n') : name;
}

std::optional<Membership::Refusal> Membership::admit(Member newcomer, TimePoint now) {
  const NodeName key = Membership::key(newcomer.role, newcomer.name);
  if (const Member* other = find_key(key)) return in_use(*other, newcomer);
  if (is_fenced(key, newcomer.incarnation))
    return Refusal{Errc::job_over,
                   newcomer.title() +
                       " was declared dead after a silence and its place given up; stop its workers "
                       "and start its agent anew"};
  if (members_.empty()) {
    last_tick_ = now;
    next_verdict_ = TimePoint::max();
  }
  MUSTER_ASSERT(!members_.contains(newcomer.session), "a session has one member");
  newcomer.last_seen = now;
  nodes_ += newcomer.role == Role::node;
  by_name_[key] = newcomer.session;
  members_.emplace(newcomer.session, std::move(newcomer));
  return std::nullopt;
}

/// Remembers a dead incarnation. The memory is bounded, because a job of changing nodes may bring new names
/// for as long as it lasts.
void Membership::fence(const NodeName& key, std::uint64_t incarnation) {
  if (fenced_.size() >= kMaxFenced) fenced_before_ = std::exchange(fenced_, {});
  fenced_[key] = incarnation;
}

bool Membership::is_fenced(const NodeName& key, std::uint64_t incarnation) const {
  const auto holds = [&](const auto& fenced) {
    const auto found = fenced.find(key);
    return found != fenced.end() && found->second == incarnation;
  };
  return holds(fenced_) || holds(fenced_before_);
}

std::optional<Membership::Refusal> Membership::in_use(const Member& other, const Member& newcomer) const {
  const auto place = [](const Member& member) {
    std::string text = member.address;
    if (!member.host.empty()) text += (text.empty() ? "host " : " (host ") + member.host;
    if (!member.host.empty() && !member.address.empty()) text += ")";
    return text;
  };
  const std::string from = place(other).empty() ? "" : " from " + place(other);
  const std::string here = place(newcomer).empty() ? "" : ", and this one comes from " + place(newcomer);
  if (other.suspect || other.detached)
    return Refusal{Errc::again, newcomer.title() + " already joined" + from +
                                    " and is silent; try again when it has been declared dead"};
  return Refusal{Errc::mend, newcomer.title() + " already joined" + from + here +
                                 (newcomer.role == Role::launcher
                                      ? "; a job has one launcher, end the other one first"
                                      : "; give each node its own name, or end the other one")};
}

int Membership::connected_nodes() const {
  const auto is_connected = [](const auto& entry) {
    return entry.second.role == Role::node && !entry.second.detached;
  };
  return static_cast<int>(std::count_if(members_.begin(), members_.end(), is_connected));
}

Member* Membership::find(SessionId session) {
  const auto found = members_.find(session);
  return found == members_.end() ? nullptr : &found->second;
}

const Member* Membership::find(SessionId session) const {
  const auto found = members_.find(session);
  return found == members_.end() ? nullptr : &found->second;
}

const Member* Membership::find(const NodeName& name) const {
  return find_key(key(Role::node, name));
}

const Member* Membership::launcher() const {
  return find_key(key(Role::launcher, ""));
}

const Member* Membership::find_key(const NodeName& key) const {
  const auto found = by_name_.find(key);
  return found == by_name_.end() ? nullptr : &members_.at(found->second);
}

bool Membership::detach(SessionId session, TimePoint now) {
  Member* member = find(session);
  if (member == nullptr || limits_.dead_after.count() == 0) return false;
  if (!member->detached) member->detached = now;
  return true;
}

void Membership::attach(SessionId session, const std::string& address, TimePoint now) {
  Member* member = find(session);
  if (member == nullptr) return;
  member->detached.reset();
  member->ended.clear();
  member->address = address;
  member->last_seen = now;
}

void Membership::remove(SessionId session, bool dead) {
  const auto found = members_.find(session);
  if (found == members_.end()) return;
  const NodeName key = Membership::key(found->second.role, found->second.name);
  if (dead) fence(key, found->second.incarnation);
  nodes_ -= found->second.role == Role::node;
  by_name_.erase(key);
  members_.erase(found);
  MUSTER_ASSERT(members_.size() == by_name_.size() && nodes_ >= 0, "each member has one name");
}

Membership::Verdicts Membership::tick(TimePoint now) {
  Verdicts verdicts;
  if (limits_.dead_after.count() == 0) return verdicts;
  const auto late = now - last_tick_ - 2 * kHeartbeatInterval;
  last_tick_ = now;
  next_verdict_ = TimePoint::max();
  for (auto& [session, member] : members_) {
    if (late.count() > 0) member.last_seen = std::min(now, member.last_seen + late + kHeartbeatInterval);
    const auto silence = now - member.last_seen;
    if (silence >= limits_.dead_after) {
      verdicts.dead.push_back(member);
      continue;
    }
    if (silence >= limits_.suspect_after && !member.suspect) {
      member.suspect = true;
      verdicts.suspect.push_back(member);
    } else if (silence < limits_.suspect_after && member.suspect) {
      member.suspect = false;
      verdicts.recovered.push_back(member);
    }
    next_verdict_ = std::min(
        next_verdict_, member.last_seen + (member.suspect ? limits_.dead_after : limits_.suspect_after));
  }
  return verdicts;
}

std::optional<TimePoint> Membership::next_tick() const {
  if (members_.empty() || limits_.dead_after.count() == 0) return std::nullopt;
  return std::min(last_tick_ + kHeartbeatInterval, next_verdict_);
}

std::vector<SessionId> Membership::sessions() const {
  std::vector<SessionId> sessions;
  sessions.reserve(members_.size());
  for (const auto& [session, member] : members_) sessions.push_back(session);
  return sessions;
}

}  // namespace muster::rendezvous
