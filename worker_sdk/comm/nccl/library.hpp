// SPDX-License-Identifier: Apache-2.0
// Loads NCCL and CUDA's driver as tables of function pointers.
#pragma once

#include "worker_sdk/comm/nccl/nccl_headers.hpp"
#include "worker_sdk/comm/plugin/cuda_driver.hpp"

#include <string>

namespace muster::nccl {

/// The oldest version that is used: by NVIDIA's resiliency notes and release notes, ncclCommAbort() with
/// several threads is safe from 2.19 on.
constexpr int kOldestVersion = NCCL_VERSION(2, 19, 0);

// Each entry has a name and its arguments, which the compiler compares with the headers; some names are
// overloaded in C++.
#define MUSTER_NCCL_REQUIRED(X)                                                                              \
  X(ncclGetVersion, (int*))                                                                                  \
  X(ncclGetUniqueId, (ncclUniqueId*))                                                                        \
  X(ncclCommInitRankConfig, (ncclComm_t*, int, ncclUniqueId, int, ncclConfig_t*))                            \
  X(ncclCommFinalize, (ncclComm_t))                                                                          \
  X(ncclCommDestroy, (ncclComm_t))                                                                           \
  X(ncclCommAbort, (ncclComm_t))                                                                             \
  X(ncclCommGetAsyncError, (ncclComm_t, ncclResult_t*))                                                      \
  X(ncclMemAlloc, (void**, std::size_t))                                                                     \
  X(ncclMemFree, (void*))                                                                                    \
  X(ncclCommRegister, (ncclComm_t, void*, std::size_t, void**))                                              \
  X(ncclCommDeregister, (ncclComm_t, void*))                                                                 \
  X(ncclGroupStart, ())                                                                                      \
  X(ncclGroupEnd, ())                                                                                        \
  X(ncclAllReduce, (const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t)) \
  X(ncclReduce,                                                                                              \
    (const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t, cudaStream_t))           \
  X(ncclReduceScatter,                                                                                       \
    (const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t))                \
  X(ncclBroadcast, (const void*, void*, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t))         \
  X(ncclAllGather, (const void*, void*, std::size_t, ncclDataType_t, ncclComm_t, cudaStream_t))              \
  X(ncclSend, (const void*, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t))                     \
  X(ncclRecv, (void*, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t))

// These functions are newer than kOldestVersion; they are null if the library lacks them.
#define MUSTER_NCCL_OPTIONAL(X)                                                                   \
  X(ncclCommRevoke, (ncclComm_t, int))                                                            \
  X(ncclCommWindowRegister, (ncclComm_t, void*, std::size_t, ncclWindow_t*, int))                 \
  X(ncclCommWindowDeregister, (ncclComm_t, ncclWindow_t))                                         \
  X(ncclAlltoAll, (const void*, void*, std::size_t, ncclDataType_t, ncclComm_t, cudaStream_t))    \
  X(ncclGather, (const void*, void*, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t)) \
  X(ncclScatter, (const void*, void*, std::size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t))

using plugin::check;
using plugin::declared;

#define MUSTER_NCCL_MEMBER(name, arguments) \
  decltype(declared<ncclResult_t arguments>(&::name)) name = nullptr;

/// The tables of functions; copied wherever they are needed.
struct Library : plugin::CudaDriver {
  MUSTER_NCCL_REQUIRED(MUSTER_NCCL_MEMBER)
  MUSTER_NCCL_OPTIONAL(MUSTER_NCCL_MEMBER)
  const char* (*ncclGetErrorString)(ncclResult_t) = nullptr;
  const char* (*ncclGetLastError)(ncclComm_t) = nullptr;
  int version = 0;  ///< version of NCCL, as NCCL_VERSION() makes it
};

#undef MUSTER_NCCL_MEMBER

/// The libraries of this machine, loaded once in the life of the process. Throws Error (unsupported) that
/// names what is missing. MUSTER_NCCL_LIBRARY and MUSTER_CUDA_DRIVER_LIBRARY name other files.
const Library& library();

/// A version for people: "2.28.9".
std::string version_text(int version);

}  // namespace muster::nccl
