// SPDX-License-Identifier: Apache-2.0
// The agent of one node: prepares what the workers need, connects to the coordinator, and then for each round
// joins, starts the workers, waits until none is left, and leaves. When no other round follows, it finishes
// the output and sends its report. Included only by the sources that implement run_node_agent().
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

/// One node's part in a job, from the first connection to the report. Used from the executor's one thread.
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
    linked,  ///< the launcher's link works, or nobody has noticed that it does not
    sought,  ///< the link is cut, and the coordinator is asked whether the launcher lives
    gone,
  };

  // The rounds are in node_session.cpp.
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
  /// Carries out an order to end, whoever gave it.
  void stop(int signal);
  /// Ends this node's part because somebody outside the job sent a stop signal to this process or its
  /// guardian.
  void told_to_stop(int received);
  /// Ends this node's part because something of ours failed; the report says why.
  void fail(const std::string& text);

  struct FailedDial {
    rendezvous::CoordinatorError error;
    rendezvous::TimePoint began;
    /// Whether something took the connection but did not answer as a coordinator does.
    bool no_answer = false;
    /// Whether what took the connection said nothing until the deadline, and did not hang up either.
    bool silent = false;
    /// Whether the coordinator's name has no address.
    bool no_address = false;
    /// Whether a name server says that there is no such name.
    bool no_such_name = false;
  };

  // What deals with the coordinator is in node_coordinator.cpp.
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

  // What deals with the launcher is in node_link.cpp.
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

  /// Returns what texts for people call this node: a peer is called by its host, since its name is made of
  /// the host's for the sake of machines.
  const std::string& name_in_texts() const { return started() ? spec_.node.name : spec_.host; }

  bool started() const { return spec_.node.started(); }

  bool alone() const { return spec_.node.alone(); }

  /// Returns the peer's part of the specification; valid in the form `peer` only.
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
  /// In the form `peer`, tells people what this node waits for.
  WaitNotice wait_notice_;
  rendezvous::Event coordinator_known_;
  rendezvous::Event round_over_;
  rendezvous::Event verdict_;
  rendezvous::Event done_;
  rendezvous::Event room_;
  /// Set when the launcher has the report, or will never have it.
  rendezvous::Event report_settled_;

  /// Carries the workers' output over the link, on a node that was started from elsewhere.
  std::shared_ptr<LinkConsole> link_console_;
  std::optional<LauncherLink> link_;
  std::optional<InputFeeder> input_;
  std::shared_ptr<WorkerOutput> output_;
  std::optional<rendezvous::CoordinatorClient> coordinator_;
  std::optional<StoreProxy> proxy_;
  std::optional<RoundRunner> runner_;
  Voucher voucher_;
  /// Stdin of the workers that may not read ours (--stdin), in the form `alone`.
  UniqueFd null_device_;

  NodeLife life_;
  Launcher launcher_ = Launcher::linked;
  rendezvous::RoundResult place_;
  /// The end of the present round, if this node did not bring it about itself.
  std::optional<rendezvous::RoundEnd> ended_;
  /// Decisions about restarts after the rounds so far, for the report.
  std::vector<RestartDecision> decisions_;
  std::optional<rendezvous::JobClosed> closed_;
  std::string error_;
  /// Says which of our processes was sent a stop signal, if it was not the launcher.
  std::string told_;
  /// Why the coordinator could not be dialled the last time.
  std::string last_trouble_;
  /// Time since when every attempt to dial has failed because what listens there says nothing, which waiting
  /// does not mend.
  std::optional<rendezvous::TimePoint> silent_since_;
  /// Time since when every attempt to dial has failed because there is no such name.
  std::optional<rendezvous::TimePoint> no_such_name_since_;
  /// Whether munge proves who we are, since our key is not the coordinator's.
  bool by_munge_ = false;
  bool coordinator_lost_ = false;
  /// Time at which the last message of the launcher came.
  std::chrono::steady_clock::time_point heard_at_ = std::chrono::steady_clock::now();
  /// Whether the launcher has said that it has the report.
  bool report_taken_ = false;
  /// Bytes that the link's console had sent when it was last looked at.
  std::uint64_t progress_ = 0;
};

}  // namespace muster::agent
