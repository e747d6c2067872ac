// SPDX-License-Identifier: Apache-2.0
// What stands behind run_node_agent() (node_agent.hpp): one node's part in a job, from the first connection
// to the report.
//
// The session dials the coordinator, joins a round, runs its workers, leaves the round, and does so again
// until no round follows; then the rest of the output and the report go to the launcher. Where it is,
// NodeLife says; what it came to, NodeVerdict. Orders to end come from the launcher (NodeLink), the
// coordinator, or by a signal.
#pragma once

#include "agent/coordinator_dial.hpp"
#include "agent/core/node_life.hpp"
#include "agent/core/node_report.hpp"
#include "agent/core/node_traits.hpp"
#include "agent/core/node_verdict.hpp"
#include "agent/guardian_watch.hpp"
#include "agent/job_health.hpp"
#include "agent/job_news.hpp"
#include "agent/node_inspection.hpp"
#include "agent/node_link.hpp"
#include "agent/node_options.hpp"
#include "agent/node_output.hpp"
#include "agent/notice_relay.hpp"
#include "agent/process/stop_file.hpp"
#include "agent/process/vouch.hpp"
#include "agent/round_runner.hpp"
#include "agent/store_proxy.hpp"
#include "agent/worker_setup.hpp"
#include "rendezvous/client/coordinator_client.hpp"
#include "rendezvous/wire/event.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/signal_set.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

namespace muster::agent {

/// One thread, the executor's.
class NodeSession {
 public:
  NodeSession(const boost::asio::any_io_executor& executor, const NodeAgentOptions& options);
  NodeSession(const NodeSession&) = delete;
  NodeSession& operator=(const NodeSession&) = delete;

  boost::asio::awaitable<void> run();

  int exit_code() const { return link_.launcher_is_gone() ? 1 : 0; }

 private:
  /// What this node does after a round that it has left.
  enum class Next { join, end };

  // The rounds, in the order of their steps.
  boost::asio::awaitable<NodeReport> run_job();
  bool prepare();
  boost::asio::awaitable<bool> connect();
  boost::asio::awaitable<Next> run_round(NodeReport& report);
  boost::asio::awaitable<std::optional<rendezvous::RoundResult>> join();
  void start_workers(rendezvous::RoundResult place);
  std::string own_address() const;
  boost::asio::awaitable<Next> leave(const NodeReport& report);
  boost::asio::awaitable<Next> await_verdict();

  // What ends them.
  NodeLink::Events link_events();
  void obey(LinkMessage message);
  void watch_signals();
  void stop(int signal, const StopOrder& order);
  void answer(std::int64_t number, const NodeQuery& query);
  void told_to_stop(int received);
  void fail(const std::string& text);

  // What the coordinator says unasked.
  rendezvous::ClientEvents client_events();
  void on_round_ended(const rendezvous::RoundEnd& end);
  void on_job_closed(const rendezvous::JobClosed& closed);
  void on_lost(const std::string& reason);

  boost::asio::any_io_executor executor_;
  NodeAgentOptions options_;
  AgentSpec& spec_;
  NodeTraits traits_;
  WorkerSetup setup_;
  NodeLife life_;
  NodeVerdict verdict_;
  NodeLink link_;
  NodeOutput output_;
  GuardianWatch guardian_;
  boost::asio::signal_set end_signals_;
  NoticeRelay notices_;
  CoordinatorDial dial_;
  JobNews news_;
  JobHealth health_;
  /// The launcher has said where the coordinator is, or the node is to end.
  rendezvous::Event coordinator_known_;
  rendezvous::Event round_over_;
  /// What a node waits for whose part of the round succeeded: a recall, the end of the job, or an order to
  /// end.
  rendezvous::Event verdict_came_;
  std::optional<rendezvous::CoordinatorClient> coordinator_;
  std::optional<StoreProxy> proxy_;
  StopFile stop_file_;
  std::optional<RoundRunner> runner_;
  NodeInspection inspection_{executor_};
  Voucher voucher_;
  rendezvous::RoundResult place_;
  bool coordinator_lost_ = false;
};

}  // namespace muster::agent
