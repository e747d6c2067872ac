// SPDX-License-Identifier: Apache-2.0
// Streams and events. Each belongs to the device on which it was made: kernels and events of another device
// are refused (https://docs.nvidia.com/cuda/cuda-programming-guide, Multi-Device Systems: Stream and Event
// Behavior).
#include "tests/fakes/cuda/internal.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace {

struct Streams {
  std::mutex mutex;
  std::set<CUstream_st*> living;
  std::map<int, CUstream_st*> defaults;  ///< by device
  std::map<int, int> made;               ///< by device
  /// Also of streams that were destroyed and have work left.
  std::vector<std::pair<int, std::weak_ptr<fake::Queue>>> queues;
};

Streams& streams() {
  static Streams* const all = new Streams;  // outlives the threads of queues
  return *all;
}

/// The mutex is held.
CUstream_st* make_stream(int device, bool waits_for_default) {
  auto* const stream = new CUstream_st;
  stream->device = device;
  stream->number = streams().made[device]++;
  stream->waits_for_default = waits_for_default;
  stream->queue = fake::Queue::make(stream->number);
  auto& queues = streams().queues;
  std::erase_if(queues, [](const auto& entry) { return entry.second.expired(); });
  queues.emplace_back(device, stream->queue);
  return stream;
}

/// What comes next on `later` waits for what is on `earlier`.
void chain(CUstream_st& earlier, CUstream_st& later) {
  auto mark = std::make_shared<fake::Mark>();
  earlier.queue->push([mark] { mark->reach(); });
  later.queue->push([mark] { mark->wait(); });
}

/// The null stream and those that were made without cudaStreamNonBlocking wait for each other.
void order_with_default(CUstream_st* stream) {
  const std::lock_guard lock(streams().mutex);
  const auto own = streams().defaults.find(stream->device);
  if (own == streams().defaults.end()) return;
  if (own->second != stream) {
    if (stream->waits_for_default) chain(*own->second, *stream);
    return;
  }
  for (CUstream_st* other : streams().living)
    if (other->device == stream->device && other->waits_for_default) chain(*other, *stream);
}

struct Events {
  std::mutex mutex;
  std::set<CUevent_st*> living;
};

Events& events() {
  static Events* const all = new Events;
  return *all;
}

bool is_event(cudaEvent_t event) {
  (void)fake::current_device();
  const std::lock_guard lock(events().mutex);
  return events().living.contains(event);
}

}  // namespace

namespace fake {

CUstream_st* find(cudaStream_t stream) {
  const int device = current_device();
  const std::lock_guard lock(streams().mutex);
  if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) {
    CUstream_st*& own = streams().defaults[device];
    if (own == nullptr) own = make_stream(device, false);
    return own;
  }
  return streams().living.contains(stream) ? stream : nullptr;
}

int device_of(cudaStream_t stream) {
  const CUstream_st* const own = find(stream);
  return own == nullptr ? -1 : own->device;
}

void leave_capture(const std::shared_ptr<Capture>& capture) {
  const std::lock_guard lock(streams().mutex);
  for (CUstream_st* stream : streams().living)
    if (stream->capture == capture) stream->capture.reset();
}

void drain_device(int device) {
  std::vector<std::shared_ptr<Queue>> all;
  {
    const std::lock_guard lock(streams().mutex);
    for (const auto& [owner, queue] : streams().queues)
      if (owner == device) all.push_back(queue.lock());
  }
  for (const auto& queue : all)
    if (queue != nullptr) queue->drain();
}

void enqueue(cudaStream_t stream, Task task, const void* tag) {
  CUstream_st* const own = find(stream);
  if (own == nullptr) return violate("handle", "work for a stream that is not there");
  {
    const std::lock_guard lock(captures_mutex());
    if (own->capture != nullptr) {
      own->capture->nodes.push_back({std::move(task), own->front, own->number, tag});
      own->front = {own->capture->nodes.size() - 1};
      return;
    }
  }
  order_with_default(own);
  own->queue->push(task());
}

}  // namespace fake

extern "C" {

FAKE_EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  if (flags > cudaStreamNonBlocking || priority > 0 || priority < -5) return fake::say(cudaErrorInvalidValue);
  const std::lock_guard lock(streams().mutex);
  *stream = make_stream(fake::current_device(), flags != cudaStreamNonBlocking);
  streams().living.insert(*stream);
  return cudaSuccess;
}

/// Returns at once; what is on the stream is done all the same.
FAKE_EXPORT cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const std::lock_guard lock(streams().mutex);
  if (streams().living.erase(stream) == 0) return fake::say(cudaErrorInvalidResourceHandle);
  stream->queue->close();
  delete stream;
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  CUstream_st* const own = fake::find(stream);
  if (own == nullptr) return fake::say(cudaErrorInvalidResourceHandle);
  if (fake::breaks_capture("cudaStreamSynchronize")) return fake::say(cudaErrorStreamCaptureUnsupported);
  {
    const std::lock_guard lock(fake::captures_mutex());
    if (own->capture != nullptr) {
      own->capture->valid = false;
      return fake::say(cudaErrorStreamCaptureUnsupported);
    }
  }
  own->queue->drain();
  return fake::say(fake::trouble(own->device));
}

