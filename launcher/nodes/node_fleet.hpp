// SPDX-License-Identifier: Apache-2.0
// All nodes of a job, from the first ssh to the last exit: starts them, talks to them, and knows when they
// are gone.
#pragma once

#include "agent/core/agent_spec.hpp"
#include "agent/core/link_text.hpp"
#include "agent/core/node_report.hpp"
#include "launcher/core/job_end.hpp"
#include "launcher/start/node_starter.hpp"
#include "rendezvous/wire/byte_stream.hpp"
#include "rendezvous/wire/channel.hpp"

#include <boost/asio/any_io_executor.hpp>

#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace muster::launcher {

/// Why the coordinator holds a node for dead.
struct NodeLoss {
  std::string reason{};
  /// `reason` says what was decided about a restart, because that ended the job.
  bool says_decision = false;
};

struct JobSpec;

/// Nodes are places in JobSpec::nodes. One thread, the executor's. No callback runs inside a call of this
/// class.
class NodeFleet {
 public:
  struct Events {
    std::function<void(std::size_t node, agent::NodeReport)> report;
    /// The node opened a channel (agent/core/link_message.hpp says for what). What it throws is the node's
    /// fault. Never empty.
    std::function<void(std::size_t node, std::string_view what, std::shared_ptr<rendezvous::Channel>)> opened;
    /// The coordinator listens.
    std::function<void(const agent::LinkEndpoint&)> listening;
    /// A way to a node that does not lead through its broken connection; null: there is none.
    std::function<std::unique_ptr<rendezvous::ByteStream>(std::size_t node)> relay;
    /// Whether relay() may find such a way soon.
    std::function<bool()> relay_comes;
    /// A line for people about what the job waits for.
    std::function<void(const std::string&)> waiting;
    /// No guardian is left there, as the host itself says, and no agent that will outlive it; it has not
    /// reported.
    std::function<void(std::size_t node, const std::string& cause)> ended;
    /// This node could not be started or was lost.
    std::function<void(std::size_t node)> without;
    /// The first failure that ends the job: it is being stopped.
    std::function<void()> failed;
    /// No node is left to wait for. Once.
    std::function<void()> over;
  };

  /// Makes the orders of a node: body of `key` and how many keys are in it, and its part of the job.
  struct Instructions {
    std::string keys;
    int key_count = 1;
    agent::AgentSpec spec;
  };

  using Instruct = std::function<Instructions(std::size_t node, const std::vector<agent::NodeHello>&)>;

  /// `local`: nodes of this host that were forked already. `starter` starts the others; both it and `job`
  /// must live as long as this.
  NodeFleet(const boost::asio::any_io_executor& executor, const JobSpec& job, NodeStarter& starter,
            std::map<std::size_t, StartedProcess> local, std::string version, Instruct instruct,
            Events events);
  ~NodeFleet();
  NodeFleet(const NodeFleet&) = delete;
  NodeFleet& operator=(const NodeFleet&) = delete;

  /// Starts as many nodes as may be started now; the rest follows.
  void start();

  /// An orderly end of the job; `signal` is for the workers.
  void stop(int signal);
  /// Ends the job without grace.
  void kill();
  /// Closes every link and ends every client of ours.
  void cut_all();
  /// The terminal has a new size.
  void resize();
  /// Tells every node that the launcher lives.
  void show_life();

  /// A channel to the worker there that reads our stdin; null: nothing leads to that node now.
  std::shared_ptr<rendezvous::Channel> open_stdin(std::size_t node);

  /// The coordinator holds this node for dead: if it does not report soon, it is lost for this reason.
  /// `goes_on`: the job may do so, and then there is more time for that report.
  void expect_nothing_of(const std::string& node, const NodeLoss& loss, bool goes_on);

  /// Whether a link leads through the coordinator.
  bool relays() const;
  const std::vector<HostFailure>& failures() const;
  /// Names of nodes that were told to work and have not reported.
  std::vector<std::string> unreported() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace muster::launcher
