// SPDX-License-Identifier: Apache-2.0
// Breaks each rule that the fake of the CUDA runtime keeps, to see that it notices.
#include "catch.hpp"
#include "tests/fakes/cuda/environment.hpp"
#include "tests/fakes/cuda/fake_cuda.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

namespace {

/// A stream, freed at the end.
class Stream {
 public:
  explicit Stream(unsigned flags = cudaStreamNonBlocking) {
    REQUIRE(cudaStreamCreateWithPriority(&stream_, flags, 0) == cudaSuccess);
  }

  ~Stream() { (void)cudaStreamDestroy(stream_); }

  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  operator cudaStream_t() const { return stream_; }  // NOLINT(google-explicit-constructor)

  /// Puts something there that the host does.
  void put(const std::function<void()>& work) const {
    fake::enqueue(stream_, [work] { return work; });
  }

 private:
  cudaStream_t stream_ = nullptr;
};

class Event {
 public:
  explicit Event(unsigned flags = cudaEventDisableTiming) {
    REQUIRE(cudaEventCreateWithFlags(&event_, flags) == cudaSuccess);
  }

  ~Event() { (void)cudaEventDestroy(event_); }

  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  operator cudaEvent_t() const { return event_; }  // NOLINT(google-explicit-constructor)

 private:
  cudaEvent_t event_ = nullptr;
};

int* some_ints(std::size_t count) {
  void* memory = nullptr;
  REQUIRE(cudaMalloc(&memory, count * sizeof(int)) == cudaSuccess);
  return static_cast<int*>(memory);
}

int read_int(const int* place) {
  int value = 0;
  CHECK(cudaMemcpy(&value, place, sizeof(value), cudaMemcpyDeviceToHost) == cudaSuccess);
  return value;
}

void begin_capture(cudaStream_t stream, cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
  REQUIRE(cudaStreamBeginCapture(stream, mode) == cudaSuccess);
}

cudaError_t end_capture(cudaStream_t stream) {
  cudaGraph_t graph = nullptr;
  const cudaError_t result = cudaStreamEndCapture(stream, &graph);
  CHECK((graph != nullptr) == (result == cudaSuccess));
  if (graph != nullptr) CHECK(cudaGraphDestroy(graph) == cudaSuccess);
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

TEST_CASE("rule: the program does not touch the memory of a device") {
  const muster::test::CudaFakes fakes;
  int* const memory = some_ints(1);
  CHECK(signal_of([&] { *memory = 1; }) != 0);
  *static_cast<int*>(fake_cuda_host_view(memory)) = 7;
  CHECK(read_int(memory) == 7);
  CHECK(cudaFree(memory) == cudaSuccess);
}

TEST_CASE("rule: fresh memory holds no zeros, and there is an end to it") {
  muster::test::CudaFakes fakes;
  int* const memory = some_ints(1);
  CHECK(read_int(memory) != 0);
  CHECK(cudaFree(memory) == cudaSuccess);
  fakes.set("FAKE_CUDA_MEMORY", "8192");
  void* more = nullptr;
  CHECK(cudaMalloc(&more, 8193) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaFree(memory) == cudaErrorInvalidValue);
}

TEST_CASE("rule: streams and events belong to a device") {
  const muster::test::CudaFakes fakes;
  const Stream stream;
  const Event event;
  REQUIRE(cudaSetDevice(1) == cudaSuccess);
  const Stream other;
  CHECK(fake::device_of(other) == 1);
  CHECK(cudaEventRecord(event, other) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventRecord(event, stream) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(other, event, 0) == cudaSuccess);
  CHECK(cudaLaunchKernel(nullptr, dim3(1), dim3(1), nullptr, 0, stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaLaunchKernel(nullptr, dim3(1), dim3(1), nullptr, 0, other) == cudaErrorInvalidDeviceFunction);
  CHECK(cudaStreamSynchronize(other) == cudaSuccess);
  REQUIRE(cudaSetDevice(0) == cudaSuccess);
}

TEST_CASE("rule: a stream or an event that was destroyed is none") {
  const muster::test::CudaFakes fakes;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  REQUIRE(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, 0) == cudaSuccess);
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  std::atomic<bool> go{false};
  std::atomic<bool> done{false};
  fake::enqueue(stream, [&] {
    return [&] {
      while (!go) std::this_thread::yield();
      done = true;
    };
  });
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);  // while there is work on it, which goes on
  CHECK(cudaEventDestroy(event) == cudaSuccess);
  CHECK_FALSE(done);
  CHECK(cudaStreamSynchronize(stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaEventQuery(event) == cudaErrorInvalidResourceHandle);
  go = true;
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(done);
}

TEST_CASE("rule: cudaFree waits for the device") {
  const muster::test::CudaFakes fakes;
  const Stream stream;
  int* const memory = some_ints(1);
  std::atomic<bool> called{false};
  std::atomic<bool> done{false};
  stream.put([&] {
    while (!called) std::this_thread::yield();
    for (int i = 0; i < 10'000; ++i) std::this_thread::yield();
    done = true;
  });
  called = true;
  CHECK(cudaFree(memory) == cudaSuccess);
  CHECK(done);
}

TEST_CASE("rule: pinned memory is read when the stream comes to it, pageable memory at once") {
  const muster::test::CudaFakes fakes;
  const Stream stream;
  int* const memory = some_ints(2);
  void* pinned = nullptr;
  REQUIRE(cudaMallocHost(&pinned, sizeof(int)) == cudaSuccess);
  int pageable = 1;
  *static_cast<int*>(pinned) = 1;
  std::atomic<bool> go{false};
  stream.put([&] {
    while (!go) std::this_thread::yield();
  });
  CHECK(cudaMemcpyAsync(memory, pinned, sizeof(int), cudaMemcpyHostToDevice, stream) == cudaSuccess);
  CHECK(cudaMemcpyAsync(memory + 1, &pageable, sizeof(int), cudaMemcpyHostToDevice, stream) == cudaSuccess);
  *static_cast<int*>(pinned) = 2;
  pageable = 2;
  go = true;
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(read_int(memory) == 2);
  CHECK(read_int(memory + 1) == 1);
  cudaPointerAttributes attributes{};
  CHECK(cudaPointerGetAttributes(&attributes, pinned) == cudaSuccess);
  CHECK(attributes.type == cudaMemoryTypeHost);
  CHECK(cudaFreeHost(pinned) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaSuccess);
}

TEST_CASE("rule: the null stream and a blocking stream wait for each other") {
  const muster::test::CudaFakes fakes;
  const Stream blocking(cudaStreamDefault);
  int* const memory = some_ints(1);
  CHECK(cudaMemsetAsync(memory, 0, sizeof(int), nullptr) == cudaSuccess);
  std::atomic<bool> go{false};
  blocking.put([&] {
    while (!go) std::this_thread::yield();
    *static_cast<int*>(fake_cuda_host_view(memory)) = 5;
  });
  std::thread later([&] { go = true; });
  CHECK(read_int(memory) == 5);
  later.join();
  CHECK(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed) == cudaErrorStreamCaptureUnsupported);
  CHECK(cudaFree(memory) == cudaSuccess);
}

TEST_CASE("rule: a capture in the thread-local mode restricts its thread, and no other") {
  const muster::test::CudaFakes fakes;
  const Stream stream;
  const Stream other;
  const Event event;
  int* const memory = some_ints(1);
  void* more = nullptr;
  const std::vector<std::function<cudaError_t()>> calls = {
      [&] { return cudaMalloc(&more, 16); },        [&] { return cudaFree(memory); },
      [&] { return cudaEventQuery(event); },        [&] { return cudaEventSynchronize(event); },
      [&] { return cudaStreamSynchronize(other); }, [&] { return cudaDeviceSynchronize(); },
      [&] { return cudaMallocHost(&more, 16); }};
  for (const auto& call : calls) {
    begin_capture(stream);
    CHECK(call() == cudaErrorStreamCaptureUnsupported);
    CHECK(end_capture(stream) == cudaErrorStreamCaptureInvalidated);
  }
  CHECK(contains(fakes.violations(), "cudaMalloc while a graph is captured"));
  begin_capture(stream);
  std::thread([&] {
    CHECK(calls[0]() == cudaSuccess);
    CHECK(cudaFree(more) == cudaSuccess);
    CHECK(calls[2]() == cudaSuccess);
    CHECK(calls[4]() == cudaSuccess);
  }).join();
  CHECK(end_capture(stream) == cudaSuccess);
  CHECK(cudaFree(memory) == cudaSuccess);
}

TEST_CASE("rule: freeing memory breaks the captures of others in the global mode") {
  const muster::test::CudaFakes fakes;
  const Stream stream;
  int* const memory = some_ints(1);
  begin_capture(stream, cudaStreamCaptureModeGlobal);
  std::thread([&] { CHECK(cudaFree(memory) == cudaErrorStreamCaptureUnsupported); }).join();
  CHECK(end_capture(stream) == cudaErrorStreamCaptureInvalidated);
  CHECK(cudaFree(memory) == cudaSuccess);
}

TEST_CASE("rule: what is captured is not waited for, and ends in its thread, on its stream") {
  const muster::test::CudaFakes fakes;
  const Stream stream;
  const Event event;
  begin_capture(stream, cudaStreamCaptureModeRelaxed);
  CHECK(cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported);
  CHECK(end_capture(stream) == cudaErrorStreamCaptureInvalidated);
  const Stream side;
  begin_capture(stream);
  CHECK(cudaEventRecord(event, stream) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(side, event, 0) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(side, &graph) == cudaErrorStreamCaptureUnmatched);
  std::thread([&] {
    CHECK(cudaStreamEndCapture(stream, &graph) == cudaErrorStreamCaptureWrongThread);
  }).join();
  CHECK(end_capture(stream) == cudaSuccess);
}

TEST_CASE("rule: work that was forked in a capture is joined before its end") {
  const muster::test::CudaFakes fakes;
  const Stream main;
  const Stream side;
  const Event forked;
  const Event joined;
  const bool joins = GENERATE(true, false);
  begin_capture(main);
  main.put([] {});
  CHECK(cudaEventRecord(forked, main) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(side, forked, 0) == cudaSuccess);
  side.put([] {});
  CHECK(cudaEventRecord(joined, side) == cudaSuccess);
  if (joins) CHECK(cudaStreamWaitEvent(main, joined, 0) == cudaSuccess);
  main.put([] {});
  CHECK(end_capture(main) == (joins ? cudaSuccess : cudaErrorStreamCaptureUnjoined));
  // Either way the side stream is free again.
  std::atomic<bool> done{false};
  side.put([&] { done = true; });
  CHECK(cudaStreamSynchronize(side) == cudaSuccess);
  CHECK(done);
}

TEST_CASE("rule: a capture waits for nothing outside of it, and the other way round") {
  const muster::test::CudaFakes fakes;
  const Stream main;
  const Stream side;
  const Event event;
  CHECK(cudaEventRecord(event, side) == cudaSuccess);
  begin_capture(main);
  CHECK(cudaStreamWaitEvent(main, event, 0) == cudaErrorStreamCaptureIsolation);
  CHECK(end_capture(main) == cudaErrorStreamCaptureInvalidated);
  begin_capture(main);
  CHECK(cudaEventRecord(event, main) == cudaSuccess);
  CHECK(end_capture(main) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(side, event, 0) == cudaErrorCapturedEvent);
}

TEST_CASE("rule: each launch of a graph records its external events, and no others") {
  const Stream stream;
  const Event before(cudaEventDefault);
  const Event inside(cudaEventDefault);
  const Event dependency(cudaEventDefault);
  CHECK(cudaEventRecordWithFlags(inside, stream, cudaEventRecordExternal) == cudaErrorInvalidValue);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  begin_capture(stream);
  stream.put([] {});
  CHECK(cudaEventRecordWithFlags(inside, stream, cudaEventRecordExternal) == cudaSuccess);
  CHECK(cudaEventRecord(dependency, stream) == cudaSuccess);
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  float milliseconds = -1;
  for (int i = 0; i < 2; ++i) {
    CHECK(cudaEventRecordWithFlags(before, stream, cudaEventRecordDefault) == cudaSuccess);
    CHECK(cudaGraphLaunch(exec, stream) == cudaSuccess);
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(cudaEventElapsedTime(&milliseconds, before, inside) == cudaSuccess);
    CHECK(milliseconds >= 0);
    CHECK(cudaEventElapsedTime(&milliseconds, before, dependency) == cudaErrorInvalidResourceHandle);
  }
  CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
}

TEST_CASE("rule: the lanes of a graph run side by side, ordered by their events alone") {
  muster::test::CudaFakes fakes;
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
    CHECK(cudaEventRecord(forked, main) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(side, forked, 0) == cudaSuccess);
    main.put([&] { value = 1; });
    // The mistake: what main does after the event is not waited for.
    if (right) CHECK(cudaEventRecord(forked, main) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(side, forked, 0) == cudaSuccess);
    side.put([&] { value = value * 2; });
    CHECK(cudaEventRecord(joined, side) == cudaSuccess);
    CHECK(cudaStreamWaitEvent(main, joined, 0) == cudaSuccess);
    main.put([&] {
      if (value.exchange(0) != 2) wrong_result = true;
    });
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t exec = nullptr;
    REQUIRE(cudaStreamEndCapture(main, &graph) == cudaSuccess);
    REQUIRE(cudaGraphInstantiate(&exec, graph, 0) == cudaSuccess);
    CHECK(fake_cuda_live_graphs() == 2);
    CHECK(cudaGraphDestroy(graph) == cudaSuccess);
    for (int i = 0; i < 100; ++i) CHECK(cudaGraphLaunch(exec, main) == cudaSuccess);
    CHECK(cudaStreamSynchronize(main) == cudaSuccess);
    CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
    CHECK(fake_cuda_live_graphs() == 0);
  }
  CHECK(wrong_result == !right);
}

TEST_CASE("rule: streams run side by side, ordered by their events alone") {
  muster::test::CudaFakes fakes;
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
      CHECK(cudaEventRecord(event, side) == cudaSuccess);
      if (right) CHECK(cudaStreamWaitEvent(main, event, 0) == cudaSuccess);
      main.put([&value, &wrong_result, i] {
        if (value != i) wrong_result = true;
      });
      CHECK(cudaEventRecord(event, main) == cudaSuccess);
      CHECK(cudaStreamWaitEvent(side, event, 0) == cudaSuccess);
    }
    CHECK(cudaStreamSynchronize(side) == cudaSuccess);
  }
  CHECK(wrong_result == !right);
}

TEST_CASE("rule: graphs that live are counted by what they hold, and let it go") {
  const muster::test::CudaFakes fakes;
  const Stream stream;
  const Event event;
  const auto tag = std::make_shared<int>();
  begin_capture(stream);
  fake::enqueue(
      stream, [tag] { return [] {}; }, tag.get());
  CHECK(cudaEventRecord(event, stream) == cudaSuccess);
  cudaGraph_t graph = nullptr;
  REQUIRE(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  CHECK(fake::live_graphs(tag.get()) == 1);
  CHECK(fake::live_graphs(&stream) == 0);
  CHECK(tag.use_count() == 2);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
  CHECK(fake::live_graphs(tag.get()) == 0);
  CHECK(tag.use_count() == 1);
}
