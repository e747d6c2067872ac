// SPDX-License-Identifier: Apache-2.0
// All nodes of a job, from the first ssh to the last exit: starts them, talks to them, and knows when they
// are gone.
#pragma once

#include "agent/core/agent_spec.hpp"
#include "agent/core/link_text.hpp"
#include "agent/core/node_report.hpp"
#include "agent/core/node_status.hpp"
#include "agent/launcher_link.hpp"
#include "launcher/core/job_spec.hpp"
#include "launcher/nodes/core/node_board.hpp"
#include "launcher/nodes/core/node_words.hpp"
#include "launcher/nodes/core/remote_node.hpp"
#include "launcher/nodes/node_log.hpp"
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
#include <utility>
#include <vector>

namespace muster::launcher {

/// Nodes are places in JobSpec::nodes. Used from the executor's one thread. No callback runs inside a call of
/// this class. Create with std::make_shared, and close().
class NodeFleet : public std::enable_shared_from_this<NodeFleet> {
 public:
  struct Events {
    std::function<void(std::size_t node, agent::NodeReport)> report;
    /// Called when a node has opened a channel (agent/core/link_message.hpp says for what). An exception from
    /// it is the node's fault. Never empty.
    std::function<void(std::size_t node, std::string_view what, std::shared_ptr<rendezvous::Channel>)> opened;
    /// Called with the answer to a question. An exception from it is the node's fault.
    std::function<void(std::size_t node, std::int64_t number, agent::NodeStatus)> answer;
    /// Called with the verdict on a hang that a node was told, and with an event that it tells, as they stand
    /// in the message. Never empty. An exception from it is the node's fault.
    std::function<void(std::size_t node, const agent::LinkMessage&)> told;
    /// Called when the broken connection to a node goes on over relay(). Never empty.
    std::function<void(std::size_t node)> back;
    /// Called when the coordinator listens.
    std::function<void(const agent::LinkEndpoint&)> listening;
    /// Returns a way to a node that does not lead through its broken connection; null if there is none.
    std::function<std::unique_ptr<rendezvous::ByteStream>(std::size_t node)> relay;
    /// Returns whether relay() may find such a way soon.
    std::function<bool()> relay_comes;
    /// Called with a line for people about what the job waits for.
    std::function<void(const std::string&)> waiting;
    /// Called for a node that has not reported. No guardian is left there, as the host itself says, and no
    /// agent that will outlive it; or, `given_up`, nothing leads there any more.
    std::function<void(std::size_t node, const std::string& cause, bool given_up)> ended;
    /// Called when a node could not be started or was lost.
    std::function<void(std::size_t node)> without;
    /// Called at the first failure that ends the job, which is being stopped.
    std::function<void()> failed;
    /// Called once, when no node is left to wait for.
    std::function<void()> over;
  };

  /// The orders of a node: body of `key` and how many keys are in it, and the node's part of the job.
  struct Instructions {
    std::string keys;
    int key_count = 1;
    agent::AgentSpec spec;
  };

  using Instruct = std::function<Instructions(std::size_t node, const std::vector<agent::NodeHello>&)>;

  /// `local` are nodes of this host that were forked already. `starter` starts the others; both it and `job`
  /// must live as long as this.
  NodeFleet(const boost::asio::any_io_executor& executor, const JobSpec& job, NodeStarter& starter,
            std::map<std::size_t, StartedProcess> local, std::string version, Instruct instruct,
            Events events);
  NodeFleet(const NodeFleet&) = delete;
  NodeFleet& operator=(const NodeFleet&) = delete;

  /// Starts as many nodes as may be started now; the rest follows.
  void start();

  /// Closes every link and ends every client of ours; no callback follows.
  void close();

  /// Ends the job in an orderly way; signal and order are for the workers. A grace period of its own is in
  /// place of --shutdown-timeout from now on.
  void stop(int signal, const agent::StopOrder& order);

  /// Ends the job without grace.
  void kill() {
    obey(board_.kill());
    advance();
  }

  /// Closes every link and ends every client of ours.
  void cut_all();

  /// Sends a message to every node that has its part of the job.
  void tell_all(agent::LinkMessage::Kind kind, int number = 0) {
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (board_.node(i).instructed()) tell(i, kind, number);
  }

  /// Asks a node that has its part of the job what it does; Events::answer follows, if it answers.
  void ask(std::size_t node, std::int64_t number, std::string query) {
    tell(node, agent::LinkMessage::Kind::query, number, std::move(query));
  }

  /// Whether the fleet has started this process and will reap it.
  bool waits_for(pid_t child) const;
  /// Tells every node that the launcher lives, and sees whether what leads there does. Call now and then.
  void show_life();

  /// Opens a channel to the worker of that node that reads our stdin; null if nothing leads to the node now.
  std::shared_ptr<rendezvous::Channel> open_stdin(std::size_t node);

  /// Takes the coordinator's word that this node is dead: if it does not report soon, it is lost for this
  /// reason. `goes_on` says that the job may do so, and then there is more time for that report.
  void expect_nothing_of(const std::string& node, const NodeLoss& loss, bool goes_on);

  const NodeBoard& board() const { return board_; }

 private:
  using Clock = std::chrono::steady_clock;
  using TimePoint = Clock::time_point;

  static constexpr std::chrono::seconds kSayWaitingAfter{3};
  static constexpr std::chrono::seconds kSayWaitingEvery{10};

  /// What we hold for a node; its life is on the board.
  struct Node {
    std::unique_ptr<NodeConnection> connection;
    std::optional<agent::LauncherLink> link;
  };

  void start_node(std::size_t index);
  void greeted(std::size_t index, const std::string& there, LinkEnds ends);
  void start_failed(std::size_t index, const StartFailure& failure);
  void open_link(std::size_t index, LinkEnds ends);
  void opened(std::size_t index, std::string_view what, std::shared_ptr<rendezvous::Channel> channel);
  void send_spec(std::size_t index);
  void message(std::size_t index, agent::LinkMessage message);
  void say_status(const std::string& text);
  void take_report(std::size_t index, agent::NodeReport report);
  void said(std::size_t index, const std::string& line);
  void tell(std::size_t index, agent::LinkMessage::Kind kind, std::int64_t number, std::string body = {});
  void link_closed(std::size_t index);
  /// Cuts off a node that sent what no muster sends.
  void misbehaved(std::size_t index, const std::string& what);
  void process_ended(std::size_t index, const StartEnd& end);
  void not_started(std::size_t index, const StartEnd& end);
  /// Does what follows from the failure of a node, and says that the job goes on, if it does.
  void without(std::size_t index, const NodeBoard::Orders& orders);
  /// Moves the link of a node whose agent may live to a way through the coordinator, if there is one.
  void seek_way(std::size_t index);
  /// Does what follows for a node whose client and link have ended.
  void conclude(std::size_t index);
  void perform(std::size_t index, RemoteNode::Action action);
  void cut(std::size_t index);
  void obey(const NodeBoard::Orders& orders);

  void advance();
  void tell_later(std::function<void()> Events::*event);
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
  NodeLog log_;
  std::map<std::size_t, StartedProcess> forked_;
  std::vector<Node> nodes_;
  std::vector<agent::NodeHello> hellos_;
  agent::LinkEndpoint endpoint_;
  TimePoint say_waiting_at_;
  std::optional<TimePoint> say_status_at_;
  int stop_signal_ = SIGTERM;
  agent::StopOrder stop_order_;
  /// Whether everything is being cut.
  bool in_a_hurry_ = false;
  bool failure_said_ = false;
  bool over_said_ = false;
};

}  // namespace muster::launcher
