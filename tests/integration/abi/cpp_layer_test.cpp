// SPDX-License-Identifier: Apache-2.0
// The C++ layer over libmuster.so: types of buffers, ownership, exceptions. Ranks are threads that meet
// through a file.
#include "catch.hpp"
#include "muster/muster.hpp"
#include "tests/support/folder.hpp"

#include <stdlib.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <functional>
#include <iostream>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace {

using muster::ErrorCode;
using namespace std::chrono_literals;

/// Runs `body` on threads with a world each; returns what they threw, "" for nothing.
std::vector<std::string> run_ranks(int size, const std::function<void(muster::World&)>& body) {
  const muster::test::Folder folder;
  std::vector<std::string> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        muster::Options options;
        options.init_url = "file://" + folder / "meet";
        options.backend = "shm";
        options.rank = rank;
        options.size = size;
        options.join_deadline = 30s;
        options.timeout = 20s;
        muster::World world(options);
        body(world);
        world.finalize(20s);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(rank)] = error.what();
      }
    });
  for (std::thread& thread : threads) thread.join();
  return errors;
}

/// Catch2's checks are not for threads: the ranks throw.
void expect(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

template <class Call>
void expect_error(ErrorCode code, const char* part, Call&& call) {
  try {
    call();
  } catch (const muster::Error& error) {
    expect(error.code() == code, error.what());
    expect(std::string(error.what()).find(part) != std::string::npos, error.what());
    return;
  }
  expect(false, part);
}

}  // namespace

TEST_CASE("a world of one needs no launcher") {
  muster::World world = muster::init();
  CHECK(world.rank() == 0);
  CHECK(world.size() == 1);
  CHECK(std::string(world.info().run_id) == "none");
  std::vector<float> values = {1, 2, 3};
  world.group().all_reduce(values);
  CHECK(values == std::vector<float>{1, 2, 3});
  muster::World moved = std::move(world);
  moved.group().barrier();
  CHECK(world.handle() == nullptr);
  moved.finalize();
  CHECK_THROWS_AS(moved.finalize(), muster::Error);
}

TEST_CASE("typed calls between ranks") {
  const auto errors = run_ranks(3, [](muster::World& world) {
    muster::Group& all = world.group();
    const auto rank = static_cast<std::uint8_t>(all.rank());
    std::array<std::uint8_t, 2> bits = {static_cast<std::uint8_t>(1U << rank), 0};
    all.all_reduce(bits, muster::ReduceOp::bor);
    expect(bits[0] == 7 && bits[1] == 0, "bor");

    std::vector<muster::bf16> halves(3, muster::bf16(1.5F));
    all.all_reduce(halves);
    expect(static_cast<float>(halves[2]) == 4.5F, "bf16");

    const std::vector<double> mine = {1.0 * rank, 0.5};
    std::vector<double> every(6);
    all.all_gather(mine, every);
    expect(every == std::vector<double>{0, 0.5, 1, 0.5, 2, 0.5}, "all_gather");

    double sum[2] = {0, 0};
    all.reduce(mine, sum, muster::ReduceOp::sum, 2);
    expect(rank != 2 || sum[0] == 3, "reduce");

    std::vector<std::int64_t> parts(3, rank);
    std::vector<std::int64_t> turned(3);
    all.all_to_all(parts, turned);
    expect(turned == std::vector<std::int64_t>{0, 1, 2}, "all_to_all");

    const std::array<std::uint64_t, 3> counts = {0, 1, 2};
    std::vector<int> uneven(rank, rank);
    std::vector<int> together(3);
    all.all_gather_v(uneven, together, counts);
    expect(together == std::vector<int>{1, 2, 2}, "all_gather_v");

    std::span<float> memory = all.allocate<float>(100);
    memory[99] = 2;
    muster::Work work = all.start_all_reduce(memory, muster::ReduceOp::product);
    work.wait(20s);
    expect(work.test() && memory[99] == 8 && memory[0] == 0, "started all_reduce");
  });
  CHECK(errors == std::vector<std::string>(3));
}

