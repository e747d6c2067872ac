// SPDX-License-Identifier: Apache-2.0
// Which nodes live, as seen by one observer on its own monotonic clock. Pure.
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
  /// 0: silence is never judged, only the end of a connection (exact for local sockets).
  Milliseconds dead_after = kDeadAfter;
};

/// Peers' names are made of the host's ("h2:4711-9f3a"), which is what people want to read.
inline bool named_by_host(const NodeName& name, const std::string& host) {
  return !host.empty() && name.starts_with(host + ':');
}

/// Of the launcher and of nodes alike, before they are in: "node h2".
std::string title_of(const Hello& hello);

struct Member {
  NodeName name;
  SessionId session = 0;
  std::uint64_t incarnation = 0;
  Role role = Role::node;
  /// Known from its hello or its first join; empty before.
  std::string host{};
  /// Where its connection comes from, for texts; empty: not known.
  std::string address{};
  TimePoint last_seen{};
  bool suspect = false;
  /// Its connection broke then; it may come back over another until its silence is judged.
  std::optional<TimePoint> detached{};
  /// Why its guardian is gone, as the launcher knows: a connection that broke is not made again. Empty: not
  /// known.
  std::string ended{};

  /// "node n2", "the launcher".
  std::string title() const { return role == Role::launcher ? "the launcher" : "node " + name; }

  /// "node n2 (host h2)", "node h2".
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

  /// Takes a node (or the launcher) in, or says why not: its name is in use, or it is the very incarnation
  /// that was declared dead.
  std::optional<Refusal> admit(Member newcomer, TimePoint now);

  /// Null for an unknown session or name. Valid until the next change.
  Member* find(SessionId session);
  const Member* find(SessionId session) const;
  const Member* find(const NodeName& name) const;
  const Member* launcher() const;

  /// Notes that the connection of a member is broken. Returns whether it may come back: not where silence is
  /// not judged, since nothing would ever end its session then.
  bool detach(SessionId session, TimePoint now);
  /// The member has come back over another connection.
  void attach(SessionId session, const std::string& address, TimePoint now);

  /// The connection has ended. `dead`: by our verdict, so that this incarnation may not come back.
  void remove(SessionId session, bool dead);

  struct Verdicts {
    std::vector<Member> suspect{};
    std::vector<Member> recovered{};
    std::vector<Member> dead{};
  };

  /// Judges everybody's silence; call at next_tick(). When the calls themselves came late (this
  /// process was stopped, the machine slept), the missed time is held against nobody. The dead stay until
  /// remove().
  Verdicts tick(TimePoint now);

  /// When tick() wants to be called next; none without members or when silence is not judged.
  std::optional<TimePoint> next_tick() const;

  /// Nodes, without the launcher.
  int nodes() const { return nodes_; }

  /// Those of them whose connection is not broken.
  int connected_nodes() const;

  /// All sessions in order of arrival.
  std::vector<SessionId> sessions() const;

 private:
  /// Nodes and launcher have names of their own.
  static NodeName key(Role role, const NodeName& name);
  void fence(const NodeName& key, std::uint64_t incarnation);
  bool is_fenced(const NodeName& key, std::uint64_t incarnation) const;
  const Member* find_key(const NodeName& key) const;
  std::optional<Refusal> in_use(const Member& other, const Member& newcomer) const;

  MembershipLimits limits_;
  std::map<SessionId, Member> members_;
  std::unordered_map<NodeName, SessionId> by_name_;
  /// Incarnations that may not come back: the last kMaxFenced that died, and up to as many before them.
  std::unordered_map<NodeName, std::uint64_t> fenced_;
  std::unordered_map<NodeName, std::uint64_t> fenced_before_;
  int nodes_ = 0;
  TimePoint last_tick_{};
  /// When the next of them becomes suspect or dead, if it stays silent.
  TimePoint next_verdict_ = TimePoint::max();
};

}  // namespace muster::rendezvous
