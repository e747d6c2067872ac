// SPDX-License-Identifier: Apache-2.0
// A worker that passes through every phase of a world: init, barrier, small and large collectives, split,
// finalize, and says when it reaches each. usage: fault_worker BACKEND TIMEOUT_MS [REPORT_MS]
#include "worker_sdk/comm/process_group.hpp"
#include "worker_sdk/world/world.hpp"

#include <dlfcn.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

/// Long enough for a fault to strike inside; the fakes of the GPU libraries are slow.
std::size_t large_count(const muster::ProcessGroup& group) {
  return (group.backend() == "nccl" ? std::size_t{1} : std::size_t{8}) << 20;
}

/// CUDA's driver, as far as it gives memory; this program is built without its header.
class Driver {
 public:
  /// Chooses the device of this rank for the calling thread.
  Driver() {
    const char* const number = std::getenv("LOCAL_RANK");
    int device = 0;
    void* context = nullptr;
    call<unsigned>("cuInit", 0U);
    call<int*, int>("cuDeviceGet", &device, number != nullptr ? std::atoi(number) : 0);
    call<void**, int>("cuDevicePrimaryCtxRetain", &context, device);
    call<void*>("cuCtxSetCurrent", context);
  }

  float* allocate(std::size_t bytes) {
    unsigned long long memory = 0;
    call<unsigned long long*, std::size_t>("cuMemAlloc_v2", &memory, bytes);
    return reinterpret_cast<float*>(memory);
  }

 private:
  template <typename... Arguments>
  void call(const char* name, Arguments... arguments) {
    void* const function = handle_ != nullptr ? dlsym(handle_, name) : nullptr;
    if (function == nullptr || reinterpret_cast<int (*)(Arguments...)>(function)(arguments...) != 0)
      throw std::runtime_error(std::string("no memory of a device: ") + name);
  }

  void* const handle_ = dlopen("libcuda.so.1", RTLD_NOW);
};

/// `count` ones; over nccl memory of the device with whatever it holds, since memory of the host goes another
/// way there. tests/integration/nccl checks results there, this program does not.
/// Kept: a call that has failed may still be on the device.
float* memory_for(const muster::ProcessGroup& group, std::size_t count) {
  if (group.backend() != "nccl") return (new std::vector<float>(count, 1.0F))->data();
  return Driver().allocate(count * sizeof(float));
}

/// On the clock of Python's time.monotonic().
void reaches(const char* call) {
  const std::chrono::duration<double> now = std::chrono::steady_clock::now().time_since_epoch();
  const char* rank = std::getenv("RANK");
  std::printf("rank %s reaches %s at %.6f\n", rank != nullptr ? rank : "", call, now.count());
  std::fflush(stdout);
}

void exercise(muster::World& world) {
  muster::ProcessGroup& group = world.group();
  reaches("barrier");
  group.barrier();
  constexpr std::size_t kSmall = 1000;
  float* const small = memory_for(group, kSmall);
  for (int i = 0; i < 3; ++i) {
    reaches("all_reduce");
    group.all_reduce(small, kSmall, muster::DataType::f32, muster::ReduceOp::max);
  }
  const std::size_t count = large_count(group);
  float* const large = memory_for(group, count);
  group.broadcast(large, count * sizeof(float), 0);
  for (int i = 0; i < 3; ++i) {
    reaches("all_reduce");
    group.all_reduce(large, count, muster::DataType::f32, muster::ReduceOp::max);
  }
  reaches("split");
  const std::unique_ptr<muster::ProcessGroup> child = group.split(0, group.rank());
  child->all_reduce(small, kSmall, muster::DataType::f32, muster::ReduceOp::max);
  if (group.backend() != "nccl" && (small[0] != 1.0F || large[count - 1] != 1.0F))
    throw std::runtime_error("a wrong result");
  reaches("finalize");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  muster::WorldOptions options;
  options.backend = argv[1];
  options.timeout = options.join_timeout = std::chrono::milliseconds(std::atoi(argv[2]));
  if (argc > 3) options.report_after = std::chrono::milliseconds(std::atoi(argv[3]));
  try {
    reaches("init");
    const std::unique_ptr<muster::World> world = muster::World::init(options);
    exercise(*world);
    world->finalize();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "fault_worker: %s\n", error.what());
    return 1;
  }
  std::printf("done\n");
  return 0;
}
