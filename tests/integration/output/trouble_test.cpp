// SPDX-License-Identifier: Apache-2.0
// Floods, streams that are closed or held open, and disks that are full or do not answer.
#include "catch.hpp"
#include "output_job.hpp"
#include "tests/support/promise.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <string>

using namespace muster::agent;
using muster::UniqueFd;
using namespace muster::agent::test;
using std::chrono::milliseconds;

namespace {

using Clock = std::chrono::steady_clock;

/// Memory of a sanitizer's shadow is not ours.
#ifdef MUSTER_SANITIZED
constexpr long kMemoryFactor = 8;
constexpr int kFloodMiB = 32;
#else
constexpr long kMemoryFactor = 1;
constexpr int kFloodMiB = 256;
#endif

OutputSpec redirected(const std::string& log_dir) {
  OutputSpec spec;
  spec.log_dir = log_dir;
  spec.redirects.fallback = kStreamOut;
  return spec;
}

bool has_note(OutputJob& job, const std::string& text) {
  for (const std::string& note : job.output().notes())
    if (note.find(text) != std::string::npos) return true;
  return false;
}

/// A log file of worker 0 that cannot be opened until somebody reads it: a FIFO, as a hung file server.
std::string make_silent_log(const Folder& directory) {
  const std::string log = directory.path() + "/attempt_0/0/stdout.log";
  std::filesystem::create_directories(directory.path() + "/attempt_0/0");
  REQUIRE(::mkfifo(log.c_str(), 0600) == 0);
  return log;
}

/// What docs/failures.md promises.
constexpr double kHeldSeconds = 0.1;

/// `took` holds a clock of ours, and little else. One try: it repeats in every test here that waits for it.
void check_end(const std::string& what, double clock, Clock::duration took) {
  CHECK(muster::test::late(what, 0.5, {std::chrono::duration<double>(took).count()}, clock) == "");
}

std::string mib(int count) {
  return std::to_string(count) + "M";
}

}  // namespace

TEST_CASE("A flood of short lines passes quickly, complete and in bounded memory") {
  const UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  OutputJob job(OutputSpec{}, 2, StandardStreams{0, null.get(), null.get()});
  reset_peak();
  const long before = peak_resident_kib();
  const auto begin = Clock::now();
  job.start(0, "yes 'a line of ordinary length, as training loops print them' | head -c " + mib(kFloodMiB));
  job.finish();
  const std::chrono::duration<double> took = Clock::now() - begin;
  WARN("flood: " << kFloodMiB / took.count() << " MiB/s, peak memory +" << peak_resident_kib() - before
                 << " KiB");
  CHECK(peak_resident_kib() - before < 4096 * kMemoryFactor);
  CHECK(job.output().last_lines(0).size() == 20);
}

TEST_CASE("A line without end is bounded too, teed and with a prefix") {
  const Folder directory;
  const UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  OutputSpec spec;
  spec.log_dir = directory.path();
  spec.tee.fallback = kStreamBoth;
  OutputJob job(spec, 2, StandardStreams{0, null.get(), null.get()});
  reset_peak();
  const long before = peak_resident_kib();
  const WorkerStreams streams = job.start(0, "head -c " + mib(kFloodMiB / 4) + " /dev/zero | tr '\\0' x");
  job.finish();
  CHECK(peak_resident_kib() - before < 8192 * kMemoryFactor);
  if (job.output().notes().empty())
    CHECK(std::filesystem::file_size(streams.stdout_log) == std::uintmax_t(kFloodMiB / 4) << 20);
}

TEST_CASE("A console that takes nothing stops its worker, not the memory") {
  Collector out(Collector::Kind::pipe, false);
  OutputJob job(OutputSpec{}, 2, StandardStreams{0, out.fd(), out.fd()});
  const Folder directory;
  reset_peak();
  const long before = peak_resident_kib();
  job.start(0, "yes | head -c 33554432; echo end");
  const auto until = Clock::now() + milliseconds(300);
  job.run_until([until] { return Clock::now() > until; });
  CHECK(peak_resident_kib() - before < 4096 * kMemoryFactor);
  out.start();
  job.finish();
  const std::string text = out.finish();
  CHECK(text.size() == 33554432 + 4);
  CHECK(text.ends_with("y\nend\n"));
}

TEST_CASE("A console that never takes anything does not keep us from ending") {
  Collector out(Collector::Kind::pipe, false);
  {
    OutputJob job(OutputSpec{}, 2, StandardStreams{0, out.fd(), out.fd()});
    job.start(0, "head -c 100000 /dev/zero | tr '\\0' '\\n'");
    check_end("a console that takes nothing: our end", 0.4, job.finish(milliseconds(400)));
    CHECK(has_note(job, "some output was dropped at the end"));
  }
  out.hang_up();
  out.leave_open();
}

TEST_CASE("Our stdout is closed: the workers go on, and it is said once") {
  Collector out(Collector::Kind::pipe, false);
  Collector err;
  out.hang_up();
  OutputJob job(OutputSpec{}, 2, StandardStreams{0, out.fd(), err.fd()});
  const std::string script = "yes | head -c 8388608 || exit 9; echo done >&2";
  job.start(0, script);
  job.start(1, script);
  job.finish();
  CHECK(job.status(0) == 0);
  CHECK(job.status(1) == 0);
  CHECK(err.finish() == "done\ndone\n");
  REQUIRE(job.output().notes().size() == 1);
  CHECK(job.output().notes()[0].find("cannot write to our stdout (Broken pipe)") != std::string::npos);
}

