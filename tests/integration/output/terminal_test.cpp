// SPDX-License-Identifier: Apache-2.0
// The test acts as our terminal.
#include "agent/process/output/terminal.hpp"

#include "catch.hpp"
#include "output_job.hpp"
#include "tests/support/pipe.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/io_context.hpp>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <utility>

using namespace muster::agent;
using muster::UniqueFd;
using namespace muster::agent::test;

namespace {

void set_size(const Collector& terminal, unsigned short rows, unsigned short columns) {
  const winsize size{rows, columns, 0, 0};
  REQUIRE(::ioctl(terminal.far(), TIOCSWINSZ, &size) == 0);
}

/// Exit code of `body`, run in a process that leads a session whose terminal is a new pty.
int in_session_with_terminal(const std::function<int(int terminal)>& body) {
  const Collector terminal(Collector::Kind::terminal, false);
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setsid();
    ::ioctl(terminal.fd(), TIOCSCTTY, 0);
    ::_exit(body(terminal.fd()));
  }
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Exit code of `body` in a child.
int in_child(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body());
  int status = 0;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// `body`, in a child that is not in the foreground of its terminal.
std::function<int(int terminal)> in_background(std::function<int(int terminal)> body) {
  return [body = std::move(body)](int terminal) {
    return in_child([&body, terminal] {
      ::setpgid(0, 0);
      return body(terminal);
    });
  };
}

}  // namespace

TEST_CASE("On a terminal the streams of a worker share one that behaves like it") {
  Collector terminal(Collector::Kind::terminal);
  set_size(terminal, 33, 77);
  OutputJob job(OutputSpec{}, 2, StandardStreams{0, terminal.fd(), terminal.fd()});
  const WorkerStreams streams = job.start(
      0,
      "test -t 1 && test -t 2 && echo both; test $(readlink /proc/$$/fd/1) = $(readlink /proc/$$/fd/2) && "
      "echo same; stty size <&1; stty -a <&2 | grep -o -e -opost -e ' -echo ';"
      "(: </dev/tty) 2>/dev/null || echo not controlling; printf 'bar\\rBAR\\n' >&2");
  CHECK(streams.stdout_fd == streams.stderr_fd);
  job.finish();
  // The CR of each CR LF is our terminal's own; a second one would come from the worker's.
  CHECK(terminal.finish() == "both\r\nsame\r\n33 77\r\n-opost\r\n -echo \r\nnot controlling\r\nbar\rBAR\r\n");
  CHECK(job.output().last_lines(0).back() == "BAR");
}

TEST_CASE("A new size of our terminal reaches the workers' terminals") {
  Collector terminal(Collector::Kind::terminal);
  set_size(terminal, 33, 77);
  const Folder directory;
  const std::string gate = directory.path() + "/gate";
  REQUIRE(::mkfifo(gate.c_str(), 0600) == 0);
  OutputJob job(OutputSpec{}, 2, StandardStreams{0, terminal.fd(), terminal.fd()});
  job.start(0, "stty size <&1; read go <" + gate + "; stty size <&1");
  job.run_until([&terminal] { return terminal.so_far() == "33 77\r\n"; });
  set_size(terminal, 50, 132);
  job.output().resize();
  job.start(1, "echo go >" + gate);
  job.finish();
  CHECK(terminal.finish() == "33 77\r\n50 132\r\n");
}

TEST_CASE("Only the stream that is a terminal becomes one; teed streams never do") {
  const Folder directory;
  Collector terminal(Collector::Kind::terminal);
  Collector err;
  OutputSpec spec;
  spec.log_dir = directory.path();
  spec.tee.by_rank = {{1, kStreamOut}};
  OutputJob job(spec, 2, StandardStreams{0, terminal.fd(), err.fd()});
  const std::string script = "test -t 1 && echo out; test -t 2 || echo err $0 >&2";
  job.start(0, script);
  job.start(1, script + "; echo plain");
  job.finish();
  const std::string shown = terminal.finish();
  CHECK((shown == "out\r\n[default1]:plain\r\n" || shown == "[default1]:plain\r\nout\r\n"));
  CHECK(split_lines(err.finish()).size() == 2);
}