TEST_CASE("buffers that do not fit are refused before anything is called") {
  const auto errors = run_ranks(2, [](muster::World& world) {
    muster::Group& all = world.group();
    std::vector<float> two(2);
    std::vector<float> three(3);
    const std::array<std::uint64_t, 1> counts = {1};
    expect_error(ErrorCode::invalid_argument, "do not fit", [&] { all.all_gather(two, three); });
    expect_error(ErrorCode::invalid_argument, "do not fit", [&] { all.all_reduce(two, three); });
    expect_error(ErrorCode::invalid_argument, "do not fit", [&] { all.reduce_scatter(three, two); });
    expect_error(ErrorCode::invalid_argument, "do not fit", [&] { all.all_to_all(three, three); });
    expect_error(ErrorCode::invalid_argument, "do not fit", [&] { all.all_gather_v(two, three, counts); });
    expect_error(ErrorCode::invalid_argument, "too many", [&] { all.allocate<double>(SIZE_MAX / 4); });
    expect_error(ErrorCode::unsupported, "no memory of a device", [&] { all.allocate_device<double>(4); });
    all.barrier();
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("batches, groups and their lives") {
  const auto errors = run_ranks(3, [](muster::World& world) {
    muster::Group& all = world.group();
    const int next = (all.rank() + 1) % 3;
    int mine = all.rank();
    int theirs = -1;
    try {
      all.batch([&] {
        all.send(std::span(&mine, 1), next);
        throw std::runtime_error("changed my mind");
      });
      expect(false, "the exception is lost");
    } catch (const std::runtime_error&) {
    }
    all.batch([&] {
      all.send(std::span(&mine, 1), next);
      all.recv(std::span(&theirs, 1), (all.rank() + 2) % 3);
    });
    expect(theirs == (all.rank() + 2) % 3, "ring");

    std::optional<muster::Group> ends = all.split(all.rank() == 1 ? -1 : 4, -all.rank());
    expect(ends.has_value() == (all.rank() != 1), "split");
    if (ends) {
      expect(ends->size() == 2 && ends->ranks()[0] == 2 && ends->backend() == "shm", "the split group");
      ends->all_reduce(std::span(&mine, 1));
      expect(mine == 2, "sum in the split group");
    }
    const std::array<std::int32_t, 2> ranks = {1, 2};
    std::optional<muster::Group> last = all.new_group(ranks);
    expect(last.has_value() == (all.rank() != 0), "new_group");
  });
  CHECK(errors == std::vector<std::string>(3));
}

TEST_CASE("the store, named barriers and the reducer") {
  const auto errors = run_ranks(2, [](muster::World& world) {
    muster::Store store = world.store();
    if (world.rank() == 0) store.multi_set({{"a", "1"}, {"b", std::string("x\0y", 3)}});
    expect(store.multi_get({"a", "b"}, 20s)[1] == std::string("x\0y", 3), "multi_get");
    expect_error(ErrorCode::deadline, "never", [&] { store.get("never", 20ms); });
    expect(!store.check({"a", "never"}), "check");
    world.barrier("read");
    if (world.rank() == 0) {
      muster::Store second = store.clone();
      expect(second.compare_set("a", "1", "2") == "2" && second.add("a", 5) == 7, "numbers");
      second.append("b", "z");
      expect(second.get("b").size() == 4 && second.remove("b") && !second.remove("b"), "append");
      expect(second.list("a") == std::vector<std::string>{"a"}, "list");
      second.queue_push("q", "job");
      expect(second.queue_length("q") == 1 && second.queue_pop("q", 20s) == "job", "queue");
      expect_error(ErrorCode::deadline, "some", [&] { world.barrier("some", 50ms); });
    }
    muster::Reducer reducer(world.group(), {{"weight", {4, 4}}, {"bias", {4}}});
    std::vector<float> values(reducer.arena().size(), static_cast<float>(world.rank() + 1));
    reducer.broadcast(values);
    expect(values[0] == 1, "broadcast");
    reducer.begin_step(3);
    reducer.gradient(1)[3] = 1;
    reducer.gradient_ready(1);
    reducer.mark_unused(0);
    expect(reducer.finish_step() == 6 && reducer.gradient(1)[3] == 2, "a step");
    expect(reducer.gradient(0).data() == reducer.arena().data() + reducer.offset(0), "offset");
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("hooks and steps of buckets, and what they throw") {
  const auto errors = run_ranks(2, [](muster::World& world) {
    muster::Group& group = world.group();
    bool broken = false;
    float scale = 0;
    std::vector<std::uint32_t> order;
    muster::BucketOptions options;
    options.first_bucket_bytes = 4;
    options.hook = [&](const muster::Bucket& bucket) {
      if (broken && world.rank() == 1) throw std::runtime_error("the hook broke");
      order.insert(order.end(), bucket.parameters.begin(), bucket.parameters.end());
      group.all_reduce(bucket.gradients);
    };
    options.step = [&](std::size_t, std::size_t, float factor) { scale = factor; };
    muster::Reducer made(group, {{"weight", {4, 4}}, {"bias", {4}}}, options);
    muster::Reducer reducer = std::move(made);
    const auto step = [&] {
      reducer.begin_micro_batch(1);
      reducer.mark_unused(0);
      reducer.gradient(1)[3] = 1;
      reducer.gradient_ready(1);
      reducer.finish_micro_batch();
      reducer.set_tally(2, 5);
      reducer.begin_step(1);
      reducer.mark_unused(0);
      reducer.gradient(1)[3] = 2;
      reducer.gradient_ready(1);
      return reducer.finish_step();
    };
    expect(step() == 4 && reducer.gradient(1)[3] == 6 && scale == 0.25F, "a step");
    expect(order == std::vector<std::uint32_t>{1, 0}, "the order of the hook");
    expect(reducer.step_info().tally[2] == 10 && reducer.state().empty(), "what is told of the step");
    expect(reducer.check_values(reducer.arena(), 1) != 0, "the hash");
    broken = true;
    try {
      step();
      expect(false, "a step with a broken hook");
    } catch (const muster::Error& error) {
      expect(world.rank() == 0 && error.code() == ErrorCode::aborted, "the others' error");
    } catch (const std::runtime_error& error) {
      expect(error.what() == std::string("the hook broke"), "its own error");
    }
  });
  CHECK(errors == std::vector<std::string>(2));
}

TEST_CASE("abort ends the wait of another thread and rank") {
  const auto errors = run_ranks(2, [](muster::World& world) {
    world.group().barrier();  // all have joined: who aborts may serve the store of those that still do
    if (world.rank() == 0)
      world.abort("out of disk");
    else
      expect_error(ErrorCode::aborted, "out of disk", [&] { world.group().barrier(); });
  });
  CHECK(errors == std::vector<std::string>(2));
}

#ifndef MUSTER_SANITIZED_THREADS  // its own thread is one that spawn() refuses to fork
TEST_CASE("a fault that is injected at the end of a rank is thrown there, and the others are told who left") {
  setenv("MUSTER_FAULT", "error@1:finalize", 1);
  const auto errors = run_ranks(2, [](muster::World& world) { world.group().barrier(); });
  unsetenv("MUSTER_FAULT");
  CHECK_THAT(errors[1], Contains("injected on rank 1"));
  CHECK_THAT(errors[0], Contains("rank 1") && Contains("has left the world"));
}

TEST_CASE("spawn runs ranks and tells the first failure") {
  std::int64_t base = 10;
  muster::spawn(
      [base](muster::World& world) {
        std::int64_t sum = base + world.rank();
        world.group().all_reduce(std::span(&sum, 1));
        expect(sum == 3 * base + 3, "the sum");
      },
      3);
  try {
    muster::spawn(
        [](int rank) {
          if (rank == 1) throw std::runtime_error("shard 17 is unreadable");
        },
        2);
    FAIL("no failure came back");
  } catch (const muster::SpawnError& error) {
    CHECK(error.rank() == 1);
    CHECK(error.exit_code() == 1);
    CHECK(error.code() == ErrorCode::peer_lost);
    CHECK(std::string(error.what()).find("shard 17 is unreadable") != std::string::npos);
  }
}

TEST_CASE("what a rank of spawn wrote to its own std::cout is not lost") {
  std::string path = std::filesystem::temp_directory_path() / "muster-cout-XXXXXX";
  const int file = mkstemp(path.data());
  REQUIRE(file >= 0);
  muster::spawn(
      [file](int) {
        dup2(file, STDOUT_FILENO);
        std::ios::sync_with_stdio(false);
        std::cout << "kept";
      },
      1);
  CHECK(std::filesystem::file_size(path) == 4);
  close(file);
  std::filesystem::remove(path);
}
#endif

TEST_CASE("options that contradict each other") {
  muster::Options options;
  options.rank = 1;
  CHECK_THROWS_AS(muster::World(options), muster::Error);
  options.size = 0;
  CHECK_THROWS_AS(muster::World(options), muster::Error);
}

// What must not compile: a started call on a temporary, elements of no type, a constant to write into.
template <class R>
concept CanStart = requires(muster::Group& group, R&& data) {
  group.start_all_reduce(std::forward<R>(data));
};

template <class R>
concept CanReduce = requires(muster::Group& group, R&& data) {
  group.all_reduce(std::forward<R>(data));
};

static_assert(CanStart<std::vector<float>&> && CanStart<std::span<float>> && !CanStart<std::vector<float>>);
static_assert(CanReduce<std::array<double, 3>&> && CanReduce<int (&)[4]> &&
              CanReduce<std::vector<long long>&>);
static_assert(!CanReduce<const std::vector<float>&> && !CanReduce<std::vector<bool>&> &&
              !CanReduce<std::vector<std::string>&>);
static_assert(!CanReduce<std::vector<unsigned>&> && !CanReduce<std::vector<short>&>);
