// SPDX-License-Identifier: Apache-2.0
// The shared-memory group between real processes, joined through the store.
#include "catch.hpp"
#include "tests/integration/comm/rank_results.hpp"
#include "tests/support/pipe.hpp"
#include "tests/support/promise.hpp"
#include "tests/support/shm_groups.hpp"
#include "tests/support/skip.hpp"
#include "worker_sdk/comm/call.hpp"
#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/store/tcp_store.hpp"

#include <dirent.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace muster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::check_failed;
using test::check_returned;
using test::RankProcesses;
using test::RankResult;
using test::run_processes;
using test::StoreProcess;

constexpr std::size_t kCount = 300'001;

ProcessGroupOptions within(milliseconds timeout) {
  ProcessGroupOptions options;
  options.timeout = timeout;
  return options;
}

/// "right" when all_reduce gives the known answer in both kinds of memory.
std::string try_group(ProcessGroup& group) {
  std::vector<float> any(kCount);
  auto* const shared = static_cast<float*>(group.allocate(kCount * sizeof(float)));
  // Whole numbers, whose sums f32 holds exactly.
  const auto value = [](int factor, std::size_t i) {
    return static_cast<float>(factor * static_cast<int>(i % 1000));
  };
  for (float* data : {any.data(), shared}) {
    for (std::size_t i = 0; i < kCount; ++i) data[i] = value(group.rank() + 1, i);
    group.all_reduce(data, kCount, DataType::f32, ReduceOp::sum);
    const int sum = group.size() * (group.size() + 1) / 2;
    for (std::size_t i = 0; i < kCount; ++i)
      if (data[i] != value(sum, i)) return "wrong";
  }
  group.barrier();
  return "right";
}

std::string try_kind(StoreClient& keys, int rank, int size, shm::MemoryLocation::Kind kind) {
  GroupPlan plan{rank, size, {}, within(seconds(30))};
  auto backend = shm::join_shm(&keys, plan, {&kind, 1});
  ProcessGroup group(std::move(backend), std::move(plan));
  return try_group(group);
}

/// Names in /dev/shm that are a group's memory: "muster-" and hexadecimal digits.
std::set<std::string> files_left() {
  std::set<std::string> names;
  DIR* const directory = opendir("/dev/shm");
  while (const dirent* entry = readdir(directory))
    if (const std::string name = entry->d_name;
        name.rfind("muster-", 0) == 0 && name.find_first_not_of("0123456789abcdef", 7) == std::string::npos)
      names.insert(name);
  closedir(directory);
  return names;
}

/// Other tests that run meanwhile have such names for moments; what a group left behind stays.
bool none_stays(const std::set<std::string>& before) {
  std::set<std::string> stay = files_left();
  std::erase_if(stay, [&before](const std::string& name) { return before.contains(name); });
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!stay.empty()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    usleep(10'000);
    const auto now = files_left();
    std::erase_if(stay, [&now](const std::string& name) { return !now.contains(name); });
  }
  return true;
}

TEST_CASE("processes reduce to the known answer, over memory without a name and over files") {
  const auto before = files_left();
  const auto kind = GENERATE(shm::MemoryLocation::Kind::memfd, shm::MemoryLocation::Kind::file);
  for (const int size : {1, 3}) {
    const StoreProcess store;
    const auto body = [&](int rank, StoreClient& keys) { return try_kind(keys, rank, size, kind); };
    check_returned(run_processes(size, store.port(), body), "right");
  }
  CHECK(none_stays(before));
}

/// Goes on in a child that has a pid namespace of its own, as in a container; false where that is not
/// allowed.
bool enter_own_pid_namespace() {
  if (unshare(CLONE_NEWPID) != 0) return false;
  const pid_t child = fork();
  if (child == 0) return true;
  waitpid(child, nullptr, 0);
  _exit(0);
}

TEST_CASE("ranks of different pid namespaces share memory through a file") {
  const StoreProcess store;
  const auto before = files_left();
  const auto results = run_processes(3, store.port(), [&](int rank, StoreClient& keys) {
    if (rank != 1 && !enter_own_pid_namespace()) return std::string("not allowed");
    const auto group = make_shm_process_group(&keys, rank, 3, within(seconds(30)));
    return try_group(*group);
  });
  if (results[0].text == "not allowed") return test::skip("no right to make a pid namespace");
  check_returned(results, "right");
  CHECK(none_stays(before));
}

