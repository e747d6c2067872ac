// SPDX-License-Identifier: Apache-2.0
#include "output_job.hpp"

#include "tests/support/pipe.hpp"

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>
#include <utility>

namespace muster::agent::test {

namespace asio = boost::asio;
using Clock = std::chrono::steady_clock;

Collector::Collector(Kind kind, bool reading) {
  if (kind == Kind::pipe) {
    muster::test::Pipe pipe;
    far_ = std::move(pipe.read);
    near_ = std::move(pipe.write);
  } else {
    far_.reset(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
    char name[128];
    if (!far_ || ::unlockpt(far_.get()) != 0 || ::ptsname_r(far_.get(), name, sizeof name) != 0)
      throw std::runtime_error("pty");
    near_.reset(::open(name, O_RDWR | O_NOCTTY | O_CLOEXEC));
  }
  if (reading) start();
}

Collector::~Collector() {
  finish();
}

void Collector::start() {
  thread_ = std::thread([this] {
    std::vector<char> buffer(std::size_t{1} << 16);
    for (;;) {
      ssize_t got = ::read(far_.get(), buffer.data(), buffer.size());
      // A terminal's first error may come before its last words.
      if (got < 0) got = ::read(far_.get(), buffer.data(), buffer.size());
      if (got <= 0) return;
      const std::scoped_lock lock(mutex_);
      text_.append(buffer.data(), static_cast<std::size_t>(got));
    }
  });
}

void Collector::hang_up() {
  if (thread_.joinable()) throw std::logic_error("only for a collector that does not read");
  far_.reset();
}

std::string Collector::finish() {
  near_.reset();
  if (thread_.joinable()) thread_.join();
  return so_far();
}

std::string Collector::so_far() {
  const std::scoped_lock lock(mutex_);
  return text_;
}

bool Collector::wait_for(const std::string& text) {
  const auto deadline = Clock::now() + std::chrono::seconds(20);
  while (so_far().find(text) == std::string::npos) {
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

class OutputJob::Impl {
 public:
  Impl(OutputSpec spec, int workers, StandardStreams ours)
      : shared(std::make_shared<WorkerOutput>(context.get_executor(), std::move(spec),
                                              OutputNames{"default", "n07"}, workers, ours)) {}

  void watch(int local_rank, pid_t pid) {
    const int fd = static_cast<int>(::syscall(SYS_pidfd_open, pid, 0));
    if (fd < 0) throw std::runtime_error("pidfd_open");
    auto exit = std::make_shared<asio::posix::stream_descriptor>(context, fd);
    const auto on_exit = [this, exit, local_rank, pid](const boost::system::error_code& error) {
      if (error) return;
      int status = 0;
      ::waitpid(pid, &status, 0);
      statuses[local_rank] = status;
      running.erase(pid);
      output.exited(local_rank);
    };
    exit->async_wait(asio::posix::stream_descriptor::wait_read, on_exit);
  }

  void run_until(const std::function<bool()>& ready, Clock::time_point deadline) {
    while (!ready()) {
      if (Clock::now() > deadline)
        throw std::runtime_error("the workers or their output did not end in time");
      context.restart();
      context.run_one_for(std::chrono::milliseconds(5));
    }
  }

  asio::io_context context;
  std::shared_ptr<WorkerOutput> shared;
  WorkerOutput& output = *shared;
  std::map<pid_t, int> running;
  std::map<int, int> statuses;
};

OutputJob::OutputJob(OutputSpec spec, int workers, StandardStreams ours)
    : impl_(std::make_unique<Impl>(std::move(spec), workers, ours)) {}

OutputJob::~OutputJob() {
  for (const auto& [pid, rank] : impl_->running) {
    ::kill(-pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
}

WorkerOutput& OutputJob::output() {
  return impl_->output;
}

WorkerStreams OutputJob::start(int local_rank, const std::string& script, int round) {
  WorkerStreams streams = impl_->output.open(round, local_rank, 100 + local_rank);
  const std::string rank = std::to_string(local_rank);
  const char* command = script.c_str();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::setsid();
    if (streams.stdin_fd >= 0) ::dup2(streams.stdin_fd, 0);
    if (streams.stdout_fd >= 0) ::dup2(streams.stdout_fd, 1);
    if (streams.stderr_fd >= 0) ::dup2(streams.stderr_fd, 2);
    ::execl("/bin/sh", "sh", "-c", command, rank.c_str(), nullptr);
    ::_exit(127);
  }
  impl_->running[pid] = local_rank;
  impl_->output.started(local_rank);
  impl_->watch(local_rank, pid);
  return streams;
}

void OutputJob::run(std::chrono::milliseconds at_most) {
  const auto deadline = Clock::now() + at_most;
  impl_->run_until([this] { return impl_->running.empty(); }, deadline);
  bool drained = false;
  impl_->output.drain(std::chrono::seconds(10), [&drained] { drained = true; });
  impl_->run_until([&drained] { return drained; }, deadline);
}

std::chrono::milliseconds OutputJob::finish(std::chrono::milliseconds at_most) {
  run();
  bool finished = false;
  const auto begin = Clock::now();
  impl_->output.finish(at_most, [&finished] { finished = true; });
  impl_->run_until([&finished] { return finished; }, begin + at_most + std::chrono::seconds(5));
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - begin);
}

void OutputJob::run_until(const std::function<bool()>& ready) {
  impl_->run_until(ready, Clock::now() + std::chrono::seconds(20));
}

int OutputJob::status(int local_rank) const {
  return impl_->statuses.at(local_rank);
}

std::vector<std::string> split_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

long peak_resident_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stol(line.substr(6));
  return 0;
}

void reset_peak() {
  std::ofstream("/proc/self/clear_refs") << "5";
}

}  // namespace muster::agent::test
