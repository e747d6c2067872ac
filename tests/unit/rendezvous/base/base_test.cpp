// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "rendezvous/base/fnv1a.hpp"
#include "rendezvous/base/host_port.hpp"
#include "rendezvous/base/invariant.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/process_stat.hpp"
#include "rendezvous/base/signal_name.hpp"
#include "rendezvous/base/text.hpp"
#include "tests/support/pipe.hpp"

#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <system_error>

using namespace muster;

TEST_CASE("HOST:PORT in all its forms") {
  CHECK(parse_host_port("node7:29500").value().host == "node7");
  CHECK(parse_host_port("node7:29500").value().port == 29500);
  CHECK(parse_host_port("[::1]:0").value().host == "::1");
  for (const char* text : {"", "host", "host:", ":1", "host:65536", "host:-1", "host:1x", "::1:5", "[]:1"}) {
    INFO(text);
    CHECK_FALSE(parse_host_port(text).has_value());
  }
  CHECK_FALSE(split_host_port("node7").value().port);
  CHECK(split_host_port("node7:").value().port == "");
  CHECK(split_host_port("[fe80::1%eth0]").value().host == "fe80::1%eth0");
  CHECK(split_host_port("[::1]:x").value().bracketed);
  for (const char* text : {"", ":1", "::1", "[]", "[::1]5", "[::1"}) {
    INFO(text);
    CHECK_FALSE(split_host_port(text).has_value());
  }
}

TEST_CASE("Every signal but the real-time ones has a name") {
  CHECK(std::string(signal_abbreviation(SIGTERM)) == "TERM");
  CHECK(std::string(signal_abbreviation(SIGPWR)) == "PWR");
  for (int signal = 1; signal < __SIGRTMIN; ++signal) {
    INFO(signal);
    const char* theirs = sigabbrev_np(signal);
    REQUIRE(theirs != nullptr);
    REQUIRE(signal_abbreviation(signal) != nullptr);
    CHECK(std::string(signal_abbreviation(signal)) == theirs);
  }
  for (const int signal : {-1, 0, __SIGRTMIN, SIGRTMAX, 1000}) CHECK(signal_abbreviation(signal) == nullptr);
}

TEST_CASE("A number is all of its text") {
  CHECK(parse_number<int>("-12") == -12);
  CHECK(parse_number<unsigned>("ff", 16) == 255);
  for (const char* text : {"", "-1", "+1", " 1", "1 ", "1x", "65536"}) {
    INFO(text);
    CHECK_FALSE(parse_number<std::uint16_t>(text).has_value());
  }
}

TEST_CASE("Lists are cut and counted") {
  const std::vector<std::string> names{"n0", "n1", "n2"};
  CHECK(joined(names) == "n0, n1, n2");
  CHECK(joined(names, "; ", 3) == "n0; n1; n2");
  CHECK(joined(names, ", ", 1) == "n0 and 2 more");
  CHECK(joined(std::vector<int>{4, 5}, ",") == "4,5");
  CHECK(joined(std::vector<int>{}).empty());
  CHECK(joined_by(names, [](const std::string& name) { return "'" + name + "'"; }) == "'n0', 'n1', 'n2'");
  CHECK(and_more(0).empty());
}

TEST_CASE("Rank lists are short") {
  CHECK(rank_list({}).empty());
  CHECK(rank_list({3}) == "3");
  CHECK(rank_list({1, 0}) == "0, 1");
  CHECK(rank_list({5, 2, 0, 1}) == "0-2, 5");
  CHECK(rank_list({0, 1, 3, 4, 5}) == "0, 1, 3-5");
  CHECK(rank_list({0, 2, 4, 6}, 2) == "0, 2 and 2 more");
}

TEST_CASE("Slurm's task counts are one for each node") {
  CHECK(parse_task_counts("2(x3),1") == std::vector<int>{2, 2, 2, 1});
  CHECK(parse_task_counts("4") == std::vector<int>{4});
  for (const char* text :
       {"", ",", "2,", "-1", "x", "2(x", "2(x)", "2(x0)", "2(x3", "2(x3)1", "2000000", "1(x2000000)"}) {
    INFO(text);
    CHECK_FALSE(parse_task_counts(text).has_value());
  }
}

TEST_CASE("The hash is that of the standard's test vectors") {
  CHECK(fnv1a("") == 0xCBF29CE484222325U);
  CHECK(fnv1a("a") == 0xAF63DC4C8601EC8CU);
  CHECK(fnv1a("foobar") == 0x85944171F73967E8U);
}

TEST_CASE("Files are read whole, or as far as wanted") {
  const std::string text = read_file("/proc/self/status").value();
  CHECK(text.find("VmRSS") != std::string::npos);
  CHECK(text.back() == '\n');
  CHECK(read_file("/dev/zero", 20000)->size() == 20000);
  CHECK_FALSE(read_file("/no/such/file").has_value());
  CHECK(errno == ENOENT);
  CHECK_FALSE(read_file("/").has_value());
  CHECK(errno == EISDIR);
  CHECK_THROWS_AS(throw_errno("reading"), std::system_error);
}

TEST_CASE("A process is read from its stat line, and gone when it is reaped") {
  const auto stat = parse_process_stat("12 (a) b) T 1 2").value();
  CHECK(stat.name == "a) b");
  CHECK(stat.state == 'T');
  CHECK(stat.group == 2);
  CHECK(stat.start_time == 0);
  CHECK(parse_process_stat("12 (cat) Z 1").value().is_zombie());
  const auto whole =
      parse_process_stat("1 (cat) S 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 987 23").value();
  CHECK(whole.terminal == 7);
  CHECK(whole.foreground_group == 8);
  CHECK(whole.threads == 20);
  CHECK(whole.start_time == 987);
  for (const char* text : {"", "12 (cat", "12 cat) S", "12 (cat)"})
    CHECK_FALSE(parse_process_stat(text).has_value());
  CHECK(read_process_stat(::getpid())->parent == ::getppid());
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  const UniqueFd pidfd = open_pidfd(child);
  REQUIRE(pidfd);
  pollfd ended{pidfd.get(), POLLIN, 0};
  CHECK(::poll(&ended, 1, 10'000) == 1);
  CHECK(start_time_of(child) == 0);
  CHECK(read_process_stat(child)->start_time > 0);
  CHECK(::waitpid(child, nullptr, 0) == child);
  CHECK_FALSE(read_process_stat(child).has_value());
  CHECK(start_time_of(::getpid()) > 0);
  CHECK(own_pid_namespace() > 0);
  CHECK_FALSE(host_name().empty());
}

TEST_CASE("A violated invariant ends the process with a line that names it") {
  muster::test::Pipe pipe;
  const pid_t pid = ::fork();
  REQUIRE(pid >= 0);
  if (pid == 0) {
    const rlimit no_core{0, 0};
    ::setrlimit(RLIMIT_CORE, &no_core);
    ::signal(SIGABRT, SIG_DFL);
    ::dup2(pipe.write.get(), STDERR_FILENO);
    MUSTER_ASSERT(1 + 1 == 2, "one and one are two");
    MUSTER_ASSERT(1 + 1 == 3, "one and one are three");
    ::_exit(0);
  }
  pipe.write.reset();
  const std::string text = muster::test::read_to_end(pipe.read.get());
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  CHECK(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == SIGABRT);
  CHECK(text.starts_with("muster: internal error: 'one and one are three' does not hold (base_test.cpp:"));
}
