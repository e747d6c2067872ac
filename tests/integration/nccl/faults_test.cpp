// SPDX-License-Identifier: Apache-2.0
// What goes wrong in a group over NCCL, and what every rank is told.
#include "catch.hpp"
#include "muster/error.hpp"
#include "tests/integration/comm/rank_results.hpp"
#include "tests/integration/nccl/nccl_world.hpp"
#include "tests/support/promise.hpp"
#include "worker_sdk/comm/call.hpp"

#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

namespace muster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using test::check_failed;
using test::FakeGpus;
using test::RankProcesses;
using test::RankResult;

ProcessGroupOptions within(milliseconds timeout, milliseconds join_timeout = seconds(50)) {
  ProcessGroupOptions options;
  options.timeout = timeout;
  options.join_timeout = join_timeout;
  return options;
}

contract::Bytes packed(const std::vector<float>& values) {
  contract::Bytes bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

/// On the device. Its memory is kept, since a call that has failed may still be there.
void sum(ProcessGroup& group, std::size_t count = 100, ReduceOp op = ReduceOp::sum) {
  static auto* const memory = new test::DeviceMemory;
  static contract::Buffer* const data = memory->make(4096, 0).release();
  memory->write(data->data(), packed(std::vector<float>(count, 1.0F)));
  group.all_reduce(data->data(), count, op == ReduceOp::sum ? DataType::f32 : DataType::i32, op);
  const std::vector<float> wanted(count, static_cast<float>(group.size()));
  if (memory->read(data->data(), count * sizeof(float)) != packed(wanted))
    throw std::runtime_error("a wrong sum");
}

using Body = std::function<std::string(ProcessGroup& group)>;

std::vector<RankResult> run(int size, milliseconds timeout, const Body& body,
                            milliseconds join_timeout = seconds(50)) {
  const test::StoreProcess store;
  return test::run_processes(size, store.port(), [&](int rank, StoreClient& keys) {
    const auto group = test::make_nccl_group(keys, rank, size, within(timeout, join_timeout));
    return body(*group);
  });
}

/// Kills one of three ranks, for which the others wait; returns the seconds after which they knew.
double kill_one() {
  const FakeGpus fakes;
  const test::StoreProcess store;
  RankProcesses ranks(3, store.port(), [](int rank, StoreClient& keys) -> std::string {
    const auto group = test::make_nccl_group(keys, rank, 3, within(seconds(50)));
    sum(*group);
    if (rank == 1) {
      test::signal_parent();
      pause();
    }
    sum(*group);
    return "no error";
  });
  ranks.wait_for_signal(1);
  const double killed_at = test::monotonic_seconds();
  ranks.kill_rank(1);
  const auto results = ranks.wait();
  check_failed({results[0], results[2]}, ErrorCode::peer_lost, {"rank 1 (", "ended", "call 2: all_reduce"});
  return std::max(results[0].ended_at, results[2].ended_at) - killed_at;
}

/// Returns when another process has ended, as the kernel says it.
void wait_for_end(pid_t pid) {
  const int process = static_cast<int>(syscall(SYS_pidfd_open, pid, 0));
  pollfd ended{process, POLLIN, 0};
  if (process < 0 || poll(&ended, 1, 30'000) != 1) throw std::runtime_error("a rank that does not end");
  close(process);
}

}  // namespace

TEST_CASE("a rank that is killed is named on all others", "[gpu]") {
  const auto measure = [] { return std::vector{kill_one(), kill_one(), kill_one()}; };
  // The watchdog's look at it, ten times a second, and one at NCCL. A real rank ends later than it is killed,
  // once the driver has ended its context, and those that are left free their communicator before they tell.
  CHECK(test::late_beside_others("nccl: a rank is killed", 0.12, measure, test::real_gpus() > 0 ? 2.5 : 0) ==
        "");
}

TEST_CASE("a rank that never comes is named at the deadline", "[gpu]") {
  const FakeGpus fakes;
  const auto results = run(3, seconds(8), [](ProcessGroup& group) -> std::string {
    sum(group);
    // Longer than the others' deadline, and ended by it.
    if (group.rank() == 2) {
      for (;;) {
        std::this_thread::sleep_for(seconds(10));
        sum(group);
      }
    }
    sum(group);
    return "no error";
  });
  check_failed(results, ErrorCode::deadline,
               {"call 2: all_reduce of 100 x f32", "rank 2 (", "call 1: all_reduce"});
}

TEST_CASE("a rank that leaves is named by those that wait for it", "[gpu]") {
  // NCCL may tell of the closed connection before the watchdog has compared calls.
  const char* const fault = GENERATE("", "remote@2:0");
  CAPTURE(fault);
  FakeGpus fakes;
  fakes.set("FAKE_NCCL_FAULT", fault);
  const auto results = run(2, seconds(50), [](ProcessGroup& group) -> std::string {
    sum(group);
    if (group.rank() == 1) return "left";
    sum(group);
    return "no error";
  });
  check_failed({results[0]}, ErrorCode::peer_lost, {"rank 1 (", "call 2: all_reduce"});
  CHECK(results[1].text == "left");
}

TEST_CASE("different calls of two ranks end the group on all, soon after the later one") {
  const auto measure = [] {
    const FakeGpus fakes;
    const test::StoreProcess store;
    // Each rank tells when it called, and when it knew.
    const auto results = test::run_processes(4, store.port(), [](int rank, StoreClient& keys) -> std::string {
      const auto group = test::make_nccl_group(keys, rank, 4, within(seconds(50)));
      group->barrier();
      if (rank == 2) std::this_thread::sleep_for(milliseconds(300));
      const double called_at = test::monotonic_seconds();
      try {
        sum(*group, rank == 2 ? 20 : 10);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::mismatch) throw;
        const double knew_at = test::monotonic_seconds();
        return std::to_string(called_at) + " " + std::to_string(knew_at) + " " + error.what();
      }
      return "no error";
    });
    double called_at = 0;
    double knew_at = 0;
    for (const RankResult& result : results) {
      INFO(result.text);
      CHECK(contains(result.text, "all_reduce of 10 x f32"));
      CHECK(contains(result.text, "rank 2 ("));
      CHECK(contains(result.text, "all_reduce of 20 x f32"));
      char* rest = nullptr;
      called_at = std::max(called_at, std::strtod(result.text.c_str(), &rest));
      knew_at = std::max(knew_at, std::strtod(rest, nullptr));
    }
    CHECK(fakes.violations("same-call") == "");
    return std::vector{knew_at - called_at};
  };
  CHECK(test::late_beside_others("nccl: ranks make different calls", 0.3, measure, 0, 0.03) == "");
}

TEST_CASE("abort from another thread ends the call of every rank", "[gpu]") {
  const FakeGpus fakes;
  const auto results = run(3, seconds(50), [](ProcessGroup& group) -> std::string {
    sum(group);
    std::thread aborter;
    if (group.rank() == 0) {
      // Rank 2 does not come, so this rank is in the call or before it.
      aborter = std::thread([&group] { group.abort("the disk is full"); });
    }
    try {
      if (group.rank() == 2) {
        const auto until = std::chrono::steady_clock::now() + seconds(40);
        while (std::chrono::steady_clock::now() < until) {
          std::this_thread::sleep_for(milliseconds(500));
          sum(group);
        }
      }
      sum(group);
    } catch (...) {
      if (aborter.joinable()) aborter.join();
      throw;
    }
    if (aborter.joinable()) aborter.join();
    return "no error";
  });
  check_failed(results, ErrorCode::aborted, {"rank 0", "the disk is full"});
  CHECK(fakes.violations() == "");
}

TEST_CASE("what NCCL refuses, finds later or never ends is told to all ranks, with the call") {
  struct Row {
    const char* fault;
    seconds timeout;
    ErrorCode code;
    std::vector<std::string> parts;
  };

  const Row row = GENERATE(
      Row{"fail@2:1",
          seconds(50),
          ErrorCode::backend,
          {"rank 1 of the group 'world'", "call 2: all_reduce", "unhandled system error"}},
      Row{"remote@2:0",
          seconds(50),
          ErrorCode::backend,
          {"rank 0 of the group 'world'", "remote process exited", "call 2: all_reduce"}},
      Row{"hang@2:1", seconds(8), ErrorCode::deadline, {"call 2: all_reduce", "all ranks have entered it"}},
      Row{"hang@init:1",
          seconds(8),
          ErrorCode::deadline,
          {"NCCL did not connect the 2 ranks within 8000 ms"}},
      Row{"fail@init:1",
          seconds(20),
          ErrorCode::backend,
          {"ncclCommInitRankConfig failed", "unhandled system error"}});
  CAPTURE(row.fault);
  const bool joins = std::string(row.fault).find("init") == std::string::npos;
  FakeGpus fakes;
  fakes.set("FAKE_NCCL_FAULT", row.fault);
  const auto two_sums = [](ProcessGroup& group) -> std::string {
    sum(group);
    sum(group);
    return "no error";
  };
  check_failed(run(2, row.timeout, two_sums, joins ? seconds(50) : row.timeout), row.code, row.parts);
  CHECK(fakes.violations() == "");
}

TEST_CASE("an error on entering a call names the rank whose end has caused it") {
  FakeGpus fakes;
  fakes.set("FAKE_NCCL_FAULT", "fail@2:0");
  const test::StoreProcess store;
  RankProcesses ranks(2, store.port(), [](int rank, StoreClient& keys) -> std::string {
    keys.set("pid of " + std::to_string(rank), std::to_string(getpid()));
    const auto group = test::make_nccl_group(keys, rank, 2, within(seconds(50)));
    sum(*group);
    if (rank == 1) _exit(7);
    wait_for_end(std::stoi(keys.get("pid of 1", seconds(30))));
    sum(*group);
    return "no error";
  });
  const auto results = ranks.wait_but(1);
  check_failed({results[0]}, ErrorCode::peer_lost, {"rank 1 (", "ended", "call 2: all_reduce"});
}

TEST_CASE("streams go on after a failure also where NCCL cannot revoke") {
  FakeGpus fakes;
  fakes.set("MUSTER_NCCL_LIBRARY", std::getenv("MUSTER_TEST_OLD_NCCL"));
  const auto results = run(2, seconds(50), [](ProcessGroup& group) -> std::string {
    const auto& api = nccl::library();
    test::DeviceMemory memory;
    const auto data = memory.make(sizeof(float), 0);
    Operation operation = operation_of(Collective::all_reduce, 1, DataType::f32, data->data(), data->data());
    operation.stream = memory.stream();
    group.start({operation})->wait();
    if (group.rank() == 1) _exit(7);
    const auto work = group.start({operation});
    CUevent event = nullptr;
    nccl::check(api, api.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "an event");
    nccl::check(api, api.cuEventRecord(event, memory.stream()), "recording it");
    try {
      work->wait();
      return "no error";
    } catch (const Error&) {
      const auto until = std::chrono::steady_clock::now() + seconds(20);
      while (api.cuEventQuery(event) == CUDA_ERROR_NOT_READY) {
        if (std::chrono::steady_clock::now() >= until) return "the stream hangs";
        std::this_thread::sleep_for(milliseconds(1));
      }
      throw;
    }
  });
  check_failed({results[0]}, ErrorCode::peer_lost, {"rank 1 (", "ended", "call 2: all_reduce"});
}

TEST_CASE("groups cannot be made where there is nothing to make them of") {
  FakeGpus fakes;
  std::vector<std::string> parts;
  SECTION("a library of another version than the driver") {
    fakes.set("FAKE_CUDA_DEVICES", "mismatch");
    parts = {"restart the machine"};
  }
  SECTION("an old driver") {
    fakes.set("FAKE_CUDA_DRIVER", "12010");
    parts = {"the driver is for CUDA 12.1, and 12.2 is the oldest"};
  }
  SECTION("no device") {
    fakes.set("FAKE_CUDA_DEVICES", "0");
    parts = {"no CUDA-capable device"};
  }
  SECTION("fewer devices than ranks") {
    fakes.set("FAKE_CUDA_DEVICES", "1");
    parts = {"local rank 1 would use device 1", "1 GPU"};
  }
  SECTION("one device for two ranks") {
    fakes.set("FAKE_CUDA_DEVICES", "1");
    fakes.set("CUDA_VISIBLE_DEVICES", "0");
    parts = {"rank 0 (host here)", "rank 1 (host here)", "both use the GPU 0000:10:00.0"};
  }
  SECTION("an old NCCL") {
    fakes.set("FAKE_NCCL_VERSION", "21805");
    parts = {"NCCL 2.18.5 is too old"};
  }
  check_failed(run(2, seconds(20), [](ProcessGroup&) { return "no error"; }), ErrorCode::unsupported, parts);
  CHECK(fakes.violations() == "");
}

TEST_CASE("what NCCL has not is unsupported, with a sentence") {
  const FakeGpus fakes;
  const auto results = run(2, seconds(50), [](ProcessGroup& group) -> std::string {
    sum(group, 1, ReduceOp::bxor);
    return "no error";
  });
  check_failed(results, ErrorCode::unsupported, {"NCCL has no bxor", "shm or gloo"});
}

}  // namespace muster
