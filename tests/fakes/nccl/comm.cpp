// SPDX-License-Identifier: Apache-2.0
// The life of a communicator.
#include "tests/fakes/nccl/comm.hpp"

#include "tests/fakes/nccl/rules.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>

namespace fake {
namespace {

struct Registry {
  std::mutex mutex;
  std::set<ncclComm_t> living;
  std::set<ncclComm_t> ended;  ///< kept, so that late use finds what it is
};

Registry& registry() {
  static Registry* const all = new Registry;
  return *all;
}

constexpr unsigned kMagic = 0xcafebeef;  // of NCCL_CONFIG_INITIALIZER

/// Two ranks of one machine that name the same GPU.
bool is_shared_gpu(const ncclComm& comm) {
  for (int peer = 0; peer < comm.size; ++peer) {
    if (peer == comm.rank || std::strcmp(comm.block(peer).gpu, comm.block(comm.rank).gpu) != 0) continue;
    violate(rules::kOneGpu, "ranks " + std::to_string(comm.rank) + " and " + std::to_string(peer) + " use " +
                                comm.block(peer).gpu);
    return true;
  }
  return false;
}

ncclResult_t join(ncclComm& comm) {
  RankBlock& own = comm.block(comm.rank);
  const char* const host = std::getenv("NCCL_HOSTID");
  std::snprintf(own.gpu, sizeof(own.gpu), "%s/%s", host != nullptr ? host : "host",
                bus_id(comm.device).c_str());
  const std::string fault = fault_at("init", comm.rank);
  if (fault == "hang" && !comm.wait([] { return false; })) return ncclInternalError;
  if (fault == "fail") return ncclSystemError;
  own.joined.store(1);
  for (int peer = 0; peer < comm.size; ++peer)
    if (!comm.wait([&] { return comm.block(peer).joined.load() != 0; })) return ncclInternalError;
  return is_shared_gpu(comm) ? ncclInvalidUsage : ncclSuccess;
}

/// Returns when nothing of this communicator is on a stream, which a cut one reaches soon.
void drain(ncclComm& comm) {
  while (comm.tasks.load() > 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
}

/// NCCL frees nothing while a graph that could be launched has calls of the communicator in it:
/// commDestroySync() in init.cc polls without end.
void end(ncclComm_t comm) {
  remove(comm);
  comm->ended.store(true);
  comm->cut.store(true);
  if (comm->helper.joinable()) comm->helper.join();
  comm->cut.store(true);  // a helper that revoked it may have taken it back
  drain(*comm);
  while (comm->has_live_graphs()) std::this_thread::sleep_for(std::chrono::microseconds(100));
  comm->segment.reset();
  // The struct itself stays, so that late use finds a communicator that is not alive.
}

}  // namespace

bool is_alive(ncclComm_t comm, const char* function) {
  const std::lock_guard lock(registry().mutex);
  if (registry().living.contains(comm)) return true;
  violate(rules::kDestroyed, std::string(function) + " of a communicator that is not there");
  return false;
}

void add(ncclComm_t comm) {
  const std::lock_guard lock(registry().mutex);
  registry().living.insert(comm);
}

void remove(ncclComm_t comm) {
  const std::lock_guard lock(registry().mutex);
  registry().living.erase(comm);
  registry().ended.insert(comm);
}

std::string fault_at(const std::string& place, int rank) {
  const char* const text = std::getenv("FAKE_NCCL_FAULT");
  if (text == nullptr) return "";
  const std::string plan = text;
  const auto at = plan.find('@');
  const auto colon = plan.find(':');
  if (at == std::string::npos || plan.substr(at + 1, colon - at - 1) != place) return "";
  if (colon != std::string::npos && std::atoi(plan.c_str() + colon + 1) != rank) return "";
  return plan.substr(0, at);
}

}  // namespace fake

void ncclComm::go_on(std::function<ncclResult_t()> work) {
  if (helper.joinable()) helper.join();
  state = ncclInProgress;
  helper = std::thread([this, work = std::move(work)] { state = work(); });
  if (blocking) helper.join();
}

extern "C" {

FAKE_EXPORT ncclResult_t ncclGetVersion(int* version) {
  const char* const other = std::getenv("FAKE_NCCL_VERSION");
#ifdef FAKE_OLD_NCCL
  constexpr int kVersion = NCCL_VERSION(2, 19, 3);
#else
  constexpr int kVersion = std::max(NCCL_VERSION_CODE, NCCL_VERSION(2, 28, 9));  // whose functions it has
#endif
  *version = other != nullptr ? std::atoi(other) : kVersion;
  return ncclSuccess;
}

FAKE_EXPORT const char* ncclGetErrorString(ncclResult_t result) {
  constexpr const char* kTexts[] = {"no error",
                                    "unhandled cuda error",
                                    "unhandled system error",
                                    "internal error",
                                    "invalid argument",
                                    "invalid usage",
                                    "remote process exited or there was a network error",
                                    "NCCL operation in progress"};
  return result < ncclNumResults ? kTexts[result] : "unknown result code";
}

FAKE_EXPORT const char* ncclGetLastError(ncclComm_t) {
  return "the fake says no more";
}

FAKE_EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (cuInit(0) != CUDA_SUCCESS) return ncclUnhandledCudaError;
  std::memset(id, 0, sizeof(*id));
  unsigned char bytes[8];
  const int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  if (fd < 0 || read(fd, bytes, sizeof(bytes)) != static_cast<ssize_t>(sizeof(bytes))) std::abort();
  close(fd);
  for (std::size_t i = 0; i < sizeof(bytes); ++i) std::snprintf(id->internal + 2 * i, 3, "%02x", bytes[i]);
  return ncclSuccess;
}

FAKE_EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t* out, int size, ncclUniqueId id, int rank,
                                                ncclConfig_t* config) {
  *out = nullptr;
  if (config != nullptr && (config->magic != fake::kMagic || config->size != sizeof(ncclConfig_t))) {
    fake::violate(fake::rules::kConfig, "ncclCommInitRankConfig");
    return ncclInvalidArgument;
  }
  if (size < 1 || size > fake::kMaxRanks || rank < 0 || rank >= size) return ncclInvalidArgument;
  const int device = fake::current_device();
  if (device < 0) return ncclUnhandledCudaError;
  auto* const comm = new ncclComm;
  comm->rank = rank;
  comm->size = size;
  comm->device = device;
  comm->blocking = config == nullptr || config->blocking != 0;
  comm->segment = std::make_unique<fake::Segment>("comm-" + std::string(id.internal, 16));
  fake::add(comm);
  *out = comm;
  comm->go_on([comm] { return fake::join(*comm); });
  return comm->blocking ? comm->state.load() : ncclInProgress;
}

