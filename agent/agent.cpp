// SPDX-License-Identifier: Apache-2.0
#include "agent/agent.hpp"

#include "agent/core/agent_spec.hpp"
#include "agent/core/node_report.hpp"
#include "agent/event.hpp"
#include "agent/guardian_watch.hpp"
#include "agent/launcher_link.hpp"
#include "agent/process/process_tree.hpp"
#include "agent/process/stop_signal.hpp"
#include "agent/process/worker_binding.hpp"
#include "agent/process_environment.hpp"
#include "agent/round_runner.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/client/coordinator_client.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/protocol/errc.hpp"
#include "rendezvous/server/descriptor_limit.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstring>
#include <exception>
#include <optional>
#include <string>

namespace muster::agent {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;
using asio::awaitable;

constexpr std::chrono::seconds kSpecDeadline{30};
constexpr std::chrono::seconds kLeaveDeadline{10};
/// After the workers have ended: for a grandchild that holds a stream, and for a console that is slow to
/// read.
constexpr std::chrono::milliseconds kDrainAtMost{1500};
constexpr std::chrono::milliseconds kFlushAtMost{5000};
/// After a second Ctrl-C everything has to be over within a second.
constexpr std::chrono::milliseconds kFlushWhenKilled{50};
constexpr std::chrono::seconds kReportDeadline{10};

class Agent {
 public:
  Agent(asio::io_context& context, const AgentOptions& options);

  awaitable<void> run();

  int exit_code() const { return launcher_lost_ ? 1 : 0; }

 private:
  void on_message(LinkMessage message);
  void on_launcher_lost(const std::string& reason);
  void watch_signals();
  /// An order to end, from wherever: passed to the round, or ends the wait for one.
  void stop(int signal);
  /// Something of ours failed: the job ends, and the report says why.
  void fail(const std::string& text);
  void connect_coordinator();
  awaitable<NodeReport> run_rounds();
  awaitable<bool> run_round(NodeReport& report);
  awaitable<rendezvous::RoundResult> join();
  awaitable<void> leave(const rendezvous::RoundResult& place, RoundOutcome outcome);
  void say_restart(const NodeReport& report) const;
  awaitable<void> send_report(NodeReport report);

