// SPDX-License-Identifier: Apache-2.0
// The rules that the fake checks, each with the place where NCCL states it. "Guide" is
// https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/, "nccl.h" the header of NCCL 2.28.9.
// tests/fakes/rules_test.cpp breaks each of them.
#pragma once

namespace fake::rules {

inline constexpr const char* kOneThread =
    "one-thread (guide, usage/threadsafety.html: one thread at a time uses a communicator, one thread a "
    "group)";
inline constexpr const char* kInProgress =
    "in-progress (guide, usage/groups.html, Nonblocking Group Operation: no call before the state has left "
    "ncclInProgress)";
inline constexpr const char* kDestroyed =
    "destroyed (guide, api/comms.html, ncclCommDestroy and ncclCommAbort: the communicator is freed)";
inline constexpr const char* kRevoked =
    "revoked (nccl.h, ncclCommRevoke: only destroy, split and shrink may follow; what a graph launches then "
    "waits for ever, as init.cc resets the abort flag)";
inline constexpr const char* kRevokeFlags =
    "revoke-flags (nccl.h, ncclCommRevoke: revokeFlags must be NCCL_REVOKE_DEFAULT)";
inline constexpr const char* kFinalized =
    "finalized (guide, usage/communicators.html, Finalizing a communicator: no operations follow)";
inline constexpr const char* kNotFinalized =
    "not-finalized (guide, usage/communicators.html, Destroying a communicator: a nonblocking one must be "
    "finalized, and its state ncclSuccess)";
inline constexpr const char* kSameCall =
    "same-call (guide, usage/collectives.html: every rank calls with the same count and type)";
inline constexpr const char* kSameGraph =
    "same-graph (guide, usage/cudagraph.html: whether a call is captured is alike on all ranks)";
inline constexpr const char* kSameMessage =
    "same-message (nccl.h, ncclSend: the peer calls ncclRecv with the same type and count)";
inline constexpr const char* kMissingGroup =
    "missing-group (nccl.h, ncclSend: sends and receives that need each other must be fused in a group)";
inline constexpr const char* kOpenGroup =
    "open-group (guide, api/group.html: ncclGroupEnd ends what ncclGroupStart began)";
inline constexpr const char* kDeviceMemory =
    "device-memory (guide, usage/data.html: data pointers are accessible by the CUDA device)";
inline constexpr const char* kConfig =
    "config (nccl.h, NCCL_CONFIG_INITIALIZER: a config that was not initialized is an error)";
inline constexpr const char* kWindow =
    "window (nccl.h, NCCL_WIN_REQUIRED_ALIGNMENT; guide, usage/bufferreg.html: memory from ncclMemAlloc)";
inline constexpr const char* kOneGpu =
    "one-gpu (guide, usage/communicators.html: a device must not serve two ranks of a communicator)";
inline constexpr const char* kRootInRange =
    "root (guide, api/colls.html: root is a rank of the communicator)";

}  // namespace fake::rules
