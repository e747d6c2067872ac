// SPDX-License-Identifier: Apache-2.0
// The CUDA runtime and cuDNN as tables of function pointers. cuDNN is used through its backend descriptors
// alone; its calls for single layers are marked as deprecated.
#pragma once

#include "worker_sdk/comm/plugin/nvidia_library.hpp"

#include <cuda_runtime_api.h>
#include <cudnn_graph.h>

#include <cstdint>
#include <string>

namespace muster::nn::gpu {

// name, arguments, which the compiler compares with the headers; some names are overloaded in C++.
#define MUSTER_RUNTIME_CALLS(X)                                                                            \
  X(cudaRuntimeGetVersion, (int*))                                                                         \
  X(cudaDriverGetVersion, (int*))                                                                          \
  X(cudaGetDeviceProperties, (cudaDeviceProp*, int))                                                       \
  X(cudaGetDeviceCount, (int*))                                                                            \
  X(cudaSetDevice, (int))                                                                                  \
  X(cudaDeviceGetAttribute, (int*, cudaDeviceAttr, int))                                                   \
  X(cudaDeviceGetStreamPriorityRange, (int*, int*))                                                        \
  X(cudaGetLastError, ())                                                                                  \
  X(cudaMalloc, (void**, std::size_t))                                                                     \
  X(cudaMemGetInfo, (std::size_t*, std::size_t*))                                                          \
  X(cudaFree, (void*))                                                                                     \
  X(cudaMemcpyAsync, (void*, const void*, std::size_t, cudaMemcpyKind, cudaStream_t))                      \
  X(cudaMemsetAsync, (void*, int, std::size_t, cudaStream_t))                                              \
  X(cudaStreamCreateWithPriority, (cudaStream_t*, unsigned, int))                                          \
  X(cudaStreamDestroy, (cudaStream_t))                                                                     \
  X(cudaStreamSynchronize, (cudaStream_t))                                                                 \
  X(cudaStreamQuery, (cudaStream_t))                                                                       \
  X(cudaStreamWaitEvent, (cudaStream_t, cudaEvent_t, unsigned))                                            \
  X(cudaStreamBeginCapture, (cudaStream_t, cudaStreamCaptureMode))                                         \
  X(cudaStreamEndCapture, (cudaStream_t, cudaGraph_t*))                                                    \
  X(cudaGraphInstantiate, (cudaGraphExec_t*, cudaGraph_t, unsigned long long))                             \
  X(cudaGraphLaunch, (cudaGraphExec_t, cudaStream_t))                                                      \
  X(cudaGraphDestroy, (cudaGraph_t))                                                                       \
  X(cudaGraphExecDestroy, (cudaGraphExec_t))                                                               \
  X(cudaEventCreateWithFlags, (cudaEvent_t*, unsigned))                                                    \
  X(cudaEventDestroy, (cudaEvent_t))                                                                       \
  X(cudaEventRecord, (cudaEvent_t, cudaStream_t))                                                          \
  X(cudaEventRecordWithFlags, (cudaEvent_t, cudaStream_t, unsigned))                                       \
  X(cudaEventSynchronize, (cudaEvent_t))                                                                   \
  X(cudaEventElapsedTime, (float*, cudaEvent_t, cudaEvent_t))                                              \
  X(cudaLibraryLoadData,                                                                                   \
    (cudaLibrary_t*, const void*, cudaJitOption*, void**, unsigned, cudaLibraryOption*, void**, unsigned)) \
  X(cudaLibraryUnload, (cudaLibrary_t))                                                                    \
  X(cudaLibraryGetKernel, (cudaKernel_t*, cudaLibrary_t, const char*))                                     \
  X(cudaLaunchKernel, (const void*, dim3, dim3, void**, std::size_t, cudaStream_t))

#define MUSTER_CUDNN_CALLS(X)                                                                    \
  X(cudnnCreate, (cudnnHandle_t*))                                                               \
  X(cudnnDestroy, (cudnnHandle_t))                                                               \
  X(cudnnSetStream, (cudnnHandle_t, cudaStream_t))                                               \
  X(cudnnBackendCreateDescriptor, (cudnnBackendDescriptorType_t, cudnnBackendDescriptor_t*))     \
  X(cudnnBackendDestroyDescriptor, (cudnnBackendDescriptor_t))                                   \
  X(cudnnBackendFinalize, (cudnnBackendDescriptor_t))                                            \
  X(cudnnBackendSetAttribute, (cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,            \
                               cudnnBackendAttributeType_t, std::int64_t, const void*))          \
  X(cudnnBackendGetAttribute, (cudnnBackendDescriptor_t, cudnnBackendAttributeName_t,            \
                               cudnnBackendAttributeType_t, std::int64_t, std::int64_t*, void*)) \
  X(cudnnBackendExecute, (cudnnHandle_t, cudnnBackendDescriptor_t, cudnnBackendDescriptor_t))

using plugin::check;
using plugin::declared;

/// The functions of the libraries, as plain tables.
struct Library {
#define MUSTER_GPU_MEMBER(name, arguments) decltype(declared<cudaError_t arguments>(&::name)) name = nullptr;
  MUSTER_RUNTIME_CALLS(MUSTER_GPU_MEMBER)
#undef MUSTER_GPU_MEMBER
#define MUSTER_GPU_MEMBER(name, arguments) \
  decltype(declared<cudnnStatus_t arguments>(&::name)) name = nullptr;
  MUSTER_CUDNN_CALLS(MUSTER_GPU_MEMBER)
#undef MUSTER_GPU_MEMBER
  const char* (*cudaGetErrorString)(cudaError_t) = nullptr;
  const char* (*cudnnGetErrorString)(cudnnStatus_t) = nullptr;
  void (*cudnnGetLastErrorString)(char*, std::size_t) = nullptr;
  std::size_t (*cudnnGetVersion)() = nullptr;
};

/// The libraries of this machine, loaded once in the life of the process. Throws Error (unsupported) that
/// names what is missing and what to install. MUSTER_CUDART_LIBRARY and MUSTER_CUDNN_LIBRARY
/// name other files.
const Library& library();

/// Says what is wrong and what to do where a library is of another major version than the headers that this
/// was compiled with, whose structures and numbers may differ; "" where it is not. Pure.
std::string version_problem(const std::string& library, long found, long compiled);

/// Throws Error (unsupported) that says what to do where there is no driver, none that is new enough, no such
/// device, or one that is too old (before compute capability 7.5).
void require_device(const Library& api, int device);

/// What cuDNN says about the last of its calls that failed, behind ": "; "" where it says nothing.
std::string last_words(const Library& api);

/// Throws Error (backend) unless the result is a success. `what` was tried.
void check(const Library& api, cudnnStatus_t result, const std::string& what);

}  // namespace muster::nn::gpu
