// SPDX-License-Identifier: Apache-2.0
// CUDA's driver as a table of function pointers, loaded when a plug-in is first used. The driver's functions
// keep their names and meanings from one driver to the next, so one build works with each of CUDA 12.2 and
// later, and no CUDA has to be installed beside the driver.
#pragma once

#include "muster/error.hpp"
#include "worker_sdk/comm/plugin/nvidia_library.hpp"

#include <cuda.h>

#include <cstddef>
#include <string>

namespace muster::plugin {

/// The oldest driver that is used, as cuDriverGetVersion() says it: of CUDA 12.2 (535).
constexpr int kOldestDriver = 12020;

// Each entry has a name, by which the header declares the newest form of a function, the name in the library
// of the form that is meant, which every driver from kOldestDriver on has, and the arguments, which the
// compiler compares with the header.
#define MUSTER_DRIVER_CALLS(X)                                                                               \
  X(cuDriverGetVersion, "cuDriverGetVersion", (int*))                                                        \
  X(cuInit, "cuInit", (unsigned))                                                                            \
  X(cuGetErrorString, "cuGetErrorString", (CUresult, const char**))                                          \
  X(cuDeviceGetCount, "cuDeviceGetCount", (int*))                                                            \
  X(cuDeviceGet, "cuDeviceGet", (CUdevice*, int))                                                            \
  X(cuDeviceGetName, "cuDeviceGetName", (char*, int, CUdevice))                                              \
  X(cuDeviceGetPCIBusId, "cuDeviceGetPCIBusId", (char*, int, CUdevice))                                      \
  X(cuDeviceGetAttribute, "cuDeviceGetAttribute", (int*, CUdevice_attribute, CUdevice))                      \
  X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext*, CUdevice))                            \
  X(cuCtxSetCurrent, "cuCtxSetCurrent", (CUcontext))                                                         \
  X(cuCtxPushCurrent, "cuCtxPushCurrent_v2", (CUcontext))                                                    \
  X(cuCtxPopCurrent, "cuCtxPopCurrent_v2", (CUcontext*))                                                     \
  X(cuCtxGetStreamPriorityRange, "cuCtxGetStreamPriorityRange", (int*, int*))                                \
  X(cuMemGetInfo, "cuMemGetInfo_v2", (std::size_t*, std::size_t*))                                           \
  X(cuMemAlloc, "cuMemAlloc_v2", (CUdeviceptr*, std::size_t))                                                \
  X(cuMemFree, "cuMemFree_v2", (CUdeviceptr))                                                                \
  X(cuMemAllocAsync, "cuMemAllocAsync", (CUdeviceptr*, std::size_t, CUstream))                               \
  X(cuMemFreeAsync, "cuMemFreeAsync", (CUdeviceptr, CUstream))                                               \
  X(cuMemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (CUdeviceptr, const void*, std::size_t, CUstream))            \
  X(cuMemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void*, CUdeviceptr, std::size_t, CUstream))                  \
  X(cuMemcpyDtoDAsync, "cuMemcpyDtoDAsync_v2", (CUdeviceptr, CUdeviceptr, std::size_t, CUstream))            \
  X(cuMemsetD8Async, "cuMemsetD8Async", (CUdeviceptr, unsigned char, std::size_t, CUstream))                 \
  X(cuPointerGetAttributes, "cuPointerGetAttributes", (unsigned, CUpointer_attribute*, void**, CUdeviceptr)) \
  X(cuStreamCreateWithPriority, "cuStreamCreateWithPriority", (CUstream*, unsigned, int))                    \
  X(cuStreamDestroy, "cuStreamDestroy_v2", (CUstream))                                                       \
  X(cuStreamSynchronize, "cuStreamSynchronize", (CUstream))                                                  \
  X(cuStreamQuery, "cuStreamQuery", (CUstream))                                                              \
  X(cuStreamWaitEvent, "cuStreamWaitEvent", (CUstream, CUevent, unsigned))                                   \
  X(cuStreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream, CUstreamCaptureMode))                        \
  X(cuStreamEndCapture, "cuStreamEndCapture", (CUstream, CUgraph*))                                          \
  X(cuStreamIsCapturing, "cuStreamIsCapturing", (CUstream, CUstreamCaptureStatus*))                          \
  X(cuThreadExchangeStreamCaptureMode, "cuThreadExchangeStreamCaptureMode", (CUstreamCaptureMode*))          \
  X(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", (CUgraphExec*, CUgraph, unsigned long long)) \
  X(cuGraphLaunch, "cuGraphLaunch", (CUgraphExec, CUstream))                                                 \
  X(cuGraphDestroy, "cuGraphDestroy", (CUgraph))                                                             \
  X(cuGraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec))                                                 \
  X(cuEventCreate, "cuEventCreate", (CUevent*, unsigned))                                                    \
  X(cuEventDestroy, "cuEventDestroy_v2", (CUevent))                                                          \
  X(cuEventRecord, "cuEventRecord", (CUevent, CUstream))                                                     \
  X(cuEventRecordWithFlags, "cuEventRecordWithFlags", (CUevent, CUstream, unsigned))                         \
  X(cuEventQuery, "cuEventQuery", (CUevent))                                                                 \
  X(cuEventSynchronize, "cuEventSynchronize", (CUevent))                                                     \
  X(cuEventElapsedTime, "cuEventElapsedTime", (float*, CUevent, CUevent))                                    \
  X(cuModuleLoadData, "cuModuleLoadData", (CUmodule*, const void*))                                          \
  X(cuModuleUnload, "cuModuleUnload", (CUmodule))                                                            \
  X(cuModuleGetFunction, "cuModuleGetFunction", (CUfunction*, CUmodule, const char*))                        \
  X(cuLaunchKernel, "cuLaunchKernel",                                                                        \
    (CUfunction, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, CUstream, void**,     \
     void**))

/// The functions, as a plain table.
struct CudaDriver {
#define MUSTER_DRIVER_MEMBER(name, symbol, arguments) \
  decltype(declared<CUresult arguments>(&::name)) name = nullptr;
  MUSTER_DRIVER_CALLS(MUSTER_DRIVER_MEMBER)
#undef MUSTER_DRIVER_MEMBER
};

/// The number that cuMemAlloc() and its like have for an address, and back.
inline CUdeviceptr number_of(const void* memory) {
  return reinterpret_cast<CUdeviceptr>(memory);
}

inline void* address_of(CUdeviceptr memory) {
  // NOLINTNEXTLINE(performance-no-int-to-ptr) the driver has addresses as numbers
  return reinterpret_cast<void*>(memory);
}

/// Fills in the functions of the system's libcuda.so.1, which must be of the version of the driver in the
/// kernel, or of the file that MUSTER_CUDA_DRIVER_LIBRARY names. Throws Missing.
inline void load_driver(CudaDriver& api) {
  void* const handle = open_library("MUSTER_CUDA_DRIVER_LIBRARY", "libcuda.so.1", kDriverPackage, false);
#define MUSTER_FIND_DRIVER(name, symbol, arguments) find(handle, symbol, api.name);
  MUSTER_DRIVER_CALLS(MUSTER_FIND_DRIVER)
#undef MUSTER_FIND_DRIVER
}

/// A version as CUDA's libraries say it, 12020, for people: "12.2".
inline std::string cuda_version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// The advice about an error of the driver; "" if its own text says enough.
inline const char* advice(CUresult result) {
  switch (result) {
    case CUDA_ERROR_NO_DEVICE:
      return "; look at `nvidia-smi` and CUDA_VISIBLE_DEVICES, or do without a GPU";
    case CUDA_ERROR_SYSTEM_DRIVER_MISMATCH:
      return "; libcuda.so.1 is of another version than the driver in the kernel: restart the machine after "
             "an update of the driver, or start "
             "the container anew";
    case CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE:
      return "; the package cuda-compat serves data-center GPUs alone: remove it from LD_LIBRARY_PATH and "
             "update the driver";
    case CUDA_ERROR_SYSTEM_NOT_READY:
      return "; NVIDIA's fabric manager does not run: `systemctl start nvidia-fabricmanager`";
    case CUDA_ERROR_DEVICE_UNAVAILABLE:
      return "; another process has the GPU to itself (compute mode, which `nvidia-smi -q -d COMPUTE` "
             "shows): end it, or set the mode to "
             "DEFAULT";
    case CUDA_ERROR_OUT_OF_MEMORY:
      return "; `nvidia-smi` lists who holds memory of the GPU";
    case CUDA_ERROR_ECC_UNCORRECTABLE:
    case CUDA_ERROR_NVLINK_UNCORRECTABLE:
    case CUDA_ERROR_ILLEGAL_ADDRESS:
    case CUDA_ERROR_LAUNCH_TIMEOUT:
    case CUDA_ERROR_HARDWARE_STACK_ERROR:
    case CUDA_ERROR_LAUNCH_FAILED:
    case CUDA_ERROR_EXTERNAL_DEVICE:
    case CUDA_ERROR_UNKNOWN:
      return "; the GPU or a kernel on it has failed, and this process cannot use it any more: the kernel's "
             "log (`dmesg | grep Xid`) says "
             "what happened, `nvidia-smi` whether the GPU still answers";
    default:
      return "";
  }
}

/// Throws Error (unsupported, out_of_memory or backend), which says what to do next, unless `result` is
/// CUDA_SUCCESS. `what` names the attempt: "cuMemAlloc of 5 bytes on device 1".
inline void check(const CudaDriver& api, CUresult result, const std::string& what) {
  if (result == CUDA_SUCCESS) return;
  ErrorCode code = ErrorCode::backend;
  if (result == CUDA_ERROR_OUT_OF_MEMORY) code = ErrorCode::out_of_memory;
  if (result == CUDA_ERROR_NO_DEVICE || result == CUDA_ERROR_SYSTEM_DRIVER_MISMATCH ||
      result == CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE)
    code = ErrorCode::unsupported;
  const char* text = nullptr;
  (void)api.cuGetErrorString(result, &text);
  throw Error(code, what + " failed: CUDA error " + std::to_string(static_cast<int>(result)) + ", " +
                        (text == nullptr ? "which the driver does not know" : text) + advice(result));
}

/// Makes the driver ready; only the first call does anything. Returns the newest CUDA that it knows. Throws
/// Error (unsupported) that says what to do where there is no GPU or the driver is older than kOldestDriver.
inline int start_driver(const CudaDriver& api) {
  check(api, api.cuInit(0), "starting NVIDIA's driver");
  int version = 0;
  check(api, api.cuDriverGetVersion(&version), "asking for the driver's version");
  if (version < kOldestDriver)
    throw Error(
        ErrorCode::unsupported,
        "the driver is for CUDA " + cuda_version_text(version) + ", and " + cuda_version_text(kOldestDriver) +
            " is the oldest that is used: update it to 535 or later; with data-center GPUs NVIDIA's package "
            "cuda-compat does, too");
  return version;
}

/// How many devices the process sees. Throws as start_driver().
inline int count_devices(const CudaDriver& api) {
  (void)start_driver(api);
  int count = 0;
  check(api, api.cuDeviceGetCount(&count), "looking for GPUs");
  return count;
}

/// The context of a device that the CUDA runtime uses too; it is made if there is none yet, and kept to the
/// end of the process, as the runtime keeps it. Throws as start_driver().
inline CUcontext primary_context(const CudaDriver& api, int device) {
  (void)start_driver(api);
  const std::string on = " on device " + std::to_string(device);
  CUdevice handle = 0;
  CUcontext context = nullptr;
  check(api, api.cuDeviceGet(&handle, device), "cuDeviceGet" + on);
  check(api, api.cuDevicePrimaryCtxRetain(&context, handle), "making a context" + on);
  return context;
}

}  // namespace muster::plugin
