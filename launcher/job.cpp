// SPDX-License-Identifier: Apache-2.0
// The steps of a job: run_job() forks the nodes of this host before there is an event loop. Job catches
// signals, starts the nodes, and carries out what JobOrders decides on each event. When no node is left to
// wait for, it ends what is still below this process; then finish_job() makes the report.
#include "launcher/job.hpp"

#include "agent/core/exit_status.hpp"
#include "agent/process/process_tree.hpp"
#include "launcher/console/console_process.hpp"
#include "launcher/core/job_orders.hpp"
#include "launcher/core/job_spec.hpp"
#include "launcher/exit_report/exit_report.hpp"
#include "launcher/exit_report/finish_job.hpp"
#include "launcher/exit_report/json.hpp"
#include "launcher/history/job_history.hpp"
#include "launcher/inspect/core/kill_order.hpp"
#include "launcher/inspect/end_waiters.hpp"
#include "launcher/inspect/ended_folder.hpp"
#include "launcher/inspect/job_inspection.hpp"
#include "launcher/metrics/metrics_export.hpp"
#include "launcher/nodes/job_nodes.hpp"
#include "launcher/peer/peer_node.hpp"
#include "launcher/start/core/ssh_command.hpp"
#include "launcher/start/local_node.hpp"
#include "launcher/start/node_starter.hpp"
#include "launcher/stop_watch.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/resident_memory.hpp"
#include "rendezvous/log/log.hpp"
#include "rendezvous/server/descriptor_limit.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

namespace muster::launcher {
namespace {

namespace asio = boost::asio;
using Error = boost::system::error_code;

constexpr int kKillLimitMs = 10'000;
constexpr std::size_t kNotesMost = 16;
/// Pause before orphans are reaped again: a child of ours that has ended is reaped by who started it, and
/// what has ended behind it can be reaped only then.
constexpr std::chrono::milliseconds kLookAgainAfter{100};

/// Ends what is left below this process, as the last of three nets: usually there is no child left but a
/// guardian. `not_ours` are children that this process had before. Spared with them is what our ssh left for
/// other uses, as the client of a jump host does by the user's configuration.
void end_descendants(const JobSpec& spec, const std::vector<pid_t>& not_ours) {
  constexpr std::size_t kCommandLineMax = 4096;
  std::vector<pid_t> spared = not_ours;
  if (spec.form == StartForm::ssh)
    for (const ProcessStat& process : agent::descendants_of(::getpid(), not_ours))
      if (is_shared_connection(
              read_file("/proc/" + std::to_string(process.pid) + "/cmdline", kCommandLineMax).value_or("")))
        spared.push_back(process.pid);
  agent::end_all_descendants(spared, kKillLimitMs);
}

/// Blocks the signals that a job handles; returns the mask as it was.
sigset_t block_signals(const JobSpec& spec) {
  sigset_t handled;
  sigset_t before;
  ::sigemptyset(&handled);
  for (const HandledSignal& signal : spec.signals) ::sigaddset(&handled, signal.number);
  for (const int number : spec.forwarded_signals) ::sigaddset(&handled, number);
  ::pthread_sigmask(SIG_BLOCK, &handled, &before);
  return before;
}

std::int64_t milliseconds_of(const timeval& time) {
  return std::int64_t{time.tv_sec} * 1000 + time.tv_usec / 1000;
}

/// Returns where a file is, seen from anywhere; the text as it is where that cannot be known.
std::string absolute(const std::string& path) {
  if (path.empty()) return path;
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(path, error);
  return error ? path : whole.string();
}

/// One job from start to report: it tells JobOrders what happens and carries out what JobOrders decides.
class Job {
 public:
  Job(asio::io_context& context, const JobSpec& spec, JobNodes& nodes, const std::vector<pid_t>& not_ours,
      const StopWatch& watch, MetricsSocket metrics)
      : context_(context),
        spec_(spec),
        nodes_(nodes),
        not_ours_(not_ours),
        watch_(watch),
        history_(spec.event_file, watch.began(), watch.began_at_ms()),
        metrics_socket_(std::move(metrics)) {}