TEST_CASE("A grandchild that holds the pipe is waited for one second") {
  Collector out;
  OutputJob job(OutputSpec{}, 2, StandardStreams{0, out.fd(), out.fd()});
  const Folder directory;
  job.start(0, "sleep 30 & echo $! >" + directory.path() + "/pid; echo last words; exit 3");
  const auto begin = Clock::now();
  job.finish();
  const auto took = Clock::now() - begin;
  ::kill(std::stoi(bytes_of_file(directory.path() + "/pid")), SIGKILL);
  CHECK(took > milliseconds(900));
  check_end("a grandchild holds the pipe: our end", 1, took);
  CHECK(WEXITSTATUS(job.status(0)) == 3);
  CHECK(out.finish() == "last words\n");
}

TEST_CASE("A grandchild that goes on printing is cut off") {
  const UniqueFd null(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  OutputJob job(OutputSpec{}, 2, StandardStreams{0, null.get(), null.get()});
  job.start(0, "yes & exit 0");
  const auto begin = Clock::now();
  job.finish();
  check_end("a grandchild goes on printing: our end", 1, Clock::now() - begin);
}

TEST_CASE("A full log disk leaves the worker alone, and the file says what is missing") {
  const Folder directory;
  // In a name space of its own: other tests look at the mounts of this machine.
  if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
      ::mount("tmpfs", directory.path().c_str(), "tmpfs", 0, "size=1m") != 0) {
    WARN("no right to mount a small tmpfs: skipped");
    return;
  }
  Collector out;
  WorkerStreams streams;
  std::string text;
  {
    OutputJob job(redirected(directory.path()), 2, StandardStreams{0, out.fd(), out.fd()});
    const std::string filler = directory.path() + "/filler";
    streams = job.start(0, "echo begin; head -c 700000 /dev/zero >" + filler +
                               "; yes xxxxxxx | head -c 2000000; echo full >&2; rm " + filler +
                               "; sleep 3; echo again; sleep 0.2; echo more");
    job.finish();
    CHECK(job.status(0) == 0);
    CHECK(has_note(job, "log truncated on n07: no space left on device (" + streams.stdout_log));
    CHECK(job.output().notes().size() == 1);
    text = bytes_of_file(streams.stdout_log);
  }
  ::umount2(directory.path().c_str(), MNT_DETACH);
  CHECK(out.finish() == "full\n");
  CHECK(text.starts_with("begin\nxxxxxxx\n"));
  const auto mark = text.find("\n[muster: output truncated here: ");
  REQUIRE(mark != std::string::npos);
  CHECK(text.find(" bytes lost, no space left on device]\n", mark) != std::string::npos);
  CHECK(text.ends_with("]\nagain\nmore\n"));
}

TEST_CASE("A log disk that does not answer delays no worker by more than a moment") {
  const Folder directory;
  Collector out;
  const std::string log = make_silent_log(directory);
  {
    OutputJob job(redirected(directory.path()), 2, StandardStreams{0, out.fd(), out.fd()});
    job.start(0, "yes | head -c 20000000; echo written >&2");
    job.start(1, "echo me too >&2");
    const auto begin = Clock::now();
    job.run();
    CHECK(Clock::now() - begin < std::chrono::seconds(20));
    CHECK(out.wait_for("written"));
    CHECK(has_note(job, "log truncated on n07: the log disk is too slow"));
    check_end("a log disk that does not answer: our end", 0.4, job.finish(milliseconds(400)));
  }
  // Lets the abandoned thread end.
  const UniqueFd reader(::open(log.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  CHECK(reader);
}

TEST_CASE("A log disk that does not answer holds up no write of a worker for long") {
  const std::string longest_write =
      "python3 -c \"import os, time\nlongest = 0\nfor _ in range(300):\n begin = time.monotonic()\n "
      "os.write(1, bytes(65536))\n longest = max(longest, time.monotonic() - begin)\n"
      "os.write(2, str(longest).encode())\"";
  std::vector<double> held;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const Folder directory;
    Collector out;
    const std::string log = make_silent_log(directory);
    {
      OutputJob job(redirected(directory.path()), 2, StandardStreams{0, out.fd(), out.fd()});
      job.start(0, longest_write);
      job.run();
      job.finish(milliseconds(400));
    }
    held.push_back(std::stod(out.finish()));
    const UniqueFd reader(::open(log.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  }
  CHECK(muster::test::late("a log disk that does not answer: the longest write of a worker", kHeldSeconds,
                           held) == "");
}

TEST_CASE("A log disk that stalls and recovers has a line about what is missing") {
  const Folder directory;
  Collector out;
  const std::string log = make_silent_log(directory);
  OutputJob job(redirected(directory.path()), 2, StandardStreams{0, out.fd(), out.fd()});
  const std::string gate = directory.path() + "/gate";
  REQUIRE(::mkfifo(gate.c_str(), 0600) == 0);
  job.start(0, "yes | head -c 20000000; echo flooded >&2; read go <" + gate + "; echo again");
  job.run_until([&out] { return out.so_far() == "flooded\n"; });
  CHECK(has_note(job, "too slow"));
  // Now somebody reads the log; the worker goes on once the queue has been written.
  const std::string copy = directory.path() + "/copy";
  job.start(1, "cat " + log + " >" + copy + " & until [ \"$(stat -c %s " + copy +
                   " 2>/dev/null || echo 0)\" -gt 1000000 ]; do sleep 0.01; done; echo go >" + gate +
                   "; wait");
  job.finish();
  const std::string text = bytes_of_file(directory.path() + "/copy");
  CHECK(text.starts_with("y\ny\n"));
  const auto mark = text.find("y\n[muster: output truncated here: ");
  REQUIRE(mark != std::string::npos);
  CHECK(text.ends_with(" bytes lost, the log disk is too slow]\nagain\n"));
}
