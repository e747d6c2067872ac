// SPDX-License-Identifier: Apache-2.0
#include "tests/contract/rank.hpp"

#include <chrono>
#include <thread>

namespace muster::contract {
namespace {

using std::chrono::seconds;

Operation sum_of(Buffer& data, std::size_t count) {
  return operation_of(Collective::all_reduce, count, DataType::f32, data.data(), data.data());
}

Values salted(int size, std::uint32_t salt) {
  return {DataType::f32, ReduceOp::sum, size, salt};
}

void started_work(Rank& rank) {
  constexpr std::size_t kCounts[] = {10, 50'000, 3, 8'192, 1};
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<std::shared_ptr<Work>> works;
  for (const std::size_t count : kCounts) {
    buffers.push_back(rank.buffer(exact(salted(rank.size(), 41), rank.rank(), count)));
    works.push_back(rank.group().start({sum_of(*buffers.back(), count)}));
  }
  // A call behind them waits for them.
  const auto last = rank.buffer(exact(salted(rank.size(), 42), rank.rank(), 100));
  rank.group().run(sum_of(*last, 100));
  rank.expect_bytes(*last, exact_reduced(salted(rank.size(), 42), 100), "the call behind started ones");
  for (std::size_t i = works.size(); i-- > 0;) {
    works[i]->wait(seconds(60));
    rank.expect(works[i]->test(), "test() is true after wait()");
    works[i]->wait();
    rank.expect_bytes(*buffers[i], exact_reduced(salted(rank.size(), 41), kCounts[i]), "started all_reduce");
  }
  const auto polled = rank.buffer(exact(salted(rank.size(), 43), rank.rank(), 20'000));
  const auto work = rank.group().start({sum_of(*polled, 20'000)});
  const auto until = std::chrono::steady_clock::now() + seconds(60);
  while (!work->test()) {
    rank.expect(std::chrono::steady_clock::now() < until, "started work ends within 60 s");
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  rank.expect_bytes(*polled, exact_reduced(salted(rank.size(), 43), 20'000), "polled all_reduce");
  rank.group().start({})->wait();
}

/// What an all_reduce of ranks' own numbers in `group` gives must be the sum of `members`.
void check_members(Rank& rank, ProcessGroup& group, const std::vector<int>& members,
                   const std::string& what) {
  rank.expect(group.size() == static_cast<int>(members.size()), what + ": size");
  rank.expect(members[static_cast<std::size_t>(group.rank())] == rank.rank(), what + ": rank");
  Bytes own(sizeof(std::int32_t));
  own[0] = static_cast<std::byte>(rank.rank());
  const auto in = rank.buffer(own);
  const auto out = rank.buffer(own.size() * members.size());
  group.run(operation_of(Collective::all_gather, 1, DataType::i32, in->data(), out->data()));
  Bytes expected(own.size() * members.size());
  for (std::size_t i = 0; i < members.size(); ++i)
    expected[i * own.size()] = static_cast<std::byte>(members[i]);
  rank.expect_bytes(*out, expected, what + ": members");
}

void groups(Rank& rank) {
  // By parity, in reverse order.
  const auto half = rank.group().split(rank.rank() % 2, -rank.rank());
  rank.expect(half != nullptr, "split gives a group");
  std::vector<int> members;
  for (int peer = rank.size() - 1; peer >= 0; --peer)
    if (peer % 2 == rank.rank() % 2) members.push_back(peer);
  check_members(rank, *half, members, "split");
  const auto none = rank.group().split(rank.rank() == 0 ? -1 : 3, 0);
  rank.expect((none == nullptr) == (rank.rank() == 0), "a negative color gives no group");
  const std::vector<int> ends = {rank.size() - 1, 0};
  const auto outer = rank.group().new_group(ends);
  const bool is_end = rank.rank() == 0 || rank.rank() == rank.size() - 1;
  rank.expect((outer != nullptr) == is_end, "new_group gives its members a group");
  if (outer) check_members(rank, *outer, ends, "new_group");
  // Calls of several groups at once, each with its own order.
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<std::shared_ptr<Work>> works;
  for (std::uint32_t i = 0; i < 5; ++i) {
    for (ProcessGroup* group : {&rank.group(), half.get(), outer.get()}) {
      if (group == nullptr) continue;
      buffers.push_back(rank.buffer(exact(salted(group->size(), 50 + i), group->rank(), 9'001)));
      works.push_back(group->start({sum_of(*buffers.back(), 9'001)}));
    }
  }
  std::size_t next = 0;
  for (std::uint32_t i = 0; i < 5; ++i) {
    for (ProcessGroup* group : {&rank.group(), half.get(), outer.get()}) {
      if (group == nullptr) continue;
      works[next]->wait();
      rank.expect_bytes(*buffers[next++], exact_reduced(salted(group->size(), 50 + i), 9'001),
                        "all_reduce of one of three groups at once");
    }
  }
  if (half->size() > 1) {
    const auto quarter = half->split(half->rank() % 2, 0);
    quarter->barrier();
  }
}

/// Calls of changing kind and size in a row keep their data apart.
void random_calls(Rank& rank) {
  const std::uint32_t calls = rank.options().quick ? 30 : 150;
  std::uint32_t state = 12345;
  for (std::uint32_t i = 0; i < calls; ++i) {
    state = state * 1664525U + 1013904223U;
    const std::size_t count = (state >> 8) % (i % 5 == 0 ? 60'000 : 3'000);
    const int root = static_cast<int>((state >> 4) % static_cast<std::uint32_t>(rank.size()));
    const Values values = salted(rank.size(), 100 + i);
    const auto in = rank.buffer(exact(values, rank.rank(), count));
    if (state >> 28 < 8) {
      rank.group().run(sum_of(*in, count));
      rank.expect_bytes(*in, exact_reduced(values, count), "all_reduce in call " + std::to_string(i));
    } else if (state >> 28 < 12) {
      Operation operation = operation_of(Collective::broadcast, count, DataType::f32, in->data(), in->data());
      operation.call.root = root;
      operation.call.tag = rank.rank();  // means nothing here, and so may differ
      rank.group().run(operation);
      rank.expect_bytes(*in, exact(values, root, count), "broadcast in call " + std::to_string(i));
    } else {
      const auto out = rank.buffer(count * sizeof(float));
      Operation operation = operation_of(Collective::reduce, count, DataType::f32, in->data(), out->data());
      operation.call.root = root;
      rank.group().run(operation);
      if (rank.rank() == root)
        rank.expect_bytes(*out, exact_reduced(values, count), "reduce in call " + std::to_string(i));
    }
  }
}

constexpr Case kOrderCases[] = {
    {"started work", started_work},
    {"several groups", groups},
    {"calls in a row", random_calls},
};

}  // namespace

std::span<const Case> order_cases() {
  return kOrderCases;
}

}  // namespace muster::contract
