// SPDX-License-Identifier: Apache-2.0
// The guardian's life: it prepares its signals, forks store process and agent, and then waits for one event
// after another until the agent has ended. When the launcher is gone or a process of ours stays stopped, it
// kills what does not end in time. At the end it kills whatever is left below it.
#include "agent/process/guardian.hpp"

#include "agent/core/exit_status.hpp"
#include "agent/core/memory_end.hpp"
#include "agent/core/worker_group.hpp"
#include "agent/process/memory_counts.hpp"
#include "agent/process/process_tree.hpp"
#include "agent/process/signal_state.hpp"
#include "agent/process/stop_file.hpp"
#include "agent/process/watchdog.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/exit_code.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/resident_memory.hpp"
#include "rendezvous/log/terminal_text.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>

namespace muster::agent {
namespace {

using Clock = std::chrono::steady_clock;

/// After the launcher's death the agent kills the workers at the end of its grace period. Only if it does
/// not, the guardian kills the agent, this much later.
constexpr std::chrono::milliseconds kAgentLateAfter =
    WorkerGroup::kHelperTime + std::chrono::milliseconds(150);
/// Longer time for an agent whose launcher is elsewhere: such a launcher may live although its link has
/// ended, and the agent first finds out.
constexpr std::chrono::milliseconds kLifelineLateAfter{5000};
/// A guardian that wakes up this late was itself stopped, maybe with the whole host: the stopped process then
/// gets this long to go on as well.
constexpr std::chrono::milliseconds kOversleptBy{1000};
constexpr int kKillLimitMs = 10'000;
/// How long an agent may take to end after its SIGKILL: the kernel can hold a process for ever, as one that
/// waits for a device or a file server. Then the guardian ends without it.
constexpr std::chrono::milliseconds kHeldAtMost{kKillLimitMs};
/// And then to kill what is below it, which cannot all be reaped.
constexpr int kHeldTreeLimitMs = 1000;

ExitStatus status_from(int wait_status) {
  if (WIFSIGNALED(wait_status))
    return {ExitStatus::Kind::signaled, stop_signal(WTERMSIG(wait_status)).number,
            WCOREDUMP(wait_status) != 0};
  return {ExitStatus::Kind::exited, WEXITSTATUS(wait_status), false};
}

/// A process that the guardian forks.
struct Forked {
  const char* name;
  /// Text that says what waits while this process is stopped, in a job without other nodes.
  const char* waits;
  std::chrono::milliseconds stopped_at_most;
  /// The process's number; 0 if there is none, or none any more.
  pid_t pid = 0;
  bool stopped = false;
  bool killed_while_stopped = false;
  std::optional<Clock::time_point> stop_ends_at{};
  /// When it got its first SIGKILL.
  std::optional<Clock::time_point> killed_at{};
};

class Guardian {
 public:
  explicit Guardian(const GuardianOptions& options) : options_(options) {}

  int run(const ProcessMain& store_main, const ProcessMain& agent_main,
          const std::function<void()>& after_start) {
    prepare();
    start(store_main, agent_main);
    after_start();
    memory_before_ = read_memory_counts_before();
    give_back_code();
    while (!agent_status_) wait_once();
    return end();
  }

