// SPDX-License-Identifier: Apache-2.0
// One start in the order of its steps: what comes on stdout is searched for the greeting (and a copy of our
// executable is sent if the host asks for one); then the link is handed out, and only stderr is read. When
// the process has ended and its streams are read, or have had their time, the end is told.
#include "launcher/start/node_connection.hpp"

#include "agent/core/link_text.hpp"
#include "launcher/start/core/greeting.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <optional>
#include <string_view>
#include <utility>

namespace muster::launcher {
namespace {

namespace asio = boost::asio;
using Descriptor = asio::posix::stream_descriptor;
using Error = boost::system::error_code;

/// Most bytes that are kept of what is said before the greeting: the beginning says more than the end.
constexpr std::size_t kErrorBytesMax = std::size_t{16} << 10;
constexpr std::size_t kLineBytesMax = std::size_t{4} << 10;
/// Time for stderr to end after the process: somebody (a shared connection in the background) may hold it
/// open.
constexpr std::chrono::milliseconds kErrorsLateAfter{200};

}  // namespace

struct NodeConnection::State : std::enable_shared_from_this<State> {
  State(const asio::any_io_executor& executor, StartedProcess process, std::string executable,
        Events connection_events)
      : pid(process.pid),
        is_client(process.is_client),
        pidfd(executor, process.pidfd.release()),
        out(executor, process.out.release()),
        err(executor),
        late(executor),
        in(std::move(process.in)),
        push_file(std::move(executable)),
        events(std::move(connection_events)) {
    if (process.err) err.assign(process.err.release());
  }

  void start() {
    read_out();
    if (err.is_open()) read_errors();
    watch();
  }

  void watch() {
    pidfd.async_wait(Descriptor::wait_read, [self = shared_from_this()](const Error& error) {
      if (error || self->closed()) return;
      self->reap();
    });
  }

  void read_out() {
    out.async_read_some(asio::buffer(buffer),
                        [self = shared_from_this()](const Error& error, std::size_t size) {
                          if (self->closed()) return;
                          if (error) return self->out_ended();
                          self->take(std::string_view(self->buffer.data(), size));
                        });
  }

  void take(std::string_view bytes) {
    while (!bytes.empty()) {
      bytes.remove_prefix(reader.feed(bytes));
      switch (reader.state()) {
        case GreetingReader::State::waiting:
          break;
        case GreetingReader::State::push_wanted:
          reader.pushed();
          if (!begin_push()) return kill();
          break;
        case GreetingReader::State::greeted:
          return greet(bytes);
        case GreetingReader::State::too_much:
          end.too_much_junk = true;
          return kill();
      }
    }
    read_out();
  }

  void greet(std::string_view rest) {
    // stderr is a pipe of its own: what was said there before the greeting may still lie in it.
    if (err.is_open()) read_available_errors();
    greeted = true;
    LinkEnds ends;
    ends.in.reset(out.release());
    ends.out = std::move(in);
    ends.first_bytes = rest;
    const auto callback = std::move(events.greeted);  // the call may destroy us
    if (callback) callback(version_there(), std::move(ends));
    if (!closed()) out_ended();
  }

  std::string version_there() const {
    if (reader.protocol() == agent::kLinkProtocol) return reader.version();
    return reader.version() + " (it speaks link protocol " + std::to_string(reader.protocol()) +
           ", we speak " + std::to_string(agent::kLinkProtocol) + ")";
  }

  void out_ended() {
    Error ignored;
    out.close(ignored);
    if (pid < 0) finish();
  }

