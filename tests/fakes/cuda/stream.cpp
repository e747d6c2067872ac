// SPDX-License-Identifier: Apache-2.0
// Streams, events and as much of graphs as capturing needs. The rule checked: no event may be asked about and
// no memory taken while a graph is captured in the global mode, unless the asking thread has left that mode:
// https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__STREAM.html
// (cudaThreadExchangeStreamCaptureMode).
#include "tests/fakes/cuda/internal.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace {

constexpr const char* kCaptureRule =
    "capture (CUDA runtime API, Stream Management, cudaThreadExchangeStreamCaptureMode)";

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

struct Captures {
  std::mutex mutex;
  std::set<CUstream_st*> streams;
};

Captures& captures() {
  static Captures* const all = new Captures;
  return *all;
}

}  // namespace

CUstream_st::CUstream_st()
    : thread([this] {
        std::unique_lock lock(mutex);
        for (;;) {
          changed.wait(lock, [this] { return stop || !queue.empty(); });
          if (queue.empty()) return;
          const fake::Work work = std::move(queue.front());
          queue.pop_front();
          working = true;
          lock.unlock();
          work();
          lock.lock();
          working = false;
          changed.notify_all();
        }
      }) {}

CUstream_st::~CUstream_st() {
  {
    const std::lock_guard lock(mutex);
    stop = true;
  }
  changed.notify_all();
  thread.join();
}

void CUstream_st::push(fake::Work work) {
  {
    const std::lock_guard lock(mutex);
    queue.push_back(std::move(work));
  }
  changed.notify_all();
}

void CUstream_st::drain() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return queue.empty() && !working; });
}

namespace fake {

void enqueue(cudaStream_t stream, Task task) {
  if (stream->graph != nullptr)
    stream->graph->tasks.push_back(std::move(task));
  else
    stream->push(task());
}

bool breaks_capture(const char* function) {
  if (thread_mode != cudaStreamCaptureModeGlobal) return false;
  const std::lock_guard lock(captures().mutex);
  bool breaks = false;
  for (CUstream_st* const stream : captures().streams) {
    if (stream->mode != cudaStreamCaptureModeGlobal) continue;
    stream->graph->valid = false;
    breaks = true;
  }
  if (breaks) violate(kCaptureRule, std::string(function) + " while a graph is captured");
  return breaks;
}

}  // namespace fake

extern "C" {

FAKE_EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  if (flags > cudaStreamNonBlocking || priority > 0 || priority < -5) return fake::say(cudaErrorInvalidValue);
  *stream = new CUstream_st;
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  // The real one returns at once and frees the stream when its work is done.
  delete stream;
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (stream->graph != nullptr || fake::breaks_capture("cudaStreamSynchronize"))
    return fake::say(cudaErrorStreamCaptureUnsupported);
  stream->drain();
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = stream->graph == nullptr ? cudaStreamCaptureStatusNone
            : stream->graph->valid   ? cudaStreamCaptureStatusActive
                                     : cudaStreamCaptureStatusInvalidated;
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  thread_mode = std::exchange(*mode, thread_mode);
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  const std::lock_guard lock(captures().mutex);
  stream->graph = new CUgraph_st;
  stream->mode = mode;
  captures().streams.insert(stream);
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  const std::lock_guard lock(captures().mutex);
  captures().streams.erase(stream);
  *graph = std::exchange(stream->graph, nullptr);
  if ((*graph)->valid) return cudaSuccess;
  delete std::exchange(*graph, nullptr);
  return fake::say(cudaErrorStreamCaptureInvalidated);
}

FAKE_EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  *exec = new CUgraphExec_st{graph->tasks};
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  for (const fake::Task& task : exec->tasks) stream->push(task());
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  delete exec;
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) {
  delete event;
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  event->captured = stream->graph != nullptr;
  const std::uint64_t ticket = ++event->recorded;
  fake::enqueue(stream, [completed = event->completed, ticket] {
    return [completed, ticket] { completed->store(ticket); };
  });
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (fake::breaks_capture("cudaEventQuery")) return fake::say(cudaErrorStreamCaptureUnsupported);
  if (event->captured) {
    fake::violate(kCaptureRule, "cudaEventQuery of an event recorded in a graph");
    return fake::say(cudaErrorCapturedEvent);
  }
  return event->completed->load() >= event->recorded ? cudaSuccess : cudaErrorNotReady;
}

}  // extern "C"
