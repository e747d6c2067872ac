// SPDX-License-Identifier: Apache-2.0
// The real NCCL, as far as it goes without a GPU.
#include "worker_sdk/comm/nccl/library.hpp"

#include "catch.hpp"
#include "muster/error.hpp"
#include "tests/integration/nccl/nccl_world.hpp"
#include "tests/support/skip.hpp"
#include "worker_sdk/comm/nccl/join.hpp"
#include "worker_sdk/comm/plugin/loader.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

namespace muster {
namespace {

/// The fetched library, or an installed one; the driver is the fake.
[[maybe_unused]] bool find_real_nccl() {
  if (access(MUSTER_FETCHED_NCCL, R_OK) == 0) {
    setenv("MUSTER_NCCL_LIBRARY", MUSTER_FETCHED_NCCL, 1);
    return true;
  }
  void* const installed = dlopen("libnccl.so.2", RTLD_NOW);
  return installed != nullptr &&
         dlsym(installed, "ncclCommDump") != nullptr;  // the fake has no such function
}

}  // namespace

TEST_CASE("the real NCCL tells its version, makes unique ids, and refuses to connect without a driver") {
#ifdef MUSTER_SANITIZED
  return test::skip("a library that is not instrumented, with threads of its own, tells a sanitizer nothing");
#else
  setenv("NCCL_SOCKET_IFNAME", "lo", 1);
  if (!find_real_nccl())
    return test::skip("there is no libnccl.so.2 (scripts/fetch_cuda_headers.sh fetches one)");
  if (std::filesystem::exists("/dev/nvidiactl"))
    return test::skip("this machine has a GPU; scripts/check_gpu.sh is for it");
  const nccl::Library& api = nccl::library();
  CHECK(api.version >= nccl::kOldestVersion);
  CHECK(nccl::version_text(api.version).rfind("2.", 0) == 0);
  ncclUniqueId one;
  ncclUniqueId two;
  REQUIRE(api.ncclGetUniqueId(&one) == ncclSuccess);
  REQUIRE(api.ncclGetUniqueId(&two) == ncclSuccess);
  CHECK(std::memcmp(&one, &two, sizeof(one)) != 0);

  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  ncclResult_t result = api.ncclCommInitRankConfig(&comm, 1, one, 0, &config);
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (result == ncclInProgress && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    REQUIRE(api.ncclCommGetAsyncError(comm, &result) == ncclSuccess);
  }
  INFO(api.ncclGetLastError(nullptr));
  CHECK(result == ncclUnhandledCudaError);
  CHECK(std::string(api.ncclGetLastError(nullptr)).find("driver") != std::string::npos);
  if (comm != nullptr) CHECK(api.ncclCommAbort(comm) == ncclSuccess);
  CHECK((api.version < 22809 || api.ncclCommRevoke != nullptr));
#endif
}

TEST_CASE("an error of the driver says what to do") {
  const test::FakeGpus fakes;
  const nccl::Library& api = nccl::library();

  const struct {
    CUresult result;
    ErrorCode code;
    const char* part;
  } rows[] = {
      {CUDA_ERROR_NO_DEVICE, ErrorCode::unsupported, "CUDA_VISIBLE_DEVICES"},
      {CUDA_ERROR_SYSTEM_DRIVER_MISMATCH, ErrorCode::unsupported, "restart the machine"},
      {CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE, ErrorCode::unsupported, "remove it from LD_LIBRARY_PATH"},
      {CUDA_ERROR_SYSTEM_NOT_READY, ErrorCode::backend, "systemctl start nvidia-fabricmanager"},
      {CUDA_ERROR_DEVICE_UNAVAILABLE, ErrorCode::backend, "compute mode"},
      {CUDA_ERROR_OUT_OF_MEMORY, ErrorCode::out_of_memory, "who holds memory of the GPU"},
      {CUDA_ERROR_ECC_UNCORRECTABLE, ErrorCode::backend, "grep Xid"},
      {CUDA_ERROR_LAUNCH_FAILED, ErrorCode::backend, "grep Xid"},
      {CUDA_ERROR_UNKNOWN, ErrorCode::backend, "grep Xid"},
      {static_cast<CUresult>(998), ErrorCode::backend, "998, which the driver does not know"},
  };

  nccl::check(api, CUDA_SUCCESS, "nothing");
  for (const auto& row : rows) {
    try {
      nccl::check(api, row.result, "trying it on device 3");
      FAIL("no error");
    } catch (const Error& error) {
      CHECK(error.code() == row.code);
      CHECK_THAT(error.what(), StartsWith("trying it on device 3 failed: CUDA error ") && Contains(row.part));
    }
  }
}

TEST_CASE("GPUs of different kinds are noted, with the ranks that have them") {
  std::vector<nccl::Member> members(3);
  for (int rank = 0; rank < 3; ++rank) members[static_cast<std::size_t>(rank)].rank = rank;
  CHECK(nccl::mixed_gpus(members) == "");
  for (nccl::Member& member : members) {
    member.host = "a";
    member.kind = "compute capability 9.0, 132 multiprocessors";
  }
  CHECK(nccl::mixed_gpus(members) == "");
  members[2].kind = "compute capability 8.0, 108 multiprocessors";
  CHECK_THAT(nccl::mixed_gpus(members), Contains("rank 0 (host a) has a GPU of compute capability 9.0") &&
                                            Contains("rank 2 (host a) one of"));
  CHECK(nccl::Member::decode(members[2].encode()).kind == members[2].kind);
}

TEST_CASE("the plug-in says why it cannot be used") {
  const test::FakeGpus fakes;
  setenv("FAKE_CUDA_DEVICES", "mismatch", 1);
  const auto none = plugin::probe_plugin("nccl", 0);
  CHECK(none.reason_against.find("restart the machine") != std::string::npos);
  setenv("FAKE_CUDA_DEVICES", "2", 1);
  CHECK(plugin::probe_plugin("nccl", 1).reason_against == "");
  CHECK(plugin::probe_plugin("nccl", 1).device == "0000:11:00.0");
  CHECK(plugin::probe_plugin("nccl", 2).reason_against.find("sees 2 GPUs") != std::string::npos);
  unsetenv("FAKE_CUDA_DEVICES");
}

}  // namespace muster
