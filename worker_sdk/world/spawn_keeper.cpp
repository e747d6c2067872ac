// SPDX-License-Identifier: Apache-2.0
// The life of the keeper: it becomes the parent of all orphaned descendants and forks the ranks; then it
// serves their store and waits until all have ended. When a rank fails or the deadline passes, it sends
// SIGTERM to the other ranks and later SIGKILL; when its own parent is gone, SIGKILL at once. At last it
// kills all processes that are left and writes its report.
#include "worker_sdk/world/spawn_keeper.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/process_stat.hpp"
#include "rendezvous/server/store/store_engine.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <iostream>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <utility>
#include <vector>

namespace muster {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// The most bytes of an exception's text that a rank sends.
constexpr std::size_t kLongestText = 32768;
/// The longest time until killed processes are gone; only a process stuck in the kernel takes longer.
constexpr std::chrono::seconds kSweepLimit{10};

/// Kills and reaps all children of this process until none is left, or `deadline`. In a child subreaper these
/// include the whole tree, because the children of a killed process become its own. False at the deadline.
bool kill_children(Clock::time_point deadline) {
  while (true) {
    pid_t ended = 0;
    while ((ended = ::waitpid(-1, nullptr, WNOHANG)) > 0) {
    }
    if (ended < 0) return true;  // no children
    if (Clock::now() >= deadline) return false;
    for (const ProcessStat& process : all_processes())
      if (process.parent == ::getpid()) ::kill(process.pid, SIGKILL);
    ::poll(nullptr, 0, 1);
  }
}

struct Rank {
  pid_t pid = 0;
  UniqueFd process;  ///< pidfd of the rank; closed once the process is reaped
  UniqueFd words;    ///< where the rank writes why it fails
  std::string text;

  bool is_running() const { return static_cast<bool>(process); }
};

/// The time that is given to a rank whose end made another one fail, so that it is named as the cause. It
/// costs nothing if that rank has ended already, or if no rank is left to wait for.
constexpr milliseconds kBetterCause{1000};

/// The ways in which a rank fails, the likeliest cause first, because the end of one rank makes the others
/// fail as well.
enum class Blame { signal, own_words, exit_code, others };

Blame blame_for(const SpawnFailure& failure, ErrorCode code) {
  if (failure.signal != 0) return Blame::signal;
  if (failure.text.empty()) return Blame::exit_code;
  const bool by_others =
      code == ErrorCode::peer_lost || code == ErrorCode::aborted || code == ErrorCode::store;
  return by_others ? Blame::others : Blame::own_words;
}

/// The likeliest cause so far.
struct Suspect {
  SpawnFailure failure;
  Blame blame = Blame::others;
  Clock::time_point until;  ///< how long a likelier cause is waited for
};

class Keeper {
 public:
  Keeper(const KeeperPlan& plan, UniqueFd report)
      : plan_(plan),
        report_(std::move(report)),
        store_(std::make_unique<rendezvous::StoreEngine>(server_options())) {}

  void start_ranks() {
    if (plan_.options.deadline) deadline_ = Clock::now() + *plan_.options.deadline;
    for (int rank = 0; rank < plan_.size; ++rank) start(rank);
  }

  /// Waits for the ranks; returns when none is left.
  KeeperReport wait_for_ranks() {
    KeeperReport result;
    while (any_running()) {
      if (wait_for_event()) {
        signal_all(SIGKILL);  // there is nobody left to tell
        parent_gone_ = true;
      }
      serve_store();
      reap_ranks();
      const auto now = Clock::now();
      if (suspect_ && !result.failed && !parent_gone_ && is_clear(now)) {
        result.failed = true;
        result.failure = suspect_->failure;
        stop_the_rest();
      }
      if (deadline_ && now >= *deadline_ && !result.failed) {
        result.failed = true;
        result.failure = late_ranks();
        stop_the_rest();
      }
      if (kill_at_ && now >= *kill_at_) {
        kill_at_.reset();
        signal_all(SIGKILL);
      }
    }
    return result;
  }

  void send(const KeeperReport& result) const { write_all(report_.get(), result.to_text()); }

  void kill_ranks() { signal_all(SIGKILL); }

 private:
  static rendezvous::StoreServerOptions server_options() {
    rendezvous::StoreServerOptions options;
    options.host = "127.0.0.1";
    return options;
  }

