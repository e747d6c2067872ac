// SPDX-License-Identifier: Apache-2.0
// MUSTER_ALGORITHM over Gloo: right answers, what each algorithm sends, and what happens when something
// fails.
#include "catch.hpp"
#include "tests/contract/values.hpp"
#include "tests/integration/backends/world.hpp"
#include "tests/integration/comm/rank_results.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace muster {
namespace {

using contract::Bytes;
using contract::Values;
using test::check_failed;
using test::check_returned;
using test::StoreProcess;

constexpr std::size_t kBlock = std::size_t{4} << 20;

ProcessGroupOptions options_of(Algorithm algorithm) {
  ProcessGroupOptions options;
  options.timeout = std::chrono::seconds(50);
  options.algorithm = algorithm;
  return options;
}

std::unique_ptr<ProcessGroup> make(StoreClient& store, int rank, int size, Algorithm algorithm) {
  return test::make_world(store, test::world_of("gloo", rank, size, options_of(algorithm)));
}

/// Every element then costs a hundred times as much.
#ifdef MUSTER_SANITIZED
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

std::uint64_t blocks_of(std::uint64_t bytes) {
  return (bytes + kBlock - 1) / kBlock;
}

struct Sent {
  std::uint64_t messages = 0;
  std::uint64_t bytes = 0;