 private:
  void prepare() {
    ::prctl(PR_SET_NAME, "muster:guardian");
    if (const std::string trouble = proc_trouble(); !trouble.empty()) throw std::runtime_error(trouble);
    ::signal(SIGCHLD, SIG_DFL);  // ignored, the kernel would reap our children before we learn how they ended
    ::setsid();                  // keyboard signals are the launcher's business
    become_subreaper();
    self_pidfd_ = open_pidfd(::getpid());
    if (!self_pidfd_) throw_errno(kNoPidfd);
    sigset_t watched;
    sigemptyset(&watched);
    for (const int signal : {SIGCHLD, SIGCONT}) sigaddset(&watched, signal);
    for (const int signal : kStopSignals) sigaddset(&watched, signal);
    sigprocmask(SIG_BLOCK, &watched, nullptr);
    signals_.reset(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  void start(const ProcessMain& store_main, const ProcessMain& agent_main) {
    if (!store_main) {
      UniqueFd none;
      agent_.pid = fork_process(agent_main, -1, none);
      agent_pidfd_ = open_pidfd(agent_.pid);
      return;
    }
    int control[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) != 0) throw_errno("socketpair");
    UniqueFd store_end(control[0]);
    UniqueFd agent_end(control[1]);
    store_.pid = fork_process(store_main, store_end.get(), agent_end);
    agent_.pid = fork_process(agent_main, agent_end.get(), store_end);
    agent_pidfd_ = open_pidfd(agent_.pid);
  }

  pid_t fork_process(const ProcessMain& process_main, int control_fd, UniqueFd& other_end) {
    const pid_t pid = ::fork();
    if (pid < 0) throw_errno("fork");
    if (pid > 0) return pid;
    other_end.reset();
    signals_.reset();
    options_.signals.restore_for_ours();
    int code = kExitLauncherFailure;
    try {
      code = process_main(control_fd, self_pidfd_.get());
    } catch (const std::exception& error) {
      const std::string text = "muster: error: " + for_terminal(error.what()) + "\n";
      (void)!::write(STDERR_FILENO, text.data(), text.size());
    }
    ::_exit(code);
  }

  void wait_once() {
    pollfd watched[5] = {{agent_pidfd_.get(), POLLIN, 0},
                         {signals_.get(), POLLIN, 0},
                         {launcher_lost_ ? -1 : options_.launcher_pidfd, POLLIN, 0},
                         {lifeline_lost_ ? -1 : options_.lifeline_fd, POLLRDHUP, 0},
                         {options_.go_on_fd, POLLIN, 0}};
    if (::poll(watched, 5, poll_time(next_kill())) < 0 && errno != EINTR) throw_errno("poll");
    // The agent sees the launcher's end by the end of its link and stops the workers; the guardian only makes
    // sure of it.
    if (watched[2].revents != 0) {
      launcher_lost_ = true;
      expect_agents_end(kAgentLateAfter);
    }
    if (watched[3].revents != 0) {
      lifeline_lost_ = true;
      expect_agents_end(kLifelineLateAfter);
    }
    if (watched[4].revents != 0) read_go_on();
    if (watched[1].revents != 0) (void)read_signals();
    if (watched[0].revents != 0) reap_agent();
    if (!agent_status_) kill_in_time();
    if (!agent_status_) give_up_held_agent();
  }

  /// Gives the agent the workers' grace period and a little more to end, but none to an agent that is
  /// stopped.
  void expect_agents_end(std::chrono::milliseconds more) {
    kill_agent_at_ = Clock::now();
    if (!agent_.stopped) *kill_agent_at_ += options_.shutdown_timeout + more;
  }

  void kill_in_time() {
    const auto now = Clock::now();
    kill_if_it_stays_stopped(store_, now);
    kill_if_it_stays_stopped(agent_, now);
    if (!kill_agent_at_ || now < *kill_agent_at_) return;
    // The agent's workers end with it, unless the kernel holds it: then they are ended without it.
    if (agent_.killed_at) kill_descendants({store_.pid});
    kill(agent_, now);
    agent_.killed_while_stopped = agent_.stopped;
  }

  void kill_if_it_stays_stopped(Forked& ours, Clock::time_point now) {
    if (!ours.stop_ends_at) return;
    if (now >= *ours.stop_ends_at + kOversleptBy) ours.stop_ends_at = now + kOversleptBy;
    if (now < *ours.stop_ends_at) return;
    ours.stop_ends_at.reset();
    ours.killed_while_stopped = true;
    kill(ours, now);
  }

  void kill(Forked& ours, Clock::time_point now) {
    ::kill(ours.pid, SIGKILL);
    if (!ours.killed_at) ours.killed_at = now;
    if (&ours == &agent_) kill_agent_at_ = now + std::chrono::seconds(1);
  }

  /// Goes on without an agent that has not ended long after its SIGKILL.
  void give_up_held_agent() {
    if (!agent_.killed_at || Clock::now() < *agent_.killed_at + kHeldAtMost) return;
    agent_held_ = true;
    agent_status_ = ExitStatus{ExitStatus::Kind::signaled, stop_signal(SIGKILL).number, false};
    const std::string limit = std::to_string(kHeldAtMost.count() / 1000);
    options_.notice(LinkMessage::agent_lost, "the kernel has held it for " + limit +
                                                 " s after SIGKILL; see /proc/" + std::to_string(agent_.pid) +
                                                 "/stack");
  }

  /// Reads that the launcher lives: from then on the agent watches it by another way than the one that the
  /// guardian sees. The end of this pipe is the agent's own end, which is noticed otherwise.
  void read_go_on() {
    char byte = 0;
    const ssize_t got = ::read(options_.go_on_fd, &byte, 1);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
    if (got == 1) {
      kill_agent_at_.reset();
      lifeline_lost_ = true;
    } else {
      options_.go_on_fd = -1;
    }
  }

  std::optional<Clock::time_point> next_kill() const {
    std::optional<Clock::time_point> next;
    const auto held_until = agent_.killed_at ? std::optional(*agent_.killed_at + kHeldAtMost) : std::nullopt;
    for (const auto& at : {kill_agent_at_, agent_.stop_ends_at, store_.stop_ends_at, held_until})
      if (at && (!next || *at < *next)) next = at;
    return next;
  }

  /// Handles the signals that have come. Returns whether somebody told the guardian to stop.
  bool read_signals() {
    bool told = false;
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal == SIGCHLD) {
        reap_store();
        look_for_stop(store_);
        if (!agent_status_) look_for_stop(agent_);
      } else if (signal == SIGCONT) {
        if (!agent_status_) ::kill(agent_.pid, signal);
        if (store_.pid > 0) ::kill(store_.pid, signal);
      } else if (!options_.signals.ignored(signal)) {
        // A signal that was ignored when we were started still reaches the guardian, because it is blocked.
        told = true;
        if (!agent_status_) ::kill(agent_.pid, passed_on(signal));
      }
    }
    return told;
  }