  void start(int number) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw std::runtime_error(std::string("pipe: ") + std::strerror(errno));
    Rank rank;
    rank.words.reset(ends[0]);
    UniqueFd words(ends[1]);
    const pid_t keeper = ::getpid();
    rank.pid = ::fork();
    if (rank.pid < 0) throw std::runtime_error(std::string("fork: ") + std::strerror(errno));
    if (rank.pid == 0) {
      rank.words.reset();
      become_rank(number, keeper, std::move(words));
    }
    ::fcntl(rank.words.get(), F_SETFL, O_NONBLOCK);
    rank.process = open_pidfd(rank.pid);
    if (!rank.process) {
      const int error = errno;
      ::kill(rank.pid, SIGKILL);
      throw std::runtime_error(std::string("pidfd_open: ") + std::strerror(error));
    }
    ranks_.push_back(std::move(rank));
  }

  [[noreturn]] void become_rank(int number, pid_t keeper, UniqueFd words) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != keeper) ::_exit(1);
    const std::string store = store_->endpoint().text();
    report_.reset();
    ranks_.clear();
    store_.reset();
    set_environment(number, store, keeper);
    ::sigaction(SIGCHLD, &plan_.child_action, nullptr);
    ::sigprocmask(SIG_SETMASK, &plan_.mask, nullptr);
    const int code = run_body(number, words.get());
    flush_streams();
    ::_exit(code);
  }

  void set_environment(int number, const std::string& store, pid_t keeper) const {
    const std::string size = std::to_string(plan_.size);
    const std::string rank = std::to_string(number);
    const std::pair<const char*, std::string> variables[] = {
        {"MUSTER_RANK", rank},       {"MUSTER_WORLD_SIZE", size},
        {"MUSTER_LOCAL_RANK", rank}, {"MUSTER_LOCAL_WORLD_SIZE", size},
        {"MUSTER_NODE_RANK", "0"},   {"MUSTER_NODES", "1"},
        {"MUSTER_STORE", store},     {"MUSTER_RUN_ID", "spawn-" + std::to_string(keeper)}};
    for (const auto& [name, value] : variables) ::setenv(name, value.c_str(), 1);
    // These are variables of the caller's own world, if the caller itself is a worker of a job.
    for (const char* name : {"MUSTER_INIT_URL", "MUSTER_RESTART_COUNT", "MUSTER_STATUS"}) ::unsetenv(name);
  }

  int run_body(int number, int words) const {
    std::string text;
    auto code = static_cast<ErrorCode>(0);
    try {
      return plan_.body(number, plan_.size);
    } catch (const Error& error) {
      code = error.code();
      text = error.what();
    } catch (const std::exception& error) {
      text = error.what();
    } catch (...) {
      text = "an exception that is no std::exception";
    }
    write_all(words, std::to_string(static_cast<int>(code)) + " " + text.substr(0, kLongestText));
    return 1;
  }

  /// Waits until something happens or is due. Returns true when the caller of spawn() is gone.
  bool wait_for_event() {
    std::vector<pollfd> watched{{report_.get(), 0, 0}, {store_->descriptor(), POLLIN, 0}};
    // The caller's end is reported only once.
    if (parent_gone_) watched[0].fd = -1;
    for (const Rank& rank : ranks_) {
      if (!rank.is_running()) continue;
      watched.push_back({rank.process.get(), POLLIN, 0});
      if (rank.words) watched.push_back({rank.words.get(), POLLIN, 0});
    }
    auto due = store_->next_deadline();
    std::optional<Clock::time_point> better_cause;
    if (suspect_ && !kill_at_ && Clock::now() < suspect_->until) better_cause = suspect_->until;
    for (const auto& each : {deadline_, kill_at_, better_cause})
      if (each && (!due || *each < *due)) due = each;
    if (::poll(watched.data(), watched.size(), poll_time(due)) <= 0) return false;
    return (watched[0].revents & (POLLERR | POLLHUP)) != 0;
  }

  void serve_store() {
    store_->turn();
    store_->cut_overdue(Clock::now());
  }

  static void read_words(Rank& rank) {
    char piece[4096];
    while (rank.words) {
      const ssize_t count = ::read(rank.words.get(), piece, sizeof(piece));
      if (count > 0) {
        if (rank.text.size() < kLongestText) rank.text.append(piece, static_cast<std::size_t>(count));
      } else if (count < 0 && errno == EAGAIN) {
        return;
      } else if (count == 0 || errno != EINTR) {
        rank.words.reset();
      }
    }
  }

  bool any_running() const {
    return std::any_of(ranks_.begin(), ranks_.end(), [](const Rank& rank) { return rank.is_running(); });
  }

  /// Whether the suspect is the cause: it failed by itself, or no likelier cause has come in time.
  bool is_clear(Clock::time_point now) const {
    return suspect_->blame != Blame::others || now >= suspect_->until || (deadline_ && now >= *deadline_) ||
           !any_running();
  }

  /// Reaps the ranks that have ended, and keeps the likeliest cause among them.
  void reap_ranks() {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      Rank& rank = ranks_[i];
      if (!rank.is_running()) continue;
      read_words(rank);
      siginfo_t info{};
      if (::waitid(P_PID, static_cast<id_t>(rank.pid), &info, WEXITED | WNOHANG) != 0 || info.si_pid == 0)
        continue;
      read_words(rank);
      rank.process.reset();
      rank.words.reset();
      if (info.si_code == CLD_EXITED && info.si_status == 0) continue;
      SpawnFailure failure;
      failure.rank = static_cast<int>(i);
      failure.signal = info.si_code == CLD_EXITED ? 0 : info.si_status;
      failure.exit_code = info.si_code == CLD_EXITED ? info.si_status : 128 + info.si_status;
      int code = 0;
      const char* const end = rank.text.data() + rank.text.size();
      const char* const rest = std::from_chars(rank.text.data(), end, code).ptr;
      if (rest < end) failure.text.assign(rest + 1, end);
      const Blame blame = blame_for(failure, static_cast<ErrorCode>(code));
      if (!suspect_)
        suspect_ = {failure, blame, Clock::now() + kBetterCause};
      else if (blame < suspect_->blame)
        suspect_ = {failure, blame, suspect_->until};
    }
  }

  SpawnFailure late_ranks() const {
    SpawnFailure failure;
    failure.text = "the ranks of spawn() had " + std::to_string(plan_.options.deadline->count()) +
                   " ms to end, and these still run:";
    for (std::size_t i = 0; i < ranks_.size(); ++i)
      if (ranks_[i].is_running()) failure.text += " rank " + std::to_string(i);
    failure.text += "; see what they wait for, or give a longer deadline";
    return failure;
  }

  void stop_the_rest() {
    signal_all(SIGTERM);
    // A stopped process takes no SIGTERM before it continues.
    signal_all(SIGCONT);
    kill_at_ = Clock::now() + plan_.options.grace;
  }

  void signal_all(int signal) {
    for (const Rank& rank : ranks_)
      if (rank.is_running()) ::kill(rank.pid, signal);
  }

  const KeeperPlan& plan_;
  UniqueFd report_;
  std::unique_ptr<rendezvous::StoreEngine> store_;
  std::vector<Rank> ranks_;
  std::optional<Clock::time_point> deadline_;
  std::optional<Clock::time_point> kill_at_;
  std::optional<Suspect> suspect_;
  bool parent_gone_ = false;
};

