// SPDX-License-Identifier: Apache-2.0
// Breaks each rule that the fake of CUDA's driver keeps about memory, streams, events and captures, to see
// that it notices.
#include "tests/fakes/cuda/on_device.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace {

using muster::test::choose;
using muster::test::Event;
using muster::test::OnDevice;
using muster::test::Stream;

CUdeviceptr some_ints(std::size_t count) {
  CUdeviceptr memory = 0;
  REQUIRE(cuMemAlloc(&memory, count * sizeof(int)) == CUDA_SUCCESS);
  return memory;
}

int* view_of(CUdeviceptr memory) {
  return static_cast<int*>(fake_cuda_host_view(fake::address_of(memory)));
}

/// On the null stream.
int read_int(CUdeviceptr place) {
  int value = 0;
  CHECK(cuMemcpyDtoHAsync(&value, place, sizeof(value), nullptr) == CUDA_SUCCESS);
  CHECK(cuStreamSynchronize(nullptr) == CUDA_SUCCESS);
  return value;
}

void begin_capture(CUstream stream, CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) {
  REQUIRE(cuStreamBeginCapture(stream, mode) == CUDA_SUCCESS);
}

CUresult end_capture(CUstream stream) {
  CUgraph graph = nullptr;
  const CUresult result = cuStreamEndCapture(stream, &graph);
  CHECK((graph != nullptr) == (result == CUDA_SUCCESS));
  if (graph != nullptr) CHECK(cuGraphDestroy(graph) == CUDA_SUCCESS);
  return result;
}

/// The signal that ends a process of its own in which `body` runs; 0 for none.
int signal_of(const std::function<void()>& body) {
  const pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
}

}  // namespace

