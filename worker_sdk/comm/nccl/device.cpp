// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/nccl/device.hpp"

#include "muster/error.hpp"

namespace muster::nccl {
namespace {

std::string on(int device) {
  return " on device " + std::to_string(device);
}

}  // namespace

int choose_device(const Library& api, int local_rank, int wanted) {
  const int count = plugin::count_devices(api);
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
  CUdevice handle = 0;
  check(api, api.cuDeviceGet(&handle, device), "cuDeviceGet" + on(device));
  check(api, api.cuDeviceGetPCIBusId(text, sizeof(text), handle), "asking for the bus id" + on(device));
  return text;
}

std::string kind_of(const Library& api, int device) {
  CUdevice handle = 0;
  int major = 0;
  int minor = 0;
  int processors = 0;
  if (api.cuDeviceGet(&handle, device) != CUDA_SUCCESS ||
      api.cuDeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, handle) !=
          CUDA_SUCCESS ||
      api.cuDeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, handle) !=
          CUDA_SUCCESS ||
      api.cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, handle) != CUDA_SUCCESS)
    return "";
  return "compute capability " + std::to_string(major) + "." + std::to_string(minor) + ", " +
         std::to_string(processors) + " multiprocessors";
}

DeviceGuard::DeviceGuard(const Library& api, CUcontext context) : api_(api) {
  check(api, api.cuCtxPushCurrent(context), "cuCtxPushCurrent");
}

DeviceGuard::~DeviceGuard() {
  CUcontext context = nullptr;
  (void)api_.cuCtxPopCurrent(&context);
}

CaptureGuard::CaptureGuard(const Library& api) : api_(api) {
  (void)api_.cuThreadExchangeStreamCaptureMode(&former_);
}

CaptureGuard::~CaptureGuard() {
  (void)api_.cuThreadExchangeStreamCaptureMode(&former_);
}

Device::Device(const Library& api, int index)
    : api_(api), index_(index), context_(plugin::primary_context(api, index)) {
  const DeviceGuard guard = make_current();
  int least = 0;
  int greatest = 0;
  check(api, api.cuCtxGetStreamPriorityRange(&least, &greatest), "asking for priorities" + on(index));
  check(api, api.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, greatest),
        "making a stream" + on(index));
  check(api, api.cuStreamCreateWithPriority(&clearing_, CU_STREAM_NON_BLOCKING, greatest),
        "making a stream" + on(index));
  // The memory is allocated and freed in stream order, because cuMemFree() would wait for kernels of other
  // groups.
  CUdeviceptr word = 0;
  check(api, api.cuMemAllocAsync(&word, 16, stream_), "cuMemAllocAsync of 16 bytes" + on(index));
  word_ = plugin::address_of(word);
  check(api, api.cuMemsetD8Async(word, 0, 16, stream_), "clearing memory" + on(index));
  check(api, api.cuStreamSynchronize(stream_), "clearing memory" + on(index));
}

Device::~Device() {
  try {
    const DeviceGuard guard = make_current();
    for (CUevent event : events_) (void)api_.cuEventDestroy(event);
    left_.push_back(word_);
    for (void* memory : left_)
      if (memory != nullptr) (void)api_.cuMemFreeAsync(plugin::number_of(memory), stream_);
    if (clearing_ != nullptr) (void)api_.cuStreamDestroy(clearing_);
    if (stream_ != nullptr) (void)api_.cuStreamDestroy(stream_);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch) a device that is gone has nothing to free
  }
}

/// Managed memory counts as the device's, wherever its pages lie now.
Device::Kind Device::kind_of(const void* memory) const {
  const DeviceGuard guard = make_current();
  unsigned type = 0;  // stays so for memory that the driver does not know
  unsigned is_managed = 0;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE, CU_POINTER_ATTRIBUTE_IS_MANAGED};
  void* values[] = {&type, &is_managed};
  check(api_, api_.cuPointerGetAttributes(2, attributes, values, plugin::number_of(memory)),
        "asking whose memory a buffer is" + on(index_));
  return {type != 0, type == CU_MEMORYTYPE_HOST && is_managed == 0};
}

bool Device::is_host(const void* memory) const {
  const Kind kind = kind_of(memory);
  return !kind.is_known || kind.is_host;
}

bool Device::is_reachable(const void* memory) const {
  return kind_of(memory).is_known;
}

void Device::free(void* memory) noexcept {
  try {
    const DeviceGuard guard = make_current();
    (void)api_.cuMemFreeAsync(plugin::number_of(memory), stream_);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch) a device that is gone has nothing to free
  }
}

void Device::free_at_end(void* memory) {
  const std::lock_guard lock(mutex_);
  left_.push_back(memory);
}

bool Device::is_capturing(CUstream stream) const {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  check(api_, api_.cuStreamIsCapturing(stream, &status), "asking whether a stream is captured" + on(index_));
  return status != CU_STREAM_CAPTURE_STATUS_NONE;
}

CUevent Device::take_event() {
  {
    const std::lock_guard lock(mutex_);
    if (!events_.empty()) {
      CUevent event = events_.back();
      events_.pop_back();
      return event;
    }
  }
  CUevent event = nullptr;
  check(api_, api_.cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "making an event" + on(index_));
  return event;
}

void Device::give_back(CUevent event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(event);
}

}  // namespace muster::nccl
