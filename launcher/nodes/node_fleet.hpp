// SPDX-License-Identifier: Apache-2.0
// All nodes of a job, from the first ssh to the last exit: starts them, talks to them, and knows when they
// are gone.
#pragma once

#include "agent/core/agent_spec.hpp"
#include "agent/core/link_text.hpp"
#include "agent/core/node_report.hpp"
#include "agent/launcher_link.hpp"
#include "launcher/core/job_end.hpp"
#include "launcher/core/job_orders.hpp"
#include "launcher/core/job_spec.hpp"
#include "launcher/nodes/core/node_board.hpp"
#include "launcher/nodes/core/node_contact.hpp"
#include "launcher/nodes/core/node_words.hpp"
#include "launcher/start/core/start_queue.hpp"
#include "launcher/start/node_connection.hpp"
#include "launcher/start/node_starter.hpp"
#include "rendezvous/wire/byte_stream.hpp"
#include "rendezvous/wire/channel.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <signal.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
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

/// Nodes are places in JobSpec::nodes. One thread, the executor's. No callback runs inside a call of this
/// class. Create with std::make_shared, and close().
class NodeFleet : public std::enable_shared_from_this<NodeFleet> {
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
    /// It has not reported. No guardian is left there, as the host itself says, and no agent that will
    /// outlive it; or, `given_up`, nothing leads there any more.
    std::function<void(std::size_t node, const std::string& cause, bool given_up)> ended;
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
  NodeFleet(const NodeFleet&) = delete;
  NodeFleet& operator=(const NodeFleet&) = delete;

  /// Starts as many nodes as may be started now; the rest follows.
  void start();

  /// No callback follows; every link is closed, and every client of ours ended.
  void close();

  /// An orderly end of the job; `signal` is for the workers.
  void stop(int signal);
  /// Ends the job without grace.
  void kill();
  /// Closes every link and ends every client of ours.
  void cut_all();
  /// The terminal has a new size.
  void resize();
  /// It has started this process and will reap it.
  bool waits_for(pid_t child) const;
  /// As JobNodes::pass_notice_on.
  void pass_notice_on(int signal);
  /// Tells every node that the launcher lives, and sees whether what leads there does. Call now and then.
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
  using Clock = std::chrono::steady_clock;
  using TimePoint = Clock::time_point;

  static constexpr std::chrono::seconds kSayWaitingAfter{3};
  static constexpr std::chrono::seconds kSayWaitingEvery{10};
  static constexpr std::chrono::seconds kSaidAtTheEnd{2};
  /// From its orders to its listening socket, which takes milliseconds.
  static constexpr std::chrono::seconds kListensWithin{15};

  struct Node {
    std::unique_ptr<NodeConnection> connection;
    std::optional<agent::LauncherLink> link;
    /// Waits until the node has its part of the job.
    std::vector<agent::LinkMessage> held;
    std::optional<StartEnd> process_end;
    NodeContact contact;
    LineLimit lines;
    /// The cause that its guardian gave at its end, or that we saw.
    std::string last_words;
    HostFailure::Teller last_words_by = HostFailure::Teller::node;
    /// A line of the client or of the agent's stderr: the cause only if the end followed at once.
    std::string said;
    TimePoint said_at{};
    TimePoint ended_at{};
    /// Says why the coordinator holds it for dead.
    NodeLoss dead;
    /// The agent has not greeted, and is given up at this time.
    std::optional<TimePoint> greet_by;
    /// It has been said that what leads there is stopped.
    bool client_stopped = false;
    std::optional<TimePoint> gone_by;
  };

  void start_node(std::size_t index);
  void greeted(std::size_t index, const std::string& there, LinkEnds ends);
  void pushed(std::size_t index, std::uint64_t bytes, std::uint64_t of);
  void start_failed(std::size_t index, const StartFailure& failure);
  void open_link(std::size_t index, LinkEnds ends);
  void opened(std::size_t index, std::string_view what, std::shared_ptr<rendezvous::Channel> channel);
  void opening_message(std::size_t index, const agent::LinkMessage& message);
  void send_spec(std::size_t index);
  void message(std::size_t index, agent::LinkMessage message);
  void say_status(const std::string& text);
  void take_report(std::size_t index, agent::NodeReport report);
  void said(std::size_t index, const std::string& line);
  void tell(std::size_t index, agent::LinkMessage::Kind kind, std::int64_t number, std::string body = {});
  /// Every node that has its part of the job.
  void tell_all(agent::LinkMessage::Kind kind, int number = 0);
  void link_closed(std::size_t index);
  /// Cuts it off: it sent what no muster sends.
  void misbehaved(std::size_t index, const std::string& what);
  /// Into our log, if the node has not said too much already.
  void log_line(std::size_t index, const std::string& text);
  void tell_left_out(std::size_t index, bool at_the_end);
  void process_ended(std::size_t index, const StartEnd& end, bool had_greeting);
  void not_started(std::size_t index, const StartEnd& end);
  void expect_nothing_of(std::size_t index, const NodeLoss& loss, bool goes_on);
  /// The node has failed. `tell_board` says so; a line says that the job goes on, if it does.
  void without(std::size_t index, const std::function<NodeBoard::Orders()>& tell_board);
  /// The client is gone, not the agent: the link goes on through the coordinator.
  bool go_on_by_relay(std::size_t index);
  /// Nothing leads to the node any more.
  void conclude(std::size_t index);
  /// The coordinator's node has ended: what is left of the others does not know it, or is stuck.
  void expect_the_others();
  HostFailure how_lost(std::size_t index) const;

  /// NodeContact::end_limit() of this node.
  std::chrono::milliseconds end_limit(std::size_t index) const;
  void cut(std::size_t index);
  void obey(const NodeBoard::Orders& orders);

  void advance();
  void give_up_late(TimePoint now);
  void give_up_stopped_clients();
  void say_waiting(TimePoint now);
  void arm(TimePoint now);

  boost::asio::any_io_executor executor_;
  const JobSpec& job_;
  NodeStarter& starter_;
  std::string version_;
  Instruct instruct_;
  Events events_;
  NodeBoard board_;
  std::optional<StartQueue> queue_;
  boost::asio::steady_timer timer_;
  std::map<std::size_t, StartedProcess> forked_;
  std::vector<Node> nodes_;
  std::vector<agent::NodeHello> hellos_;
  agent::LinkEndpoint endpoint_;
  TimePoint started_at_;
  TimePoint say_waiting_at_;
  std::optional<TimePoint> say_status_at_;
  /// The first node has its orders, and is given up if it does not say by then where it listens.
  std::optional<TimePoint> listen_by_;
  int stop_signal_ = SIGTERM;
  /// Everything is being cut.
  bool in_a_hurry_ = false;
  bool failure_said_ = false;
  bool over_said_ = false;
};

}  // namespace muster::launcher
