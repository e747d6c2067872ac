// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/program_run.hpp"

#include "rendezvous/base/posix.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace muster::launcher {
namespace {

using Clock = std::chrono::steady_clock;

/// Time for what a program has left behind to close the streams, too.
constexpr std::chrono::milliseconds kStreamsAtMost{200};
constexpr std::chrono::milliseconds kKillAtMost{1000};

int milliseconds_until(Clock::time_point time) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(time - Clock::now()).count();
  return static_cast<int>(std::clamp<std::chrono::milliseconds::rep>(left, 0, 60'000));
}

/// Reads once. Closes the stream at its end.
void read_some(UniqueFd& stream, std::string& kept) {
  std::array<char, 16384> bytes{};
  const ssize_t size = ::read(stream.get(), bytes.data(), bytes.size());
  if (size < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (size <= 0) return stream.reset();
  const std::size_t room = kProgramOutputMax - std::min(kept.size(), kProgramOutputMax);
  kept.append(bytes.data(), std::min(room, static_cast<std::size_t>(size)));
}

struct Reading {
  StartedProcess process;
  ProgramEnd end;
  Clock::time_point give_up;
  bool gone = false;

  bool done(Clock::time_point now) const { return now >= give_up || (gone && !process.out && !process.err); }

  /// Adds what is waited for; a descriptor of -1 is passed over by poll().
  void add_to(std::vector<pollfd>& waits) const {
    waits.push_back({process.out.get(), POLLIN, 0});
    waits.push_back({process.err.get(), POLLIN, 0});
    waits.push_back({gone ? -1 : process.pidfd.get(), POLLIN, 0});
  }

  void take(const pollfd* waits) {
    if (waits[0].revents != 0) read_some(process.out, end.out);
    if (waits[1].revents != 0) read_some(process.err, end.errors);
    if (waits[2].revents == 0) return;
    gone = true;
    give_up = std::min(give_up, Clock::now() + kStreamsAtMost);
  }

  void finish() {
    end.timed_out = !gone;
    if (!gone) {
      ::kill(-process.pid, SIGKILL);  // it leads a session of its own
      pollfd wait{process.pidfd.get(), POLLIN, 0};
      (void)::poll(&wait, 1, static_cast<int>(kKillAtMost.count()));
    }
    int status = 0;
    if (::waitpid(process.pid, &status, WNOHANG) != process.pid) return;
    end.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    end.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  }
};

}  // namespace

std::vector<ProgramEnd> run_to_ends(std::vector<StartedProcess> programs, std::chrono::milliseconds at_most) {
  std::vector<Reading> readings;
  for (StartedProcess& program : programs) {
    program.in.reset();
    readings.push_back({std::move(program), {}, Clock::now() + at_most});
  }
  while (true) {
    std::vector<pollfd> waits;
    std::vector<Reading*> waiting;
    Clock::time_point next = Clock::time_point::max();
    for (Reading& reading : readings) {
      if (reading.done(Clock::now())) continue;
      reading.add_to(waits);
      waiting.push_back(&reading);
      next = std::min(next, reading.give_up);
    }
    if (waiting.empty()) break;
    const int ready = ::poll(waits.data(), waits.size(), milliseconds_until(next));
    if (ready < 0 && errno != EINTR) throw_errno("poll");
    for (std::size_t i = 0; ready > 0 && i < waiting.size(); ++i) waiting[i]->take(&waits[3 * i]);
  }
  std::vector<ProgramEnd> ends;
  for (Reading& reading : readings) {
    reading.finish();
    ends.push_back(std::move(reading.end));
  }
  return ends;
}

}  // namespace muster::launcher