  /// Says when one of our processes is stopped or goes on: a stopped process cannot say so itself, and others
  /// learn of it by its silence only.
  void look_for_stop(Forked& ours) {
    siginfo_t info{};
    if (ours.pid <= 0) return;
    if (::waitid(P_PID, static_cast<id_t>(ours.pid), &info, WSTOPPED | WCONTINUED | WNOHANG) != 0) return;
    if (info.si_pid == 0) return;
    ours.stopped = info.si_code == CLD_STOPPED;
    ours.stop_ends_at.reset();
    const std::string who = std::string("the ") + ours.name + " process" + options_.of_node;
    if (!ours.stopped) return options_.notice(LinkMessage::no_loss, who + " goes on");
    if (&ours == &agent_ && kill_agent_at_) kill_agent_at_ = Clock::now();
    std::string text = who + " was stopped (" + signal_name(info.si_status) + "); ";
    const std::string until = "'kill -CONT " + std::to_string(ours.pid) + "'";
    if (ours.stopped_at_most.count() > 0) {
      ours.stop_ends_at = Clock::now() + ours.stopped_at_most;
      text += "it is taken for dead after " + std::to_string(ours.stopped_at_most.count() / 1000) +
              " s, unless " + until + " there lets it go on";
    } else {
      text += std::string(ours.waits) + " until " + until + " lets it go on, or the job is told to end";
    }
    options_.notice(LinkMessage::no_loss, text);
  }

  std::string how_it_ended(const Forked& ours, const ExitStatus& ended, const char* took_along) const {
    if (!ours.killed_while_stopped) return describe_own(ended, memory_before_, read_memory_counts());
    return std::string("it stayed stopped, so its guardian killed it") + took_along;
  }

