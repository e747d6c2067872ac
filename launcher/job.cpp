// SPDX-License-Identifier: Apache-2.0
#include "launcher/job.hpp"

#include "agent/launcher_link.hpp"
#include "agent/process/guardian.hpp"
#include "agent/process/process_tree.hpp"
#include "agent/process/signal_state.hpp"
#include "launcher/agent_starter_local.hpp"
#include "launcher/core/job_spec.hpp"
#include "launcher/exit_report/finish_job.hpp"
#include "launcher/nodes/nodes_job.hpp"
#include "launcher/peer/peer_node.hpp"
#include "launcher/slurm/srun_starter.hpp"
#include "launcher/start/ssh_starter.hpp"
#include "rendezvous/base/exit_code.hpp"
#include "rendezvous/log/log.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/steady_timer.hpp>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace muster::launcher {
namespace {

namespace asio = boost::asio;
using agent::LinkMessage;
using agent::NodeReport;
using Descriptor = asio::posix::stream_descriptor;

/// After the grace period the agent has killed everything and reports; one that does not is stuck.
constexpr std::chrono::seconds kReportLateAfter{20};
/// A second Ctrl-C ends everything within a second, with or without the agent's help.
constexpr std::chrono::milliseconds kKillLateAfter{500};
/// Between the report and the end of the guardian.
constexpr std::chrono::seconds kGuardianLateAfter{15};
constexpr int kKillLimitMs = 10'000;

/// One job from start to report: what the launcher waits for, and what it tells the agent.
class Job {
 public:
  Job(const JobSpec& spec, LocalAgent started, const agent::SignalState& signals, std::vector<pid_t> not_ours)
      : spec_(spec),
        not_ours_(std::move(not_ours)),
        started_(std::move(started)),
        guardian_(context_, started_.guardian_pidfd.release()),
        notices_(context_, started_.notices.release()),
        signals_(context_),
        window_(context_),
        deadline_(context_),
        late_(context_) {
    notices_.native_non_blocking(true);
    catch_signals(signals);
  }

  int run() {
    link_.emplace(context_.get_executor(), started_.link.release(), link_events());
    watch_guardian();
    watch_notices();
    watch_deadline();
    context_.run();
    read_notices();
    // Killed on order, it does not matter whether the agent was still there to say so.
    if (!killed_) end_.error = launcher_error();
    if (!end_.error.empty())
      end_.cause = JobEnd::Cause::launcher_error;
    else if (report_ && report_->outcome == agent::NodeOutcome::succeeded)
      end_.cause = JobEnd::Cause::finished;  // the order came when every worker had succeeded
    std::vector<NodeReport> reports;
    if (report_) reports.push_back(std::move(*report_));
    const int code = finish_job(spec_, reports, end_);
    block_signals();
    return code;
  }

 private:
  /// The exit code is decided: a signal that comes while our handlers go must not put its own in its place.
  void block_signals() const {
    sigset_t handled;
    ::sigemptyset(&handled);
    for (const HandledSignal& signal : spec_.signals) ::sigaddset(&handled, signal.number);
    ::pthread_sigmask(SIG_BLOCK, &handled, nullptr);
  }

  agent::LauncherLink::Events link_events() {
    agent::LauncherLink::Events events;
    events.message = [this](LinkMessage message) {
      if (message.kind != LinkMessage::Kind::report) return;
      report_ = agent::node_report_from_json(message.body);
      agent::continue_guardian(guardian_.native_handle());
      end_if_late(kGuardianLateAfter, "the guardian process did not end");
    };
    events.closed = [this](const std::string&) {
      link_lost_ = true;
      if (guardian_gone_) end();
    };
    return events;
  }

  void catch_signals(const agent::SignalState& at_start) {
    for (const HandledSignal& handled : spec_.signals)
      if (!at_start.ignored(handled.number)) signals_.add(handled.number);
    watch_signals();
    window_.add(SIGWINCH);
    watch_window();
  }