  /// `unblocked` is the mask of signals with which the job runs.
  int run(const agent::SignalState& at_start, const sigset_t& unblocked) {
    catch_signals(at_start);  // before there is a client that a signal would leave behind
    ::pthread_sigmask(SIG_SETMASK, &unblocked, nullptr);
    watch_nodes();
    nodes_.start([this](JobNodes::Event event) {
      // The workers have ended: the folder goes while our own processes do, and not after them.
      if (event == &JobOrders::reported) inspection_.reset();
      perform((orders_.*event)());
    });
    watch_deadline();
    // Every fork of ours is behind us.
    inspection_.emplace(context_.get_executor(), spec_, nodes_, waiters_, control(),
                        [this] { return history_.shares(); });
    if (inspection_->is_seen()) card_ = inspection_->card();
    begin_history(inspection_->card());
    started_.expires_after(kStartTakes);
    started_.async_wait([](const Error& error) {
      if (!error) give_back_code();
    });
    context_.run();
    inspection_.reset();
    const int code = verdict();
    // The exit code is decided: a signal that comes while our handlers go must not put its own in its place.
    block_signals(spec_);
    return code;
  }

 private:
  void watch_nodes() {
    JobNodes::Watcher watcher;
    watcher.event = [this](const std::string& node, const auto& event) { history_.told(node, event); };
    watcher.lost = [this](const std::string& node, const std::string& cause, bool spared) {
      history_.node_lost(node, cause, spared);
    };
    watcher.back = [this](const std::string& node) { history_.node_back(node); };
    nodes_.watch(std::move(watcher));
  }

  void begin_history(const JobCard& card) {
    history_.begins({card.id, card.name}, {card.run_id, card.program, card.arguments, card.version, card.host,
                                           card.pid, card.nodes});
    if (spec_.metrics_textfile.empty() && metrics_socket_.fd() < 0) return;
    metrics_.emplace(context_.get_executor(),
                     MetricsExport::Options{std::move(metrics_socket_), spec_.metrics_textfile}, card,
                     history_, [this](std::function<void(JobAnswer)> done) {
                       if (inspection_) inspection_->look({}, std::move(done));
                       return inspection_.has_value();
                     });
  }

  void catch_signals(const agent::SignalState& at_start) {
    for (const HandledSignal& handled : spec_.signals)
      if (!at_start.ignored(handled.number)) signals_.add(handled.number);
    watch_signals();
    for (const int number : spec_.forwarded_signals)
      if (!at_start.ignored(number)) notices_.add(number);
    watch_notices();
    window_.add(SIGWINCH);
    watch_window();
    children_.add(SIGCHLD);
    watch_children();
    reap_orphans();  // children that ended before the watch began
    keep_console_going();
  }

  void watch_signals() {
    signals_.async_wait([this](const Error& error, int signal) {
      if (error) return;
      const JobActions actions = orders_.signalled(signal);
      if (actions.kill) log_warning("second Ctrl-C: killing all workers");
      history_.stopped("signal", agent::signal_name(signal), actions.kill);
      perform(actions);
      watch_signals();
    });
  }

  /// What another shell can have done (`muster kill`).
  JobControl control() {
    JobControl allowed;
    allowed.end = [this](const EndRequest& request, const std::string& text) {
      log_warning(text);
      const JobActions actions = orders_.asked(request);
      history_.stopped(request.by, agent::signal_name(request.signal), actions.kill);
      perform(actions);
      return orders_.ends_within();
    };
    allowed.tell = [this](const std::string& text, bool noted) {
      log_warning(text);
      if (noted && notes_.size() < kNotesMost) notes_.push_back(text);
    };
    return allowed;
  }

  /// Passes on what a batch system sends before it takes the machine back, which is news for the workers and
  /// ends nothing.
  void watch_notices() {
    notices_.async_wait([this](const Error& error, int signal) {
      if (error) return;
      if (said_.insert(signal).second)
        log_warning(agent::signal_name(signal) +
                    " is passed on to the workers that handle it; the job goes on");
      nodes_.pass_notice_on(signal);
      watch_notices();
    });
  }

  void watch_window() {
    window_.async_wait([this](const Error& error, int) {
      if (error) return;
      nodes_.resize();
      watch_window();
    });
  }

  /// Reaps orphans: the first process of a container is given all that others leave there, besides what our
  /// own processes leave.
  void watch_children() {
    children_.async_wait([this](const Error& error, int) {
      if (error) return;
      reap_orphans();
      keep_console_going();
      watch_children();
    });
  }

