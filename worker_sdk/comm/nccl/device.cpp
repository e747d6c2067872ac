// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/nccl/device.hpp"

#include "muster/error.hpp"

namespace muster::nccl {
namespace {

std::string on(int device) {
  return " on device " + std::to_string(device);
}

/// Checks a result of the driver, whose errors have the same numbers as the runtime's.
void check(const Library& api, CUresult result, const std::string& what) {
  nccl::check(api, static_cast<cudaError_t>(result), what);
}

/// The context that the runtime has on a device; it is made if there is none yet.
CUcontext context_of(const Library& api, int device) {
  if (api.cuInit == nullptr)
    throw Error(
        ErrorCode::unsupported,
        "libcuda.so.1, which comes with NVIDIA's driver, cannot be loaded; install the driver, or use "
        "another backend");
  CUdevice handle = 0;
  CUcontext context = nullptr;
  check(api, api.cuInit(0), "cuInit");
  check(api, api.cuDeviceGet(&handle, device), "cuDeviceGet" + on(device));
  check(api, api.cuDevicePrimaryCtxRetain(&context, handle), "making a context" + on(device));
  return context;
}

}  // namespace

int choose_device(const Library& api, int local_rank, int wanted) {
  int count = 0;
  check(api, api.cudaGetDeviceCount(&count), "looking for GPUs");
  if (count == 0) throw Error(ErrorCode::unsupported, "this process sees no GPU; use another backend");
  const int device = wanted >= 0 ? wanted : plugin::device_of(local_rank, count);
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

DeviceGuard::DeviceGuard(const Library& api, CUcontext context) : api_(api) {
  check(api, api.cuCtxPushCurrent_v2(context), "cuCtxPushCurrent");
}

DeviceGuard::~DeviceGuard() {
  CUcontext context = nullptr;
  (void)api_.cuCtxPopCurrent_v2(&context);
}

CaptureGuard::CaptureGuard(const Library& api) : api_(api) {
  (void)api_.cudaThreadExchangeStreamCaptureMode(&former_);
}

CaptureGuard::~CaptureGuard() {
  (void)api_.cudaThreadExchangeStreamCaptureMode(&former_);
}

Device::Device(const Library& api, int index) : api_(api), index_(index), context_(context_of(api, index)) {
  const DeviceGuard guard = make_current();
  int least = 0;
  int greatest = 0;
  check(api, api.cudaDeviceGetStreamPriorityRange(&least, &greatest), "asking for priorities" + on(index));
  check(api, api.cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest),
        "making a stream" + on(index));
  check(api, api.cudaStreamCreateWithPriority(&clearing_, cudaStreamNonBlocking, greatest),
        "making a stream" + on(index));
  // The memory is allocated and freed in stream order, because cudaFree() would wait for kernels of other
  // groups.
  check(api, api.cudaMallocAsync(&word_, 16, stream_), "cudaMallocAsync of 16 bytes" + on(index));
  check(api, api.cudaMemsetAsync(word_, 0, 16, stream_), "clearing memory" + on(index));
  check(api, api.cudaStreamSynchronize(stream_), "clearing memory" + on(index));
}

Device::~Device() {
  try {
    const DeviceGuard guard = make_current();
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
  const DeviceGuard guard = make_current();
  cudaPointerAttributes attributes{};
  const cudaError_t asked = api_.cudaPointerGetAttributes(&attributes, memory);
  if (asked == cudaSuccess) return attributes.type;
  (void)api_.cudaGetLastError();
  // Runtimes before CUDA 11 return this error for memory that they do not know; any other error is thrown,
  // such as that of a lost device.
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

void Device::free(void* memory) noexcept {
  try {
    const DeviceGuard guard = make_current();
    (void)api_.cudaFreeAsync(memory, stream_);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch) a device that is gone has nothing to free
  }
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