TEST_CASE("rule: nothing but its version and texts can be asked of a driver that was not started") {
  CUcontext context = nullptr;
  // Whatever ran before in this process may have started it, and a driver stays started.
  if (cuCtxGetCurrent(&context) == CUDA_SUCCESS) return;
  int number = 0;
  const char* text = nullptr;
  CHECK(cuDeviceGetCount(&number) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(cuCtxSetCurrent(nullptr) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(cuDevicePrimaryCtxRetain(&context, 0) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(cuStreamSynchronize(nullptr) == CUDA_ERROR_NOT_INITIALIZED);
  CHECK(cuDriverGetVersion(&number) == CUDA_SUCCESS);
  CHECK(number == 13000);
  CHECK(cuGetErrorString(CUDA_ERROR_NOT_INITIALIZED, &text) == CUDA_SUCCESS);
}

TEST_CASE("rule: the program does not touch the memory of a device") {
  const OnDevice fakes;
  const CUdeviceptr memory = some_ints(1);
  CHECK(signal_of([&] { *static_cast<int*>(fake::address_of(memory)) = 1; }) != 0);
  *view_of(memory) = 7;
  CHECK(read_int(memory) == 7);
  CHECK(cuMemFree(memory) == CUDA_SUCCESS);
}

TEST_CASE("rule: fresh memory holds no zeros, and there is an end to it") {
  OnDevice fakes;
  const CUdeviceptr memory = some_ints(1);
  CHECK(read_int(memory) != 0);
  CHECK(cuMemFree(memory) == CUDA_SUCCESS);
  fakes.set("FAKE_CUDA_MEMORY", "8192");
  CUdeviceptr more = 0;
  CHECK(cuMemAlloc(&more, 8193) == CUDA_ERROR_OUT_OF_MEMORY);
  CHECK(cuMemAlloc(&more, 0) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemFree(memory) == CUDA_ERROR_INVALID_VALUE);
}

TEST_CASE("rule: streams and events belong to a device") {
  const OnDevice fakes;
  const Stream stream;
  const Event event;
  choose(1);
  const Stream other;
  CHECK(fake::device_of(other) == 1);
  CHECK(cuEventRecord(event, other) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuEventRecord(event, stream) == CUDA_SUCCESS);
  CHECK(cuStreamWaitEvent(other, event, 0) == CUDA_SUCCESS);
  CHECK(cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuLaunchKernel(nullptr, 1, 1, 1, 1, 1, 1, 0, other, nullptr, nullptr) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuLaunchKernel(nullptr, 1, 2, 1, 1, 1, 1, 0, other, nullptr, nullptr) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuStreamSynchronize(other) == CUDA_SUCCESS);
}

TEST_CASE("rule: a stream or an event that was destroyed is none") {
  const OnDevice fakes;
  CUstream stream = nullptr;
  CUevent event = nullptr;
  REQUIRE(cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS);
  REQUIRE(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
  std::atomic<bool> go{false};
  std::atomic<bool> done{false};
  fake::enqueue(stream, [&] {
    return [&] {
      while (!go) std::this_thread::yield();
      done = true;
    };
  });
  CHECK(cuStreamDestroy(stream) == CUDA_SUCCESS);  // while there is work on it, which goes on
  CHECK(cuEventDestroy(event) == CUDA_SUCCESS);
  CHECK_FALSE(done);
  CHECK(cuStreamSynchronize(stream) == CUDA_ERROR_INVALID_HANDLE);
  CHECK(cuEventQuery(event) == CUDA_ERROR_INVALID_HANDLE);
  go = true;
  CHECK(cuCtxSynchronize() == CUDA_SUCCESS);
  CHECK(done);
}

TEST_CASE("rule: cuMemFree waits for the device") {
  const OnDevice fakes;
  const Stream stream;
  const CUdeviceptr memory = some_ints(1);
  std::atomic<bool> called{false};
  std::atomic<bool> done{false};
  stream.put([&] {
    while (!called) std::this_thread::yield();
    for (int i = 0; i < 10'000; ++i) std::this_thread::yield();
    done = true;
  });
  called = true;
  CHECK(cuMemFree(memory) == CUDA_SUCCESS);
  CHECK(done);
}

TEST_CASE("rule: pinned memory is read when the stream comes to it, pageable memory at once") {
  const OnDevice fakes;
  const Stream stream;
  const CUdeviceptr memory = some_ints(2);
  void* pinned = nullptr;
  REQUIRE(cuMemAllocHost(&pinned, sizeof(int)) == CUDA_SUCCESS);
  int pageable = 1;
  *static_cast<int*>(pinned) = 1;
  std::atomic<bool> go{false};
  stream.put([&] {
    while (!go) std::this_thread::yield();
  });
  CHECK(cuMemcpyHtoDAsync(memory, pinned, sizeof(int), stream) == CUDA_SUCCESS);
  CHECK(cuMemcpyHtoDAsync(memory + sizeof(int), &pageable, sizeof(int), stream) == CUDA_SUCCESS);
  *static_cast<int*>(pinned) = 2;
  pageable = 2;
  go = true;
  CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  CHECK(read_int(memory) == 2);
  CHECK(read_int(memory + sizeof(int)) == 1);
  CHECK(cuMemFreeHost(pinned) == CUDA_SUCCESS);
  CHECK(cuMemFree(memory) == CUDA_SUCCESS);
}

TEST_CASE("rule: a copy goes where its name says") {
  const OnDevice fakes;
  const Stream stream;
  const CUdeviceptr memory = some_ints(2);
  int on_host = 0;
  const CUdeviceptr host = fake::number_of(&on_host);
  CHECK(cuMemcpyHtoDAsync(host, &on_host, sizeof(int), stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemcpyDtoHAsync(&on_host, host, sizeof(int), stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemcpyDtoDAsync(memory, host, sizeof(int), stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemcpyHtoDAsync(memory, fake::address_of(memory), sizeof(int), stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemsetD8Async(host, 0, sizeof(int), stream) == CUDA_ERROR_INVALID_VALUE);
  CHECK(cuMemsetD8Async(memory, 3, sizeof(int), stream) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoDAsync(memory + sizeof(int), memory, sizeof(int), stream) == CUDA_SUCCESS);
  CHECK(cuMemcpyDtoHAsync(&on_host, memory + sizeof(int), sizeof(int), stream) == CUDA_SUCCESS);
  CHECK(on_host == 0x03030303);
  CHECK(cuMemFree(memory) == CUDA_SUCCESS);
}

TEST_CASE("rule: the null stream and a blocking stream wait for each other") {
  const OnDevice fakes;
  const Stream blocking(CU_STREAM_DEFAULT);
  const CUdeviceptr memory = some_ints(1);
  CHECK(cuMemsetD8Async(memory, 0, sizeof(int), nullptr) == CUDA_SUCCESS);
  std::atomic<bool> go{false};
  blocking.put([&] {
    while (!go) std::this_thread::yield();
    *view_of(memory) = 5;
  });
  std::thread later([&] { go = true; });
  CHECK(read_int(memory) == 5);
  later.join();
  CHECK(cuStreamBeginCapture(nullptr, CU_STREAM_CAPTURE_MODE_RELAXED) ==
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(cuMemFree(memory) == CUDA_SUCCESS);
}

TEST_CASE("rule: a capture in the thread-local mode restricts its thread, and no other") {
  const OnDevice fakes;
  const Stream stream;
  const Stream other;
  const Event event;
  const CUdeviceptr memory = some_ints(1);
  CUdeviceptr more = 0;
  void* pinned = nullptr;
  const std::vector<std::function<CUresult()>> calls = {
      [&] { return cuMemAlloc(&more, 16); },      [&] { return cuMemFree(memory); },
      [&] { return cuEventQuery(event); },        [&] { return cuEventSynchronize(event); },
      [&] { return cuStreamSynchronize(other); }, [&] { return cuCtxSynchronize(); },
      [&] { return cuMemAllocHost(&pinned, 16); }};
  for (const auto& call : calls) {
    begin_capture(stream);
    CHECK(call() == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    CHECK(end_capture(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  }
  CHECK(contains(fakes.violations(), "cuMemAlloc while a graph is captured"));
  begin_capture(stream);
  std::thread([&] {
    choose(0);
    CHECK(calls[0]() == CUDA_SUCCESS);
    CHECK(cuMemFree(more) == CUDA_SUCCESS);
    CHECK(calls[2]() == CUDA_SUCCESS);
    CHECK(calls[4]() == CUDA_SUCCESS);
  }).join();
  CHECK(end_capture(stream) == CUDA_SUCCESS);
  CHECK(cuMemFree(memory) == CUDA_SUCCESS);
}

TEST_CASE("rule: freeing memory breaks the captures of others in the global mode") {
  const OnDevice fakes;
  const Stream stream;
  const CUdeviceptr memory = some_ints(1);
  begin_capture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL);
  std::thread([&] {
    choose(0);
    CHECK(cuMemFree(memory) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }).join();
  CHECK(end_capture(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(cuMemFree(memory) == CUDA_SUCCESS);
}

TEST_CASE("rule: what is captured is not waited for, and ends in its thread, on its stream") {
  const OnDevice fakes;
  const Stream stream;
  const Event event;
  begin_capture(stream, CU_STREAM_CAPTURE_MODE_RELAXED);
  CHECK(cuStreamSynchronize(stream) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  CHECK(end_capture(stream) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  const Stream side;
  begin_capture(stream);
  CHECK(cuEventRecord(event, stream) == CUDA_SUCCESS);
  CHECK(cuStreamWaitEvent(side, event, 0) == CUDA_SUCCESS);
  CUgraph graph = nullptr;
  CHECK(cuStreamEndCapture(side, &graph) == CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  std::thread([&] {
    choose(0);
    CHECK(cuStreamEndCapture(stream, &graph) == CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD);
  }).join();
  CHECK(end_capture(stream) == CUDA_SUCCESS);
}

TEST_CASE("rule: work that was forked in a capture is joined before its end") {
  const OnDevice fakes;
  const Stream main;
  const Stream side;
  const Event forked;
  const Event joined;
  const bool joins = GENERATE(true, false);
  begin_capture(main);
  main.put([] {});
  CHECK(cuEventRecord(forked, main) == CUDA_SUCCESS);
  CHECK(cuStreamWaitEvent(side, forked, 0) == CUDA_SUCCESS);
  side.put([] {});
  CHECK(cuEventRecord(joined, side) == CUDA_SUCCESS);
  if (joins) CHECK(cuStreamWaitEvent(main, joined, 0) == CUDA_SUCCESS);
  main.put([] {});
  CHECK(end_capture(main) == (joins ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNJOINED));
  // Either way the side stream is free again.
  std::atomic<bool> done{false};
  side.put([&] { done = true; });
  CHECK(cuStreamSynchronize(side) == CUDA_SUCCESS);
  CHECK(done);
}

TEST_CASE("rule: a capture waits for nothing outside of it, and the other way round") {
  const OnDevice fakes;
  const Stream main;
  const Stream side;
  const Event event;
  CHECK(cuEventRecord(event, side) == CUDA_SUCCESS);
  begin_capture(main);
  CHECK(cuStreamWaitEvent(main, event, 0) == CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  CHECK(end_capture(main) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  begin_capture(main);
  CHECK(cuEventRecord(event, main) == CUDA_SUCCESS);
  CHECK(end_capture(main) == CUDA_SUCCESS);
  CHECK(cuStreamWaitEvent(side, event, 0) == CUDA_ERROR_CAPTURED_EVENT);
}

TEST_CASE("rule: each launch of a graph records its external events, and no others") {
  const OnDevice fakes;
  const Stream stream;
  const Event before(CU_EVENT_DEFAULT);
  const Event inside(CU_EVENT_DEFAULT);
  const Event dependency(CU_EVENT_DEFAULT);
  CHECK(cuEventRecordWithFlags(inside, stream, CU_EVENT_RECORD_EXTERNAL) == CUDA_ERROR_INVALID_VALUE);
  CUgraph graph = nullptr;
  CUgraphExec exec = nullptr;
  begin_capture(stream);
  stream.put([] {});
  CHECK(cuEventRecordWithFlags(inside, stream, CU_EVENT_RECORD_EXTERNAL) == CUDA_SUCCESS);
  CHECK(cuEventRecord(dependency, stream) == CUDA_SUCCESS);
  REQUIRE(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
  REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
  CHECK(cuGraphDestroy(graph) == CUDA_SUCCESS);
  float milliseconds = -1;
  for (int i = 0; i < 2; ++i) {
    CHECK(cuEventRecordWithFlags(before, stream, CU_EVENT_RECORD_DEFAULT) == CUDA_SUCCESS);
    CHECK(cuGraphLaunch(exec, stream) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
    CHECK(cuEventElapsedTime(&milliseconds, before, inside) == CUDA_SUCCESS);
    CHECK(milliseconds >= 0);
    CHECK(cuEventElapsedTime(&milliseconds, before, dependency) == CUDA_ERROR_INVALID_HANDLE);
  }
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
}

TEST_CASE("rule: the lanes of a graph run side by side, ordered by their events alone") {
  OnDevice fakes;
  const bool right = GENERATE(true, false);
  bool wrong_result = false;
  for (const char* seed : {"1", "2"}) {
    fakes.set("FAKE_CUDA_SEED", seed);
    const Stream main;
    const Stream side;
    const Event forked;
    const Event joined;
    std::atomic<int> value{0};
    begin_capture(main);
    CHECK(cuEventRecord(forked, main) == CUDA_SUCCESS);
    CHECK(cuStreamWaitEvent(side, forked, 0) == CUDA_SUCCESS);
    main.put([&] { value = 1; });
    // The mistake: what main does after the event is not waited for.
    if (right) CHECK(cuEventRecord(forked, main) == CUDA_SUCCESS);
    CHECK(cuStreamWaitEvent(side, forked, 0) == CUDA_SUCCESS);
    side.put([&] { value = value * 2; });
    CHECK(cuEventRecord(joined, side) == CUDA_SUCCESS);
    CHECK(cuStreamWaitEvent(main, joined, 0) == CUDA_SUCCESS);
    main.put([&] {
      if (value.exchange(0) != 2) wrong_result = true;
    });
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    REQUIRE(cuStreamEndCapture(main, &graph) == CUDA_SUCCESS);
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
    CHECK(fake_cuda_live_graphs() == 2);
    CHECK(cuGraphDestroy(graph) == CUDA_SUCCESS);
    for (int i = 0; i < 100; ++i) CHECK(cuGraphLaunch(exec, main) == CUDA_SUCCESS);
    CHECK(cuStreamSynchronize(main) == CUDA_SUCCESS);
    CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
    CHECK(fake_cuda_live_graphs() == 0);
  }
  CHECK(wrong_result == !right);
}

TEST_CASE("rule: streams run side by side, ordered by their events alone") {
  OnDevice fakes;
  const bool right = GENERATE(true, false);
  bool wrong_result = false;
  for (const char* seed : {"1", "2"}) {
    fakes.set("FAKE_CUDA_SEED", seed);
    const Stream main;
    const Stream side;
    const Event event;
    std::atomic<int> value{0};
    for (int i = 1; i <= 100; ++i) {
      side.put([&value, i] { value = i; });
      CHECK(cuEventRecord(event, side) == CUDA_SUCCESS);
      if (right) CHECK(cuStreamWaitEvent(main, event, 0) == CUDA_SUCCESS);
      main.put([&value, &wrong_result, i] {
        if (value != i) wrong_result = true;
      });
      CHECK(cuEventRecord(event, main) == CUDA_SUCCESS);
      CHECK(cuStreamWaitEvent(side, event, 0) == CUDA_SUCCESS);
    }
    CHECK(cuStreamSynchronize(side) == CUDA_SUCCESS);
  }
  CHECK(wrong_result == !right);
}

TEST_CASE("rule: graphs that live are counted by what they hold, and let it go") {
  const OnDevice fakes;
  const Stream stream;
  const Event event;
  const auto tag = std::make_shared<int>();
  begin_capture(stream);
  fake::enqueue(
      stream, [tag] { return [] {}; }, tag.get());
  CHECK(cuEventRecord(event, stream) == CUDA_SUCCESS);
  CUgraph graph = nullptr;
  REQUIRE(cuStreamEndCapture(stream, &graph) == CUDA_SUCCESS);
  CHECK(fake::live_graphs(tag.get()) == 1);
  CHECK(fake::live_graphs(&stream) == 0);
  CHECK(tag.use_count() == 2);
  CHECK(cuGraphDestroy(graph) == CUDA_SUCCESS);
  CHECK(fake::live_graphs(tag.get()) == 0);
  CHECK(tag.use_count() == 1);
}
