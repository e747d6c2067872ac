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
CUstream_st* make_stream(int device, bool waits_for_default, int priority) {
  auto* const stream = new CUstream_st;
  stream->device = device;
  stream->number = streams().made[device]++;
  stream->priority = priority;
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

/// The null stream and those that were made without CU_STREAM_NON_BLOCKING wait for each other.
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

/// An error unless it is an event, and the calling thread has a current context.
CUresult require_event(CUevent event) {
  int device = -1;
  if (const CUresult found = fake::require_context(device); found != CUDA_SUCCESS) return found;
  const std::lock_guard lock(events().mutex);
  return events().living.contains(event) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/// The stream on which an event is to be recorded, which must be of its device.
CUresult find_for(CUevent event, CUstream stream, CUstream_st*& own) {
  if (const CUresult found = fake::find(stream, own); found != CUDA_SUCCESS) return found;
  if (const CUresult found = require_event(event); found != CUDA_SUCCESS) return found;
  return own->device == event->device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

}  // namespace

namespace fake {

CUresult find(CUstream stream, CUstream_st*& own) {
  own = nullptr;
  int device = -1;
  if (const CUresult found = require_context(device); found != CUDA_SUCCESS) return found;
  const std::lock_guard lock(streams().mutex);
  if (stream == nullptr || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD) {
    CUstream_st*& of_device = streams().defaults[device];
    if (of_device == nullptr) of_device = make_stream(device, false, kLeastPriority);
    own = of_device;
    return CUDA_SUCCESS;
  }
  if (!streams().living.contains(stream)) return CUDA_ERROR_INVALID_HANDLE;
  own = stream;
  return CUDA_SUCCESS;
}

int device_of(CUstream stream) {
  CUstream_st* own = nullptr;
  return find(stream, own) == CUDA_SUCCESS ? own->device : -1;
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

void enqueue(CUstream stream, Task task, const void* tag) {
  CUstream_st* own = nullptr;
  if (find(stream, own) != CUDA_SUCCESS)
    return violate("handle", "work for a stream that is not there, or without a current context");
  {
    const std::lock_guard lock(captures_mutex());
    if (own->capture != nullptr) {
      own->capture->nodes.push_back({std::move(task), own->front, own->number, own->priority, tag});
      own->front = {own->capture->nodes.size() - 1};
      return;
    }
  }
  order_with_default(own);
  own->queue->push(task());
}

}  // namespace fake

// The header knows the newest form alone. Programs that ask for the first one go with older drivers, too.
#undef cuEventElapsedTime

extern "C" {

FAKE_EXPORT CUresult cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end);

FAKE_EXPORT CUresult cuStreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  int device = -1;
  if (const CUresult found = fake::require_context(device); found != CUDA_SUCCESS) return found;
  if (flags > CU_STREAM_NON_BLOCKING || priority > fake::kLeastPriority || priority < fake::kGreatestPriority)
    return CUDA_ERROR_INVALID_VALUE;
  const std::lock_guard lock(streams().mutex);
  *stream = make_stream(device, flags != CU_STREAM_NON_BLOCKING, priority);
  streams().living.insert(*stream);
  return CUDA_SUCCESS;
}

/// Returns at once; what is on the stream is done all the same.
FAKE_EXPORT CUresult cuStreamDestroy(CUstream stream) {
  const std::lock_guard lock(streams().mutex);
  if (streams().living.erase(stream) == 0) return CUDA_ERROR_INVALID_HANDLE;
  stream->queue->close();
  delete stream;
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuStreamSynchronize(CUstream stream) {
  CUstream_st* own = nullptr;
  if (const CUresult found = fake::find(stream, own); found != CUDA_SUCCESS) return found;
  if (fake::breaks_capture("cuStreamSynchronize")) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  {
    const std::lock_guard lock(fake::captures_mutex());
    if (own->capture != nullptr) {
      own->capture->valid = false;
      return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  }
  own->queue->drain();
  return fake::trouble(own->device);
}

FAKE_EXPORT CUresult cuStreamQuery(CUstream stream) {
  CUstream_st* own = nullptr;
  if (const CUresult found = fake::find(stream, own); found != CUDA_SUCCESS) return found;
  if (fake::breaks_capture("cuStreamQuery")) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (fake::trouble(own->device) != CUDA_SUCCESS) return fake::trouble(own->device);
  return own->queue->is_idle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

FAKE_EXPORT CUresult cuEventCreate(CUevent* event, unsigned flags) {
  int device = -1;
  if (const CUresult found = fake::require_context(device); found != CUDA_SUCCESS) return found;
  *event = new CUevent_st;
  (*event)->device = device;
  (*event)->has_time = (flags & CU_EVENT_DISABLE_TIMING) == 0;
  const std::lock_guard lock(events().mutex);
  events().living.insert(*event);
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuEventDestroy(CUevent event) {
  const std::lock_guard lock(events().mutex);
  if (events().living.erase(event) == 0) return CUDA_ERROR_INVALID_HANDLE;
  delete event;
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
  CUstream_st* own = nullptr;
  if (const CUresult found = find_for(event, stream, own); found != CUDA_SUCCESS) return found;
  auto mark = std::make_shared<fake::Mark>();
  {
    const std::lock_guard lock(fake::captures_mutex());
    event->mark = mark;
    event->capture = own->capture;
    event->front = own->front;
    if (own->capture != nullptr) return CUDA_SUCCESS;
  }
  fake::enqueue(stream, [mark] { return [mark] { mark->reach(); }; });
  return fake::trouble(own->device);
}

/// In a capture the event is external: each launch of the graph records it anew, and streams that wait for it
/// do not join the capture (https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__EVENT.html).
FAKE_EXPORT CUresult cuEventRecordWithFlags(CUevent event, CUstream stream, unsigned flags) {
  if (flags == CU_EVENT_RECORD_DEFAULT) return cuEventRecord(event, stream);
  CUstream_st* own = nullptr;
  if (const CUresult found = find_for(event, stream, own); found != CUDA_SUCCESS) return found;
  {
    const std::lock_guard lock(fake::captures_mutex());
    if (flags != CU_EVENT_RECORD_EXTERNAL || own->capture == nullptr) return CUDA_ERROR_INVALID_VALUE;
  }
  fake::enqueue(stream, [event]() -> fake::Work {
    auto mark = std::make_shared<fake::Mark>();
    const std::lock_guard lock(fake::captures_mutex());
    event->mark = mark;
    event->capture.reset();
    return [mark] { mark->reach(); };
  });
  return fake::trouble(own->device);
}

/// A stream that waits for an event of a capture joins the capture.
FAKE_EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  CUstream_st* own = nullptr;
  if (const CUresult found = fake::find(stream, own); found != CUDA_SUCCESS) return found;
  if (const CUresult found = require_event(event); found != CUDA_SUCCESS) return found;
  std::unique_lock lock(fake::captures_mutex());
  if (event->mark == nullptr) return CUDA_SUCCESS;
  if (event->capture == nullptr) {
    if (own->capture != nullptr) {
      own->capture->valid = false;
      return CUDA_ERROR_STREAM_CAPTURE_ISOLATION;
    }
    const auto mark = event->mark;
    lock.unlock();
    fake::enqueue(stream, [mark] { return [mark] { mark->wait(); }; });
    return CUDA_SUCCESS;
  }
  if (event->capture->ended) return CUDA_ERROR_CAPTURED_EVENT;
  if (own->capture != nullptr && own->capture != event->capture) {
    own->capture->valid = event->capture->valid = false;
    return CUDA_ERROR_STREAM_CAPTURE_MERGE;
  }
  if (own->capture == nullptr) own->front.clear();
  own->capture = event->capture;
  own->front.insert(own->front.end(), event->front.begin(), event->front.end());
  return CUDA_SUCCESS;
}

FAKE_EXPORT CUresult cuEventQuery(CUevent event) {
  if (const CUresult found = require_event(event); found != CUDA_SUCCESS) return found;
  if (fake::breaks_capture("cuEventQuery")) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  const std::lock_guard lock(fake::captures_mutex());
  if (event->capture != nullptr) {
    fake::violate("capture (CUDA driver API, cuEventQuery)", "an event that was recorded in a graph");
    return CUDA_ERROR_CAPTURED_EVENT;
  }
  if (fake::trouble(event->device) != CUDA_SUCCESS) return fake::trouble(event->device);
  return event->mark == nullptr || event->mark->is_reached() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

FAKE_EXPORT CUresult cuEventSynchronize(CUevent event) {
  if (const CUresult found = require_event(event); found != CUDA_SUCCESS) return found;
  if (fake::breaks_capture("cuEventSynchronize")) return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  std::shared_ptr<fake::Mark> mark;
  {
    const std::lock_guard lock(fake::captures_mutex());
    if (event->capture != nullptr) return CUDA_ERROR_CAPTURED_EVENT;
    mark = event->mark;
  }
  if (mark != nullptr) mark->wait();
  return fake::trouble(event->device);
}

FAKE_EXPORT CUresult cuEventElapsedTime_v2(float* milliseconds, CUevent begin, CUevent end) {
  return cuEventElapsedTime(milliseconds, begin, end);
}

FAKE_EXPORT CUresult cuEventElapsedTime(float* milliseconds, CUevent begin, CUevent end) {
  *milliseconds = 0;
  for (const CUevent event : {begin, end})
    if (const CUresult found = require_event(event); found != CUDA_SUCCESS) return found;
  const std::lock_guard lock(fake::captures_mutex());
  if (begin->device != end->device) return CUDA_ERROR_INVALID_HANDLE;
  for (const CUevent event : {begin, end}) {
    if (!event->has_time || event->mark == nullptr || event->capture != nullptr)
      return CUDA_ERROR_INVALID_HANDLE;
    if (!event->mark->is_reached()) return CUDA_ERROR_NOT_READY;
  }
  *milliseconds = std::chrono::duration<float, std::milli>(end->mark->time() - begin->mark->time()).count();
  return CUDA_SUCCESS;
}

}  // extern "C"