  /// Begins to send our executable. Returns false if it cannot be sent, or a copy was asked for before.
  bool begin_push() {
    file.reset(::open(push_file.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file || !in || push_to) return false;
    push_to.emplace(out.get_executor(), ::fcntl(in.get(), F_DUPFD_CLOEXEC, 3));
    push_left = reader.push_bytes();
    push_some();
    return true;
  }

  void push_some() {
    piece.resize(std::min<std::uint64_t>(push_left, std::size_t{64} << 10));
    const ssize_t got = piece.empty() ? 0 : ::read(file.get(), piece.data(), piece.size());
    if (got <= 0) return end_push();
    piece.resize(static_cast<std::size_t>(got));
    asio::async_write(*push_to, asio::buffer(piece),
                      [self = shared_from_this()](const Error& error, std::size_t size) {
                        if (self->closed()) return;
                        if (error) return self->end_push();
                        self->push_left -= size;
                        const auto callback = self->events.pushed;  // the call may destroy us
                        const std::uint64_t total = self->reader.push_bytes();
                        if (callback) callback(total - self->push_left, total);
                        if (!self->closed()) self->push_some();
                      });
  }

  /// Closes the descriptor of the copy, which must not outlive it: the host sees the end of its stdin only
  /// when all are closed.
  void end_push() {
    Error ignored;
    file.reset();
    push_to->close(ignored);
  }

  /// Waits for stderr and then reads it, so that no bytes are ever on their way between the pipe and us.
  void read_errors() {
    err.async_wait(Descriptor::wait_read, [self = shared_from_this()](const Error& error) {
      if (self->closed()) return;
      if (!error && self->read_available_errors()) {
        if (!self->closed()) self->read_errors();
        return;
      }
      if (self->closed()) return;
      Error ignored;
      self->err.close(ignored);
      if (!self->line.empty()) self->say_line();
      if (self->pid < 0 && !self->closed()) self->finish();
    });
  }

  /// Reads at most one buffer of stderr. Returns false at its end.
  bool read_available_errors() {
    Error ignored;
    err.native_non_blocking(true, ignored);
    const ssize_t got = ::read(err.native_handle(), error_buffer.data(), error_buffer.size());
    if (got > 0) take_errors(std::string_view(error_buffer.data(), static_cast<std::size_t>(got)));
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
  }

  void take_errors(std::string_view bytes) {
    if (!greeted) {
      end.errors += bytes.substr(0, kErrorBytesMax - std::min(kErrorBytesMax, end.errors.size()));
      return;
    }
    for (const char c : bytes) {
      if (c != '\n' && c != '\r') line += c;
      if ((c == '\n' && !line.empty()) || line.size() >= kLineBytesMax) say_line();
      if (closed()) return;
    }
  }

  void say_line() {
    const std::string text = std::exchange(line, {});
    const auto callback = events.said;  // the call may destroy us
    if (callback) callback(text);
  }

  void reap() {
    int status = 0;
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    // Asio may tell us of an event of a descriptor that was closed just before ours was opened.
    if (ended == 0) return watch();
    if (ended == pid) {
      end.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
      end.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
      // A client that is killed has lost what it led to; a process that is no client is the node's own
      // guardian.
      if (!is_client && end.signal != 0) end.exit_code = 128 + std::exchange(end.signal, 0);
    }
    pid = -1;
    if (all_read()) return finish();
    late.expires_after(kErrorsLateAfter);
    late.async_wait([self = shared_from_this()](const Error& error) {
      if (!error && !self->closed()) self->finish();
    });
  }

  void finish() {
    if (!all_read() && late.expiry() > std::chrono::steady_clock::now()) return;
    end.junk = reader.junk();
    const auto callback = std::move(events.ended);
    const StartEnd ended = end;
    close();
    if (callback) callback(ended);
  }

  /// Whether stdout, up to the link, and stderr have ended.
  bool all_read() const { return !out.is_open() && !err.is_open(); }

  bool closed() const { return !pidfd.is_open(); }

  /// Kills the whole group, which a client shares with what it starts (a jump host's client).
  void kill() const {
    if (pid <= 0) return;
    if (!is_client) {
      ::kill(pid, SIGCONT);
      return;
    }
    ::kill(-pid, SIGKILL);
    ::kill(pid, SIGKILL);
  }

  void close() {
    if (closed()) return;
    kill();
    if (pid > 0) ::waitpid(pid, nullptr, WNOHANG);
    Error ignored;
    pidfd.close(ignored);
    if (out.is_open()) out.close(ignored);
    if (err.is_open()) err.close(ignored);
    if (push_to && push_to->is_open()) push_to->close(ignored);
    late.cancel();
    in.reset();
    events = {};
  }

  pid_t pid;
  const bool is_client;
  Descriptor pidfd;
  Descriptor out;
  Descriptor err;
  asio::steady_timer late;
  UniqueFd in;
  std::string push_file;
  Events events;
  GreetingReader reader;
  StartEnd end;
  std::array<char, 16384> buffer{};
  std::array<char, 2048> error_buffer{};
  std::string line;
  UniqueFd file;
  std::optional<Descriptor> push_to;
  std::uint64_t push_left = 0;
  std::string piece;
  bool greeted = false;
};

NodeConnection::NodeConnection(const asio::any_io_executor& executor, StartedProcess process,
                               const std::string& push_file, Events events)
    : state_(std::make_shared<State>(executor, std::move(process), push_file, std::move(events))) {
  state_->start();
}

NodeConnection::~NodeConnection() {
  state_->close();
}

pid_t NodeConnection::pid() const {
  return state_->pid;
}

void NodeConnection::give_up() {
  state_->end.timed_out = true;
  state_->kill();
}

void NodeConnection::kill() {
  state_->kill();
}

pid_t NodeConnection::stopped_client() const {
  siginfo_t info{};
  if (state_->pid <= 0 || !state_->is_client) return 0;
  const int looked = ::waitid(P_PID, static_cast<id_t>(state_->pid), &info, WSTOPPED | WNOHANG | WNOWAIT);
  return looked == 0 ? info.si_pid : 0;
}

}  // namespace muster::launcher