  /// Whoever prints would wait for a console process that somebody has stopped, we ourselves, too.
  void keep_console_going() {
    if (spec_.console_process < 0 || !continue_console(spec_.console_process)) return;
    if (!std::exchange(console_was_stopped_, true))
      log_warning(
          "the console process was stopped by a signal; it goes on, or what prints would wait for it");
  }

  void reap_orphans() {
    if (!agent::reap_orphans([this](pid_t pid) { return nodes_.waits_for(pid); }).met_kept) return;
    look_again_.expires_after(kLookAgainAfter);
    look_again_.async_wait([this](const Error& error) {
      if (!error) reap_orphans();
    });
  }

  void watch_deadline() {
    if (spec_.deadline.count() == 0) return;
    deadline_.expires_after(spec_.deadline);
    deadline_.async_wait([this](const Error& error) {
      if (error) return;
      history_.stopped("timeout", "", false);
      perform(orders_.deadline_passed());
    });
  }

  void perform(const JobActions& actions) {
    nodes_.obey(actions);
    if (actions.finish) return finish();
    if (!actions.late_after) return;
    late_.expires_after(*actions.late_after);
    late_.async_wait([this](const Error& error) {
      if (!error) perform(orders_.late());
    });
  }

  void finish() {
    late_.cancel();
    nodes_.finish([this] {
      end_descendants(spec_, not_ours_);
      context_.stop();
    });
  }

  int verdict() {
    JobEnd end = orders_.end();
    const auto now = std::chrono::steady_clock::now();  // so that the shares add up to the duration
    end.times = watch_.read(now);
    end.times.shares = history_.shares(now);
    const std::vector<agent::NodeReport> reports = nodes_.conclude(end);
    const bool all_told = reports.size() + end.hosts.size() >= spec_.nodes.size();
    if (!end.error.empty())
      end.cause = JobEnd::Cause::launcher_error;
    else if (all_told && all_succeeded(spec_, reports, end.hosts))
      end.cause = JobEnd::Cause::finished;  // an order to end came when every worker had succeeded
    else if (all_told && end.cause == JobEnd::Cause::deadline && failed_before_order(reports))
      end.cause = JobEnd::Cause::finished;  // the deadline passed while the rest of that failure was ended
    if (end.cause != JobEnd::Cause::finished || !all_succeeded(spec_, reports, end.hosts))
      end.notes.insert(end.notes.end(), notes_.begin(), notes_.end());
    end_history(reports, end);
    const int code = finish_job(spec_, reports, end);
    if (card_) say_end(code, make_exit_report(spec_, reports, end).cause, end.times);
    return code;
  }

  /// Writes the end to the files of the job; what they did not take is a note of its report.
  void end_history(const std::vector<agent::NodeReport>& reports, JobEnd& end) {
    if (spec_.event_file.empty() && !metrics_) return;
    const ExitReport report = make_exit_report(spec_, reports, end);
    std::string lost[] = {history_.ends({report.exit_code, word_for(report.outcome), report.cause}),
                          metrics_ ? metrics_->finish() : ""};
    for (std::string& text : lost)
      if (!text.empty()) end.notes.push_back(std::move(text));
  }

  /// Tells those at other shells how the job has ended, and who asks later.
  void say_end(int code, const std::string& cause, const JobTimes& times) {
    EndedJob ended{*card_, code, cause, absolute(spec_.report_file), times.ended_at_ms, 0, 0};
    ended.card.started_at_ms = times.started_at_ms;  // the card is made only when all nodes were forked
    // The kernel counts processes of this machine only, here those that were reaped: all of them.
    if (rusage used{}; spec_.nodes.empty() && ::getrusage(RUSAGE_CHILDREN, &used) == 0) {
      ended.cpu_ms = milliseconds_of(used.ru_utime) + milliseconds_of(used.ru_stime);
      ended.memory_peak = static_cast<std::uint64_t>(used.ru_maxrss) * 1024;
    }
    keep_ended(folder_of_jobs(), ended, times.ended_at_ms);
    waiters_.tell(to_json(KillEnd{card_->id, code, cause}));
  }

