// SPDX-License-Identifier: Apache-2.0
// What tests of the fake of CUDA's driver share.
#pragma once

#include "catch.hpp"
#include "tests/fakes/cuda/environment.hpp"
#include "tests/fakes/cuda/fake_cuda.hpp"

#include <functional>

namespace muster::test {

/// Makes the context of a device the current one of this thread.
inline void choose(int device) {
  CUcontext context = nullptr;
  REQUIRE(cuInit(0) == CUDA_SUCCESS);
  REQUIRE(cuDevicePrimaryCtxRetain(&context, device) == CUDA_SUCCESS);
  REQUIRE(cuCtxSetCurrent(context) == CUDA_SUCCESS);
}

/// The fakes, and a thread that is on a device.
class OnDevice : public CudaFakes {
 public:
  explicit OnDevice(int device = 0) { choose(device); }
};

/// A stream, freed at the end.
class Stream {
 public:
  explicit Stream(unsigned flags = CU_STREAM_NON_BLOCKING, int priority = 0) {
    REQUIRE(cuStreamCreateWithPriority(&stream_, flags, priority) == CUDA_SUCCESS);
  }

  ~Stream() { (void)cuStreamDestroy(stream_); }

  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  operator CUstream() const { return stream_; }  // NOLINT(google-explicit-constructor)

  /// Puts something there that the host does.
  void put(const std::function<void()>& work) const {
    fake::enqueue(stream_, [work] { return work; });
  }

 private:
  CUstream stream_ = nullptr;
};

class Event {
 public:
  explicit Event(unsigned flags = CU_EVENT_DISABLE_TIMING) {
    REQUIRE(cuEventCreate(&event_, flags) == CUDA_SUCCESS);
  }

  ~Event() { (void)cuEventDestroy(event_); }

  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  operator CUevent() const { return event_; }  // NOLINT(google-explicit-constructor)

 private:
  CUevent event_ = nullptr;
};

}  // namespace muster::test