TEST_CASE("groups of one name follow one another, groups of two names live side by side") {
  const StoreProcess store;
  const auto body = [](int rank, StoreClient& keys) {
    for (int i = 0; i < 3; ++i)
      if (try_group(*make_shm_process_group(&keys, rank, 2)) != "right") return "wrong";
    ProcessGroupOptions other = within(seconds(30));
    other.name = "second";
    const auto a = make_shm_process_group(&keys, rank, 2, other);
    const auto b = make_shm_process_group(&keys, rank, 2);
    for (int i = 0; i < 20; ++i) (i % 2 == 0 ? a : b)->barrier();
    return "right";
  };
  check_returned(run_processes(2, store.port(), body), "right");
}

/// Kills one of four ranks, inside a collective or while the others wait for it; returns the seconds after
/// which all others knew. `random` says how long after the victim has begun.
double kill_one(int port, const std::string& name, bool inside, std::minstd_rand& random) {
  ProcessGroupOptions options;
  options.name = name;
  RankProcesses ranks(4, port, [&](int rank, StoreClient& keys) {
    const auto group = make_shm_process_group(&keys, rank, 4, options);
    std::vector<float> data(kCount);
    if (rank == 1) test::signal_parent();
    for (int call = 0;; ++call) {
      if (rank == 1 && !inside && call == 2) pause();
      group->all_reduce(data.data(), data.size(), DataType::f32, ReduceOp::sum);
    }
    return std::string();
  });
  ranks.wait_for_signal(1);
  usleep(static_cast<useconds_t>(random() % 20'000));
  const pid_t victim = ranks.pid(1);
  const double killed_at = test::monotonic_seconds();
  ranks.kill_rank(1);
  const auto results = ranks.wait();
  CHECK(results[1].killed);
  double took = 0;
  for (const int rank : {0, 2, 3}) {
    const RankResult& result = results[static_cast<std::size_t>(rank)];
    INFO(name << ", rank " << rank << ": " << result.text);
    CHECK(result.code == ErrorCode::peer_lost);
    CHECK(contains(result.text, "rank 1 (process " + std::to_string(victim) + ") has died"));
    took = std::max(took, result.ended_at - killed_at);
  }
  return took;
}

TEST_CASE("a killed rank is reported by name and process, fast, on all others") {
  const StoreProcess store;
  std::minstd_rand random(7);
  const auto before = files_left();
  int attempts = 0;
  for (const bool inside : {true, false}) {
    const auto measure = [&] {
      std::vector<double> took(5);
      for (double& one : took)
        one = kill_one(store.port(), "attempt " + std::to_string(attempts++), inside, random);
      return took;
    };
    CHECK(test::late_beside_others(inside ? "shm: a rank is killed inside a collective"
                                          : "shm: a rank is killed for which the others wait",
                                   0.1, measure, 0, 0.02) == "");
  }
  CHECK(none_stays(before));
}

TEST_CASE("ranks that never come are named by those that wait to join, rank 0 or others") {
  const int first = GENERATE(0, 1);
  const StoreProcess store;
  const auto results = run_processes(4, store.port(), [first](int rank, StoreClient& keys) {
    if (rank != first && rank != 2) return std::string("absent");
    keys.set("here " + std::to_string(rank), "1");
    keys.get("here " + std::to_string(first + 2 - rank));
    make_shm_process_group(&keys, rank, 4, within(milliseconds(5000)));
    return std::string();
  });
  check_failed({results[static_cast<std::size_t>(first)], results[2]}, ErrorCode::deadline,
               {first == 0 ? "rank 1" : "for rank 0, rank 3", "rank 3", "5000 ms"});
}

TEST_CASE("a rank may come later than a call may take") {
  const StoreProcess store;
  const auto results = run_processes(2, store.port(), [](int rank, StoreClient& keys) {
    ProcessGroupOptions options = within(milliseconds(200));
    options.join_timeout = seconds(30);
    if (rank == 1) std::this_thread::sleep_for(milliseconds(500));
    make_shm_process_group(&keys, rank, 2, options);
    return std::string("joined");
  });
  check_returned(results, "joined");
}

TEST_CASE("a stopped rank is reported once, and named as stopped at the deadline") {
  const StoreProcess store;
  test::Pipe log;
  RankProcesses ranks(3, store.port(), [&](int rank, StoreClient& keys) {
    dup2(log.write.get(), STDERR_FILENO);
    ProcessGroupOptions options = within(seconds(30));
    const auto calm = make_shm_process_group(&keys, rank, 3, options);
    options.join_timeout = seconds(30);
    options.report_after = seconds(4);
    options.timeout = seconds(8);
    options.name = "short";
    const auto group = make_shm_process_group(&keys, rank, 3, options);
    calm->barrier();
    if (rank == 2) {
      test::signal_parent();
      pause();
    }
    keys.get("stopped");
    std::vector<float> data(kCount);
    group->all_reduce(data.data(), kCount, DataType::f32, ReduceOp::sum);
    return std::string("no error");
  });
  ranks.wait_for_signal(2);
  kill(ranks.pid(2), SIGSTOP);
  int status = 0;
  waitpid(ranks.pid(2), &status, WUNTRACED);
  REQUIRE(WIFSTOPPED(status));
  connect_store("127.0.0.1", store.port())->set("stopped", "1");
  const std::string name = "rank 2 (process " + std::to_string(ranks.pid(2)) + ")";
  // The stopped one never ends by itself: the others are done when both have written their report.
  for (const int rank : {0, 1}) ranks.wait_for_end(rank);
  ranks.kill_rank(2);
  const auto results = ranks.wait();
  check_failed({results[0], results[1]}, ErrorCode::deadline,
               {"for " + name + ", which is stopped", "call 1: all_reduce of 300001 x f32",
                "never entered it", "2 ranks wait: 0, 1"});
  log.write.reset();
  const std::string lines = test::read_to_end(log.read.get());
  INFO(lines);
  CHECK(lines.rfind("muster: rank 0 waits since ", 0) == 0);
  CHECK(contains(lines, " s in call 1: all_reduce"));
  CHECK(contains(lines, "for " + name + ", which is stopped"));
  CHECK(contains(lines, "2 ranks wait"));
  CHECK(std::count(lines.begin(), lines.end(), '\n') == 1);
}

TEST_CASE("a send that nobody receives ends at its deadline, by name") {
  const StoreProcess store;
  const auto results = run_processes(2, store.port(), [](int rank, StoreClient& keys) {
    ProcessGroupOptions options = within(milliseconds(300));
    options.join_timeout = seconds(30);
    const auto group = make_shm_process_group(&keys, rank, 2, options);
    if (rank == 1) {
      keys.set("here", "1");
      return keys.get("done");
    }
    keys.get("here");
    float value = 1;
    Operation operation = operation_of(Collective::send, 1, DataType::f32, &value, nullptr);
    operation.call.root = 1;
    operation.call.tag = 7;
    try {
      group->run(operation);
    } catch (const Error&) {
      keys.set("done", "1");
      throw;
    }
    return std::string("no error");
  });
  check_failed({results[0]}, ErrorCode::deadline,
               {"send of 1 x f32 (4 B) to rank 1, tag 7", "for rank 1 (process"});
}

TEST_CASE("ranks that end early, in a collective or in a message, are missed at once") {
  const StoreProcess store;
  for (const bool message : {false, true}) {
    const auto results = run_processes(2, store.port(), [&](int rank, StoreClient& keys) {
      const auto group = make_shm_process_group(&keys, rank, 2);
      group->barrier();
      if (rank == 1) _exit(3);
      float value = 0;
      Operation operation =
          operation_of(message ? Collective::recv : Collective::all_reduce, 1, DataType::f32, &value, &value);
      operation.call.root = 1;
      group->run(operation);
      return std::string("no error");
    });
    check_failed({results[0]}, ErrorCode::peer_lost, {"rank 1 (process", "has died in the group 'world'"});
  }
}

TEST_CASE("ranks killed at any instant leave no name behind") {
  const auto before = files_left();
  std::minstd_rand random(11);
  const StoreProcess store;
  for (int attempt = 0; attempt < 200; ++attempt) {
    ProcessGroupOptions options;
    options.name = "attempt " + std::to_string(attempt);
    RankProcesses ranks(2, store.port(), [&](int rank, StoreClient& keys) {
      if (rank == 0) test::signal_parent();
      const auto group = make_shm_process_group(&keys, rank, 2, options);
      std::vector<float> data(20'000);
      for (;;) {
        group->allocate(1);
        group->all_reduce(data.data(), data.size(), DataType::f32, ReduceOp::sum);
      }
      return std::string();
    });
    ranks.wait_for_signal(0);
    // Joining takes the first one or two milliseconds.
    usleep(static_cast<useconds_t>(random() % 4'000));
    ranks.kill_rank(0);
    ranks.kill_rank(1);
    ranks.wait();
  }
  CHECK(none_stays(before));
}

}  // namespace
}  // namespace muster
