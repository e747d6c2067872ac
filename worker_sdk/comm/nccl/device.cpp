// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/nccl/device.hpp"

#include "muster/error.hpp"

#include <cstdlib>

namespace muster::nccl {
namespace {

std::string on(int device) {
  return " on device " + std::to_string(device);
}

bool sees_chosen_devices() {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");  // NOLINT(concurrency-mt-unsafe)
  return visible != nullptr && *visible != '\0';
}

}  // namespace

int choose_device(const Library& api, int local_rank, int wanted) {
  int count = 0;
  check(api, api.cudaGetDeviceCount(&count), "looking for GPUs");
  if (count == 0) throw Error(ErrorCode::unsupported, "this process sees no GPU; use another backend");
  int device = wanted >= 0 ? wanted : local_rank;
  if (wanted < 0 && count == 1 && sees_chosen_devices()) device = 0;
  if (device >= count)
    throw Error(ErrorCode::unsupported, "local rank " + std::to_string(local_rank) + " would use device " +
                                            std::to_string(device) + ", but this process sees " +
                                            std::to_string(count) + (count == 1 ? " GPU" : " GPUs") +
                                            "; start fewer ranks on this host, or use another backend");
  return device;
}

std::string bus_id_of(const Library& api, int device) {
  char text[32] = {};
  check(api, api.cudaDeviceGetPCIBusId(text, sizeof(text), device), "asking for the bus id" + on(device));
  return text;
}

std::string kind_of(const Library& api, int device) {
  int major = 0;
  int minor = 0;
  int processors = 0;
  if (api.cudaDeviceGetAttribute == nullptr ||
      api.cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess ||
      api.cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) != cudaSuccess ||
      api.cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device) != cudaSuccess)
    return "";
  return "compute capability " + std::to_string(major) + "." + std::to_string(minor) + ", " +
         std::to_string(processors) + " multiprocessors";
}

DeviceGuard::DeviceGuard(const Library& api, int device) : api_(api) {
  int current = -1;
  check(api, api.cudaGetDevice(&current), "asking for the thread's device");
  if (current == device) return;
  check(api, api.cudaSetDevice(device), "cudaSetDevice" + on(device));
  former_ = current;
}

DeviceGuard::~DeviceGuard() {
  if (former_ >= 0) (void)api_.cudaSetDevice(former_);
}

CaptureGuard::CaptureGuard(const Library& api) : api_(api) {
  (void)api_.cudaThreadExchangeStreamCaptureMode(&former_);
}

CaptureGuard::~CaptureGuard() {
  (void)api_.cudaThreadExchangeStreamCaptureMode(&former_);
}

Device::Device(const Library& api, int index) : api_(api), index_(index) {
  const DeviceGuard guard(api, index);
  int least = 0;
  int greatest = 0;
  check(api, api.cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities" + on(index));
  check(api, api.cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest),
        "making a stream" + on(index));
  check(api, api.cudaStreamCreateWithPriority(&clearing_, cudaStreamNonBlocking, greatest),
        "making a stream" + on(index));
  // Stream-ordered, here and in the destructor: cudaFree() would wait for kernels of other groups.
  check(api, api.cudaMallocAsync(&word_, 16, stream_), "cudaMallocAsync of 16 bytes" + on(index));
  check(api, api.cudaMemsetAsync(word_, 0, 16, stream_), "clearing memory" + on(index));
  check(api, api.cudaStreamSynchronize(stream_), "clearing memory" + on(index));
}

Device::~Device() {
  try {
    const DeviceGuard guard(api_, index_);
    for (cudaEvent_t event : events_) (void)api_.cudaEventDestroy(event);
    left_.push_back(word_);
    for (void* memory : left_)
      if (memory != nullptr) (void)api_.cudaFreeAsync(memory, stream_);
    if (clearing_ != nullptr) (void)api_.cudaStreamDestroy(clearing_);
    if (stream_ != nullptr) (void)api_.cudaStreamDestroy(stream_);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch) a device that is gone has nothing to free
  }
}

cudaMemoryType Device::type_of(const void* memory) const {
  cudaPointerAttributes attributes{};
  const cudaError_t asked = api_.cudaPointerGetAttributes(&attributes, memory);
  if (asked == cudaSuccess) return attributes.type;
  (void)api_.cudaGetLastError();
  // Runtimes before CUDA 11 answered so for memory they do not know. A device that is lost knows of none.
  if (asked != cudaErrorInvalidValue) check(api_, asked, "asking whose memory a buffer is" + on(index_));
  return cudaMemoryTypeUnregistered;
}

bool Device::is_host(const void* memory) const {
  const cudaMemoryType type = type_of(memory);
  return type == cudaMemoryTypeUnregistered || type == cudaMemoryTypeHost;
}

bool Device::is_reachable(const void* memory) const {
  return type_of(memory) != cudaMemoryTypeUnregistered;
}

void Device::free(void* memory) {
  (void)api_.cudaFreeAsync(memory, stream_);
}

void Device::free_at_end(void* memory) {
  const std::lock_guard lock(mutex_);
  left_.push_back(memory);
}

bool Device::is_capturing(cudaStream_t stream) const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  check(api_, api_.cudaStreamIsCapturing(stream, &status),
        "asking whether a stream is captured" + on(index_));
  return status != cudaStreamCaptureStatusNone;
}

cudaEvent_t Device::take_event() {
  {
    const std::lock_guard lock(mutex_);
    if (!events_.empty()) {
      cudaEvent_t event = events_.back();
      events_.pop_back();
      return event;
    }
  }
  cudaEvent_t event = nullptr;
  check(api_, api_.cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event" + on(index_));
  return event;
}

void Device::give_back(cudaEvent_t event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(event);
}

}  // namespace muster::nccl
