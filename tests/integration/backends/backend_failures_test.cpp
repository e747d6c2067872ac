// SPDX-License-Identifier: Apache-2.0
// Ranks that die, stop or stay away, and backends that are not there, without shared memory to tell of it.
#include "catch.hpp"
#include "tests/integration/backends/world.hpp"
#include "tests/integration/comm/rank_results.hpp"
#include "tests/support/folder.hpp"
#include "tests/support/promise.hpp"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <utility>
#include <vector>

namespace muster {
namespace {

using std::chrono::milliseconds;
using test::check_failed;
using test::check_returned;
using test::RankProcesses;
using test::RankResult;
using test::StoreProcess;

/// Ranks 0 and 1 on host a, 2 and 3 on host b where the backend knows hosts.
std::unique_ptr<ProcessGroup> make(StoreClient& store, int rank, const std::string& backend,
                                   milliseconds timeout) {
  ProcessGroupOptions group;
  group.timeout = timeout;
  group.join_timeout = milliseconds(50'000);
  SelectOptions options = test::world_of(backend, rank, 4, group);
  if (backend == "hierarchical") options.host = rank < 2 ? "a" : "b";
  return test::make_world(store, options);
}

/// Kills that rank of four, while the others wait for it; returns the seconds after which all of them knew.
double kill_one(const std::string& backend, int victim) {
  const StoreProcess store;
  RankProcesses ranks(4, store.port(), [&](int rank, StoreClient& keys) {
    const auto group = make(keys, rank, backend, milliseconds(50'000));
    std::vector<float> data(300'000);
    for (int call = 0;; ++call) {
      if (rank == victim && call == 3) test::signal_parent();
      if (rank == victim && call == 3) pause();
      group->all_reduce(data.data(), data.size(), DataType::f32, ReduceOp::sum);
    }
    return std::string();
  });
  ranks.wait_for_signal(victim);
  const double killed_at = test::monotonic_seconds();
  ranks.kill_rank(victim);
  const auto results = ranks.wait();
  double took = 0;
  for (int rank = 0; rank < 4; ++rank) {
    if (rank == victim) continue;
    const RankResult& result = results[static_cast<std::size_t>(rank)];
    INFO(backend << ", victim " << victim << ", rank " << rank << ": " << result.text);
    CHECK(result.code == ErrorCode::peer_lost);
    CHECK(contains(result.text, "died"));
    if (backend == "hierarchical") CHECK(contains(result.text, "rank " + std::to_string(victim) + " "));
    // All ranks give the same account of it.
    CHECK(result.text == results[victim == 0 ? 1 : 0].text);
    took = std::max(took, result.ended_at - killed_at);
  }
  return took;
}

TEST_CASE("a killed rank is reported at once on all others") {
  const std::string backend = GENERATE("gloo", "hierarchical");
  const double usual = backend == "gloo" ? 0.05 : 0.06;
  std::vector<double> first;
  for (const int victim : {0, 1, 3}) {
    const std::string name = backend + ": rank " + std::to_string(victim) + " is killed";
    const auto measure = [&] { return std::vector{first.emplace_back(kill_one(backend, victim))}; };
    CHECK(test::late_beside_others(name, 0.1, measure) == "");
  }
  // What it usually takes, for which one try of each kind is too few.
  const auto measure = [&] {
    if (!first.empty()) return std::exchange(first, {});
    return std::vector{kill_one(backend, 0), kill_one(backend, 1), kill_one(backend, 3)};
  };
  CHECK(test::late_beside_others(backend + ": a rank is killed", 0.1, measure, 0, usual) == "");
}

TEST_CASE("a peer that goes before it tells why does not take the blame") {
  // Rank 0 dies in place of one whose joining ended, and process 2 tells for it what it had found.
  const auto body = [](int rank, StoreClient& keys) {
    if (rank == 2) {
      keys.wait({"rank 0 goes"}, milliseconds(50'000));
      usleep(5000);
      keys.compare_set("muster/world/0/1/failures/event/1", "",
                       std::to_string(static_cast<int>(ErrorCode::peer_lost)) +
                           "\nmuster/world/0/1/world#1\nrank 7 has died");
      return std::string();
    }
    const auto group = test::make_world(keys, test::world_of("gloo", rank, 2));
    if (rank == 0) {
      keys.set("rank 0 goes", "");
      raise(SIGKILL);
    }
    group->barrier();
    return std::string();
  };
  // Rank 1 waits 75 ms for that word, in which a busy machine may not bring it.
  std::string text;
  for (int attempt = 0; attempt < 10 && text != "rank 7 has died"; ++attempt) {
    const StoreProcess store;
    const auto results = test::run_processes(3, store.port(), body);
    CHECK(results[0].killed);
    CHECK(results[1].code == ErrorCode::peer_lost);
    text = results[1].text;
  }
  CHECK(text == "rank 7 has died");
}

TEST_CASE("a rank that is stopped is named at the deadline") {
  const std::string backend = GENERATE("gloo", "hierarchical");
  const StoreProcess store;
  RankProcesses ranks(4, store.port(), [&](int rank, StoreClient& keys) {
    const auto group = make(keys, rank, backend, milliseconds(8'000));
    group->barrier();
    if (rank == 2) test::signal_parent();
    if (rank == 2) raise(SIGSTOP);
    std::vector<float> data(1'000);
    group->all_reduce(data.data(), data.size(), DataType::f32, ReduceOp::sum);
    return std::string("no error");
  });
  ranks.wait_for_signal(2);
  // The stopped one is killed when the others have ended.
  std::vector<RankResult> results = ranks.wait_but(2);
  results.erase(results.begin() + 2);
  check_failed(results, ErrorCode::deadline, {"waited 8000 ms", "for rank 2 ", "all_reduce of 1000 x f32"});
  if (backend == "gloo")
    check_failed(results, ErrorCode::deadline,
                 {"these wait: rank 0 (host here), rank 1 (host here), rank 3 (host here)"});
}

TEST_CASE("an abort waits for a store that is silent, but not long") {
  std::vector<RankResult> results;
  // Two seconds, and not five; a busy machine may hold up one of some tries.
  for (int attempt = 0; attempt < 3; ++attempt) {
    const StoreProcess store;
    results = test::run_processes(1, store.port(), [&](int rank, StoreClient& keys) {
      const auto group = test::make_world(keys, test::world_of("gloo", rank, 1));
      group->barrier();
      store.stop();
      const double begun_at = test::monotonic_seconds();
      group->abort("no more data");
      const double took = test::monotonic_seconds() - begun_at;
      if (took > 3) return "took " + std::to_string(took) + " s";
      group->barrier();
      return std::string("no error");
    });
    if (!results[0].text.starts_with("took ")) break;
  }
  check_failed(results, ErrorCode::aborted, {"aborted by rank 0: no more data"});
}

TEST_CASE("an abort between hosts reaches the ranks of the host when the store is gone") {
  auto store = std::make_unique<StoreProcess>();
  RankProcesses ranks(4, store->port(), [&](int rank, StoreClient& keys) {
    const auto group = make(keys, rank, "hierarchical", milliseconds(100'000));
    group->barrier();
    if (rank < 2) return std::string("left");
    if (rank == 2) {
      test::signal_parent();
      try {
        keys.wait({"never"}, milliseconds(60'000));
      } catch (const Error&) {
        group->abort("no more data");
      }
      // It makes no call that could find the failure, and is killed when the others have ended.
      for (;;) pause();
    }
    for (;;) group->barrier();
  });
  ranks.wait_for_signal(2);
  store.reset();
  const double gone_at = test::monotonic_seconds();
  const RankResult result = ranks.wait_but(2)[3];
  check_failed({result}, ErrorCode::aborted, {"aborted by rank 2: no more data"});
  CHECK(result.ended_at - gone_at < 30);
}

TEST_CASE("a backend that one rank does not have is an error on all, and says what to install") {
  const StoreProcess store;
  const std::string nowhere = test::absent();
  const auto results = test::run_processes(3, store.port(), [&](int rank, StoreClient& keys) {
    if (rank == 1) setenv("MUSTER_PLUGIN_PATH", nowhere.c_str(), 1);
    test::make_world(keys, test::world_of("gloo", rank, 3));
    return std::string();
  });
  check_failed(
      results, ErrorCode::unsupported,
      {"rank 1 (host here) cannot use the backend 'gloo'", nowhere + "/libmuster_gloo.so", "libgloo0"});
}

TEST_CASE("a rank that cannot join a group says why on all others at once") {
  const StoreProcess store;
  const double start = test::monotonic_seconds();
  const auto results = test::run_processes(3, store.port(), [](int rank, StoreClient& keys) {
    if (rank == 1) setenv("MUSTER_SOCKET_IFNAME", "nothing0", 1);
    ProcessGroupOptions group;
    group.timeout = milliseconds(100'000);
    test::make_world(keys, test::world_of("gloo", rank, 3, group));
    return std::string("no error");
  });
  check_failed(results, ErrorCode::invalid_argument,
               {"rank 1 (host here): the network interface 'nothing0' is not there"});
  for (const RankResult& result : results) CHECK(result.ended_at - start < 30);
}

TEST_CASE("an unknown backend and two different ones are errors on all") {
  const StoreProcess store;
  const auto unknown = test::run_processes(2, store.port(), [](int rank, StoreClient& keys) {
    test::make_world(keys, test::world_of("carrier_pigeon", rank, 2));
    return std::string();
  });
  check_failed(unknown, ErrorCode::invalid_argument, {"carrier_pigeon"});
  const StoreProcess other;
  const auto mixed = test::run_processes(2, other.port(), [](int rank, StoreClient& keys) {
    test::make_world(keys, test::world_of(rank == 0 ? "gloo" : "shm", rank, 2));
    return std::string();
  });
  check_failed(mixed, ErrorCode::mismatch, {"'gloo'", "'shm'"});
}

TEST_CASE("auto is shared memory on one host and hierarchical on several") {
  const int hosts = GENERATE(1, 2);
  const StoreProcess store;
  const auto results = test::run_processes(4, store.port(), [hosts](int rank, StoreClient& keys) {
    // No NCCL, whatever this machine has.
    SelectOptions options = test::world_of("auto", rank, 4);
    options.host = rank * hosts / 4 == 0 ? "a" : "b";
    const auto group = test::make_world(keys, options);
    group->barrier();
    return std::string(group->backend());
  });
  check_returned(results, hosts == 1 ? "shm" : "hierarchical");
}

TEST_CASE("who shares a host is what the launcher says, not the host's name") {
  const bool numbered = GENERATE(true, false);
  const StoreProcess store;
  const auto results = test::run_processes(4, store.port(), [numbered](int rank, StoreClient& keys) {
    SelectOptions options = test::world_of("auto", rank, 4);
    options.host = "the same for all";
    if (numbered) options.node = rank / 2;
    const auto group = test::make_world(keys, options);
    group->barrier();
    return std::string(group->backend());
  });
  check_returned(results, numbered ? "hierarchical" : "shm");
}

TEST_CASE("a rank that does not come is named by those that choose a backend") {
  const StoreProcess store;
  const auto results = test::run_processes(3, store.port(), [](int rank, StoreClient& keys) {
    if (rank == 1) return std::string();
    keys.set("here " + std::to_string(rank), "1");
    keys.get("here " + std::to_string(2 - rank));
    ProcessGroupOptions group;
    group.timeout = milliseconds(4000);
    test::make_world(keys, test::world_of("gloo", rank, 3, group));
    return std::string();
  });
  check_failed({results[0], results[2]}, ErrorCode::deadline, {"for rank 1 to agree"});
}

}  // namespace
}  // namespace muster
