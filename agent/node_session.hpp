// SPDX-License-Identifier: Apache-2.0
// What stands behind run_node_agent(). Included by its implementation only.
#pragma once

#include "agent/core/node_life.hpp"
#include "agent/core/node_report.hpp"
#include "agent/guardian_watch.hpp"
#include "agent/launcher_link.hpp"
#include "agent/node_processes.hpp"
#include "agent/notice_relay.hpp"
#include "agent/process/input_feeder.hpp"
#include "agent/process/output/link_console.hpp"
#include "agent/process/vouch.hpp"
#include "agent/round_runner.hpp"
#include "agent/store_proxy.hpp"
#include "agent/wait_notice.hpp"
#include "rendezvous/client/coordinator_client.hpp"
#include "rendezvous/tls/peer_identity.hpp"
#include "rendezvous/wire/event.hpp"

#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace muster::agent {

/// One node's part in a job, from the first connection to the report. One thread, the executor's.
class NodeSession {
 public:
  NodeSession(const boost::asio::any_io_executor& executor, const NodeAgentOptions& options);
  NodeSession(const NodeSession&) = delete;
  NodeSession& operator=(const NodeSession&) = delete;

  boost::asio::awaitable<void> run();

  int exit_code() const { return launcher_ == Launcher::gone ? 1 : 0; }

 private:
  /// What this node does after a round that it has left.
  enum class Next { join, end };

  /// What is known of the launcher.
  enum class Launcher {
    linked,  ///< its link works, or nobody has noticed that it does not
    sought,  ///< its link is cut, and the coordinator is asked whether it lives
    gone,
  };

  // node_session.cpp: the rounds.
  boost::asio::awaitable<NodeReport> run_job();
  void apply_quota();
  bool prepare();
  boost::asio::awaitable<bool> connect();
  boost::asio::awaitable<Next> run_round(NodeReport& report);
  boost::asio::awaitable<std::optional<rendezvous::RoundResult>> join();
  void start_workers(rendezvous::RoundResult place);
  std::string own_address() const;
  boost::asio::awaitable<Next> leave(const rendezvous::RoundResult& place, const NodeReport& report);
  boost::asio::awaitable<Next> await_verdict();
  bool names_no_other(const rendezvous::JobClosed& closed, const NodeReport& report) const;
  void settle(NodeReport& report) const;
  void tidy_logs(const NodeReport& report) const;
  /// An order to end, from wherever.
  void stop(int signal);
  /// An order to end from somebody who is not of the job: a stop signal to this process or its guardian.
  void told_to_stop(int received);
  /// Something of ours failed: this node's part ends, and the report says why.
  void fail(const std::string& text);

  struct FailedDial {
    rendezvous::CoordinatorError error;
    rendezvous::TimePoint began;
    /// Something took the connection and did not answer as a coordinator does.
    bool no_answer = false;
    /// Nor did it hang up: it said nothing.
    bool silent = false;
    /// The name does not resolve,
    bool no_address = false;
    /// and a name server says that there is none.
    bool no_such_name = false;
  };

  // node_coordinator.cpp: the coordinator's side.
  boost::asio::awaitable<std::unique_ptr<rendezvous::ByteStream>> dial(rendezvous::TimePoint deadline);
  std::string munge_credential(const rendezvous::PeerIdentity& identity, rendezvous::Secret& key) const;
  rendezvous::CoordinatorError judge_failed_dial(const FailedDial& dial);
  std::optional<rendezvous::CoordinatorError> hopeless(const FailedDial& dial);
  rendezvous::ClientOptions client_options() const;
  rendezvous::ClientEvents client_events();
  void on_round_ended(const rendezvous::RoundEnd& end);
  rendezvous::RoundEnd own_end(const rendezvous::Left& left) const;
  void note_decision(const rendezvous::RoundEnd& end);
  void say_restart(const rendezvous::RoundEnd& end);
  void on_job_closed(const rendezvous::JobClosed& closed);
  void on_vouch(const rendezvous::Vouch& question);
  std::string coordinator_text() const;
  std::string waiting_text() const;
  std::string port_trouble_text() const;
  std::string name_wait_text(bool no_such_name) const;