  void reap_store() {
    int status = 0;
    if (store_.pid <= 0 || ::waitpid(store_.pid, &status, WNOHANG) != store_.pid) return;
    store_.pid = 0;
    store_.stop_ends_at.reset();
    // The store process ends with 0 when the agent closes the control connection; no other end was asked for.
    if (const ExitStatus ended = status_from(status); !ended.success())
      options_.notice(LinkMessage::in_words, "the store process" + options_.of_node + " was lost (" +
                                                 how_it_ended(store_, ended, "") + ")");
  }

  void reap_agent() {
    int status = 0;
    const pid_t reaped = ::waitpid(agent_.pid, &status, WNOHANG);
    if (reaped == 0 || (reaped < 0 && errno != ECHILD)) return;
    agent_status_ =
        reaped < 0 ? ExitStatus{ExitStatus::Kind::exited, kExitLauncherFailure, false} : status_from(status);
    if (agent_status_->kind != ExitStatus::Kind::signaled) return;
    options_.notice(LinkMessage::agent_lost, how_it_ended(agent_, *agent_status_, " and its workers"));
  }

  /// Ends whatever is left. Usually that costs two system calls: to kill the store process, and to find that
  /// no child is left.
  int end() {
    if (store_.pid > 0 && options_.store_may_outlive.count() > 0) outlast_store();
    const bool store_held = store_.pid > 0 && !kill_store();
    end_all_descendants({}, agent_held_ || store_held ? kHeldTreeLimitMs : kKillLimitMs);
    if (agent_status_->kind == ExitStatus::Kind::signaled) {
      remove_watchdog_of(agent_.pid);
      remove_left_stop_folders();
    }
    return agent_status_->exit_code();
  }

  /// False: the kernel holds it, as it can hold an agent.
  bool kill_store() const {
    const UniqueFd store = open_pidfd(store_.pid);
    ::kill(store_.pid, SIGKILL);
    const auto until = Clock::now() + kHeldAtMost;
    pollfd watched{store.get(), POLLIN, 0};
    while (store && ::poll(&watched, 1, poll_time(until)) < 0 && errno == EINTR) {
    }
    return ::waitpid(store_.pid, nullptr, WNOHANG) == store_.pid;
  }

  /// Kills the workers of a lost agent at once, but lets the store process live for a while: the other nodes
  /// still have to be told how the job ends.
  void outlast_store() {
    end_all_descendants({store_.pid}, kKillLimitMs);
    const auto until = Clock::now() + options_.store_may_outlive;
    const UniqueFd store = open_pidfd(store_.pid);
    bool told = false;
    while (store_.pid > 0 && store && !told && Clock::now() < until) {
      pollfd watched[2] = {{store.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
      const auto next = std::min(until, store_.stop_ends_at.value_or(until));
      ::poll(watched, 2, poll_time(next));
      if (watched[1].revents != 0) told = read_signals();
      if (watched[0].revents != 0) reap_store();
      kill_if_it_stays_stopped(store_, Clock::now());
    }
  }

  GuardianOptions options_;
  UniqueFd self_pidfd_;
  UniqueFd signals_;
  UniqueFd agent_pidfd_;
  Forked store_{"store", "what workers ask of it waits", options_.store_stopped_at_most};
  Forked agent_{"agent", "the output and the ends of workers wait", options_.stopped_at_most};
  /// What the kernel counted when store process and agent had just been started.
  MemorySnapshot memory_before_;
  std::optional<ExitStatus> agent_status_;
  std::optional<Clock::time_point> kill_agent_at_;
  /// Whether the agent was given up, although it still is there.
  bool agent_held_ = false;
  bool launcher_lost_ = false;
  bool lifeline_lost_ = false;
};

}  // namespace

void continue_guardian(int guardian_pidfd) {
  ::syscall(SYS_pidfd_send_signal, guardian_pidfd, SIGCONT, nullptr, 0);
}

int run_guardian(const GuardianOptions& options, const ProcessMain& store_main, const ProcessMain& agent_main,
                 const std::function<void()>& after_start) {
  return Guardian(options).run(store_main, agent_main, after_start);
}

}  // namespace muster::agent
