// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/fault/fault_plan.hpp"

#include "muster/error.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_of.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <iterator>
#include <string>
#include <thread>

using muster::Collective;
using muster::Error;
using muster::ErrorCode;
using namespace muster::fault;

namespace {

std::string refusal_of(const std::string& text) {
  return muster::test::error_of([&] { parse_faults(text, 4); }, ErrorCode::invalid_argument);
}

}  // namespace

TEST_CASE("every part of a fault is read") {
  const auto faults =
      parse_faults("kill@1:all_reduce:3,stop+20@0:barrier,delay:1500@3:init,error@2:finalize:2", 4);
  REQUIRE(faults.size() == 4);
  CHECK(faults[0].action == Action::kill);
  CHECK(faults[0].rank == 1);
  CHECK(faults[0].point == point_of(Collective::all_reduce));
  CHECK(faults[0].occurrence == 3);
  CHECK(faults[1].action == Action::stop);
  CHECK(faults[1].time.count() == 20);
  CHECK(faults[1].occurrence == 1);
  CHECK(faults[2].action == Action::delay);
  CHECK(faults[2].time.count() == 1500);
  CHECK(faults[2].point == point_of(Point::init));
  CHECK(faults[3].action == Action::error);
  CHECK(faults[3].point == point_of(Point::finalize));
  CHECK(parse_faults("", 4).empty());
}

TEST_CASE("a wrong fault is refused with the part that is wrong") {
  CHECK_THAT(refusal_of("kill"), Contains("'kill' has no '@'"));
  CHECK_THAT(refusal_of("explode@1:barrier"), Contains("unknown action 'explode'"));
  CHECK_THAT(refusal_of("kill:5@1:barrier"), Contains("kill+MS is meant"));
  CHECK_THAT(refusal_of("delay@1:barrier"), Contains("delay:MS"));
  CHECK_THAT(refusal_of("delay:soon@1:barrier"), Contains("no number of milliseconds"));
  CHECK_THAT(refusal_of("delay:99999999999@1:barrier"), Contains("up to a day"));
  CHECK_THAT(refusal_of("error:5@1:barrier"), Contains("a time to an error"));
  CHECK_THAT(refusal_of("kill@4:barrier"), Contains("no rank of 0..3"));
  CHECK_THAT(refusal_of("kill@-1:barrier"), Contains("no rank of 0..3"));
  CHECK_THAT(refusal_of("kill@1"), Contains("names no operation"));
  CHECK_THAT(refusal_of("kill@1:all_reduse"), Contains("unknown operation 'all_reduse'"));
  CHECK_THAT(refusal_of("kill@1:barrier:0"), Contains("an occurrence"));
  CHECK_THAT(refusal_of("kill@1:barrier:1:2"), Contains("an occurrence"));
  CHECK_THAT(refusal_of("kill@1:barrier,"), Contains("after the last comma"));
  CHECK_THAT(refusal_of("kill@1:barrier"), Equals(""));
}

TEST_CASE("a fault strikes its own rank at its own occurrence, once") {
  Injector other(parse_faults("error@1:barrier:2", 4), 0);
  for (int i = 0; i < 4; ++i) CHECK_NOTHROW(other.at(point_of(Collective::barrier)));
  Injector mine(parse_faults("error@1:barrier:2", 4), 1);
  CHECK_NOTHROW(mine.at(point_of(Collective::barrier)));
  CHECK_NOTHROW(mine.at(point_of(Collective::broadcast)));
  CHECK_THROWS_WITH(mine.at(point_of(Collective::barrier)), Contains("injected on rank 1"));
  CHECK_NOTHROW(mine.at(point_of(Collective::barrier)));
}

TEST_CASE("kill and stop strike the process, at once or later") {
  const std::string text =
      GENERATE("kill@0:barrier", "kill+1@0:barrier", "stop@0:barrier", "stop+1@0:barrier");
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    Injector injector(parse_faults(text, 1), 0);
    injector.at(point_of(Collective::barrier));
    ::alarm(20);
    for (;;) ::pause();
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, WUNTRACED) == child);
  if (text.starts_with("kill")) {
    CHECK(WIFSIGNALED(status));
    CHECK(WTERMSIG(status) == SIGKILL);
    return;
  }
  CHECK(WIFSTOPPED(status));
  ::kill(child, SIGKILL);
  ::waitpid(child, &status, 0);
}

TEST_CASE("a fault that is due later does not strike after the end of the world") {
  const auto threads = [] {
    const std::filesystem::directory_iterator tasks("/proc/self/task");
    return std::distance(begin(tasks), end(tasks));
  };
  // A thread that was joined may be listed for a moment.
  const auto becomes = [&threads](std::ptrdiff_t count) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (threads() != count && std::chrono::steady_clock::now() < limit) std::this_thread::yield();
    return threads() == count;
  };
  constexpr std::ptrdiff_t before = 1;
  REQUIRE(becomes(before));
  const auto began = std::chrono::steady_clock::now();
  {
    Injector injector(parse_faults("kill+3600000@0:barrier", 1), 0);
    injector.at(point_of(Collective::barrier));
    CHECK(threads() == before + 1);  // it waits there for its time
  }
  // Neither it nor anybody else is left that could strike, long before it was due.
  CHECK(becomes(before));
  CHECK(std::chrono::steady_clock::now() - began < std::chrono::minutes(30));
}