FAKE_EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  if (!fake::is_alive(comm, "ncclCommGetAsyncError")) return ncclInvalidArgument;
  *state = comm->state;
  if (*state != ncclSuccess) return ncclSuccess;
  if (std::chrono::steady_clock::now() < comm->busy_until) *state = ncclInProgress;
  return ncclSuccess;
}

FAKE_EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (!fake::is_alive(comm, "ncclCommFinalize")) return ncclInvalidArgument;
  if (comm->revoked.load()) {
    fake::violate(fake::rules::kRevoked, "ncclCommFinalize");
    return ncclInvalidUsage;
  }
  comm->finalizing = true;
  comm->go_on([comm] {
    (void)comm->wait([comm] { return comm->tasks.load() == 0 && !comm->has_live_graphs(); });
    comm->block(comm->rank).finalized.store(1);
    for (int peer = 0; peer < comm->size; ++peer)
      (void)comm->wait([&] { return comm->block(peer).finalized.load() != 0; });
    comm->finalized = true;
    return ncclSuccess;
  });
  return comm->blocking ? ncclSuccess : ncclInProgress;
}

FAKE_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (!fake::is_alive(comm, "ncclCommDestroy")) return ncclInvalidArgument;
  if (!comm->blocking && !comm->revoked.load() && !comm->finalized.load()) {
    fake::violate(fake::rules::kNotFinalized, "ncclCommDestroy");
    return ncclInvalidUsage;
  }
  fake::end(comm);
  return ncclSuccess;
}

