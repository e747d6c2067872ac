// SPDX-License-Identifier: Apache-2.0
#include "agent/process/guardian.hpp"

#include "agent/core/exit_status.hpp"
#include "agent/process/process_tree.hpp"
#include "rendezvous/log/terminal_text.hpp"
#include "rendezvous/support/unique_fd.hpp"

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
#include <exception>
#include <optional>
#include <string>
#include <system_error>

namespace muster::agent {
namespace {

using Clock = std::chrono::steady_clock;

/// After the launcher's death the agent kills at the end of its grace period; only if it does not, we do.
constexpr std::chrono::milliseconds kAgentLateAfter{50};
/// Where the launcher is elsewhere, the agent first finds out whether it lives.
constexpr std::chrono::milliseconds kLifelineLateAfter{5000};
/// A guardian that wakes up so late was itself stopped, maybe with the whole host: the agent goes on as well.
constexpr std::chrono::milliseconds kOversleptBy{1000};
constexpr int kKillLimitMs = 10'000;

UniqueFd open_pidfd(pid_t pid) {
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
}

ExitStatus status_from(int wait_status) {
  if (WIFSIGNALED(wait_status))
    return {ExitStatus::Kind::signaled, WTERMSIG(wait_status), WCOREDUMP(wait_status) != 0};
  return {ExitStatus::Kind::exited, WEXITSTATUS(wait_status), false};
}

class Guardian {
 public:
  explicit Guardian(const GuardianOptions& options) : options_(options) {}

  int run(const ProcessMain& store_main, const ProcessMain& agent_main,
          const std::function<void()>& after_start) {
    prepare();
    start(store_main, agent_main);
    after_start();
    while (!agent_status_) wait_once();
    return end();
  }

 private:
  void prepare() {
    ::prctl(PR_SET_NAME, "muster:guardian");
    ::signal(SIGCHLD, SIG_DFL);  // ignored, the kernel would reap our children before we learn how they ended
    ::setsid();                  // keyboard signals are the launcher's business
    become_subreaper();
    self_pidfd_ = open_pidfd(::getpid());
    if (!self_pidfd_)
      throw std::system_error(errno, std::generic_category(), "pidfd_open (Linux 5.4 or newer is needed)");
    sigset_t watched;
    sigemptyset(&watched);
    for (const int signal : {SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGCHLD}) sigaddset(&watched, signal);
    sigprocmask(SIG_BLOCK, &watched, nullptr);
    signals_.reset(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  }

  void start(const ProcessMain& store_main, const ProcessMain& agent_main) {
    if (!store_main) {
      UniqueFd none;
      agent_pid_ = fork_process(agent_main, -1, none);
      agent_pidfd_ = open_pidfd(agent_pid_);
      return;
    }
    int control[2];
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control) != 0)
      throw std::system_error(errno, std::generic_category(), "socketpair");
    UniqueFd store_end(control[0]);
    UniqueFd agent_end(control[1]);
    store_pid_ = fork_process(store_main, store_end.get(), agent_end);
    agent_pid_ = fork_process(agent_main, agent_end.get(), store_end);
    agent_pidfd_ = open_pidfd(agent_pid_);
  }

  pid_t fork_process(const ProcessMain& process_main, int control_fd, UniqueFd& other_end) {
    const pid_t pid = ::fork();
    if (pid < 0) throw std::system_error(errno, std::generic_category(), "fork");
    if (pid > 0) return pid;
    other_end.reset();
    signals_.reset();
    if (options_.notice_fd >= 0) ::close(options_.notice_fd);
    options_.signals.restore();
    int code = 125;
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
    if (::poll(watched, 5, time_left_ms()) < 0 && errno != EINTR)
      throw std::system_error(errno, std::generic_category(), "poll");
    // The agent sees the same by the end of its link and stops the workers; we only make sure that it does.
    if (watched[2].revents != 0) {
      launcher_lost_ = true;
      expect_agents_end(kAgentLateAfter);
    }
    if (watched[3].revents != 0) {
      lifeline_lost_ = true;
      expect_agents_end(kLifelineLateAfter);
    }
    if (watched[4].revents != 0) read_go_on();
    if (watched[1].revents != 0) read_signals();
    if (watched[0].revents != 0) reap_agent();
    if (!agent_status_) kill_agent_in_time();
  }

  /// The agent has the workers' grace and a little more to end; one that is stopped cannot use it.
  void expect_agents_end(std::chrono::milliseconds more) {
    kill_agent_at_ = Clock::now();
    if (!agent_stopped_) *kill_agent_at_ += options_.shutdown_timeout + more;
  }

  /// Its workers go with it.
  void kill_agent_in_time() {
    const auto now = Clock::now();
    if (stop_ends_at_ && now >= *stop_ends_at_ + kOversleptBy) stop_ends_at_ = now + kOversleptBy;
    if (!next_kill() || now < *next_kill()) return;
    ::kill(agent_pid_, SIGKILL);
    killed_while_stopped_ = agent_stopped_;
    stop_ends_at_.reset();
    kill_agent_at_ = now + std::chrono::seconds(1);
  }

