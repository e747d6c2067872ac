// SPDX-License-Identifier: Apache-2.0
// Goes once through everything that ranks share, as threads, each of which makes its own group. Under
// ThreadSanitizer it must be silent, and must not be with any mutation of mutations.txt. No Catch2: it is
// built many times.
#include "muster/error.hpp"
#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/comm/shm/shm_backend.hpp"

#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace {

using muster::Collective;
using muster::DataType;
using muster::ProcessGroup;
using muster::ProcessGroupOptions;
using muster::ReduceOp;

/// Three chunks, the last a short one: the first one's place is used again.
constexpr std::size_t kLarge = 2 * muster::shm::kChunkBytes / sizeof(float) + 5;
constexpr std::size_t kSmall = 100;

/// Runs body(group) as `ranks` threads over one memory. Nothing but the group orders the threads.
void run_world(int ranks, std::chrono::milliseconds timeout, const std::function<void(ProcessGroup&)>& body) {
  const auto memory = std::make_shared<muster::shm::ThreadMemory>();
  muster::shm::MemoryLocation location;
  const auto control = memory->create(muster::shm::Layout::bytes_for(ranks), location);
  muster::shm::Layout(control.base(), ranks).construct();
  std::vector<std::unique_ptr<ProcessGroup>> groups(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      ProcessGroupOptions options;
      options.timeout = timeout;
      auto& group = groups[static_cast<std::size_t>(rank)];
      muster::GroupPlan plan{rank, ranks, {}, options};
      auto backend = std::make_unique<muster::shm::ShmBackend>(memory, memory->open(location), plan);
      group = std::make_unique<ProcessGroup>(std::move(backend), std::move(plan));
      body(*group);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

void expect(bool right, const char* what) {
  if (right) return;
  std::fprintf(stderr, "wrong: %s\n", what);
  std::abort();
}

void fill(float* data, std::size_t count, int value) {
  for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<float>(value);
}

void expect_all(const float* data, std::size_t count, int value, const char* what) {
  for (std::size_t i = 0; i < count; ++i) expect(data[i] == static_cast<float>(value), what);
}

muster::Operation operation_of(Collective collective, std::size_t count, const void* in, void* out) {
  muster::Operation operation;
  operation.call.collective = collective;
  operation.call.type = DataType::f32;
  operation.call.count = count;
  operation.in = in;
  operation.out = out;
  return operation;
}

int sum_of_ranks(const ProcessGroup& group) {
  return group.size() * (group.size() + 1) / 2;
}

void all_reduce(ProcessGroup& group, float* data, std::size_t count) {
  fill(data, count, group.rank() + 1);
  group.all_reduce(data, count, DataType::f32, ReduceOp::sum);
  expect_all(data, count, sum_of_ranks(group), "all_reduce");
}

void broadcast(ProcessGroup& group, float* data, std::size_t count, int root) {
  fill(data, count, group.rank());
  group.broadcast(data, count * sizeof(float), root);
  expect_all(data, count, root, "broadcast");
}

/// `data` and `more` have room for `count` elements of each rank. Each call's input is overwritten as soon as
/// it returns.
void others(ProcessGroup& group, float* data, float* more, std::size_t count) {
  const auto ranks = static_cast<std::size_t>(group.size());
  const auto own = static_cast<std::size_t>(group.rank()) * count;
  const int mark = group.rank() + 1;
  fill(data + own, count, mark);
  group.run(operation_of(Collective::all_gather, count, data + own, data));
  for (std::size_t peer = 0; peer < ranks; ++peer)
    expect_all(data + peer * count, count, static_cast<int>(peer) + 1, "all_gather");
  fill(data, count * ranks, mark);
  group.run(operation_of(Collective::reduce_scatter, count, data, more));
  fill(data, count * ranks, mark);
  expect_all(more, count, sum_of_ranks(group), "reduce_scatter");
  group.run(operation_of(Collective::all_to_all, count, data, more));
  fill(data, count * ranks, mark);
  for (std::size_t peer = 0; peer < ranks; ++peer)
    expect_all(more + peer * count, count, static_cast<int>(peer) + 1, "all_to_all");
  group.run(operation_of(Collective::scatter, count, data, more));
  fill(data, count * ranks, mark);
  expect_all(more, count, 1, "scatter");
  group.run(operation_of(Collective::reduce, count, data, more));
  fill(data, count * ranks, mark);
  if (group.rank() == 0) expect_all(more, count, sum_of_ranks(group), "reduce");
  group.run(operation_of(Collective::gather, count, data, more));
  fill(data, count * ranks, 0);
  if (group.rank() == 0) expect_all(more + count, count, 2, "gather");
}

/// Differs from chunk to chunk.
float element_of(int rank, std::size_t index) {
  return static_cast<float>(rank) + static_cast<float>(index / 256);
}

void add_message(std::vector<muster::Operation>& batch, Collective collective, float* data, std::size_t count,
                 int peer) {
  batch.push_back(operation_of(collective, count, data, data));
  batch.back().call.root = peer;
}

/// Around the ring; more messages than offers fit, several chunks in each.
void messages(ProcessGroup& group, float* shared) {
  constexpr std::size_t kCounts[] = {5, 2 * kLarge, kLarge, 3, 9, 10, 8, 7,      4, 3, 2,
                                     1, 5,          5,      5, 5, 5,  5, kLarge, 5, 5};
  const int next = (group.rank() + 1) % group.size();
  const int previous = (group.rank() + group.size() - 1) % group.size();
  std::vector<std::vector<float>> in;
  std::vector<std::vector<float>> out;
  std::vector<muster::Operation> batch;
  for (const std::size_t count : kCounts) {
    in.emplace_back(count);
    out.emplace_back(count);
    for (std::size_t i = 0; i < count; ++i) out.back()[i] = element_of(group.rank(), i);
    add_message(batch, Collective::send, out.back().data(), count, next);
    add_message(batch, Collective::recv, in.back().data(), count, previous);
  }
  in.emplace_back(kSmall);
  for (std::size_t i = 0; i < kSmall; ++i) shared[i] = element_of(group.rank(), i);
  add_message(batch, Collective::send, shared, kSmall, next);
  add_message(batch, Collective::recv, in.back().data(), kSmall, previous);
  group.run(batch);
  fill(shared, kSmall, 77);
  for (auto& buffer : out) fill(buffer.data(), buffer.size(), 77);
  for (const auto& buffer : in)
    for (std::size_t i = 0; i < buffer.size(); ++i) expect(buffer[i] == element_of(previous, i), "recv");
}

void collectives(ProcessGroup& group) {
  std::vector<float> any(3 * kLarge);
  std::vector<float> more(3 * kLarge);
  auto* const shared = static_cast<float*>(group.allocate(3 * kLarge * sizeof(float)));
  for (int i = 0; i < 100; ++i) all_reduce(group, any.data(), i % 2 == 0 ? kSmall : 5);
  for (int i = 0; i < 2; ++i) {
    for (float* data : {any.data(), shared}) {
      all_reduce(group, data, kLarge);
      broadcast(group, data, kSmall, i);
      broadcast(group, data, kLarge, i);
      // Begins by writing, before it waits for anyone.
      all_reduce(group, data, kSmall);
    }
  }
  others(group, any.data(), more.data(), kSmall);
  others(group, any.data(), more.data(), kLarge);
  others(group, shared, more.data(), kLarge);
  messages(group, shared);
  messages(group, shared);
  group.barrier();
}

/// What ends the second of two barriers.
std::string failing_barrier(ProcessGroup& group) {
  try {
    for (int i = 0; i < 2; ++i) group.barrier();
  } catch (const muster::Error& error) {
    return error.what();
  }
  return "";
}

void aborted(ProcessGroup& group) {
  if (group.rank() == 0) group.abort("for a reason");
  expect(failing_barrier(group).find("for a reason") != std::string::npos, "abort");
}

/// Rank 1 joins and does nothing: what rank 0 says about it, it can only know from the record of joining.
void late(ProcessGroup& group) {
  if (group.rank() == 0)
    expect(failing_barrier(group).find("rank 1 (process") != std::string::npos, "deadline");
}

}  // namespace

int main() {
  run_world(3, std::chrono::seconds(30), collectives);
  run_world(3, std::chrono::seconds(30), aborted);
  run_world(2, std::chrono::milliseconds(2000), late);
  std::puts("well");
  return 0;
}
