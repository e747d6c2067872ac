// SPDX-License-Identifier: Apache-2.0
// What stands behind NodeFleet. Included by its implementation only.
#pragma once

#include "agent/launcher_link.hpp"
#include "launcher/core/job_orders.hpp"
#include "launcher/core/job_spec.hpp"
#include "launcher/nodes/core/node_board.hpp"
#include "launcher/nodes/core/node_contact.hpp"
#include "launcher/nodes/core/node_words.hpp"
#include "launcher/nodes/node_fleet.hpp"
#include "launcher/start/core/start_queue.hpp"
#include "launcher/start/node_connection.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <signal.h>

#include <optional>

namespace muster::launcher {

struct NodeFleet::State : std::enable_shared_from_this<State> {
  using Clock = std::chrono::steady_clock;
  using TimePoint = Clock::time_point;

  static constexpr std::chrono::seconds kSayWaitingAfter{3};
  static constexpr std::chrono::seconds kSayWaitingEvery{10};
  static constexpr std::chrono::seconds kSaidAtTheEnd{2};

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
    std::optional<TimePoint> gone_by;
  };

  State(boost::asio::any_io_executor fleet_executor, const JobSpec& fleet_job, NodeStarter& fleet_starter,
        std::string fleet_version, Instruct fleet_instruct, Events fleet_events);

  void start(std::map<std::size_t, StartedProcess> local);
  void start_node(std::size_t index);
  void greeted(std::size_t index, const std::string& there, LinkEnds ends);
  void pushed(std::size_t index, std::uint64_t bytes, std::uint64_t of);
  void start_failed(std::size_t index, const StartFailure& failure);
  void open_link(std::size_t index, LinkEnds ends);
  void opening_message(std::size_t index, const agent::LinkMessage& message);
  void send_spec(std::size_t index);
  void message(std::size_t index, agent::LinkMessage message);
  void say_status(const std::string& text);
  void take_report(std::size_t index, agent::NodeReport report);
  void said(std::size_t index, const std::string& line);
  void tell(std::size_t index, agent::LinkMessage::Kind kind, std::int64_t number, std::string body = {});
  /// Every node that has its part of the job.
  void tell_all(agent::LinkMessage::Kind kind);
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

  std::chrono::milliseconds late_limit() const {
    return job.agent.shutdown_timeout + JobOrders::kReportLateAfter;
  }

  /// Longest time between a node's report and the end of the process that leads there.
  std::chrono::milliseconds guardian_limit(std::size_t index) const;
  void cut(std::size_t index);
  void obey(const NodeBoard::Orders& orders);

  void advance();
  void give_up_late(TimePoint now);
  void say_waiting(TimePoint now);
  void arm(TimePoint now);

  boost::asio::any_io_executor executor;
  const JobSpec& job;
  NodeStarter& starter;
  std::string version;
  Instruct instruct;
  Events events;
  NodeBoard board;
  std::optional<StartQueue> queue;
  boost::asio::steady_timer timer;
  std::map<std::size_t, StartedProcess> forked;
  std::vector<Node> nodes;
  std::vector<agent::NodeHello> hellos;
  agent::LinkEndpoint endpoint;
  TimePoint started_at;
  TimePoint say_waiting_at;
  std::optional<TimePoint> say_status_at;
  int stop_signal = SIGTERM;
  /// Everything is being cut.
  bool in_a_hurry = false;
  bool failure_said = false;
  bool over_said = false;
};

}  // namespace muster::launcher