  bool operator==(const Sent&) const = default;
};

std::uint64_t children_of(int rank, int size) {
  std::uint64_t children = 0;
  for (int distance = 1; distance < size && (rank & distance) == 0; distance *= 2)
    if (rank + distance < size) ++children;
  return children;
}

/// The table of docs/sdk.md: what a rank sends in a call on `bytes` bytes of all ranks together.
Sent law(Collective collective, Algorithm algorithm, std::uint64_t bytes, int rank, int size) {
  const auto others = static_cast<std::uint64_t>(size - 1);
  const std::uint64_t slice = bytes / static_cast<std::uint64_t>(size);
  const Sent slices{others * blocks_of(slice), others * slice};
  if (collective == Collective::all_gather && algorithm != Algorithm::ring) return {others, others * slice};
  if (collective != Collective::all_reduce) return slices;
  if (algorithm != Algorithm::tree) return {2 * slices.messages, 2 * slices.bytes};
  const std::uint64_t wholes = (rank == 0 ? 0U : 1U) + children_of(rank, size);
  return {wholes * blocks_of(bytes), wholes * bytes};
}

/// One call on `bytes` bytes of all ranks together: "" or what was wrong.
std::string check_call(ProcessGroup& group, Collective collective, Algorithm algorithm, std::uint64_t bytes) {
  const int size = group.size();
  const auto ranks = static_cast<std::size_t>(size);
  const std::size_t all = bytes / sizeof(float);
  const std::size_t count = collective == Collective::all_reduce ? all : all / ranks;
  const std::size_t first =
      collective == Collective::all_reduce ? 0 : count * static_cast<std::size_t>(group.rank());
  const Values values{DataType::f32, ReduceOp::sum, size, 5};
  Bytes in = contract::exact(values, group.rank(), collective == Collective::reduce_scatter ? all : count);
  Bytes out(collective == Collective::all_gather ? bytes : count * sizeof(float));
  const Traffic before = group.traffic();
  group.run(operation_of(collective, count, DataType::f32, in.data(), out.data()));
  const Traffic after = group.traffic();
  Bytes expected;
  if (collective == Collective::all_gather) {
    for (int rank = 0; rank < size; ++rank) {
      const Bytes part = contract::exact(values, rank, count);
      expected.insert(expected.end(), part.begin(), part.end());
    }
  } else {
    expected = contract::exact_reduced(values, count, first);
  }
  const std::string what = std::string(name_of(algorithm)) + ", " + std::string(name_of(collective)) +
                           " of " + std::to_string(bytes) + " bytes: ";
  if (out != expected) return what + "wrong values";
  const Sent sent{after.wire.messages - before.wire.messages, after.wire.bytes - before.wire.bytes};
  const Sent wanted = law(collective, algorithm, bytes, group.rank(), size);
  if (sent != wanted)
    return what + std::to_string(sent.messages) + " messages of " + std::to_string(sent.bytes) +
           " bytes, not " + std::to_string(wanted.messages) + " of " + std::to_string(wanted.bytes);
  if (after.wire.control_messages - before.wire.control_messages != ranks - 1) return what + "fingerprints";
  const std::uint64_t rounds = collective == Collective::all_reduce ? 2 : 1;
  if (after.payload - before.payload != rounds * bytes / ranks * (ranks - 1)) return what + "payload";
  return "";
}

TEST_CASE("what each algorithm sends is its law") {
  const int size = kSanitized ? 3 : GENERATE(2, 4, 8);
  const StoreProcess store;
  const auto results = test::run_processes(size, store.port(), [=](int rank, StoreClient& keys) {
    for (const Algorithm algorithm : {Algorithm::direct, Algorithm::ring, Algorithm::tree}) {
      const auto group = make(keys, rank, size, algorithm);
      // Slices of one block, and where that does not take long of two, of which the second is shorter.
      for (const std::uint64_t slice : {std::uint64_t{40'960}, std::uint64_t{kBlock + 64}}) {
        for (const Collective each :
             {Collective::all_reduce, Collective::reduce_scatter, Collective::all_gather}) {
          const bool takes_long = kSanitized || size > 4 || (size > 2 && each != Collective::all_reduce);
          if (takes_long && slice > kBlock) continue;
          const std::string wrong =
              check_call(*group, each, algorithm, slice * static_cast<std::uint64_t>(size));
          if (!wrong.empty()) return wrong;
        }
      }
    }
    return std::string("right");
  });
  check_returned(results, "right");
}

TEST_CASE("ring and tree keep the contract") {
  const Algorithm algorithm = GENERATE(Algorithm::ring, Algorithm::tree);
  // reduce, all_reduce and reduce_scatter; broadcast, all_gather and all_gather_v; the others are direct.
  const std::string only = GENERATE("reduc", "the same bits", "broadcast", "all_gather");
  INFO(name_of(algorithm) << ", " << only);
  contract::Options options;
  options.quick = true;
  options.only = only;
  options.worlds = {2, 3, 4};
  if (kSanitized) options.worlds = {3};
  contract::check_in_processes(
      [algorithm](StoreClient& store, int rank, int size, const ProcessGroupOptions& group) {
        SelectOptions choice = test::world_of("gloo", rank, size, group);
        choice.group.algorithm = algorithm;
        return test::make_world(store, choice);
      },
      options);
}

TEST_CASE("between hosts the first ranks go by the algorithm") {
  const Algorithm algorithm = GENERATE(Algorithm::ring, Algorithm::tree);
  const StoreProcess store;
  const auto results = test::run_processes(5, store.port(), [algorithm](int rank, StoreClient& keys) {
    SelectOptions choice = test::world_of("hierarchical", rank, 5, options_of(algorithm));
    choice.host = std::string(1, static_cast<char>('a' + rank % 3));
    const auto group = test::make_world(keys, choice);
    constexpr std::size_t kCount = std::size_t{3} << 18;
    const Values values{DataType::f32, ReduceOp::sum, 5, 6};
    Bytes data = contract::exact(values, rank, kCount);
    const Traffic before = group->traffic();
    group->all_reduce(data.data(), kCount, DataType::f32, ReduceOp::sum);
    const std::uint64_t messages = group->traffic().wire.messages - before.wire.messages;
    if (data != contract::exact_reduced(values, kCount)) return std::string("wrong values");
    // The leaders are ranks 0, 1 and 2: the root of their tree sends to both others, and they to it.
    const std::uint64_t blocks = blocks_of(kCount * sizeof(float));
    if (rank > 2) return std::string(messages == 0 ? "right" : "a rank that leads no host has sent data");
    const std::uint64_t wanted = algorithm == Algorithm::ring ? 4 : (rank == 0 ? 2 : 1) * blocks;
    if (messages != wanted) return std::to_string(messages) + " messages";
    return std::string("right");
  });
  check_returned(results, "right");
}

TEST_CASE("ranks with different algorithms are told at their first call") {
  const std::string backend = GENERATE("gloo", "shm", "hierarchical");
  const bool allocates = GENERATE(false, true);
  if (allocates && backend != "shm") return;  // memory of others' own is made by each rank alone
  const StoreProcess store;
  const auto results = test::run_processes(3, store.port(), [&](int rank, StoreClient& keys) {
    SelectOptions choice =
        test::world_of(backend, rank, 3, options_of(rank == 2 ? Algorithm::ring : Algorithm::direct));
    if (backend == "hierarchical") choice.host = rank == 0 ? "a" : "b";
    const auto group = test::make_world(keys, choice);
    std::vector<float> data(100'000);
    if (allocates)
      group->allocate(1'000);
    else
      group->all_reduce(data.data(), data.size(), DataType::f32, ReduceOp::sum);
    return std::string("no error");
  });
  check_failed(results, ErrorCode::mismatch,
               {"rank 2", "MUSTER_ALGORITHM=ring", allocates ? "allocate of 1000 bytes" : "100000 x f32"});
}

TEST_CASE("a rank that is killed in a ring or a tree is named on all others") {
  const Algorithm algorithm = GENERATE(Algorithm::ring, Algorithm::tree);
  constexpr int kVictim = 1;
  const StoreProcess store;
  test::RankProcesses ranks(4, store.port(), [algorithm](int rank, StoreClient& keys) {
    const auto group = make(keys, rank, 4, algorithm);
    std::vector<float> data(kBlock);
    for (int call = 0;; ++call) {
      // In the middle of the others' call: they have its fingerprint and its first blocks.
      if (rank == kVictim && call == 3) test::signal_parent();
      group->all_reduce(data.data(), data.size(), DataType::f32, ReduceOp::sum);
    }
    return std::string();
  });
  ranks.wait_for_signal(kVictim);
  ranks.kill_rank(kVictim);
  auto results = ranks.wait();
  CHECK(results[kVictim].killed);
  results.erase(results.begin() + kVictim);
  check_failed(results, ErrorCode::peer_lost, {"rank 1 (host here) has died", "all_reduce"});
}

TEST_CASE("a rank that is killed in the midst of a message is named") {
  // The other one only sends or only receives then: nothing else that it waits for says so.
  const int victim = GENERATE(0, 1);
  const StoreProcess store;
  test::RankProcesses ranks(2, store.port(), [](int rank, StoreClient& keys) {
    const auto group = make(keys, rank, 2, Algorithm::direct);
    std::vector<char> data(std::size_t{128} << 20, rank == 0 ? 'x' : '\0');
    std::thread begun([&] {
      while (std::atomic_ref(data[0]).load() == '\0') std::this_thread::yield();
      if (rank == 1) test::signal_parent();
    });
    begun.detach();
    for (;;) group->broadcast(data.data(), data.size(), 0);
    return std::string();
  });
  ranks.wait_for_signal(1);
  ranks.kill_rank(victim);
  auto results = ranks.wait();
  CHECK(results[static_cast<std::size_t>(victim)].killed);
  results.erase(results.begin() + victim);
  check_failed(results, ErrorCode::peer_lost,
               {"rank " + std::to_string(victim) + " (host here) has died", "broadcast"});
}

}  // namespace
}  // namespace muster