FAKE_EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (!fake::is_alive(comm, "ncclCommAbort")) return ncclInvalidArgument;
  fake::end(comm);
  return ncclSuccess;
}

#ifndef FAKE_OLD_NCCL
FAKE_EXPORT ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  if (!fake::is_alive(comm, "ncclCommRevoke")) return ncclInvalidArgument;
  if (flags != NCCL_REVOKE_DEFAULT) {
    fake::violate(fake::rules::kRevokeFlags, "flags are " + std::to_string(flags));
    return ncclInvalidArgument;
  }
  comm->revoked = true;
  comm->cut = true;
  // What the proxy reported stays reported.
  const ncclResult_t after = comm->state == ncclRemoteError ? ncclRemoteError : ncclSuccess;
  comm->go_on([comm, after] {
    fake::drain(*comm);
    // init.cc resets the abort flag: what a graph launches from now on waits for ever.
    comm->cut = comm->ended.load();
    return after;
  });
  return comm->blocking ? ncclSuccess : ncclInProgress;
}
#endif

FAKE_EXPORT ncclResult_t ncclMemAlloc(void** memory, std::size_t bytes) {
  CUdeviceptr taken = 0;
  if (cuMemAlloc(&taken, std::max<std::size_t>(bytes, 1)) != CUDA_SUCCESS) return ncclUnhandledCudaError;
  *memory = fake::address_of(taken);
  return ncclSuccess;
}

FAKE_EXPORT ncclResult_t ncclMemFree(void* memory) {
  return cuMemFree(fake::number_of(memory)) == CUDA_SUCCESS ? ncclSuccess : ncclInvalidArgument;
}

#ifndef FAKE_OLD_NCCL
FAKE_EXPORT ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* memory, std::size_t bytes,
                                                ncclWindow_t* window, int) {
  if (!fake::is_alive(comm, "ncclCommWindowRegister")) return ncclInvalidArgument;
  *window = nullptr;
  if (const ncclResult_t state = fake::check_state(*comm, "ncclCommWindowRegister"); state != ncclSuccess)
    return state;
  if (reinterpret_cast<std::uintptr_t>(memory) % NCCL_WIN_REQUIRED_ALIGNMENT != 0 ||
      !fake::is_device_memory(memory, bytes)) {
    fake::violate(fake::rules::kWindow, "ncclCommWindowRegister");
    return ncclInvalidArgument;
  }
  // dev_runtime.cc of 2.28.9 and 2.30 returns ncclSuccess although its group is still at work.
  comm->go_on([window, memory] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    *window = static_cast<ncclWindow_t>(memory);
    return ncclSuccess;
  });
  return ncclSuccess;
}

FAKE_EXPORT ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t) {
  if (!fake::is_alive(comm, "ncclCommWindowDeregister")) return ncclInvalidArgument;
  return fake::check_state(*comm, "ncclCommWindowDeregister");
}
#endif

FAKE_EXPORT ncclResult_t ncclCommRegister(ncclComm_t comm, void* memory, std::size_t, void** handle) {
  *handle = memory;
  if (!fake::is_alive(comm, "ncclCommRegister")) return ncclInvalidArgument;
  return fake::check_state(*comm, "ncclCommRegister");
}

FAKE_EXPORT ncclResult_t ncclCommDeregister(ncclComm_t comm, void*) {
  if (!fake::is_alive(comm, "ncclCommDeregister")) return ncclInvalidArgument;
  return fake::check_state(*comm, "ncclCommDeregister");
}

}  // extern "C"