  asio::io_context& context_;
  const JobSpec& spec_;
  JobNodes& nodes_;
  /// Children that this process had before it became a launcher.
  const std::vector<pid_t>& not_ours_;
  const StopWatch& watch_;
  asio::signal_set signals_{context_};
  asio::signal_set notices_{context_};
  asio::signal_set window_{context_};
  asio::signal_set children_{context_};
  asio::steady_timer look_again_{context_};
  bool console_was_stopped_ = false;
  /// Notices that the user was told of.
  std::set<int> said_;
  asio::steady_timer started_{context_};
  asio::steady_timer deadline_{context_};
  asio::steady_timer late_{context_};
  JobOrders orders_{spec_.agent.shutdown_timeout};
  std::optional<JobInspection> inspection_;
  /// The job as other shells know it, if they do.
  std::optional<JobCard> card_;
  /// Signals that workers got from another shell, for the report.
  std::vector<std::string> notes_;
  EndWaiters waiters_;
  JobHistory history_;
  /// Until the metrics are served.
  MetricsSocket metrics_socket_;
  std::optional<MetricsExport> metrics_;
};

/// Returns the children that this process had before it became a launcher (`exec muster` in a shell with
/// background jobs).
std::vector<pid_t> children_at_start() {
  std::vector<pid_t> children;
  siginfo_t info{};
  if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return children;
  for (const ProcessStat& process : agent::descendants_of(::getpid()))
    if (process.parent == ::getpid()) children.push_back(process.pid);
  return children;
}

/// Returns what starts the agents of other hosts; null if the job has no nodes but this launcher's own.
std::unique_ptr<NodeStarter> starter_of(const JobSpec& spec, const agent::SignalState& signals) {
  if (spec.nodes.empty()) return nullptr;
  const auto make = spec.form == StartForm::slurm ? make_srun_starter : make_ssh_starter;
  return make(spec.nodes, spec.remote, MUSTER_VERSION, signals);
}

/// Forks the nodes of this host and returns them by their places. In a job without JobSpec::nodes that is
/// `own`, whose key the launcher does not keep. `not_theirs` is a descriptor that is the launcher's alone;
/// -1: none. Call before there is an event loop.
std::map<std::size_t, StartedProcess> fork_nodes(const JobSpec& spec, agent::NodeProcesses own,
                                                 const agent::SignalState& signals, int not_theirs) {
  std::map<std::size_t, StartedProcess> forked;
  own.version = MUSTER_VERSION;
  own.signals = signals;
  if (spec.nodes.empty()) forked.emplace(0, fork_direct_node(std::move(own), not_theirs));
  for (std::size_t i = 0; i < spec.nodes.size(); ++i)
    if (spec.nodes[i].local) forked.emplace(i, fork_local_node(MUSTER_VERSION, signals));
  return forked;
}

}  // namespace

int run_job(const JobSpec& spec, const agent::SignalState& at_start, MetricsSocket metrics) {
  const StopWatch watch;
  auto signals = at_start;
  for (const HandledSignal& handled : spec.signals)
    if (handled.named) signals.unignore(handled.number);
  ::signal(SIGCHLD,
           SIG_DFL);  // a parent that ignores it would leave us without the exit codes of our children
  const std::vector<pid_t> not_ours = children_at_start();
  agent::NodeProcesses node;
  if (spec.form == StartForm::peer)
    node = prepare_peer_node(spec);
  else
    node.spec = spec.agent;
  try {
    agent::become_subreaper();
    const std::unique_ptr<NodeStarter> starter = starter_of(spec, signals);
    if (starter) rendezvous::raise_descriptor_limit();
    // Workers of a node that was forked may run, and be seen to, before our handlers stand.
    const sigset_t unblocked = block_signals(spec);
    auto forked = fork_nodes(spec, std::move(node), signals, metrics.fd());
    asio::io_context context{1};
    const auto executor = context.get_executor();
    const auto nodes = starter
                           ? make_started_nodes(executor, spec, *starter, std::move(forked), MUSTER_VERSION)
                           : make_direct_node(executor, spec, std::move(forked.at(0)));
    return Job(context, spec, *nodes, not_ours, watch, std::move(metrics)).run(signals, unblocked);
  } catch (const std::exception& error) {
    end_descendants(spec, not_ours);
    JobEnd end;
    end.cause = JobEnd::Cause::launcher_error;
    end.error = error.what();
    end.times = watch.read();
    return finish_job(spec, {}, end);
  }
}

}  // namespace muster::launcher
