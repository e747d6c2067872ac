// SPDX-License-Identifier: Apache-2.0
// CUDA's driver and cuDNN as tables of function pointers. cuDNN is used through its backend descriptors
// alone; its calls for single layers are marked as deprecated.
#pragma once

#include "worker_sdk/comm/plugin/cuda_driver.hpp"

#include <cudnn_graph.h>

#include <cstdint>
#include <string>

namespace muster::nn::gpu {

// name, arguments, which the compiler compares with the headers.
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
struct Library : plugin::CudaDriver {
#define MUSTER_GPU_MEMBER(name, arguments) \
  decltype(declared<cudnnStatus_t arguments>(&::name)) name = nullptr;
  MUSTER_CUDNN_CALLS(MUSTER_GPU_MEMBER)
#undef MUSTER_GPU_MEMBER
  const char* (*cudnnGetErrorString)(cudnnStatus_t) = nullptr;
  void (*cudnnGetLastErrorString)(char*, std::size_t) = nullptr;
  std::size_t (*cudnnGetVersion)() = nullptr;
  std::size_t (*cudnnGetCudartVersion)() = nullptr;
};

/// The libraries of this machine, loaded once in the life of the process. Throws Error (unsupported) that
/// names what is missing and what to install. MUSTER_CUDA_DRIVER_LIBRARY and MUSTER_CUDNN_LIBRARY
/// name other files.
const Library& library();

/// Says what is wrong and what to do where cuDNN, whose version is `cudnn` (90100) and which was made for the
/// CUDA `made_for` (13000), fits neither this program, which was compiled for version 9, nor a driver that
/// knows CUDA up to `driver`; "" where it does. Pure.
std::string cudnn_problem(std::size_t cudnn, int made_for, int driver);

/// Throws Error (unsupported) that says what to do where there is no driver, none that is new enough, no such
/// device, one that is too old (before compute capability 7.5), or a cuDNN that does not fit the driver.
void require_device(const Library& api, int device);

/// The compute capability of a device: 75, 80, 90 ... Throws as check().
int capability_of(const Library& api, int device);

/// What cuDNN says about the last of its calls that failed, behind ": "; "" where it says nothing.
std::string last_words(const Library& api);

/// Throws Error (backend) unless the result is a success. `what` was tried.
void check(const Library& api, cudnnStatus_t result, const std::string& what);

}  // namespace muster::nn::gpu