  // node_link.cpp: the launcher's side.
  void open_link();
  void on_message(LinkMessage message);
  void on_link_closed(const std::string& reason);
  void launcher_gone(const std::string& why);
  boost::asio::awaitable<void> watch_for_silence();
  boost::asio::awaitable<bool> coordinator_hears_launcher();
  void say_go_on() const;
  boost::asio::awaitable<void> ask_for_launcher();
  void tell(LinkMessage::Kind kind, std::int64_t number, std::string body);
  boost::asio::awaitable<void> send_report(const NodeReport& report);
  boost::asio::awaitable<void> finish_output();
  boost::asio::awaitable<void> gather_logs();
  boost::asio::awaitable<void> gather_file(std::string path, std::string name);
  int standard_input(int local_rank);
  void watch_progress();
  void watch_signals();

  /// Peers have names that are made of the host's, for the sake of machines.
  const std::string& name_in_texts() const { return started() ? spec_.node.name : spec_.host; }

  bool started() const { return spec_.node.started(); }

  bool alone() const { return spec_.node.alone(); }

  /// In the form `peer` only.
  const PeerNode& as_peer() const { return std::get<PeerNode>(spec_.node.form); }

  bool reported() const { return life_.phase() == NodeLife::over; }

  boost::asio::any_io_executor executor_;
  NodeAgentOptions options_;
  AgentSpec& spec_;
  Environment inherited_;
  BindingPlan binding_;
  GuardianWatch guardian_;
  boost::asio::signal_set end_signals_;
  NoticeRelay notices_;
  boost::asio::steady_timer progress_timer_;
  /// Runs while this node asks the coordinator whether the launcher lives.
  boost::asio::steady_timer lifeline_timer_;
  boost::asio::steady_timer silence_timer_;
  /// Form `peer`: tells people what this node waits for.
  WaitNotice wait_notice_;
  rendezvous::Event coordinator_known_;
  rendezvous::Event round_over_;
  rendezvous::Event verdict_;
  rendezvous::Event done_;
  rendezvous::Event room_;
  /// The launcher has the report, or will never have it.
  rendezvous::Event report_settled_;

  /// Of a node that was started from elsewhere.
  std::shared_ptr<LinkConsole> link_console_;
  std::optional<LauncherLink> link_;
  std::optional<InputFeeder> input_;
  std::shared_ptr<WorkerOutput> output_;
  std::optional<rendezvous::CoordinatorClient> coordinator_;
  std::optional<StoreProxy> proxy_;
  std::optional<RoundRunner> runner_;
  Voucher voucher_;
  /// Form `alone`: the stdin of workers that may not read ours (--stdin).
  UniqueFd null_device_;

  NodeLife life_;
  Launcher launcher_ = Launcher::linked;
  rendezvous::RoundResult place_;
  /// The end of the present round, if this node did not bring it about itself.
  std::optional<rendezvous::RoundEnd> ended_;
  /// Of the rounds so far, for the report.
  std::vector<RestartDecision> decisions_;
  std::optional<rendezvous::JobClosed> closed_;
  std::string error_;
  /// Says which of our processes was sent a stop signal, if it was not the launcher.
  std::string told_;
  /// Why the coordinator could not be dialled the last time.
  std::string last_trouble_;
  /// Since then every attempt to dial has failed in the same way, which waiting does not mend: what listens
  /// there says nothing, or there is no such name.
  std::optional<rendezvous::TimePoint> silent_since_;
  std::optional<rendezvous::TimePoint> no_such_name_since_;
  /// Our key is not the coordinator's: munge says who we are.
  bool by_munge_ = false;
  bool coordinator_lost_ = false;
  /// When the last message of the launcher came.
  std::chrono::steady_clock::time_point heard_at_ = std::chrono::steady_clock::now();
  /// The launcher has said that it has the report.
  bool report_taken_ = false;
  /// Bytes that the link's console had sent when it was last looked at.
  std::uint64_t progress_ = 0;
};

}  // namespace muster::agent
