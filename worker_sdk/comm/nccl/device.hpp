// SPDX-License-Identifier: Apache-2.0
// The resources of a group on its GPU besides the communicator: streams, events, a word for barriers.
#pragma once

#include "worker_sdk/comm/nccl/library.hpp"

#include <mutex>
#include <string>
#include <vector>

namespace muster::nccl {

/// The device that a rank uses: `wanted`, or if that is -1 the one of its local rank, or the only one that
/// CUDA_VISIBLE_DEVICES shows the process. Throws Error (unsupported) that says how many there are.
int choose_device(const Library& api, int local_rank, int wanted);

/// The bus id of a device, "0000:3B:00.0"; two ranks of a host with the same id share a GPU.
std::string bus_id_of(const Library& api, int device);

/// The kind of a device, "compute capability 9.0, 132 multiprocessors"; "" if it cannot be found out.
std::string kind_of(const Library& api, int device);

/// Puts the calling thread on a device while this object lives, and back where it was afterwards.
class DeviceGuard {
 public:
  DeviceGuard(const Library& api, CUcontext context);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  const Library& api_;
};

/// Lets the calling thread query events while any thread captures a graph in the global mode, which such a
/// query would otherwise break (https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__STREAM.html,
/// cuThreadExchangeStreamCaptureMode).
class CaptureGuard {
 public:
  explicit CaptureGuard(const Library& api);
  ~CaptureGuard();
  CaptureGuard(const CaptureGuard&) = delete;
  CaptureGuard& operator=(const CaptureGuard&) = delete;

 private:
  const Library& api_;
  CUstreamCaptureMode former_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

/// The device of one group. Any thread, except where said.
class Device {
 public:
  Device(const Library& api, int index);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  const Library& api() const { return api_; }

  int index() const { return index_; }

  /// Puts the calling thread on the device, for calls of the driver and of NCCL.
  DeviceGuard make_current() const { return {api_, context_}; }

  /// The stream for calls to which the user gave none: of the highest priority, and independent of the
  /// default stream.
  CUstream stream() const { return stream_; }

  /// The stream for clearing memory, which must not wait for calls.
  CUstream clearing() const { return clearing_; }

  /// The four bytes on the device that barriers use.
  void* word() const { return word_; }

  /// Whether the program can touch `memory`: pageable or pinned memory of the host.
  bool is_host(const void* memory) const;
  /// Whether the GPU can touch `memory`; it cannot touch pageable memory of the host.
  bool is_reachable(const void* memory) const;

  /// Frees memory of cuMemAllocAsync() that the device does not use any more.
  void free(void* memory) noexcept;
  /// Leaves `memory` to be freed by the destructor.
  void free_at_end(void* memory);

  // The following functions are called on a thread that is on the device.

  bool is_capturing(CUstream stream) const;

  /// An event without timing, from a pool.
  CUevent take_event();
  void give_back(CUevent event);

 private:
  /// Whose memory a buffer is.
  struct Kind {
    bool is_known = false;  ///< to CUDA; pageable memory of the host is not
    bool is_host = false;   ///< pinned memory of the host
  };

  Kind kind_of(const void* memory) const;

  const Library& api_;
  int index_;
  CUcontext context_;
  CUstream stream_ = nullptr;
  CUstream clearing_ = nullptr;
  void* word_ = nullptr;
  std::mutex mutex_;
  std::vector<CUevent> events_;  ///< events that are not in use
  std::vector<void*> left_;      ///< memory given to free_at_end()
};

}  // namespace muster::nccl
