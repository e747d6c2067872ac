// SPDX-License-Identifier: Apache-2.0
// Worlds whose ranks are threads of one process: several at once, and what rank 0 leaves behind.
#include "catch.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "tests/support/error_of.hpp"
#include "worker_sdk/world/world.hpp"

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <thread>

namespace muster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

/// A port at which nobody listens. If possible it lies below those that the kernel gives out by itself: no
/// connection of another test gets it before it is used.
int free_port() {
  int kernels_first = 0;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> kernels_first;
  const int first = 1024;
  const int count = kernels_first - 4000 - first;  // well-known ones of programs lie above
  std::random_device random;
  for (int attempt = 0;; ++attempt) {
    const bool own = count > 0 && attempt < 100;
    const int port = own ? first + static_cast<int>(random() % static_cast<unsigned>(count)) : 0;
    const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    socklen_t size = sizeof(address);
    void* name = &address;
    if (::bind(fd.get(), static_cast<sockaddr*>(name), size) != 0 && own && errno == EADDRINUSE) continue;
    REQUIRE(::getsockname(fd.get(), static_cast<sockaddr*>(name), &size) == 0);
    REQUIRE(address.sin_port != 0);
    return ntohs(address.sin_port);
  }
}

WorldOptions options_for(const std::string& url, int rank, int size) {
  WorldOptions options;
  options.init_url = url;
  options.rank = rank;
  options.size = size;
  options.backend = "shm";
  options.join_timeout = seconds(40);
  return options;
}

