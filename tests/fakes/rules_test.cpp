// SPDX-License-Identifier: Apache-2.0
// Breaks each rule that the fakes check, to see that they notice. Ranks are threads' worth of communicators
// of this one process.
#include "tests/fakes/nccl/rules.hpp"

#include "tests/fakes/cuda/on_device.hpp"
#include "worker_sdk/comm/nccl/nccl_headers.hpp"

#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <thread>
#include <utility>
#include <vector>

namespace {

using muster::test::choose;

constexpr std::size_t kCount = 16;

/// Two ranks on two devices, each with a stream and a buffer.
class Pair {
 public:
  explicit Pair(bool one_device = false) {
    std::string name = "/tmp/muster-rules-XXXXXX";
    REQUIRE(mkdtemp(name.data()) != nullptr);
    folder_ = name;
    setenv("FAKE_GPU_DIR", folder_.c_str(), 1);
    ncclUniqueId id;
    REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
    for (int rank = 0; rank < 2; ++rank) {
      ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
      config.blocking = 0;
      choose(one_device ? 0 : rank);
      REQUIRE(ncclCommInitRankConfig(&comm[place(rank)], 2, id, rank, &config) == ncclInProgress);
      REQUIRE(cuStreamCreateWithPriority(&stream[place(rank)], CU_STREAM_NON_BLOCKING, 0) == CUDA_SUCCESS);
      CUdeviceptr memory = 0;
      REQUIRE(cuMemAlloc(&memory, 64 * 1024) == CUDA_SUCCESS);
      data[place(rank)] = static_cast<float*>(fake::address_of(memory));
    }
    for (ncclComm_t each : comm) state_[place(each == comm[1] ? 1 : 0)] = settle(each);
    choose(0);
  }

  ~Pair() {
    for (const int rank : {0, 1}) {
      if (comm[place(rank)] != nullptr) ncclCommAbort(comm[place(rank)]);
      cuStreamDestroy(stream[place(rank)]);
      cuMemFree(fake::number_of(data[place(rank)]));
    }
    unsetenv("FAKE_GPU_DIR");
    std::filesystem::remove_all(folder_);
  }

  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  static std::size_t place(int rank) { return static_cast<std::size_t>(rank); }

  static ncclResult_t settle(ncclComm_t comm) {
    ncclResult_t state = ncclInProgress;
    while (state == ncclInProgress) {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
      REQUIRE(ncclCommGetAsyncError(comm, &state) == ncclSuccess);
    }
    return state;
  }

  ncclResult_t state(int rank) const { return state_[place(rank)]; }

  ncclResult_t sum(int rank, std::size_t count = kCount) {
    const std::size_t i = place(rank);
    return ncclAllReduce(data[i], data[i], count, ncclFloat, ncclSum, comm[i], stream[i]);
  }

  /// A graph with one sum of `rank` in it.
  CUgraphExec record_sum(int rank) {
    CUstream own = stream[place(rank)];
    CUgraph graph = nullptr;
    CUgraphExec exec = nullptr;
    REQUIRE(cuStreamBeginCapture(own, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL) == CUDA_SUCCESS);
    REQUIRE(sum(rank) == ncclInProgress);
    REQUIRE(cuStreamEndCapture(own, &graph) == CUDA_SUCCESS);
    REQUIRE(cuGraphInstantiateWithFlags(&exec, graph, 0) == CUDA_SUCCESS);
    REQUIRE(cuGraphDestroy(graph) == CUDA_SUCCESS);
    REQUIRE(settle(comm[place(rank)]) == ncclSuccess);
    return exec;
  }

