// SPDX-License-Identifier: Apache-2.0
// Streams of the user's, graphs that are captured from them, and memory of the group.
#include "catch.hpp"
#include "muster/error.hpp"
#include "tests/contract/values.hpp"
#include "tests/integration/comm/rank_results.hpp"
#include "tests/integration/nccl/nccl_world.hpp"
#include "worker_sdk/comm/call.hpp"

#include <cuda.h>

#include <cstring>
#include <future>
#include <thread>

namespace muster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

void require(bool right, const char* what) {
  if (!right) throw std::runtime_error(what);
}

Operation sum_of(void* data, std::size_t count, void* stream) {
  Operation operation = operation_of(Collective::all_reduce, count, DataType::i32, data, data);
  operation.stream = stream;
  return operation;
}

contract::Bytes ints(std::size_t count, int value) {
  contract::Bytes bytes(count * sizeof(int));
  for (std::size_t i = 0; i < count; ++i) std::memcpy(bytes.data() + i * sizeof(int), &value, sizeof(int));
  return bytes;
}

/// Whether this process has taken memory of a GPU for a context.
bool has_context(int device) {
  unsigned flags = 0;
  int active = 0;
  const auto ask =
      test::driver_function<CUresult (*)(CUdevice, unsigned*, int*)>("cuDevicePrimaryCtxGetState");
  require(ask(device, &flags, &active) == CUDA_SUCCESS, "the driver knows the device");
  return active != 0;
}

void check_on_two_ranks(const std::function<void(ProcessGroup&, test::DeviceMemory&)>& body) {
  const test::StoreProcess store;
  const auto results = test::run_processes(2, store.port(), [&](int rank, StoreClient& keys) {
    ProcessGroupOptions options;
    options.timeout = seconds(40);
    const auto group = test::make_nccl_group(keys, rank, 2, options);
    test::DeviceMemory memory;
    body(*group, memory);
    return "right";
  });
  test::check_returned(results, "right");
}

}  // namespace

TEST_CASE("a call on a stream is in the stream's order") {
  const test::FakeGpus fakes;
  check_on_two_ranks([](ProcessGroup& group, test::DeviceMemory& memory) {
    const auto& api = nccl::library();
    const auto buffer = memory.make(1000 * sizeof(int), 0);
    const auto work = [&] {
      const CUdeviceptr place = plugin::number_of(buffer->data());
      require(api.cuMemsetD8Async(place, 0, 4000, memory.stream()) == CUDA_SUCCESS, "memset");
      return group.start({sum_of(buffer->data(), 1000, memory.stream())});
    };
    std::vector<std::shared_ptr<Work>> works;
    for (int i = 0; i < 20; ++i) works.push_back(work());
    buffer->write(ints(1000, group.rank() + 1));  // the stream is empty now
    group.start({sum_of(buffer->data(), 1000, memory.stream())})->wait(seconds(30));
    require(buffer->read() == ints(1000, 3), "the sum");
    for (const auto& each : works) require(each->test(), "earlier work is done");
  });
  CHECK(fakes.violations() == "");
}

