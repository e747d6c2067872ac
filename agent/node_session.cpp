// SPDX-License-Identifier: Apache-2.0
#include "agent/node_session.hpp"

#include "agent/core/exit_status.hpp"
#include "agent/node_processes.hpp"
#include "agent/process/job_mark.hpp"
#include "agent/process/log_directory.hpp"
#include "agent/process/process_tree.hpp"
#include "agent/process/signal_state.hpp"
#include "agent/process/worker_binding.hpp"
#include "rendezvous/base/allowance.hpp"
#include "rendezvous/base/exit_code.hpp"
#include "rendezvous/base/wake_up.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/net/address.hpp"
#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/server/descriptor_limit.hpp"

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/io_context.hpp>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <system_error>
#include <utility>

namespace muster::agent {

namespace asio = boost::asio;
using asio::awaitable;
using Clock = std::chrono::steady_clock;

namespace {

constexpr std::chrono::seconds kLeaveDeadline{10};
/// Longest time for which output is read after the workers have ended, since a grandchild may hold a stream.
constexpr std::chrono::milliseconds kDrainAtMost{1500};
constexpr std::chrono::milliseconds kFlushWhenKilled{50};
/// Longest wait, beyond the grace period, for the verdict on a stopped job, whose other nodes must end, too.
constexpr std::chrono::seconds kVerdictAfterStop{10};

rendezvous::RoundOutcome outcome_for_coordinator(RoundOutcome outcome) {
  return outcome == RoundOutcome::succeeded ? rendezvous::RoundOutcome::succeeded
         : outcome == RoundOutcome::failed  ? rendezvous::RoundOutcome::failed
                                            : rendezvous::RoundOutcome::stopped;
}

}  // namespace

NodeSession::NodeSession(const asio::any_io_executor& executor, const NodeAgentOptions& options)
    : executor_(executor),
      options_(options),
      spec_(options_.node.spec),
      inherited_(process_environment()),
      guardian_(executor, options.guardian_pidfd, alone() ? "" : " of " + name_in_texts()),
      end_signals_(executor),
      notices_(executor,
               [this](int signal) {
                 if (runner_) return runner_->pass_notice_on(signal);
                 log_warning("no worker runs on " + spec_.host + "; nobody got " + signal_name(signal));
               }),
      progress_timer_(executor),
      lifeline_timer_(executor),
      silence_timer_(executor),
      wait_notice_(executor),
      coordinator_known_(executor),
      round_over_(executor),
      verdict_(executor),
      done_(executor),
      room_(executor),
      report_settled_(executor) {
  if (alone()) spec_.node.name = spec_.host;
}

awaitable<void> NodeSession::run() {
  for (const int signal : stop_signals_of_agent(options_.node.signals)) end_signals_.add(signal);
  watch_signals();
  guardian_.start([this] {
    fail("the guardian process of " + spec_.host + " was killed");
    // The way to the launcher (an SSH session, say) ends with the guardian. A report on it might arrive while
    // its acknowledgement is lost.
    if (started()) link_->drop("the guardian is gone");
  });
  open_link();
  const NodeReport report = co_await run_job();
  co_await send_report(report);
  life_.end();
  tidy_logs(report);
  proxy_.reset();
  coordinator_.reset();
  guardian_.cancel();
  guardian_.let_go_on();
  end_signals_.cancel();
  notices_.cancel();
  progress_timer_.cancel();
  lifeline_timer_.cancel();
  set_log_handler(nullptr);
  silence_timer_.cancel();
  link_->close();
}

awaitable<NodeReport> NodeSession::run_job() {
  NodeReport report;
  report.host = spec_.host;
  if (!alone()) report.node = spec_.node.name;
  report.max_restarts = spec_.max_restarts;
  bool again = prepare();
  if (again) again = co_await connect();
  while (again && life_.goes_on()) again = co_await run_round(report) == Next::join;
  life_.report();
  settle(report);
  report.decisions = decisions_;
  if (output_) {
    co_await finish_output();
    report.notes = output_->notes();
    if (runner_ && !runner_->memory_note().empty()) report.notes.push_back(runner_->memory_note());
    if (spec_.output.gather_logs && link_console_ && launcher_ != Launcher::gone) co_await gather_logs();
  }
  co_return report;
}

/// Removes this node's temporary log directory: after success altogether, since the launcher does so on its
/// own host only, else if it holds no file. In place of an agent that is gone the guardian does the latter.
void NodeSession::tidy_logs(const NodeReport& report) const {
  const OutputSpec& output = spec_.output;
  if (!started() || !output.log_dir_is_temporary || output.log_dir.empty()) return;
  std::error_code ignored;
  if (report_taken_ && report.outcome == NodeOutcome::succeeded && report.ended_by.node.empty())
    std::filesystem::remove_all(output.log_dir, ignored);
  remove_empty_log_directory(output.log_dir);
}

/// Limits the OpenMP threads of a single worker to the CPU quota: OpenMP starts a thread for each processor
/// and sees no quota, so all threads would be held up together, again and again. Several workers get one
/// thread each from the launcher.
void NodeSession::apply_quota() {
  const std::string name = "OMP_NUM_THREADS";
  if (spec_.workers != 1 || find_variable(inherited_, name) || find_variable(spec_.environment, name)) return;
  const Allowance allowance = read_allowance();
  if (!allowance.quota_decides()) return;
  inherited_.emplace_back(name, std::to_string(allowance.processors));
  log_info(name + "=" + std::to_string(allowance.processors) + " for the worker, as the quota of cgroup '" +
           allowance.quota_group + "' leaves no more of " + std::to_string(allowance.affinity) +
           " processors");
}

/// Does what can fail before anybody counts on this node. Returns whether all is well.
bool NodeSession::prepare() {
  set_log_role(alone() ? "agent" : "agent " + name_in_texts());
  if (!alone()) {
    std::erase_if(inherited_, [](const auto& entry) {
      return entry.first == kJobMarkVariable || entry.first == "MUSTER_LOCAL_ADDR";
    });
    inherited_.emplace_back(kJobMarkVariable, job_mark());
  }
  apply_quota();
  const std::string& directory = spec_.working_directory;
  if (!directory.empty() && ::chdir(directory.c_str()) != 0) {
    fail("cannot start workers in " + directory + " on " + spec_.host + ": " +
         std::generic_category().message(errno) +
         "; make that directory there, or name another one with --wdir");
    return false;
  }
  if (started() && !spec_.output.log_dir.empty()) {
    spec_.output.log_dir = node_log_directory(spec_.output.log_dir, spec_.node.name);
    make_directory_path(spec_.output.log_dir);
  }
  // Reading the machine's topology may take long; at this point nobody waits for the node yet.
  binding_ = plan_worker_binding(spec_);
  OutputNames names;
  names.role = spec_.role;
  names.host = spec_.host;
  StandardStreams streams;
  if (link_console_)
    streams.remote = [this](int stream, std::shared_ptr<WakeUp> wake_up) {
      return link_console_->make_sink(std::string(stream == 2 ? kStderrChannel : kStdoutChannel),
                                      [wake_up = std::move(wake_up)] { wake_up->signal(); });
    };
  output_ = std::make_shared<WorkerOutput>(executor_, spec_.output, std::move(names), spec_.workers,
                                           std::move(streams));
  return true;
}

awaitable<bool> NodeSession::connect() {
  const auto deadline = Clock::now() + spec_.join_timeout;
  if (options_.control_fd < 0 && spec_.node.coordinator_host.empty()) {
    co_await coordinator_known_.wait_for(spec_.join_timeout);
    if (life_.goes_on() && spec_.node.coordinator_host.empty())
      fail("the launcher did not say where the coordinator is; is node 0 reachable?");
    if (!life_.goes_on()) co_return false;
  }
  if (options_.control_fd >= 0) {
    coordinator_.emplace(executor_, options_.control_fd, client_options(), client_events());
  } else {
    rendezvous::Connector connector = [this](rendezvous::TimePoint limit) { return dial(limit); };
    if (!started()) wait_notice_.update(waiting_text() + "connecting" + port_trouble_text());
    coordinator_.emplace(executor_, std::move(connector), deadline, client_options(), client_events());
  }
  // A job on one host has nothing to wait for: join() begins with the hello.
  if (alone()) co_return life_.goes_on();
  life_.dial();
  try {
    co_await coordinator_->connected(deadline);
    if (spec_.node.store_proxy) proxy_.emplace(executor_, *coordinator_);
  } catch (const std::exception& error) {
    const auto* known = dynamic_cast<const rendezvous::CoordinatorError*>(&error);
    // The error of a wait that timed out does not say why the attempts before it failed.
    const bool in_vain =
        known != nullptr && known->code() == rendezvous::Errc::deadline && !last_trouble_.empty();
    const std::string before = in_vain ? " (the attempt before: " + last_trouble_ + ")" : "";
    if (life_.goes_on())
      fail("no connection to the coordinator (" + coordinator_text() + "): " + error.what() + before);
  }
  wait_notice_.end();
  co_return life_.goes_on();
}

/// Goes through one round, from joining to leaving, and describes it in `report`.
awaitable<NodeSession::Next> NodeSession::run_round(NodeReport& report) {
  ended_.reset();
  const auto place = co_await join();
  if (!place) {
    // The job was stopped between two rounds: a restart was about to make the last failure good, so that
    // failure is no root cause.
    report.outcome = NodeOutcome::stopped;
    report.workers.clear();
    report.calls.clear();
    co_return Next::end;
  }
  place_ = *place;
  start_workers(*place);
  co_await round_over_.wait();
  guardian_.let_go_on();
  done_.reset();
  output_->drain(life_.killed() ? kFlushWhenKilled : kDrainAtMost, [this] { done_.set(); });
  co_await done_.wait();
  report.round = place->round;
  report.node_rank = place->node_rank;
  report.restarts = place->restarts;
  report.workers = runner_->reports();
  report.calls = runner_->calls();
  report.leftovers = runner_->leftovers();
  const RoundOutcome outcome = runner_->outcome();
  if (const std::string text = runner_->unkillable(); !text.empty())
    fail("these processes" + (alone() ? "" : " on " + spec_.host) +
         " survived SIGKILL (uninterruptible sleep?): " + text);
  report.outcome = outcome == RoundOutcome::succeeded ? NodeOutcome::succeeded
                   : outcome == RoundOutcome::failed  ? NodeOutcome::failed
                                                      : NodeOutcome::stopped;
  co_return co_await leave(*place, report);
}

awaitable<std::optional<rendezvous::RoundResult>> NodeSession::join() {
  rendezvous::Join request;
  request.host = spec_.host;
  request.address = own_address();
  request.workers = spec_.workers;
  request.node_rank = spec_.node.node_rank;
  if (!alone() && !started()) request.settings = as_peer().settings;
  // On a host with several networks the workers may reach the store from another address than the one that
  // the connection to the coordinator uses.
  if (!alone()) request.addresses = rendezvous::local_addresses();
  request.addresses.resize(std::min(request.addresses.size(), rendezvous::kMaxAddresses));
  // The coordinator keeps the deadline; this one only guards against a coordinator that does not.
  const auto deadline = Clock::now() + rendezvous::kMaxRestartDelay + spec_.join_timeout +
                        spec_.last_call_timeout + kLeaveDeadline;
  std::optional<rendezvous::RoundResult> place;
  life_.join();
  try {
    place = co_await coordinator_->join(std::move(request), deadline);
  } catch (const std::exception& error) {
    if (life_.goes_on() && !closed_) fail(error.what());
  }
  wait_notice_.end();
  if (!life_.goes_on()) place.reset();
  co_return place;
}

/// Returns the address at which other nodes reach this one: on the coordinator's node, the coordinator's.
std::string NodeSession::own_address() const {
  if (alone()) return spec_.store.host;
  if (!spec_.node.local_addr.empty()) return spec_.node.local_addr;
  return options_.control_fd >= 0 ? spec_.node.coordinator_host : coordinator_->local_address();
}

void NodeSession::start_workers(rendezvous::RoundResult place) {
  Environment inherited = inherited_;
  if (!alone()) inherited.emplace_back("MUSTER_LOCAL_ADDR", own_address());
  if (proxy_) {
    place.store_host = "127.0.0.1";
    place.store_port = proxy_->port();
  }
  round_over_.reset();
  RoundRunner::Events events;
  events.over = [this] { round_over_.set(); };
  events.failed = [this](const rendezvous::FailRound& failure) { coordinator_->fail_round(failure); };
  if (spec_.stdin_rank >= 0)
    events.standard_input = [this](int local_rank) { return standard_input(local_rank); };
  runner_.emplace(executor_, spec_, *output_, options_.node.signals, binding_, std::move(events));
  life_.run();
  runner_->start(place, place.restarts, inherited);
  if (input_) input_->started();
  if (life_.killed())
    runner_->kill();
  else if (ended_)
    runner_->stop(SIGTERM);
}

awaitable<NodeSession::Next> NodeSession::leave(const rendezvous::RoundResult& place,
                                                const NodeReport& report) {
  life_.leave();
  if (proxy_) proxy_->cut();
  rendezvous::LeaveRound request;
  request.round = place.round;
  request.outcome = outcome_for_coordinator(runner_->outcome());
  const rendezvous::FailRound& failure = runner_->first_failure();
  if (!failure.text.empty()) {
    request.exit_code = failure.exit_code;
    request.text = failure.text;
  } else if (!error_.empty()) {
    request.exit_code = kExitLauncherFailure;
    request.text = error_;
  } else if (!life_.goes_on()) {
    request.exit_code = kExitSignalBase + life_.stop_signal();
    request.text = told_.empty() ? spec_.host + " was told to stop" : told_;
  }
  rendezvous::Left left;
  left.next = rendezvous::NextStep::end;
  try {
    const auto deadline = Clock::now() + kLeaveDeadline;
    left = co_await coordinator_->leave_round(std::move(request), deadline);
  } catch (const std::exception& error) {
    if (report.outcome != NodeOutcome::succeeded && life_.goes_on() && !closed_)
      fail(std::string("cannot end the round: ") + error.what());
    co_return Next::end;
  }
  // If the only node has succeeded, the job has.
  if (left.next == rendezvous::NextStep::wait && alone()) co_return Next::end;
  if (left.next == rendezvous::NextStep::wait) co_return co_await await_verdict();
  const rendezvous::RoundEnd end = ended_.value_or(own_end(left));
  note_decision(end);
  if (left.next == rendezvous::NextStep::end || !life_.goes_on()) co_return Next::end;
  say_restart(end);
  co_return Next::join;
}

/// Waits for the coordinator's verdict: this node's workers have succeeded, those of other nodes still work.
awaitable<NodeSession::Next> NodeSession::await_verdict() {
  verdict_.reset();
  while (!closed_ && life_.phase() == NodeLife::waiting && life_.goes_on()) {
    verdict_.reset();
    co_await verdict_.wait();
  }
  // The other nodes have been told to stop, too: how the job ended is known when all have stopped.
  if (!life_.goes_on() && error_.empty() && !closed_ && !life_.killed()) {
    verdict_.reset();
    co_await verdict_.wait_for(spec_.shutdown_timeout + kVerdictAfterStop);
  }
  co_return life_.phase() == NodeLife::recalled&& life_.goes_on() ? Next::join : Next::end;
}

/// Whether neither another node's report nor a worker of this node says why the job ended: there were too few
/// nodes, or it ended while this node's own failure was about to be made good by a restart.
bool NodeSession::names_no_other(const rendezvous::JobClosed& closed, const NodeReport& report) const {
  return closed.node.empty() || (closed.node == spec_.node.name && report.outcome == NodeOutcome::stopped);
}

void NodeSession::settle(NodeReport& report) const {
  if (!error_.empty()) {
    report.outcome = NodeOutcome::agent_error;
    report.error = error_;
    return;
  }
  if (!life_.goes_on()) {
    if (report.outcome != NodeOutcome::failed)
      report.outcome = runner_ && runner_->outcome() == RoundOutcome::succeeded ? NodeOutcome::succeeded
                                                                                : NodeOutcome::stopped;
    if (report.outcome == NodeOutcome::stopped && !told_.empty()) report.error = told_ + kHowToEndAJob;
    return;
  }
  if (ended_ && ended_->node != spec_.node.name) {
    report.ended_by =
        EndedBy{ended_->node, ended_->host, ended_->rank, ended_->exit_code, cause_text(*ended_)};
  } else if (closed_ && !closed_->succeeded && names_no_other(*closed_, report)) {
    report.outcome = NodeOutcome::agent_error;
    report.error = closed_->reason;
    report.error_is_verdict = true;
  } else if (closed_ && !closed_->succeeded && closed_->node != spec_.node.name) {
    report.ended_by =
        EndedBy{closed_->node, closed_->host, closed_->rank, closed_->exit_code, closed_->reason};
  }
}

void NodeSession::stop(int signal) {
  coordinator_known_.set();
  verdict_.set();
  switch (life_.stop(signal)) {
    case StopBy::nothing:
      break;
    case StopBy::hanging_up:
      coordinator_->close();
      break;
    case StopBy::the_workers:
      runner_->stop(signal);
      break;
  }
}

/// Outside a round, a node that a launcher elsewhere started reports the signal as its failure: the
/// coordinator would only see one node fewer. A launcher of this node alone may have got the signal, too, and
/// says so.
void NodeSession::told_to_stop(int received) {
  const StopSignal told = stop_signal(received);
  if (life_.goes_on()) {
    told_ = describe(told, name_in_texts());
    if (started() && life_.in_no_round()) return fail(told_ + kHowToEndAJob);
  }
  stop(told.number);
}

void NodeSession::fail(const std::string& text) {
  if (error_.empty()) error_ = text;
  stop(SIGTERM);
}

int run_node_agent(const NodeAgentOptions& options) {
  ::prctl(PR_SET_NAME, "muster:agent");
  ignore_signals_of_others();
  rendezvous::raise_descriptor_limit();
  become_subreaper();
  asio::io_context context(1);
  NodeSession session(context.get_executor(), options);
  std::exception_ptr failure;
  asio::co_spawn(context, session.run(), [&](std::exception_ptr error) {
    failure = error;
    context.stop();  // nothing that is still pending matters any more
  });
  context.run();
  if (failure) std::rethrow_exception(failure);
  return session.exit_code();
}

}  // namespace muster::agent
