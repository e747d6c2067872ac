// SPDX-License-Identifier: Apache-2.0
// NCCL's header, and what came to it after 2.19, so that any header from then on makes the same plug-in: what
// a library has is asked when it is loaded. Where the header has a declaration itself, the compiler compares
// it with this one.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>

// NOLINTBEGIN(readability-redundant-declaration, modernize-use-using, cppcoreguidelines-macro-usage)
#if NCCL_VERSION_CODE < NCCL_VERSION(2, 27, 0)
typedef struct ncclWindow* ncclWindow_t;
#endif
#ifndef NCCL_WIN_COLL_SYMMETRIC
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#endif
#ifndef NCCL_WIN_REQUIRED_ALIGNMENT
#define NCCL_WIN_REQUIRED_ALIGNMENT 4096
#endif
#ifndef NCCL_REVOKE_DEFAULT
#define NCCL_REVOKE_DEFAULT 0x00
#endif

extern "C" {
// 2.27
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* buff, std::size_t size, ncclWindow_t* win,
                                    int winFlags);
ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t win);
// 2.28
ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, std::size_t count, ncclDataType_t datatype,
                          ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, std::size_t count, ncclDataType_t datatype,
                        int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, std::size_t count, ncclDataType_t datatype,
                         int root, ncclComm_t comm, cudaStream_t stream);
// 2.28.9
ncclResult_t ncclCommRevoke(ncclComm_t comm, int revokeFlags);
}
// NOLINTEND(readability-redundant-declaration, modernize-use-using, cppcoreguidelines-macro-usage)
