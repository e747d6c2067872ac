// SPDX-License-Identifier: Apache-2.0
// Decides which nodes' agents may be started now. A login server answers only so many strangers at a time
// (OpenSSH's MaxStartups), and a machine can only do so many logins at once. Pure: events and the time go in.
#pragma once

#include "rendezvous/protocol/ids.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace muster::launcher {

struct StartLimits {
  /// Most starts under way at the same time, over all servers.
  int in_progress = 64;
  /// Most starts under way on one login server that has not let us in yet. OpenSSH begins to turn strangers
  /// away at 10.
  int per_server = 8;
  /// The wait after the first refusal that looks like a busy server; it grows by half with each one, up to
  /// `longest_wait`.
  rendezvous::Milliseconds first_wait{200};
  rendezvous::Milliseconds longest_wait{3000};
  /// How long a busy server is asked again after its first refusal of a node, or after the last time that any
  /// node was let in: several names may lead to one server.
  rendezvous::Milliseconds patience{8'000};
  /// The number of starts under way below which refusals do not lower the limit `in_progress`.
  int least_in_progress = 8;
};

/// Nodes are numbers from 0, in the order in which they are wanted. Used from one thread.
class StartQueue {
 public:
  using TimePoint = rendezvous::TimePoint;

  /// `servers[n]` names the login server of node n; nodes of one name share its limit. `waits` says whether
  /// node n is still to be started. `random` gives numbers from 0 up to but not including 1.
  StartQueue(const std::vector<std::string>& servers, StartLimits limits,
             std::function<bool(std::size_t node)> waits, std::function<double()> random);

  /// Takes the nodes whose turn it is: each must now be started.
  std::vector<std::size_t> take_due(TimePoint now);

  /// Notes that the server has let us in: this start is no stranger any more.
  void admitted(std::size_t node, TimePoint now);

  /// Notes that a start has failed in a way that a busy server fails. True: the node is to wait, and will
  /// come up again in take_due(); false: the patience with its server is over.
  bool refused(std::size_t node, TimePoint now);

  /// Notes that a start that was not admitted is over for good.
  void failed(std::size_t node);

  /// Returns when take_due() should be called next; nothing: after the next event.
  std::optional<TimePoint> next_due() const;

 private:
  struct Node {
    std::string server;
    TimePoint not_before{};
    std::optional<TimePoint> first_refusal;
    double wait_ms = 0;
  };

  struct Server {
    int under_way = 0;
    int limit = 0;
  };

  StartLimits limits_;
  std::function<bool(std::size_t)> waits_;
  std::function<double()> random_;
  std::vector<Node> nodes_;
  std::map<std::string, Server> servers_;
  std::optional<TimePoint> last_admission_;
  int under_way_ = 0;
  int limit_ = 0;
};

/// A variable for every client, without which a name server that does not answer takes 10 s: ssh's
/// ConnectTimeout does not bound that.
inline constexpr const char* kResolveSoon = "RES_OPTIONS=timeout:2 attempts:1";
/// Limit from the fork of a node on this host to its agent's greeting.
inline constexpr std::chrono::milliseconds kForkLateAfter{20'000};
/// Limit from one piece of a copy (--push) to the next, and from the last one to the greeting. The client and
/// the kernel hold some megabytes that are still to go over the wire.
inline constexpr std::chrono::milliseconds kCopyLateAfter{60'000};

/// Returns the limit from the start of a client to the agent's greeting, in a job of so many nodes.
std::chrono::milliseconds greeting_limit(std::chrono::milliseconds login_timeout, std::size_t nodes);

/// Returns the limit that ssh gets for the connection and the server's banner, in seconds. ssh gives up
/// earlier than we do, because it can say why.
int connect_timeout_s(std::chrono::milliseconds login_timeout);

}  // namespace muster::launcher
