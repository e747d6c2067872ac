// SPDX-License-Identifier: Apache-2.0
// Decides which nodes live, as seen by one observer on its own monotonic clock. Pure.
#pragma once

#include "rendezvous/protocol/errc.hpp"
#include "rendezvous/protocol/ids.hpp"
#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/protocol/message.hpp"

#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace muster::rendezvous {

struct MembershipLimits {
  Milliseconds suspect_after = kSuspectAfter;
  /// The silence after which a node counts as dead. 0: only the end of a connection is judged (exact for
  /// local sockets).
  Milliseconds dead_after = kDeadAfter;
};

/// Whether a node's name is made of its host's name, as peers' names are ("h2:4711-9f3a"); texts then show
/// the host alone.
inline bool named_by_host(const NodeName& name, const std::string& host) {
  return !host.empty() && name.starts_with(host + ':');
}

/// The title of a node or of the launcher before it is in the job: "node h2".
std::string title_of(const Hello& hello);

/// The refusal of a peer that speaks other protocol versions than `us` ("this daemon"), of the version
/// `software`; empty if it speaks ours.
std::string other_version(const Hello& hello, const std::string& us, const std::string& software);

struct Member {
  NodeName name;
  SessionId session = 0;
  std::uint64_t incarnation = 0;
  Role role = Role::node;
  /// The host's name, known from the hello or the first join; empty before.
  std::string host{};
  /// The address that the connection comes from, for texts; empty: not known.
  std::string address{};
  TimePoint last_seen{};
  bool suspect = false;
  /// The time when the connection broke; the member may come back over another one until its silence is
  /// judged.
  std::optional<TimePoint> detached{};
  /// Why the member's guardian is gone, as the launcher knows; then a broken connection is not made again.
  /// Empty: not known.
  std::string ended{};

  /// The member's title: "node n2", "the launcher".
  std::string title() const { return role == Role::launcher ? "the launcher" : "node " + name; }

  /// The member's title with its host: "node n2 (host h2)", "node h2".
  std::string title_with_host() const {
    if (host.empty() || host == name) return title();
    if (named_by_host(name, host)) return "node " + host;
    return title() + " (host " + host + ")";
  }
};

class Membership {
 public:
  explicit Membership(MembershipLimits limits) : limits_(limits) {}

  struct Refusal {
    Errc code;
    std::string text;
  };

  /// Takes in a node (or the launcher), or says why not: its name is in use, or exactly this incarnation was
  /// declared dead.
  std::optional<Refusal> admit(Member newcomer, TimePoint now);

  /// The member with this session or name; null if there is none. Valid until the next change.
  Member* find(SessionId session);
  const Member* find(SessionId session) const;
  const Member* find(const NodeName& name) const;
  const Member* launcher() const;

  /// Notes that the connection of a member is broken. Returns whether the member may come back; it may not
  /// where silence is not judged, because nothing would ever end its session.
  bool detach(SessionId session, TimePoint now);
  /// Notes that the member has come back over another connection.
  void attach(SessionId session, const std::string& address, TimePoint now);

  /// Removes a member whose connection has ended. `dead`: it was declared dead, so this incarnation may not
  /// come back.
  void remove(SessionId session, bool dead);

  struct Verdicts {
    std::vector<Member> suspect{};
    std::vector<Member> recovered{};
    std::vector<Member> dead{};
  };

  /// Judges the silence of all members; call at next_tick(). When the calls themselves came late (this
  /// process was stopped, the machine slept), the missed time is held against nobody. Dead members stay until
  /// remove().
  Verdicts tick(TimePoint now);

  /// The time at which tick() is to be called next; none without members or when silence is not judged.
  std::optional<TimePoint> next_tick() const;

  /// The number of nodes, without the launcher.
  int nodes() const { return nodes_; }

  /// The number of nodes whose connection is not broken.
  int connected_nodes() const;

  /// All sessions in order of arrival.
  std::vector<SessionId> sessions() const;

 private:
  /// The key of a member in the tables; it keeps the names of nodes and of the launcher apart.
  static NodeName key(Role role, const NodeName& name);
  void fence(const NodeName& key, std::uint64_t incarnation);
  bool is_fenced(const NodeName& key, std::uint64_t incarnation) const;
  const Member* find_key(const NodeName& key) const;
  std::optional<Refusal> in_use(const Member& other, const Member& newcomer) const;

  MembershipLimits limits_;
  std::map<SessionId, Member> members_;
  std::unordered_map<NodeName, SessionId> by_name_;
  /// The incarnations that may not come back: the last kMaxFenced that died, and up to as many before them.
  std::unordered_map<NodeName, std::uint64_t> fenced_;
  std::unordered_map<NodeName, std::uint64_t> fenced_before_;
  int nodes_ = 0;
  TimePoint last_tick_{};
  /// The time when the next member becomes suspect or dead, if it stays silent.
  TimePoint next_verdict_ = TimePoint::max();
};

}  // namespace muster::rendezvous
