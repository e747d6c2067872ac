// SPDX-License-Identifier: Apache-2.0
#include "muster/error.hpp"
#include "tests/support/catch.hpp"
#include "worker_sdk/status/process_state.hpp"
#include "worker_sdk/status/status_reader.hpp"
#include "worker_sdk/status/status_writer.hpp"

#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

using namespace muster;
using namespace muster::status;

namespace {

Call all_reduce(std::uint64_t sequence, std::uint64_t count) {
  Call call;
  call.collective = Collective::all_reduce;
  call.type = DataType::f32;
  call.sequence = sequence;
  call.count = count;
  return call;
}

StatusFile second_view(const StatusFile& file) {
  return StatusFile::open(file.address(), true);
}

}  // namespace

TEST_CASE("an address is read back, and nothing else is taken for one") {
  const auto address = Address::from_text(Address{4711, 12, 34567}.to_text());
  REQUIRE(address);
  CHECK(address->pid == 4711);
  CHECK(address->fd == 12);
  CHECK(address->inode == 34567);
  for (const char* text : {"", "1", "1:2", "1:2:", "1:2:3:4", "1:2:3 ", "0:2:3", "-1:2:3", "1:-2:3", "a:b:c",
                           "1:2:99999999999999999999", "99999999999:2:3"})
    CHECK_FALSE(Address::from_text(text));
}

TEST_CASE("only the announced file is opened") {
  const StatusFile file = StatusFile::create();
  CHECK(StatusFile::open(file.address(), false).page().identity.magic.load() == kMagic);
  Address other = file.address();
  other.inode += 1;
  CHECK_THROWS_WITH(StatusFile::open(other, true), Contains("another file"));
  other = file.address();
  other.fd = 9999;
  CHECK_THROWS_AS(StatusFile::open(other, true), Error);
  file.page().identity.version.store(kVersion + 1);
  CHECK_THROWS_WITH(StatusFile::open(file.address(), true), Contains("of this version"));
  CHECK_THROWS_WITH(StatusFile::open({::getpid(), 0, 1}, false), Contains("/fd/0"));
}

TEST_CASE("nobody can shrink a status file under those who mapped it") {
  const StatusFile file = StatusFile::create();
  CHECK(::ftruncate(file.address().fd, 0) == -1);
}

TEST_CASE("a file is one process's at a time") {
  const StatusFile file = StatusFile::create();
  CHECK_FALSE(is_claimed(file.page()));
  auto writer = StatusWriter::claim(second_view(file), {3, 8, 2});
  REQUIRE(writer);
  CHECK(is_claimed(file.page()));
  CHECK(StatusWriter::claim(second_view(file), {3, 8, 2}) == nullptr);
  const RankStatus status = read_status(file.page());
  CHECK(status.phase == ProcessPhase::active);
  CHECK(status.pid == ::getpid());
  CHECK(status.start_time == look_at(::getpid()).start_time);
  CHECK(status.rank == 3);
  CHECK(status.size == 8);
  CHECK(status.round == 2);
  writer.reset();
  CHECK(read_status(file.page()).phase == ProcessPhase::finished);
  CHECK(StatusWriter::claim(second_view(file), {3, 8, 2}) != nullptr);
}

TEST_CASE("a killed process's file says what it did last, and can be taken by the next") {
  const StatusFile file = StatusFile::create();
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    auto writer = StatusWriter::claim(StatusFile::open({::getppid(), file.address().fd, file.inode()}, true),
                                      {1, 2, 0});
    auto group = writer->open_group("world", 1, 2);
    group->joined();
    group->entering(all_reduce(1, 10));
    group->completed(all_reduce(1, 10));
    group->entering(all_reduce(2, 20));
    ::kill(::getpid(), SIGKILL);
  }
  ::waitpid(child, nullptr, 0);
  const RankStatus status = read_status(file.page());
  CHECK(status.pid == child);
  REQUIRE(status.groups.size() == 1);
  CHECK(status.groups[0].name == "world");
  CHECK(status.groups[0].state == GroupState::in_call);
  CHECK(status.groups[0].completed == 1);
  CHECK(same_call(status.groups[0].call, all_reduce(2, 20)));
  const auto recent = read_recent(file.page());
  REQUIRE(recent.size() == 2);
  CHECK(recent[0].state == CallState::completed);
  CHECK(recent[0].finished_ns >= recent[0].entered_ns);
  CHECK(recent[1].state == CallState::running);
  CHECK(StatusWriter::claim(second_view(file), {1, 2, 1}) != nullptr);
}