TEST_CASE("a graph with calls is captured while the watchdog looks on, and launched again and again") {
  const test::FakeGpus fakes;
  check_on_two_ranks([](ProcessGroup& group, test::DeviceMemory& memory) {
    const nccl::Library& api = nccl::library();
    const auto buffer = memory.make(100 * sizeof(int), 0);
    const auto other = memory.make(100 * sizeof(int), 0);
    buffer->write(ints(100, 1));
    other->write(ints(100, 1));
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    // Rank 1 is late for a call on the group's own stream, so that rank 0's watchdog asks about its event all
    // the time while the graph is captured.
    std::shared_ptr<Work> work;
    if (group.rank() == 0) work = group.start({sum_of(other->data(), 100, nullptr)});
    if (group.rank() == 1) std::this_thread::sleep_for(milliseconds(300));
    if (group.rank() == 1) work = group.start({sum_of(other->data(), 100, nullptr)});
    require(api.cuStreamBeginCapture(memory.stream(), CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS,
            "capture begins");
    const auto captured = group.start({sum_of(buffer->data(), 100, memory.stream())});
    require(captured->test(), "what is captured has nothing to wait for");
    std::this_thread::sleep_for(milliseconds(group.rank() == 0 ? 100 : 50));
    require(api.cuStreamEndCapture(memory.stream(), &graph) == CUDA_SUCCESS, "capture ends");
    work->wait(seconds(30));
    require(api.cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS, "instantiate");
    for (int i = 0; i < 3; ++i) require(api.cuGraphLaunch(exec, memory.stream()) == CUDA_SUCCESS, "launch");
    require(buffer->read() == ints(100, 8), "three sums over two ranks");
    // Before the group, which could not be freed with them.
    require(api.cuGraphDestroy(graph) == CUDA_SUCCESS, "destroying the graph");
    require(api.cuGraphExecDestroy(exec) == CUDA_SUCCESS, "destroying what is launched");
    group.barrier();
  });
  CHECK(fakes.violations() == "");
}

TEST_CASE("ranks make no context on another GPU, in threads that never chose one, either") {
  const test::FakeGpus fakes;
  check_on_two_ranks([](ProcessGroup& group, test::DeviceMemory& memory) {
    const auto buffer = memory.make(sizeof(int), 0);
    buffer->write(ints(1, 1));
    std::async(std::launch::async, [&] {
      int on_host = 1;
      group.all_reduce(&on_host, 1, DataType::i32, ReduceOp::sum);
      (void)group.allocate(100, MemoryKind::device);
      group.run(sum_of(buffer->data(), 1, nullptr));
      const auto work = group.start({sum_of(buffer->data(), 1, nullptr)});
      std::async(std::launch::async, [&] { work->wait(seconds(30)); }).get();
    }).get();
    require(buffer->read() == ints(1, 4), "two sums over two ranks");
    // NCCL has threads of its own on real GPUs, and ranks may share one.
    if (test::real_gpus() > 0) return;
    for (int device = 0; device < 2; ++device)
      require(has_context(device) == (device == group.rank()), "contexts on the own GPU alone");
  });
  CHECK(fakes.violations() == "");
}

TEST_CASE("memory of the group is registered and zeroed") {
  const test::FakeGpus fakes;
  check_on_two_ranks([](ProcessGroup& group, test::DeviceMemory& memory) {
    // The one before it is registered while NCCL goes on behind its own answer.
    (void)group.allocate(5, MemoryKind::device);
    void* const data = group.allocate(100'001, MemoryKind::device);
    require(reinterpret_cast<std::uintptr_t>(data) % 4096 == 0, "alignment");
    require(memory.read(data, 100'001) == contract::Bytes(100'001), "zeroed");
    memory.write(data, ints(25'000, group.rank()));
    group.run(sum_of(data, 25'000, nullptr));
    require(memory.read(data, 100'000) == ints(25'000, 1), "the sum");
  });
  CHECK(fakes.violations() == "");
}

TEST_CASE("a graph with calls is not launched any more when the group has failed") {
  test::FakeGpus fakes;
  const test::StoreProcess store;
  const auto results = test::run_processes(2, store.port(), [](int rank, StoreClient& keys) -> std::string {
    const auto group = test::make_nccl_group(keys, rank, 2, {});
    test::DeviceMemory memory;
    const nccl::Library& api = nccl::library();
    const auto buffer = memory.make(sizeof(int), 0);
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    require(api.cuStreamBeginCapture(memory.stream(), CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS,
            "begin");
    (void)group->start({sum_of(buffer->data(), 1, memory.stream())});
    require(api.cuStreamEndCapture(memory.stream(), &graph) == CUDA_SUCCESS, "end");
    require(api.cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS, "instantiate");
    require(api.cuGraphDestroy(graph) == CUDA_SUCCESS, "destroying the graph");
    const auto launch = [&] { require(api.cuGraphLaunch(exec, memory.stream()) == CUDA_SUCCESS, "launch"); };
    group->launch(launch);
    memory.read(buffer->data(), sizeof(int));
    group->barrier();
    if (rank == 1) group->abort("enough");
    std::string text = "launched";
    try {
      group->barrier();
    } catch (const Error&) {
      // Of the abort, which the other rank has heard of now; NCCL is revoked a moment later.
      try {
        group->launch(launch);
      } catch (const Error& error) {
        text = contains(error.what(), "enough") ? "refused" : error.what();
      }
    }
    require(api.cuGraphExecDestroy(exec) == CUDA_SUCCESS, "destroying what is launched");
    return text;
  });
  test::check_returned(results, "refused");
  CHECK(fakes.violations() == "");
}

TEST_CASE("host memory with a stream is refused, and the group lives on") {
  const test::FakeGpus fakes;
  check_on_two_ranks([](ProcessGroup& group, test::DeviceMemory& memory) {
    int on_host = 1;
    try {
      group.start({sum_of(&on_host, 1, memory.stream())});
      require(false, "not refused");
    } catch (const Error& error) {
      require(error.code() == ErrorCode::invalid_argument, error.what());
      require(contains(error.what(), "host memory"), error.what());
    }
    group.barrier();
  });
  CHECK(fakes.violations() == "");
}

}  // namespace muster
