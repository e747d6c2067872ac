// SPDX-License-Identifier: Apache-2.0
#include "agent/process/watchdog.hpp"

#include "agent/process/temporary_directory.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/log/log.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>
#include <stdexcept>
#include <system_error>

namespace muster::agent {
namespace {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

double wall_clock_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

[[noreturn]] void fail(const std::string& path) {
  throw_errno("cannot make the pipe '" + path + "'");
}

constexpr const char* kPipeName = "/timers";

/// Returns the beginning of the name of a directory that the agent with this pid makes; more characters make
/// it unique.
std::string directory_prefix(pid_t agent) {
  return "muster_watchdog_" + std::to_string(agent) + "_";
}

/// Whether the name can be taken: nothing is there, or a pipe that nobody reads, which is removed.
bool free_up(const std::string& path) {
  struct stat status {};

  if (::lstat(path.c_str(), &status) != 0) return true;
  if (!S_ISFIFO(status.st_mode))
    throw std::runtime_error("'" + path + "' exists and is no pipe; remove it, or choose another name");
  const UniqueFd writer(::open(path.c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC));
  if (writer || errno != ENXIO) return false;
  return ::unlink(path.c_str()) == 0;
}

}  // namespace

struct Watchdog::State : std::enable_shared_from_this<State> {
  State(const asio::any_io_executor& executor, std::function<void(const ExpiredTimer&)> on_expired)
      : pipe(executor), timer(executor), expired(std::move(on_expired)) {}

  void make(const std::string& wanted) {
    if (!wanted.empty() && free_up(wanted)) {
      path = std::filesystem::absolute(wanted);
    } else {
      directory = temporary_directory() + "/" + directory_prefix(::getpid()) + "XXXXXX";
      if (::mkdtemp(directory.data()) == nullptr) fail(std::exchange(directory, ""));
      path = directory + kPipeName;
    }
    if (::mkfifo(path.c_str(), 0600) != 0) fail(std::exchange(path, ""));
    // The pipe is opened for writing, too, so that there is no end of it when the last worker closes it.
    const int fd = ::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0) fail(path);
    pipe.assign(fd);
  }

  void close() {
    expired = nullptr;
    boost::system::error_code ignored;
    pipe.close(ignored);
    timer.cancel();
    if (!path.empty()) ::unlink(path.c_str());
    if (!directory.empty()) ::rmdir(directory.c_str());
  }

  void read() {
    pipe.async_read_some(asio::buffer(bytes),
                         [self = shared_from_this()](const auto& error, std::size_t size) {
                           if (!error && self->expired) self->take(size);
                         });
  }

  void take(std::size_t size) {
    const std::string complaint = timers.receive({bytes.data(), size}, Clock::now(), wall_clock_s());
    if (!complaint.empty() && !complained) {
      complained = true;
      log_warning("the watchdog pipe " + path + " got " + complaint + "; such requests are ignored");
    }
    look();
    if (expired) read();
  }

  /// Reports the timers that have run out, and sleeps until the next one.
  void look() {
    for (const ExpiredTimer& over : timers.take_expired(Clock::now()))
      if (expired) expired(over);
    const auto next = timers.next();
    if (!next || !expired) {
      timer.cancel();
      return;
    }
    timer.expires_at(*next);
    timer.async_wait([self = shared_from_this()](const auto& error) {
      if (!error && self->expired) self->look();
    });
  }

  asio::posix::stream_descriptor pipe;
  asio::steady_timer timer;
  /// The callback for expired timers; null after close().
  std::function<void(const ExpiredTimer&)> expired;
  WatchdogTimers timers;
  std::array<char, 16384> bytes{};
  std::string path;
  /// Our own directory with the pipe in it; empty if the user named the pipe.
  std::string directory;
  bool complained = false;
};

Watchdog::Watchdog(const asio::any_io_executor& executor, const std::string& path,
                   std::function<void(const ExpiredTimer&)> expired)
    : state_(std::make_shared<State>(executor, std::move(expired))) {
  try {
    state_->make(path);
  } catch (...) {
    state_->close();
    throw;
  }
  state_->read();
}

Watchdog::~Watchdog() {
  state_->close();
}

const std::string& Watchdog::path() const {
  return state_->path;
}

void Watchdog::forget(int pid) {
  state_->timers.forget(pid);
}

void remove_watchdog_of(pid_t agent) {
  std::error_code error;
  const std::string prefix = directory_prefix(agent);
  for (std::filesystem::directory_iterator entry(temporary_directory(), error), end; !error && entry != end;
       entry.increment(error)) {
    if (!entry->path().filename().string().starts_with(prefix)) continue;

    struct stat status {};

    const std::string directory = entry->path();
    const bool ours =
        ::lstat(directory.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && status.st_uid == ::geteuid();
    try {
      if (ours && free_up(directory + kPipeName)) ::rmdir(directory.c_str());
    } catch (const std::runtime_error&) {
      // Something else has that name there: it is none of ours.
    }
  }
}

}  // namespace muster::agent