  std::string violations() const {
    std::ifstream file(folder_ + "/violations");
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  /// Waits for a rule that is found out on a stream's thread.
  bool finds(const char* rule) const {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (std::chrono::steady_clock::now() < until) {
      if (violations().find(std::string(rule) + ":") != std::string::npos) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
  }

  std::array<ncclComm_t, 2> comm{};
  std::array<CUstream, 2> stream{};
  std::array<float*, 2> data{};

 private:
  std::string folder_;
  std::array<ncclResult_t, 2> state_{};
};

using namespace fake::rules;

}  // namespace

TEST_CASE("calls that keep the rules break none") {
  Pair pair;
  for (int round = 0; round < 5; ++round) {
    for (const int rank : {0, 1}) {
      (void)pair.sum(rank);
      (void)Pair::settle(pair.comm[Pair::place(rank)]);
    }
    for (CUstream stream : pair.stream) CHECK(cuStreamSynchronize(stream) == CUDA_SUCCESS);
  }
  for (ncclComm_t comm : pair.comm) CHECK(ncclCommFinalize(comm) == ncclInProgress);
  for (ncclComm_t& comm : pair.comm) {
    CHECK(Pair::settle(comm) == ncclSuccess);
    CHECK(ncclCommDestroy(comm) == ncclSuccess);
    comm = nullptr;
  }
  CHECK(pair.violations() == "");
}

TEST_CASE("rule: one thread at a time") {
  Pair pair;
  CHECK(ncclGroupStart() == ncclSuccess);
  (void)pair.sum(0);
  ncclResult_t other = ncclSuccess;
  std::thread([&] {
    choose(0);
    other = pair.sum(0);
  }).join();
  CHECK(other == ncclInvalidUsage);
  (void)ncclGroupEnd();
  CHECK(pair.finds(kOneThread));
}

TEST_CASE("rule: no call while one is in progress") {
  Pair pair;
  CHECK(pair.sum(0) == ncclInProgress);
  // A busy machine may sleep through the time in which the first is in progress.
  bool refused = false;
  for (int i = 0; i < 300 && !refused; ++i) refused = pair.sum(0) == ncclInvalidUsage;
  CHECK(refused);
  CHECK(pair.finds(kInProgress));
}

TEST_CASE("rule: every group of calls goes on behind a non-blocking caller") {
  Pair pair;
  for (int call = 0; call < 6; ++call) {
    for (const int rank : {0, 1}) CHECK(pair.sum(rank) == ncclInProgress);
    for (ncclComm_t comm : pair.comm) CHECK(Pair::settle(comm) == ncclSuccess);
  }
  CHECK(pair.violations() == "");
}

TEST_CASE("rule: a window is there later than its registration returns") {
  Pair pair;
  ncclWindow_t window = nullptr;
  CHECK(ncclCommWindowRegister(pair.comm[0], pair.data[0], 4096, &window, NCCL_WIN_COLL_SYMMETRIC) ==
        ncclSuccess);
  void* handle = nullptr;
  bool refused = false;
  for (int i = 0; i < 300 && !refused; ++i)
    refused = ncclCommRegister(pair.comm[0], pair.data[0], 4096, &handle) == ncclInvalidUsage;
  CHECK(refused);
  CHECK(pair.finds(kInProgress));
  CHECK(Pair::settle(pair.comm[0]) == ncclSuccess);
  CHECK(window != nullptr);
}

TEST_CASE("rule: no use after destroy or abort") {
  Pair pair;
  ncclComm_t gone = pair.comm[0];
  pair.comm[0] = nullptr;
  CHECK(ncclCommAbort(gone) == ncclSuccess);
  ncclResult_t state = ncclSuccess;
  CHECK(ncclCommGetAsyncError(gone, &state) == ncclInvalidArgument);
  CHECK(ncclAllReduce(pair.data[0], pair.data[0], 1, ncclFloat, ncclSum, gone, pair.stream[0]) ==
        ncclInvalidArgument);
  CHECK(ncclCommDestroy(gone) == ncclInvalidArgument);
  CHECK(pair.finds(kDestroyed));
}

TEST_CASE("rule: after revoke only destroy") {
  Pair pair;
  CHECK(ncclCommRevoke(pair.comm[0], NCCL_REVOKE_DEFAULT) == ncclInProgress);
  CHECK(Pair::settle(pair.comm[0]) == ncclSuccess);
  CHECK(pair.sum(0) == ncclInvalidUsage);
  CHECK(ncclCommFinalize(pair.comm[0]) == ncclInvalidUsage);
  CHECK(pair.finds(kRevoked));
}

TEST_CASE("rule: what a graph launches after revoke hangs until the communicator is aborted") {
  Pair pair;
  CUgraphExec exec = pair.record_sum(0);
  CHECK(ncclCommRevoke(pair.comm[0], NCCL_REVOKE_DEFAULT) == ncclInProgress);
  CHECK(Pair::settle(pair.comm[0]) == ncclSuccess);
  CHECK(pair.violations() == "");
  CHECK(cuGraphLaunch(exec, pair.stream[0]) == CUDA_SUCCESS);
  CHECK(pair.finds(kRevoked));
  CUevent event = nullptr;
  CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
  CHECK(cuEventRecord(event, pair.stream[0]) == CUDA_SUCCESS);
  CHECK(cuEventQuery(event) == CUDA_ERROR_NOT_READY);
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
  CHECK(ncclCommAbort(std::exchange(pair.comm[0], nullptr)) == ncclSuccess);
  CHECK(cuStreamSynchronize(pair.stream[0]) == CUDA_SUCCESS);
  CHECK(cuEventQuery(event) == CUDA_SUCCESS);
  CHECK(cuEventDestroy(event) == CUDA_SUCCESS);
}

TEST_CASE("rule: what the proxy reported is still reported after revoke") {
  Pair pair;
  setenv("FAKE_NCCL_FAULT", "remote@1:0", 1);
  CHECK(pair.sum(0) == ncclInProgress);
  unsetenv("FAKE_NCCL_FAULT");
  CHECK(Pair::settle(pair.comm[0]) == ncclRemoteError);
  CHECK(ncclCommRevoke(pair.comm[0], NCCL_REVOKE_DEFAULT) == ncclInProgress);
  CHECK(Pair::settle(pair.comm[0]) == ncclRemoteError);
  CHECK(cuStreamSynchronize(pair.stream[0]) == CUDA_SUCCESS);
}

TEST_CASE("rule: a communicator is freed after the graphs that have its calls") {
  Pair pair;
  const bool finalizes = GENERATE(true, false);
  CUgraphExec exec = pair.record_sum(0);
  std::atomic<bool> freed{false};
  std::thread freeing([&] {
    ncclComm_t own = std::exchange(pair.comm[0], nullptr);
    if (finalizes) {
      CHECK(ncclCommFinalize(pair.comm[1]) == ncclInProgress);
      CHECK(ncclCommFinalize(own) == ncclInProgress);
      CHECK(Pair::settle(own) == ncclSuccess);
      CHECK(ncclCommDestroy(own) == ncclSuccess);
    } else {
      CHECK(ncclCommAbort(own) == ncclSuccess);
    }
    freed = true;
  });
  // Longer than either takes without a graph.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  CHECK_FALSE(freed.load());
  CHECK(cuGraphExecDestroy(exec) == CUDA_SUCCESS);
  freeing.join();
  CHECK(pair.violations() == "");
}

TEST_CASE("rule: revoke takes no flags") {
  Pair pair;
  CHECK(ncclCommRevoke(pair.comm[0], 1) == ncclInvalidArgument);
  CHECK(pair.finds(kRevokeFlags));
}

TEST_CASE("rule: nothing after finalize") {
  Pair pair;
  for (ncclComm_t comm : pair.comm) CHECK(ncclCommFinalize(comm) == ncclInProgress);
  CHECK(Pair::settle(pair.comm[0]) == ncclSuccess);
  CHECK(pair.sum(0) == ncclInvalidUsage);
  CHECK(pair.finds(kFinalized));
}

TEST_CASE("rule: no destroy before finalize is done") {
  Pair pair;
  CHECK(ncclCommDestroy(pair.comm[0]) == ncclInvalidUsage);
  CHECK(pair.finds(kNotFinalized));
}

TEST_CASE("rule: all ranks make the same call") {
  Pair pair;
  (void)pair.sum(0, 4);
  (void)pair.sum(1, 8);
  CHECK(pair.finds(kSameCall));
}

TEST_CASE("rule: all ranks make their calls in one order") {
  Pair pair;
  (void)pair.sum(0);
  (void)ncclBroadcast(pair.data[1], pair.data[1], kCount, ncclFloat, 0, pair.comm[1], pair.stream[1]);
  CHECK(pair.finds(kSameCall));
}

TEST_CASE("rule: a message has one size") {
  Pair pair;
  (void)ncclSend(pair.data[0], 4, ncclFloat, 1, pair.comm[0], pair.stream[0]);
  (void)ncclRecv(pair.data[1], 8, ncclFloat, 0, pair.comm[1], pair.stream[1]);
  CHECK(pair.finds(kSameMessage));
}

TEST_CASE("rule: sends that wait for each other need a group") {
  Pair pair;
  for (const int rank : {0, 1})
    (void)ncclSend(pair.data[Pair::place(rank)], kCount, ncclFloat, 1 - rank, pair.comm[Pair::place(rank)],
                   pair.stream[Pair::place(rank)]);
  CHECK(pair.finds(kMissingGroup));
}

TEST_CASE("rule: a group ends that began") {
  const Pair pair;
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
  CHECK(pair.finds(kOpenGroup));
}

TEST_CASE("rule: buffers are memory of the device") {
  Pair pair;
  std::array<float, kCount> host{};
  CHECK(ncclAllReduce(host.data(), host.data(), kCount, ncclFloat, ncclSum, pair.comm[0], pair.stream[0]) ==
        ncclInvalidArgument);
  CHECK(pair.finds(kDeviceMemory));
}

TEST_CASE("rule: the whole buffer is memory of the device") {
  Pair pair;
  CHECK(pair.sum(0, std::size_t{1} << 20) == ncclInvalidArgument);
  CHECK(pair.finds(kDeviceMemory));
}

TEST_CASE("rule: a config is initialized") {
  const Pair pair;
  ncclConfig_t config{};
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitRankConfig(&comm, 1, ncclUniqueId{}, 0, &config) == ncclInvalidArgument);
  CHECK(pair.finds(kConfig));
}

TEST_CASE("rule: windows are aligned") {
  Pair pair;
  ncclWindow_t window = nullptr;
  CHECK(ncclCommWindowRegister(pair.comm[0], pair.data[0] + 1, 4096, &window, NCCL_WIN_COLL_SYMMETRIC) ==
        ncclInvalidArgument);
  CHECK(pair.finds(kWindow));
}

TEST_CASE("rule: a device serves one rank") {
  const Pair pair(true);
  CHECK(pair.state(0) == ncclInvalidUsage);
  CHECK(pair.state(1) == ncclInvalidUsage);
  CHECK(pair.finds(kOneGpu));
}

TEST_CASE("rule: a root is a rank") {
  Pair pair;
  CHECK(ncclBroadcast(pair.data[0], pair.data[0], 1, ncclFloat, 2, pair.comm[0], pair.stream[0]) ==
        ncclInvalidArgument);
  CHECK(pair.finds(kRootInRange));
}

TEST_CASE("rule: no event is asked about while a graph is captured in the global mode") {
  Pair pair;
  CUevent event = nullptr;
  choose(1);
  CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING) == CUDA_SUCCESS);
  CHECK(cuEventRecord(event, pair.stream[1]) == CUDA_SUCCESS);
  CHECK(cuStreamBeginCapture(pair.stream[0], CU_STREAM_CAPTURE_MODE_GLOBAL) == CUDA_SUCCESS);
  std::thread([&] {
    // As a watchdog may do it.
    choose(1);
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    CHECK(cuThreadExchangeStreamCaptureMode(&mode) == CUDA_SUCCESS);
    CHECK(cuEventQuery(event) != CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }).join();
  CHECK(pair.violations() == "");
  std::thread([&] {
    choose(1);
    CHECK(cuEventQuery(event) == CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }).join();
  CUgraph graph = nullptr;
  CHECK(cuStreamEndCapture(pair.stream[0], &graph) == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  CHECK(pair.violations().rfind("capture (", 0) == 0);
  CHECK(cuEventDestroy(event) == CUDA_SUCCESS);
}

TEST_CASE("rule: a thread without a context makes no communicator and no calls") {
  Pair pair;
  std::thread([&] {
    ncclUniqueId id;
    ncclComm_t comm = nullptr;
    CHECK(ncclGetUniqueId(&id) == ncclSuccess);
    CHECK(ncclCommInitRankConfig(&comm, 1, id, 0, nullptr) == ncclUnhandledCudaError);
    CHECK(comm == nullptr);
    CHECK(pair.sum(0) == ncclUnhandledCudaError);
    void* memory = nullptr;
    CHECK(ncclMemAlloc(&memory, 16) == ncclUnhandledCudaError);
  }).join();
  CHECK(pair.violations() == "");
}
