// SPDX-License-Identifier: Apache-2.0
// Every way in which a collective fails, between threads of one process.
#include "catch.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/promise.hpp"
#include "tests/unit/worker_sdk/comm/thread_world.hpp"

#include <atomic>

namespace muster {
namespace {

using std::chrono::milliseconds;
using test::Outcome;
using test::run_ranks;
using test::run_world;
using Clock = std::chrono::steady_clock;

/// All ranks fail with `code`, and the text holds all of `parts`.
void check_all_fail(const std::vector<Outcome>& outcomes, ErrorCode code,
                    const std::vector<std::string>& parts) {
  for (const Outcome& outcome : outcomes) {
    INFO("text: " << outcome.text);
    REQUIRE(outcome.code.has_value());
    CHECK(*outcome.code == code);
    for (const std::string& part : parts) {
      INFO("part: " << part);
      CHECK(contains(outcome.text, part));
    }
  }
}

/// Ranks 0 and 1 make the first call, rank 2 the second.
void check_mismatch(const std::function<void(ProcessGroup&)>& call,
                    const std::function<void(ProcessGroup&)>& other, const std::vector<std::string>& parts) {
  const auto outcomes = run_world(3, [&](ProcessGroup& group) {
    group.barrier();
    group.rank() == 2 ? other(group) : call(group);
    group.barrier();
  });
  check_all_fail(outcomes, ErrorCode::mismatch, parts);
}

/// Rank 0 sends to rank 1, or receives from it; rank 1 makes a collective instead.
void check_message_against_collective(Collective kind, std::size_t count, const std::string& name) {
  const auto outcomes = run_world(3, [&](ProcessGroup& group) {
    std::vector<float> data(count);
    group.barrier();
    if (group.rank() == 0) {
      Operation operation = operation_of(kind, count, DataType::f32, data.data(), data.data());
      operation.call.root = 1;
      group.run(operation);
    } else {
      group.all_reduce(data.data(), 10, DataType::f32, ReduceOp::sum);
    }
    group.barrier();
  });
  check_all_fail(outcomes, ErrorCode::mismatch,
                 {"rank 1 (process", "is in call 2: all_reduce of 10 x f32", "rank 0 is in", name});
}

TEST_CASE("a message whose other end is in a collective fails on every rank") {
  SECTION("receive") {
    check_message_against_collective(Collective::recv, 10, "recv of 10 x f32");
  }
  SECTION("send") {
    check_message_against_collective(Collective::send, 10, "send of 10 x f32");
  }
  SECTION("large send") {
    check_message_against_collective(Collective::send, 1'000'000, "send of 1000000 x f32");
  }
}

TEST_CASE("a collective may wait for a rank that still has messages with others") {
  const auto outcomes = run_world(3, [&](ProcessGroup& group) {
    std::vector<float> data(1000);
    const auto message = [&](Collective kind, int peer) {
      Operation operation = operation_of(kind, data.size(), DataType::f32, data.data(), data.data());
      operation.call.root = peer;
      group.run(operation);
    };
    // Rank 1 waits in a collective for longer than the others look around, while they have messages.
    if (group.rank() == 0) {
      std::this_thread::sleep_for(milliseconds(60));
      message(Collective::send, 2);
    }
    if (group.rank() == 2) message(Collective::recv, 0);
    group.barrier();
  });
  for (const Outcome& outcome : outcomes) CHECK(outcome.text.empty());
}

// Which differences are found is part of the contract of all backends.
TEST_CASE("different calls fail on every rank, and both are named") {
  SECTION("count") {
    const auto reduce = [](std::size_t count) {
      return [count](ProcessGroup& group) {
        std::vector<float> data(count);
        group.all_reduce(data.data(), count, DataType::f32, ReduceOp::sum);
      };
    };
    check_mismatch(reduce(1000), reduce(2000),
                   {"rank 0 (process " + std::to_string(getpid()) +
                        ") is in call 2: all_reduce of 1000 x f32 (4.0 kB), sum",
                    "rank 2", "2000 x f32 (8.0 kB), sum"});
  }
  SECTION("size of shared memory") {
    check_mismatch([](ProcessGroup& group) { group.allocate(10); },
                   [](ProcessGroup& group) { group.allocate(11); },
                   {"allocate of 10 bytes", "allocate of 11 bytes"});
  }
}

TEST_CASE("a deadline names the missing ranks, on all that waited") {
  auto calm = shm::make_thread_groups(4, test::options_with(std::chrono::seconds(30)));
  auto groups = shm::make_thread_groups(4, test::options_with(milliseconds(6000)));
  const auto outcomes = run_ranks(groups, [&](ProcessGroup& group) {
    calm[static_cast<std::size_t>(group.rank())]->barrier();  // threads may start late
    group.barrier();
    if (group.rank() == 0 || group.rank() == 2) group.barrier();
  });
  for (const int rank : {0, 2}) {
    const Outcome& outcome = outcomes[static_cast<std::size_t>(rank)];
    INFO(outcome.text);
    REQUIRE(outcome.code == ErrorCode::deadline);
    CHECK(contains(outcome.text, "6000 ms"));
    CHECK(contains(outcome.text, "call 2: barrier"));
    CHECK(contains(outcome.text, "rank 1 (process"));
    CHECK(contains(outcome.text, "rank 3 (process"));
    CHECK_FALSE(contains(outcome.text, "for rank 0"));
    CHECK_FALSE(contains(outcome.text, "for rank 2"));
  }
  // The late ones fail in their next call, with the same cause.
  check_all_fail(run_ranks(groups, [](ProcessGroup& group) { group.barrier(); }), ErrorCode::deadline,
                 {"6000 ms"});
}

TEST_CASE("a rank that leaves ends the wait of the others at once") {
  const auto one_try = [] {
    auto groups = shm::make_thread_groups(3, test::options_with(std::chrono::seconds(30)));
    const auto start = Clock::now();
    const auto outcomes = run_ranks(groups, [&](ProcessGroup& group) {
      group.barrier();
      if (group.rank() == 1) {
        groups[1].reset();
      } else {
        group.barrier();
      }
    });
    const std::chrono::duration<double> took = Clock::now() - start;
    for (const int rank : {0, 2}) {
      INFO(outcomes[static_cast<std::size_t>(rank)].text);
      CHECK(outcomes[static_cast<std::size_t>(rank)].code == ErrorCode::peer_lost);
      CHECK(contains(outcomes[static_cast<std::size_t>(rank)].text, "rank 1"));
      CHECK(contains(outcomes[static_cast<std::size_t>(rank)].text, "has left the group 'world'"));
    }
    return took.count();
  };
  CHECK(test::late_beside_others("shm: a rank leaves", 0.1, [&] {
          return std::vector{one_try(), one_try(), one_try()};
        }) == "");
}

TEST_CASE("a rank that leaves after the last call disturbs nobody") {
  for (int round = 0; round < 50; ++round) {
    auto groups = shm::make_thread_groups(4);
    const auto outcomes = run_ranks(groups, [&](ProcessGroup& group) {
      const int rank = group.rank();
      std::vector<float> data(100'000);
      group.all_reduce(data.data(), data.size(), DataType::f32, ReduceOp::sum);
      groups[static_cast<std::size_t>(rank)].reset();
    });
    for (const Outcome& outcome : outcomes) {
      INFO(outcome.text);
      REQUIRE_FALSE(outcome.code.has_value());
    }
  }
}

TEST_CASE("abort from another thread ends present and later calls of every rank") {
  const auto one_try = [] {
    auto groups = shm::make_thread_groups(3, test::options_with(std::chrono::seconds(30)));
    const auto start = Clock::now();
    std::thread aborter;
    const auto outcomes = run_ranks(groups, [&](ProcessGroup& group) {
      group.barrier();
      if (group.rank() == 2) aborter = std::thread([&] { group.abort("the loss is not a number"); });
      if (group.rank() != 2) group.barrier();
    });
    aborter.join();
    const std::chrono::duration<double> took = Clock::now() - start;
    for (const int rank : {0, 1}) {
      CHECK(outcomes[static_cast<std::size_t>(rank)].code == ErrorCode::aborted);
      CHECK(contains(outcomes[static_cast<std::size_t>(rank)].text,
                     "aborted by rank 2: the loss is not a number"));
    }
    groups[0]->abort("a second reason comes too late");
    check_all_fail(run_ranks(groups, [](ProcessGroup& group) { group.barrier(); }), ErrorCode::aborted,
                   {"the loss is not a number"});
    return took.count();
  };
  CHECK(test::late_beside_others("shm: a rank aborts", 0.1, [&] {
          return std::vector{one_try(), one_try(), one_try()};
        }) == "");
}

TEST_CASE("a size that cannot be is the caller's error alone") {
  const auto groups = shm::make_thread_groups(1);
  CHECK_THROWS_AS(groups[0]->allocate(SIZE_MAX / 2), Error);
  groups[0]->barrier();
}

TEST_CASE("shared memory that does not fit is a lack of memory") {
  shm::ProcessMemory memory(shm::MemoryLocation::Kind::file);
  shm::MemoryLocation location;
  CHECK_THAT(test::error_of([&] { memory.create(std::size_t{1} << 60, location); }, ErrorCode::out_of_memory),
             Contains("/dev/shm"));
}

}  // namespace
}  // namespace muster