  void watch_signals() {
    signals_.async_wait([this](const boost::system::error_code& error, int signal) {
      if (error) return;
      on_signal(signal);
      watch_signals();
    });
  }

  void watch_window() {
    window_.async_wait([this](const boost::system::error_code& error, int) {
      if (error) return;
      tell(LinkMessage::Kind::resize, 0);
      watch_window();
    });
  }

  /// A second Ctrl-C means "now". Other signals come twice by themselves (a closed terminal sends SIGHUP
  /// twice).
  void on_signal(int signal) {
    if (signal == SIGINT && ++interrupts_ > 1) {
      if (!std::exchange(killed_, true)) {
        log_warning("second Ctrl-C: killing all workers");
        tell_to_end(LinkMessage::Kind::kill, 0);
        end_if_late(kKillLateAfter, "the agent did not end the workers");
      }
      return;
    }
    if (end_.cause == JobEnd::Cause::finished) {
      end_.cause = JobEnd::Cause::interrupted;
      end_.signal = signal;
    }
    if (!killed_) stop(signal);
  }

  void watch_deadline() {
    if (spec_.deadline.count() == 0) return;
    deadline_.expires_after(spec_.deadline);
    deadline_.async_wait([this](const boost::system::error_code& error) {
      if (error || end_.cause != JobEnd::Cause::finished) return;
      end_.cause = JobEnd::Cause::deadline;
      stop(SIGTERM);
    });
  }

  void stop(int signal) {
    tell_to_end(LinkMessage::Kind::stop, signal);
    end_if_late(spec_.agent.shutdown_timeout + kReportLateAfter,
                "the agent did not report after its grace period");
  }

  /// To end. Whichever of our processes is stopped goes on, to obey.
  void tell_to_end(LinkMessage::Kind kind, int number) {
    tell(kind, number);
    agent::continue_guardian(guardian_.native_handle());
  }

  void tell(LinkMessage::Kind kind, int number) {
    LinkMessage message;
    message.kind = kind;
    message.number = number;
    if (link_) link_->send(message);
  }

  /// If the job has not ended by itself after `limit`: kill everything below us and end.
  void end_if_late(std::chrono::milliseconds limit, const char* what) {
    late_.expires_after(limit);
    late_.async_wait([this, what](const boost::system::error_code& error) {
      if (error) return;
      if (!report_) late_text_ = std::string(what) + "; everything was killed";
      end();
    });
  }

  void watch_guardian() {
    guardian_.async_wait(Descriptor::wait_read, [this](const boost::system::error_code& error) {
      if (error) return;
      guardian_gone_ = true;
      // Without its guardian the agent ends the workers and reports; without an agent the link is already
      // cut.
      if (report_ || link_lost_)
        end();
      else
        end_if_late(spec_.agent.shutdown_timeout + kReportLateAfter,
                    "the guardian was lost and the agent did not report");
    });
  }

  void end() {
    signals_.cancel();
    window_.cancel();
    deadline_.cancel();
    late_.cancel();
    guardian_.cancel();
    notices_.cancel();
    if (link_) link_->close();
    // Last of three nets: usually there is no child left but the guardian.
    agent::end_all_descendants(not_ours_, kKillLimitMs);
    context_.stop();
  }

  /// Why the job failed through us. Who ended it early has said how it ends: that a stuck agent had to be
  /// killed then is only a note.
  std::string launcher_error() {
    std::string text;
    if (report_) {
      if (report_->outcome == agent::NodeOutcome::agent_error) text = report_->error;
    } else if (!late_text_.empty()) {
      text = late_text_;
      if (losses_.empty() && end_.cause != JobEnd::Cause::finished) {
        end_.notes.push_back(std::move(text));
        return {};
      }
    } else if (losses_.empty()) {
      text = "guardian and agent were lost; every process of the job was ended";
    }
    if (!losses_.empty()) text = losses_ + (text.empty() ? "" : "; " + text);
    return text;
  }