  asio::any_io_executor executor_;
  AgentOptions options_;
  Environment inherited_;
  GuardianWatch guardian_;
  asio::signal_set end_signals_;
  Event spec_received_;
  Event round_over_;
  Event done_;
  std::optional<LauncherLink> link_;
  std::optional<AgentSpec> spec_;
  std::optional<WorkerOutput> output_;
  std::optional<rendezvous::CoordinatorClient> coordinator_;
  BindingPlan binding_;
  std::optional<RoundRunner> runner_;
  /// The stdin of workers that may not read ours (--stdin).
  UniqueFd null_device_;
  std::string error_;
  /// Which of our processes was sent the signal, if it was not the launcher.
  std::string told_;
  int stop_signal_ = 0;
  bool kill_ = false;
  bool joining_ = false;
  /// Our part in the job is over; the coordinator may close it.
  bool leaving_ = false;
  bool launcher_lost_ = false;
  int restarts_ = 0;
};

Agent::Agent(asio::io_context& context, const AgentOptions& options)
    : executor_(context.get_executor()),
      options_(options),
      inherited_(process_environment()),
      guardian_(executor_, options.guardian_pidfd, ""),
      end_signals_(executor_),
      spec_received_(executor_),
      round_over_(executor_),
      done_(executor_) {}

awaitable<void> Agent::run() {
  for (const int signal : stop_signals_of_agent(options_.signals)) end_signals_.add(signal);
  watch_signals();
  guardian_.start(
      [this] { fail("the guardian process of " + (spec_ ? spec_->host : "this host") + " was killed"); });
  LauncherLink::Events events;
  events.message = [this](LinkMessage message) { on_message(std::move(message)); };
  events.closed = [this](const std::string& reason) { on_launcher_lost(reason); };
  link_.emplace(executor_, options_.link_fd, std::move(events));
  co_await spec_received_.wait_for(kSpecDeadline);
  if (spec_) {
    NodeReport report = co_await run_rounds();
    co_await send_report(std::move(report));
  }
  coordinator_.reset();
  guardian_.cancel();
  guardian_.let_go_on();
  end_signals_.cancel();
  link_->close();
}

void Agent::on_message(LinkMessage message) {
  switch (message.kind) {
    case LinkMessage::Kind::spec:
      spec_ = agent_spec_from_json(message.body);
      spec_received_.set();
      break;
    case LinkMessage::Kind::stop:
      stop(static_cast<int>(message.number));
      break;
    case LinkMessage::Kind::kill:
      kill_ = true;
      stop(SIGTERM);
      if (runner_) runner_->kill();
      break;
    case LinkMessage::Kind::resize:
      if (output_) output_->resize();
      if (runner_) runner_->signal_workers(SIGWINCH);
      break;
    default:
      break;  // nothing that a launcher on this host says to the only agent
  }
}

void Agent::on_launcher_lost(const std::string& reason) {
  launcher_lost_ = true;
  spec_received_.set();
  fail("the launcher is gone (" + reason + ")");
}

void Agent::watch_signals() {
  end_signals_.async_wait([this](const boost::system::error_code& error, int received) {
    if (error) return;
    const StopSignal told = stop_signal(received);
    if (stop_signal_ == 0) told_ = describe(told, spec_ ? spec_->host : "this host") + kHowToEndAJob;
    stop(told.number);
    watch_signals();
  });
}

void Agent::stop(int signal) {
  if (stop_signal_ == 0) stop_signal_ = signal;
  if (joining_)
    coordinator_->close();
  else if (runner_)
    runner_->stop(signal);
}

void Agent::fail(const std::string& text) {
  if (error_.empty()) error_ = text;
  stop(SIGTERM);
}

void Agent::connect_coordinator() {
  rendezvous::ClientOptions options;
  options.run_id = spec_->run_id;
  options.node = spec_->host;
  rendezvous::ClientEvents events;
  events.status = [](const rendezvous::Status& status) { log_info(status.text); };
  events.round_ended = [this](const rendezvous::RoundEnd& end) { fail(end.text); };
  events.job_closed = [this](const rendezvous::JobClosed& closed) {
    if (!leaving_) fail("the job was closed: " + closed.reason);
  };
  events.lost = [this](const std::string& reason) { fail("the store process was lost: " + reason); };
  coordinator_.emplace(executor_, options_.control_fd, std::move(options), std::move(events));
}

awaitable<NodeReport> Agent::run_rounds() {
  set_log_role("agent");
  OutputNames names;
  names.role = spec_->role;
  names.host = spec_->host;
  output_.emplace(executor_, spec_->output, std::move(names), spec_->workers);
  binding_ = plan_worker_binding(*spec_);
  connect_coordinator();
  NodeReport report;
  report.host = spec_->host;
  report.max_restarts = spec_->max_restarts;
  bool again = true;
  while (again && stop_signal_ == 0) again = co_await run_round(report);
  if (!error_.empty()) {
    report.outcome = NodeOutcome::agent_error;
    report.error = error_;
  } else if (stop_signal_ != 0 && report.outcome != NodeOutcome::failed) {
    report.outcome = runner_ && runner_->outcome() == RoundOutcome::succeeded ? NodeOutcome::succeeded
                                                                              : NodeOutcome::stopped;
    // A launcher that was told as well has a better reason.
    if (report.outcome == NodeOutcome::stopped) report.error = told_;
  }
  done_.reset();
  output_->finish(kill_ ? kFlushWhenKilled : kFlushAtMost, [this] { done_.set(); });
  co_await done_.wait();
  report.notes = output_->notes();
  co_return report;
}

/// One round, from joining to leaving. Returns whether another follows; otherwise `report` describes this
/// one.
awaitable<bool> Agent::run_round(NodeReport& report) {
  rendezvous::RoundResult place;
  joining_ = true;
  try {
    place = co_await join();
    joining_ = false;
  } catch (const rendezvous::CoordinatorError& error) {
    joining_ = false;
    if (stop_signal_ == 0) fail(error.what());
  }
  if (stop_signal_ != 0) {
    // Stopped between rounds: what failed in the round before was about to be made good, and is no root
    // cause.
    report.outcome = NodeOutcome::stopped;
    report.workers.clear();
    report.calls.clear();
    co_return false;
  }
  round_over_.reset();
  RoundRunner::Events events;
  events.over = [this] { round_over_.set(); };
  if (spec_->stdin_rank >= 0)
    events.standard_input = [this, place](int local_rank) {
      if (place.first_rank + local_rank == spec_->stdin_rank) return -1;
      if (!null_device_) null_device_.reset(::open("/dev/null", O_RDWR | O_CLOEXEC));
      return null_device_.get();
    };
  runner_.emplace(executor_, *spec_, *output_, options_.signals, binding_, std::move(events));
  runner_->start(place, restarts_, inherited_);
  if (kill_) runner_->kill();
  co_await round_over_.wait();
  guardian_.let_go_on();
  done_.reset();
  output_->drain(kill_ ? kFlushWhenKilled : kDrainAtMost, [this] { done_.set(); });
  co_await done_.wait();

  report.round = place.round;
  report.node_rank = place.node_rank;
  report.restarts = restarts_;
  report.workers = runner_->reports();
  report.calls = runner_->calls();
  report.leftovers = runner_->leftovers();
  const RoundOutcome outcome = runner_->outcome();
  if (const std::string text = runner_->unkillable(); !text.empty())
    fail("these processes survived SIGKILL (uninterruptible sleep?): " + text);
  co_await leave(place, outcome);
  report.outcome = outcome == RoundOutcome::succeeded ? NodeOutcome::succeeded
                   : outcome == RoundOutcome::failed  ? NodeOutcome::failed
                                                      : NodeOutcome::stopped;
  if (stop_signal_ != 0 || !may_restart(outcome, restarts_, spec_->max_restarts)) co_return false;
  ++restarts_;
  say_restart(report);
  co_return true;
}

awaitable<rendezvous::RoundResult> Agent::join() {
  rendezvous::Join request;
  request.host = spec_->host;
  request.address = spec_->store.host;
  request.workers = spec_->workers;
  // The coordinator keeps the time; ours only guards against a coordinator that does not.
  const auto deadline = Clock::now() + spec_->join_timeout + spec_->last_call_timeout + kLeaveDeadline;
  co_return co_await coordinator_->join(std::move(request), deadline);
}

awaitable<void> Agent::leave(const rendezvous::RoundResult& place, RoundOutcome outcome) {
  const auto told = outcome == RoundOutcome::succeeded ? rendezvous::RoundOutcome::succeeded
                    : outcome == RoundOutcome::failed  ? rendezvous::RoundOutcome::failed
                                                       : rendezvous::RoundOutcome::stopped;
  leaving_ = stop_signal_ != 0 || !may_restart(outcome, restarts_, spec_->max_restarts);
  try {
    const auto deadline = Clock::now() + kLeaveDeadline;
    rendezvous::LeaveRound request;
    request.round = place.round;
    request.outcome = told;
    co_await coordinator_->leave_round(request, deadline);
  } catch (const rendezvous::CoordinatorError& error) {
    if (error_.empty() && outcome != RoundOutcome::succeeded && stop_signal_ == 0)
      fail(std::string("cannot end the round: ") + error.what());
  }
}

void Agent::say_restart(const NodeReport& report) const {
  const WorkerReport* cause = nullptr;
  for (const WorkerReport& worker : report.workers) {
    const bool ours =
        worker.outcome == WorkerOutcome::stopped_by_us || worker.outcome == WorkerOutcome::succeeded;
    if (!ours && (cause == nullptr || worker.arrival < cause->arrival)) cause = &worker;
  }
  std::string text = "round " + std::to_string(report.round) + " failed";
  if (cause != nullptr)
    text += ": rank " + std::to_string(cause->rank) + " on " + cause->host + " (" + describe(*cause) + ")";
  log_warning(text + "; restarting all workers (restart " + std::to_string(restarts_) + " of " +
              std::to_string(spec_->max_restarts) + ")");
}

awaitable<void> Agent::send_report(NodeReport report) {
  LinkMessage message;
  message.kind = LinkMessage::Kind::report;
  message.body = to_json(report);
  done_.reset();
  link_->send(message, [this] { done_.set(); });
  co_await done_.wait_for(kReportDeadline);
}

}  // namespace

int run_agent(const AgentOptions& options) {
  ::prctl(PR_SET_NAME, "muster:agent");
  ignore_write_signals();
  rendezvous::raise_descriptor_limit();
  become_subreaper();
  asio::io_context context(1);
  Agent agent(context, options);
  std::exception_ptr failure;
  asio::co_spawn(context, agent.run(), [&](std::exception_ptr error) {
    failure = error;
    context.stop();  // nothing that is still pending matters any more
  });
  context.run();
  if (failure) std::rethrow_exception(failure);
  return agent.exit_code();
}

}  // namespace muster::agent