KeeperReport keep(Keeper& keeper) {
  KeeperReport result;
  try {
    keeper.start_ranks();
  } catch (const std::exception& error) {
    keeper.kill_ranks();
    result.broken = true;
    result.failure.text = error.what();
    return result;
  }
  return keeper.wait_for_ranks();
}

}  // namespace

void run_keeper(const KeeperPlan& plan, UniqueFd report) {
  ::close(plan.parent_end);
  // Orphans of the ranks become children of this process, which can then end them.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  ::prctl(PR_SET_PDEATHSIG, 0);

  struct sigaction by_default {};

  by_default.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &by_default, nullptr);
  const int fallback = ::fcntl(report.get(), F_DUPFD_CLOEXEC, 0);
  try {
    Keeper keeper(plan, std::move(report));
    const KeeperReport result = keep(keeper);
    kill_children(Clock::now() + kSweepLimit);
    keeper.send(result);
  } catch (const std::exception& error) {
    kill_children(Clock::now() + kSweepLimit);
    KeeperReport result;
    result.broken = true;
    result.failure.text = error.what();
    write_all(fallback, result.to_text());
  }
  ::_exit(0);
}

void flush_streams() noexcept {
  for (std::ostream* const stream : {&std::cout, &std::clog}) try {
      stream->flush();
    } catch (const std::exception&) {
      // The program has asked its stream to throw, but here no code is left to catch that.
    }
  std::fflush(nullptr);
}

std::string KeeperReport::to_text() const {
  std::ostringstream text;
  text << failed << ' ' << broken << ' ' << failure.rank << ' ' << failure.exit_code << ' ' << failure.signal
       << ' ' << failure.text.size() << '\n'
       << failure.text;
  return text.str();
}

std::optional<KeeperReport> KeeperReport::from_text(std::string_view text) {
  const std::size_t line = text.find('\n');
  if (line == std::string_view::npos) return std::nullopt;
  KeeperReport report;
  std::size_t length = 0;
  std::istringstream words{std::string(text.substr(0, line))};
  words >> report.failed >> report.broken >> report.failure.rank >> report.failure.exit_code >>
      report.failure.signal >> length;
  report.failure.text = text.substr(line + 1);
  if (!words || report.failure.text.size() != length) return std::nullopt;
  return report;
}

}  // namespace muster