  /// From then on the agent watches the launcher by itself, by another way than the one that we see; the end
  /// of this pipe is the agent's own.
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
    if (kill_agent_at_ && stop_ends_at_) return std::min(*kill_agent_at_, *stop_ends_at_);
    return kill_agent_at_ ? kill_agent_at_ : stop_ends_at_;
  }

  int time_left_ms() const {
    if (!next_kill()) return -1;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*next_kill() - Clock::now());
    return static_cast<int>(std::clamp<std::int64_t>(left.count(), 0, 60'000));
  }

  void read_signals() {
    signalfd_siginfo info{};
    while (::read(signals_.get(), &info, sizeof info) == static_cast<ssize_t>(sizeof info)) {
      const int signal = static_cast<int>(info.ssi_signo);
      if (signal != SIGCHLD) {
        ::kill(agent_pid_, signal);
        continue;
      }
      reap_store();
      look_for_stop();
    }
  }

  /// One that is stopped cannot say so itself, and the others learn of it by its silence only.
  void look_for_stop() {
    siginfo_t info{};
    if (::waitid(P_PID, static_cast<id_t>(agent_pid_), &info, WSTOPPED | WCONTINUED | WNOHANG) != 0) return;
    if (info.si_pid == 0) return;
    agent_stopped_ = info.si_code == CLD_STOPPED;
    stop_ends_at_.reset();
    if (agent_stopped_ && kill_agent_at_) kill_agent_at_ = Clock::now();
    if (agent_stopped_ && options_.stopped_at_most.count() > 0)
      stop_ends_at_ = Clock::now() + options_.stopped_at_most;
    if (!options_.notice) return;
    if (info.si_code == CLD_CONTINUED)
      notice("the agent process" + options_.of_node + " goes on");
    else
      notice("the agent process" + options_.of_node + " was stopped (" + signal_name(info.si_status) +
             "); it is taken for dead after 5 s");
  }

  void reap_store() {
    int status = 0;
    if (store_pid_ <= 0 || ::waitpid(store_pid_, &status, WNOHANG) != store_pid_) return;
    store_pid_ = 0;
    // It ends with 0 when the agent closes the control connection; anything else was not asked for.
    if (const ExitStatus ended = status_from(status); !ended.success())
      notice("the store process" + options_.of_node + " was lost (" + describe(ended) + ")");
  }

  void reap_agent() {
    int status = 0;
    const pid_t reaped = ::waitpid(agent_pid_, &status, WNOHANG);
    if (reaped == 0 || (reaped < 0 && errno != ECHILD)) return;
    agent_status_ = reaped < 0 ? ExitStatus{ExitStatus::Kind::exited, 125, false} : status_from(status);
    if (agent_status_->kind == ExitStatus::Kind::signaled)
      notice("the agent process" + options_.of_node + " was lost (" +
                 (killed_while_stopped_ ? "it stayed stopped, so its guardian killed it and its workers"
                                        : describe(*agent_status_)) +
                 ")",
             true);
  }

  void notice(const std::string& text, bool agent_gone = false) const {
    if (options_.notice) return options_.notice(text, agent_gone);
    const std::string line = text + "\n";
    (void)!::write(options_.notice_fd, line.data(), line.size());
  }

  /// The usual way costs two system calls: kill the store process, find that no child is left.
  int end() {
    if (store_pid_ > 0 && options_.store_may_outlive.count() > 0) outlast_store();
    if (store_pid_ > 0) {
      ::kill(store_pid_, SIGKILL);
      ::waitpid(store_pid_, nullptr, 0);
    }
    end_all_descendants({}, kKillLimitMs);
    return agent_status_->exit_code();
  }

  /// The workers of a lost agent go at once; the other nodes still have to be told how the job ends.
  void outlast_store() {
    end_all_descendants({store_pid_}, kKillLimitMs);
    const auto until = Clock::now() + options_.store_may_outlive;
    const UniqueFd store = open_pidfd(store_pid_);
    while (store_pid_ > 0 && store && Clock::now() < until) {
      pollfd watched[2] = {{store.get(), POLLIN, 0}, {signals_.get(), POLLIN, 0}};
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now());
      ::poll(watched, 2, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
      if (watched[0].revents != 0) reap_store();
      signalfd_siginfo info{};
      if (watched[1].revents != 0) (void)!::read(signals_.get(), &info, sizeof info);
      if (info.ssi_signo != 0 && info.ssi_signo != SIGCHLD) return;  // told to end
    }
  }

  GuardianOptions options_;
  UniqueFd self_pidfd_;
  UniqueFd signals_;
  UniqueFd agent_pidfd_;
  pid_t store_pid_ = 0;
  pid_t agent_pid_ = 0;
  std::optional<ExitStatus> agent_status_;
  std::optional<Clock::time_point> kill_agent_at_;
  std::optional<Clock::time_point> stop_ends_at_;
  bool agent_stopped_ = false;
  bool killed_while_stopped_ = false;
  bool launcher_lost_ = false;
  bool lifeline_lost_ = false;
};

}  // namespace

int run_guardian(const GuardianOptions& options, const ProcessMain& store_main, const ProcessMain& agent_main,
                 const std::function<void()>& after_start) {
  return Guardian(options).run(store_main, agent_main, after_start);
}

}  // namespace muster::agent