  void watch_notices() {
    notices_.async_wait(Descriptor::wait_read, [this](const boost::system::error_code& error) {
      if (!error && read_notices()) watch_notices();
    });
  }

  /// What the guardian noticed. Returns whether there may be more.
  bool read_notices() {
    char buffer[512];
    ssize_t size = 0;
    while ((size = ::read(notices_.native_handle(), buffer, sizeof buffer)) > 0)
      for (const char c : std::string_view(buffer, static_cast<std::size_t>(size))) {
        if (c != '\n')
          notice_ += c;
        else
          take_notice(std::exchange(notice_, {}));
      }
    return size < 0 && (errno == EAGAIN || errno == EINTR);
  }

  void take_notice(const std::string& line) {
    if (line.empty() || line.front() != agent::kOnlySaid) {
      losses_ += (losses_.empty() ? "" : "; ") + line;
    } else if (!context_.stopped()) {
      log_warning(std::string_view(line).substr(1));
      if (end_.cause != JobEnd::Cause::finished) agent::continue_guardian(guardian_.native_handle());
    }
  }

  const JobSpec& spec_;
  std::vector<pid_t> not_ours_;
  LocalAgent started_;
  asio::io_context context_{1};
  Descriptor guardian_;
  Descriptor notices_;
  asio::signal_set signals_;
  asio::signal_set window_;
  asio::steady_timer deadline_;
  asio::steady_timer late_;
  std::optional<agent::LauncherLink> link_;
  std::optional<NodeReport> report_;
  JobEnd end_;
  std::string late_text_;
  /// Of the guardian's pipe: a line that is not complete, and what was lost.
  std::string notice_;
  std::string losses_;
  bool guardian_gone_ = false;
  bool link_lost_ = false;
  int interrupts_ = 0;
  bool killed_ = false;
};

/// Children that this process had before it became a launcher (`exec muster` in a shell with background
/// jobs).
std::vector<pid_t> children_at_start() {
  std::vector<pid_t> children;
  siginfo_t info{};
  if (::waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return children;
  for (const agent::ProcessInfo& process : agent::descendants_of(::getpid()))
    if (process.parent == ::getpid()) children.push_back(process.pid);
  return children;
}

std::unique_ptr<NodeStarter> starter_of(const JobSpec& spec, const agent::SignalState& signals) {
  if (spec.form == StartForm::slurm)
    return std::make_unique<SrunStarter>(spec.nodes, spec.remote, MUSTER_VERSION, signals);
  return std::make_unique<SshStarter>(spec.nodes, spec.remote, MUSTER_VERSION, signals);
}

}  // namespace

int run_job(const JobSpec& spec, const agent::SignalState& at_start) {
  auto signals = at_start;
  for (const HandledSignal& handled : spec.signals)
    if (handled.named) signals.unignore(handled.number);
  agent::ignore_write_signals();
  ::signal(SIGCHLD,
           SIG_DFL);  // a parent that ignores it would leave us without the exit codes of our children
  const std::vector<pid_t> not_ours = children_at_start();
  LocalNode node;
  if (spec.form == StartForm::peer) node = prepare_peer_node(spec);
  try {
    agent::become_subreaper();
    if (!spec.nodes.empty()) {
      const auto starter = starter_of(spec, signals);
      return run_nodes_job(spec, *starter, {MUSTER_VERSION, signals, not_ours});
    }
    if (spec.form != StartForm::peer) node.spec = spec.agent;
    LocalAgent started = start_local_agent(node, signals);
    node = {};  // the launcher needs no key
    return Job(spec, std::move(started), signals, not_ours).run();
  } catch (const std::exception& error) {
    agent::end_all_descendants(not_ours, kKillLimitMs);
    JobEnd end;
    end.cause = JobEnd::Cause::launcher_error;
    end.error = error.what();
    return finish_job(spec, {}, end);
  }
}

}  // namespace muster::launcher