TEST_CASE("A worker's colours and movements reach our terminal, what else it would act on is shown") {
  const std::string script =
      "printf 'a\\033[31mb\\033]0;title\\007c\\r\\033[2K\\033[A'; printf '\\033'; printf '[6n\\n'";
  for (const bool raw : {false, true}) {
    Collector terminal(Collector::Kind::terminal);
    OutputSpec spec;
    spec.raw_output = raw;
    OutputJob job(spec, 2, StandardStreams{0, terminal.fd(), terminal.fd()});
    job.start(0, script);
    job.finish();
    CHECK(terminal.finish() == (raw ? "a\033[31mb\033]0;title\007c\r\033[2K\033[A\033[6n\r\n"
                                    : "a\033[31mb\\x1b]0;title\\x07c\r\033[2K\033[A\\x1b[6n\r\n"));
  }
}

TEST_CASE("Log files, pipes and the last lines keep every byte that a terminal is spared") {
  const Folder directory;
  Collector terminal(Collector::Kind::terminal);
  Collector pipe;
  OutputSpec spec;
  spec.log_dir = directory.path();
  spec.tee.by_rank = {{1, kStreamErr}};
  OutputJob job(spec, 2, StandardStreams{0, pipe.fd(), terminal.fd()});
  const WorkerStreams streams = job.start(1, "printf '\\033c\\302\\n' >&2; printf '\\033c\\302\\n'");
  job.finish();
  CHECK(terminal.finish() == "[default1]:\\x1bc\\xc2\r\n");
  CHECK(pipe.finish() == "\033c\302\n");
  CHECK(bytes_of_file(streams.stderr_log) == "\033c\302\n");
  CHECK(job.output().last_lines(1).back() == "\033c\302");
}

TEST_CASE("A sequence that a worker leaves unfinished is shown at its end, and touches nobody else's line") {
  Collector terminal(Collector::Kind::terminal);
  OutputJob job(OutputSpec{}, 2, StandardStreams{0, terminal.fd(), terminal.fd()});
  job.start(0, "printf 'cut\\033[3'");
  job.run();
  job.start(1, "echo 1m");
  job.finish();
  CHECK(terminal.finish() == "cut\\x1b[3\r\n1m\r\n");
}

TEST_CASE("Workers may read a terminal only while we are in its foreground") {
  const muster::test::Pipe pipe;
  CHECK(console_is_foreground(pipe.read.get()));
  const Collector nobodys(Collector::Kind::terminal, false);
  CHECK(console_is_foreground(nobodys.fd()));

  const auto ask = [](int terminal) { return console_is_foreground(terminal) ? 1 : 0; };
  CHECK(in_session_with_terminal(ask) == 1);
  CHECK(in_session_with_terminal(in_background(ask)) == 0);
  const auto own_session = [&ask](int terminal) {
    return in_child([&ask, terminal] {
      ::setsid();
      return ask(terminal);
    });
  };
  CHECK(in_session_with_terminal(own_session) == 1);
  CHECK(in_session_with_terminal(in_background(own_session)) == 0);
}

TEST_CASE("A background job's workers get the null device as stdin, a foreground job's our own") {
  const auto stdin_of_worker = [](int terminal) {
    boost::asio::io_context context;
    const auto output = std::make_shared<WorkerOutput>(context.get_executor(), OutputSpec{}, OutputNames{}, 1,
                                                       StandardStreams{terminal, terminal, terminal});
    const WorkerStreams streams = output->open(0, 0, 0);
    if (streams.stdin_fd < 0) return 1;
    const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    return same_file(streams.stdin_fd, null.get()) ? 2 : 3;
  };
  CHECK(in_session_with_terminal(stdin_of_worker) == 1);
  CHECK(in_session_with_terminal(in_background(stdin_of_worker)) == 2);
}