TEST_CASE("a group passes through its states") {
  const StatusFile file = StatusFile::create();
  auto writer = StatusWriter::claim(second_view(file), {0, 2, 0});
  const auto state = [&file] { return read_status(file.page()).groups.at(0); };
  auto group = writer->open_group("world/1.0", 0, 2);
  CHECK(state().state == GroupState::joining);
  CHECK(state().name == "world/1.0");
  group->joined();
  CHECK(state().state == GroupState::idle);
  // A batch: entered one after another, completed together.
  group->entering(all_reduce(1, 10));
  group->entering(all_reduce(2, 10));
  CHECK(state().call.sequence == 2);
  group->completed(all_reduce(1, 10));
  CHECK(state().state == GroupState::in_call);
  CHECK(state().completed == 1);
  group->completed(all_reduce(2, 10));
  CHECK(state().state == GroupState::idle);
  const Call third = all_reduce(3, 7);
  group->entering(third);
  group->failed(&third, ErrorCode::peer_lost);
  CHECK(state().state == GroupState::failed);
  CHECK(state().error_code == static_cast<int>(ErrorCode::peer_lost));
  CHECK(state().call.sequence == 3);
  CHECK(state().completed == 2);
  const auto recent = read_recent(file.page(), 2);
  REQUIRE(recent.size() == 2);
  CHECK(recent[0].state == CallState::completed);
  CHECK(recent[1].state == CallState::failed);
  CHECK(recent[1].error_code == static_cast<int>(ErrorCode::peer_lost));
  // One that is gone stays for those who look afterwards, until its place is needed.
  writer->close_group(*group);
  CHECK(state().gone);
  CHECK(state().call.sequence == 3);
  group = writer->open_group("world/1.0", 0, 2);
  CHECK(read_status(file.page()).groups.size() == 1);
  CHECK_FALSE(state().gone);
  CHECK(state().state == GroupState::joining);
  writer->close_group(*group);
  std::vector<std::unique_ptr<GroupWriter>> groups;
  for (std::size_t i = 0; i < kGroups; ++i) groups.push_back(writer->open_group(std::to_string(i), 0, 2));
  for (const GroupStatus& shown : read_status(file.page()).groups) CHECK_FALSE(shown.gone);
}

TEST_CASE("a file is taken only for the rank that it was made for") {
  const StatusFile file = StatusFile::create();
  reserve(file.page(), {3, 8, 0});
  CHECK(StatusWriter::claim(second_view(file), {2, 8, 0}) == nullptr);
  CHECK(StatusWriter::claim(second_view(file), {3, 4, 0}) == nullptr);
  CHECK(StatusWriter::claim(second_view(file), {3, 8, 1}) != nullptr);
}

TEST_CASE("more groups than there is room for are still in the ring") {
  const StatusFile file = StatusFile::create();
  auto writer = StatusWriter::claim(second_view(file), {0, 1, 0});
  std::vector<std::unique_ptr<GroupWriter>> groups;
  for (std::size_t i = 0; i < kGroups + 3; ++i)
    groups.push_back(writer->open_group("group " + std::to_string(i), 0, 1));
  CHECK(read_status(file.page()).groups.size() == kGroups);
  groups.back()->entering(all_reduce(1, 5));
  groups.back()->completed(all_reduce(1, 5));
  const auto recent = read_recent(file.page());
  REQUIRE(recent.size() == 1);
  CHECK(recent[0].name_hash == hash_of("group " + std::to_string(kGroups + 2)));
  writer->close_group(*groups.front());
  const auto next = writer->open_group(std::string(100, 'x'), 0, 1);
  CHECK(read_status(file.page()).groups.front().name == std::string(kNameBytes, 'x'));
}

TEST_CASE("the ring keeps the last calls, in order") {
  const StatusFile file = StatusFile::create();
  auto writer = StatusWriter::claim(second_view(file), {0, 1, 0});
  auto group = writer->open_group("world", 0, 1);
  for (std::uint64_t i = 1; i <= kRing + 10; ++i) {
    group->entering(all_reduce(i, i));
    group->completed(all_reduce(i, i));
  }
  const auto recent = read_recent(file.page());
  REQUIRE(recent.size() == kRing);
  for (std::size_t i = 0; i < recent.size(); ++i) CHECK(recent[i].call.sequence == i + 11);
  CHECK(read_recent(file.page(), 3).front().call.sequence == kRing + 8);
}