void run_ranks(int size, const std::function<void(int)>& body) {
  std::vector<std::thread> threads;
  std::atomic<int> failed = 0;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      try {
        body(rank);
      } catch (const Error& error) {
        ++failed;
        UNSCOPED_INFO(error.what());
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(failed == 0);
}

std::int64_t sum_of_ranks(World& world) {
  std::int64_t sum = world.info().rank + 1;
  world.group().all_reduce(&sum, 1, DataType::i64, ReduceOp::sum);
  return sum;
}

TEST_CASE("ranks may be threads, and make several worlds at once and in turn over one URL") {
  const std::string url = "tcp://127.0.0.1:" + std::to_string(free_port());
  std::atomic<int> right = 0;
  run_ranks(3, [&](int rank) {
    for (int round = 0; round < 2; ++round) {
      const auto outer = World::init(options_for(url, rank, 3));
      const auto inner = World::init(options_for(url, rank, 3));
      outer->store().set("key" + std::to_string(rank), "outer");
      outer->barrier("set", seconds(30));
      inner->barrier("set", seconds(30));
      const bool apart = outer->store().check({"key0", "key1", "key2"}) && !inner->store().check({"key0"});
      if (apart && sum_of_ranks(*outer) == 6 && sum_of_ranks(*inner) == 6) ++right;
      // The store lives with the outer world, so the inner one ends first.
    }
  });
  CHECK(right == 6);
}

TEST_CASE("rank 0 keeps the store until the others have left, and then frees port and file") {
  const std::string path =
      (std::filesystem::temp_directory_path() / ("muster-worlds-" + std::to_string(::getpid()))).string();
  std::atomic<bool> late_done = false;
  run_ranks(2, [&](int rank) {
    auto options = options_for("file://" + path, rank, 2);
    options.leave_timeout = seconds(40);
    const auto world = World::init(options);
    if (rank == 0) return;
    // Rank 0 ends meanwhile; the store must not.
    ::usleep(50'000);
    world->store().set("late", "still there");
    late_done = world->store().get("late") == "still there";
  });
  CHECK(late_done);
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("rank 0 does not wait for ever for a rank that stays") {
  const std::string url = "tcp://127.0.0.1:" + std::to_string(free_port());
  std::atomic<bool> rank_0_left = false;
  std::atomic<bool> rank_1_joined = false;
  std::atomic<bool> waited_in_vain = false;
  run_ranks(2, [&](int rank) {
    auto options = options_for(url, rank, 2);
    options.leave_timeout = milliseconds(50);
    auto world = World::init(options);
    if (rank == 1) rank_1_joined = true;
    if (rank == 0) {
      for (int i = 0; i < 40'000 && !rank_1_joined; ++i) ::usleep(1000);
      world.reset();
      rank_0_left = true;
      return;
    }
    for (int i = 0; i < 40'000 && !rank_0_left; ++i) ::usleep(1000);
    waited_in_vain = !rank_0_left;
  });
  CHECK_FALSE(waited_in_vain);
}

TEST_CASE("a world of one has a store, and barriers that return") {
  for (const char* name :
       {"RANK", "WORLD_SIZE", "MUSTER_RANK", "MUSTER_WORLD_SIZE", "MUSTER_INIT_URL", "MUSTER_STORE"})
    ::unsetenv(name);
  const auto world = World::init({});
  CHECK(world->info().size == 1);
  CHECK(world->info().launcher == Launcher::bare);
  CHECK(world->info().store.empty());
  world->store().set("a", "b");
  CHECK(world->store().get("a") == "b");
  world->barrier("alone", milliseconds(0));
  CHECK(sum_of_ranks(*world) == 1);
}

TEST_CASE("an algorithm that does not exist is an error before anything else") {
  ::setenv("MUSTER_ALGORITHM", "rings", 1);
  const std::string text = test::error_of([] { World::init({}); }, ErrorCode::invalid_argument);
  ::setenv("MUSTER_ALGORITHM", "tree", 1);
  const auto world = World::init({});
  ::unsetenv("MUSTER_ALGORITHM");
  CHECK(text == "MUSTER_ALGORITHM is 'rings'; set it to direct, ring or tree, alike on all ranks");
  CHECK(world->group().plan().options.algorithm == Algorithm::tree);
}

TEST_CASE("a world of one begins without the store that its environment names") {
  const std::string port = std::to_string(free_port());
  const std::pair<const char*, const char*> variables[] = {{"RANK", "0"},
                                                           {"WORLD_SIZE", "1"},
                                                           {"LOCAL_RANK", "0"},
                                                           {"LOCAL_WORLD_SIZE", "1"},
                                                           {"TORCHELASTIC_RUN_ID", "gone"},
                                                           {"TORCHELASTIC_USE_AGENT_STORE", "True"},
                                                           {"MASTER_ADDR", "127.0.0.1"},
                                                           {"MASTER_PORT", port.c_str()}};
  for (const auto& [name, value] : variables) ::setenv(name, value, 1);
  WorldOptions options;
  options.join_timeout = milliseconds(300);
  const auto world = World::init(options);
  for (const auto& [name, value] : variables) ::unsetenv(name);
  CHECK(world->info().store == "127.0.0.1:" + port);
  world->group().barrier();
  CHECK_THROWS_WITH(world->store().set("key", "value"), Contains(port));
  world->group().barrier();
}

TEST_CASE("the address of its store that a world of one has told stays as it is") {
  const std::string port = std::to_string(free_port());
  // Served as 127.0.0.1 or ::1.
  const std::pair<const char*, const char*> variables[] = {
      {"RANK", "0"}, {"WORLD_SIZE", "1"}, {"MASTER_ADDR", "localhost"}, {"MASTER_PORT", port.c_str()}};
  for (const auto& [name, value] : variables) ::setenv(name, value, 1);
  const auto world = World::init({});
  for (const auto& [name, value] : variables) ::unsetenv(name);
  const char* const told = world->info().store.c_str();
  std::atomic<bool> done = false;
  std::atomic<bool> right = true;
  std::thread other([&] {
    do {
      if (world->info().store != "localhost:" + port) right = false;
    } while (!done);
  });
  world->store().set("key", "value");
  done = true;
  other.join();
  CHECK(right);
  const bool stays = world->info().store.c_str() == told;
  CHECK(stays);
  CHECK(world->store().get("key") == "value");
}

Error failure_of_barrier(World& world) {
  try {
    world.barrier("saved", seconds(60));
  } catch (const Error& error) {
    return error;
  }
  return {ErrorCode::state, "the barrier was passed"};
}

TEST_CASE("a named barrier ends when a rank that is missing has left, and says why it did") {
  const std::string url = "tcp://127.0.0.1:" + std::to_string(free_port());
  std::string failures[2];
  ErrorCode codes[2]{};
  for (const int round : {0, 1})
    run_ranks(3, [&](int rank) {
      const auto world = World::init(options_for(url, rank, 3));
      world->group().barrier();
      if (rank == 1) {
        world->prepare_to_leave(seconds(2), round == 0 ? "" : "disk full");
        return;
      }
      const Error failure = failure_of_barrier(*world);
      if (rank == 2) world->store().set("seen", "1");
      if (rank != 0) return;
      failures[round] = failure.what();
      codes[round] = failure.code();
      world->store().get("seen");  // this rank serves the store
    });
  CHECK(codes[0] == ErrorCode::peer_lost);
  CHECK_THAT(failures[0], Contains("rank 1 (process ") && Contains("has left the world"));
  CHECK(codes[1] == ErrorCode::aborted);
  CHECK_THAT(failures[1], Contains("rank 1 (process ") && Contains("disk full"));
}

TEST_CASE("a named barrier ends when the process of a missing rank has") {
  const std::string url = "tcp://127.0.0.1:" + std::to_string(free_port());
  const pid_t child = ::fork();
  if (child == 0) {
    auto world = World::init(options_for(url, 1, 2));
    world->barrier("joined", seconds(40));
    ::kill(::getpid(), SIGKILL);
  }
  {
    const auto world = World::init(options_for(url, 0, 2));
    world->barrier("joined", seconds(40));
    const Error failure = failure_of_barrier(*world);
    CHECK(failure.code() == ErrorCode::peer_lost);
    CHECK_THAT(failure.what(),
               Contains("rank 1 (process " + std::to_string(child) + " on host ") && Contains("has ended"));
  }
  ::waitpid(child, nullptr, 0);
}

TEST_CASE("options that are wrong are named") {
  const auto text_of = [](WorldOptions options) {
    return test::error_of([&] { World::init(options); }, ErrorCode::invalid_argument);
  };
  WorldOptions options;
  options.join_timeout = milliseconds(0);
  CHECK_THAT(text_of(options), Contains("join_timeout"));
  options = {};
  options.timeout = milliseconds(-1);
  CHECK_THAT(text_of(options), Contains("'timeout'"));
  options = {};
  options.leave_timeout = milliseconds(-1);
  CHECK_THAT(text_of(options), Contains("leave_timeout"));
  CHECK_THAT(text_of(options_for("tcp://127.0.0.1:2000", 2, 2)), Contains("rank 2 is outside"));
}

}  // namespace
}  // namespace muster