FAKE_EXPORT cudaError_t cudaStreamQuery(cudaStream_t stream) {
  CUstream_st* const own = fake::find(stream);
  if (own == nullptr) return fake::say(cudaErrorInvalidResourceHandle);
  if (fake::breaks_capture("cudaStreamQuery")) return fake::say(cudaErrorStreamCaptureUnsupported);
  if (fake::trouble(own->device) != cudaSuccess) return fake::say(fake::trouble(own->device));
  return own->queue->is_idle() ? cudaSuccess : cudaErrorNotReady;
}

FAKE_EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  *event = new CUevent_st;
  (*event)->device = fake::current_device();
  (*event)->has_time = (flags & cudaEventDisableTiming) == 0;
  const std::lock_guard lock(events().mutex);
  events().living.insert(*event);
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const std::lock_guard lock(events().mutex);
  if (events().living.erase(event) == 0) return fake::say(cudaErrorInvalidResourceHandle);
  delete event;
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  CUstream_st* const own = fake::find(stream);
  if (own == nullptr || !is_event(event) || own->device != event->device)
    return fake::say(cudaErrorInvalidResourceHandle);
  auto mark = std::make_shared<fake::Mark>();
  {
    const std::lock_guard lock(fake::captures_mutex());
    event->mark = mark;
    event->capture = own->capture;
    event->front = own->front;
    if (own->capture != nullptr) return cudaSuccess;
  }
  fake::enqueue(stream, [mark] { return [mark] { mark->reach(); }; });
  return fake::say(fake::trouble(own->device));
}

/// In a capture the event is external: each launch of the graph records it anew, and streams that wait for it
/// do not join the capture (https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__EVENT.html).
FAKE_EXPORT cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  if (flags == cudaEventRecordDefault) return cudaEventRecord(event, stream);
  CUstream_st* const own = fake::find(stream);
  if (own == nullptr || !is_event(event) || own->device != event->device)
    return fake::say(cudaErrorInvalidResourceHandle);
  {
    const std::lock_guard lock(fake::captures_mutex());
    if (flags != cudaEventRecordExternal || own->capture == nullptr) return fake::say(cudaErrorInvalidValue);
  }
  fake::enqueue(stream, [event]() -> fake::Work {
    auto mark = std::make_shared<fake::Mark>();
    const std::lock_guard lock(fake::captures_mutex());
    event->mark = mark;
    event->capture.reset();
    return [mark] { mark->reach(); };
  });
  return fake::say(fake::trouble(own->device));
}

/// A stream that waits for an event of a capture joins the capture.
FAKE_EXPORT cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  CUstream_st* const own = fake::find(stream);
  if (own == nullptr || !is_event(event)) return fake::say(cudaErrorInvalidResourceHandle);
  std::unique_lock lock(fake::captures_mutex());
  if (event->mark == nullptr) return cudaSuccess;
  if (event->capture == nullptr) {
    if (own->capture != nullptr) {
      own->capture->valid = false;
      return fake::say(cudaErrorStreamCaptureIsolation);
    }
    const auto mark = event->mark;
    lock.unlock();
    fake::enqueue(stream, [mark] { return [mark] { mark->wait(); }; });
    return cudaSuccess;
  }
  if (event->capture->ended) return fake::say(cudaErrorCapturedEvent);
  if (own->capture != nullptr && own->capture != event->capture) {
    own->capture->valid = event->capture->valid = false;
    return fake::say(cudaErrorStreamCaptureMerge);
  }
  if (own->capture == nullptr) own->front.clear();
  own->capture = event->capture;
  own->front.insert(own->front.end(), event->front.begin(), event->front.end());
  return cudaSuccess;
}

FAKE_EXPORT cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (!is_event(event)) return fake::say(cudaErrorInvalidResourceHandle);
  if (fake::breaks_capture("cudaEventQuery")) return fake::say(cudaErrorStreamCaptureUnsupported);
  const std::lock_guard lock(fake::captures_mutex());
  if (event->capture != nullptr) {
    fake::violate("capture (CUDA runtime API, cudaEventQuery)", "an event that was recorded in a graph");
    return fake::say(cudaErrorCapturedEvent);
  }
  if (fake::trouble(event->device) != cudaSuccess) return fake::say(fake::trouble(event->device));
  return event->mark == nullptr || event->mark->is_reached() ? cudaSuccess : cudaErrorNotReady;
}

FAKE_EXPORT cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (!is_event(event)) return fake::say(cudaErrorInvalidResourceHandle);
  if (fake::breaks_capture("cudaEventSynchronize")) return fake::say(cudaErrorStreamCaptureUnsupported);
  std::shared_ptr<fake::Mark> mark;
  {
    const std::lock_guard lock(fake::captures_mutex());
    if (event->capture != nullptr) return fake::say(cudaErrorCapturedEvent);
    mark = event->mark;
  }
  if (mark != nullptr) mark->wait();
  return fake::say(fake::trouble(event->device));
}

FAKE_EXPORT cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  *milliseconds = 0;
  if (!is_event(begin) || !is_event(end)) return fake::say(cudaErrorInvalidResourceHandle);
  const std::lock_guard lock(fake::captures_mutex());
  if (begin->device != end->device) return fake::say(cudaErrorInvalidResourceHandle);
  for (CUevent_st* const event : {begin, end}) {
    if (!event->has_time || event->mark == nullptr || event->capture != nullptr)
      return fake::say(cudaErrorInvalidResourceHandle);
    if (!event->mark->is_reached()) return cudaErrorNotReady;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(end->mark->time() - begin->mark->time()).count();
  return cudaSuccess;
}

}  // extern "C"