TEST_CASE("a reader never sees half a call") {
  const StatusFile file = StatusFile::create();
  auto writer = StatusWriter::claim(StatusFile::open(file.address(), true), {0, 1, 0});
  std::atomic<bool> stop{false};
  // The same mapping, so that ThreadSanitizer sees both sides.
  const Page& page = writer->file().page();
  std::thread writing([&] {
    auto group = writer->open_group("world", 0, 1);
    group->joined();
    for (std::uint64_t i = 1; !stop; ++i) {
      group->entering(all_reduce(i, i * 3));
      group->completed(all_reduce(i, i * 3));
    }
  });
  // Looks between which nothing was written cannot meet half a call: only those that see a new call count. A
  // busy machine may run the two one after the other, so there are as many looks as that takes.
  std::size_t fresh = 0;
  std::size_t wrong = 0;
  std::uint64_t last = 0;
  const auto begin = std::chrono::steady_clock::now();
  const auto over = [&](int seconds) {
    return std::chrono::steady_clock::now() > begin + std::chrono::seconds(seconds);
  };
  while (fresh < 100 ? !over(60) : fresh < 100000 && !over(1)) {
    for (const GroupStatus& group : read_status(page).groups) {
      if (group.torn) continue;
      fresh += group.call.sequence != std::exchange(last, group.call.sequence);
      wrong += group.call.count != group.call.sequence * 3;
    }
    // The oldest of the ring are those that are written next.
    for (const RecentCall& recent : read_recent(page, kRing))
      wrong += recent.call.count != recent.call.sequence * 3;
  }
  stop = true;
  writing.join();
  CHECK(fresh >= 100);
  CHECK(wrong == 0);
}

TEST_CASE("the state of a process is told apart") {
  CHECK(look_at(::getpid()).state == ProcessState::running);
  CHECK(look_at(::getpid()).start_time > 0);
  const pid_t child = ::fork();
  if (child == 0) {
    ::raise(SIGSTOP);
    ::_exit(0);
  }
  ::waitpid(child, nullptr, WUNTRACED);
  CHECK(look_at(child).state == ProcessState::stopped);
  ::kill(child, SIGKILL);
  siginfo_t ended{};
  ::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT);
  CHECK(look_at(child).state == ProcessState::gone);
  ::waitpid(child, nullptr, 0);
  CHECK(look_at(child).state == ProcessState::gone);
}

TEST_CASE("the time in calls is that in which any group is in one") {
  const StatusFile file = StatusFile::create();
  auto writer = StatusWriter::claim(second_view(file), {0, 1, 0});
  CallClock clock(writer->file().page());
  clock.begin(1000);
  clock.begin(1200);
  CHECK(clock.total(1500) == 500);
  clock.end(1600);
  CHECK(clock.total(1700) == 700);
  clock.end(2000);
  CHECK(clock.total(9000) == 1000);
  clock.begin(9000);
  CHECK(clock.total(8000) == 1000);
  clock.end(8000);  // the last tick of the clock was before the exact time of the beginning
  CHECK(clock.total(9000) == 1000);
}

TEST_CASE("a step has the time when it was told, and the time in calls until then") {
  const StatusFile file = StatusFile::create();
  auto writer = StatusWriter::claim(second_view(file), {0, 1, 0});
  CHECK(read_status(file.page()).step_ns == 0);
  constexpr std::uint64_t kTimedExactly = 1 << 20;
  auto group = writer->open_group("world", 0, 1);
  group->joined();
  const std::uint64_t before = monotonic_ns();
  writer->set_step(1);
  const RankStatus first = read_status(file.page());
  CHECK(first.step == 1);
  CHECK((first.step_ns >= before && first.step_ns <= monotonic_ns()));
  CHECK(first.step_calls_ns == 0);
  const auto wait = [] {
    const std::uint64_t until = monotonic_ns() + 2'000'000;
    while (monotonic_ns() < until) {
    }
  };
  group->entering(all_reduce(1, kTimedExactly));
  wait();
  writer->set_step(2);  // in the middle of a call
  const RankStatus second = read_status(file.page());
  CHECK(second.step_calls_ns >= 2'000'000);
  CHECK(second.step_calls_ns <= second.step_ns - first.step_ns);
  group->completed(all_reduce(1, kTimedExactly));
  wait();
  writer->set_step(3);
  const RankStatus third = read_status(file.page());
  CHECK(third.step_calls_ns >= second.step_calls_ns);
  CHECK(third.step_ns - second.step_ns >= 2'000'000 + (third.step_calls_ns - second.step_calls_ns));
  // A call that fails, and a group that ends in one, are in no call any more.
  group->entering(all_reduce(2, kTimedExactly));
  group->failed(nullptr, ErrorCode::deadline);
  auto other = writer->open_group("other", 0, 1);
  other->entering(all_reduce(1, kTimedExactly));
  writer->close_group(*other);
  writer->set_step(4);
  const std::uint64_t calls = read_status(file.page()).step_calls_ns;
  wait();
  writer->set_step(5);
  CHECK(read_status(file.page()).step_calls_ns == calls);
}
