// SPDX-License-Identifier: Apache-2.0
#include "tests/integration/nccl/nccl_world.hpp"

#include "worker_sdk/comm/select/select.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>

namespace muster::test {
namespace {

constexpr std::size_t kGuard = 256;
constexpr std::byte kGuardByte{0xA5};

void check(const nccl::Library& api, CUresult result) {
  nccl::check(api, result, "a buffer of the test");
}

}  // namespace

void* detail::find_in_driver(const char* name) {
  const char* const chosen = std::getenv("MUSTER_CUDA_DRIVER_LIBRARY");
  void* const function = dlsym(dlopen(chosen != nullptr ? chosen : "libcuda.so.1", RTLD_NOW), name);
  if (function == nullptr) throw std::runtime_error(std::string("no ") + name);
  return function;
}

int real_gpus() {
  const char* const text = std::getenv("MUSTER_TEST_GPUS");
  return text == nullptr ? 0 : std::atoi(text);
}

FakeGpus::FakeGpus() {
  std::string name =
      access("/dev/shm", W_OK) == 0 ? "/dev/shm/muster-fake-XXXXXX" : "/tmp/muster-fake-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("no folder for the fakes");
  folder_ = name;
  set("FAKE_GPU_DIR", folder_);
}

FakeGpus::~FakeGpus() {
  for (const std::string& name : variables_) unsetenv(name.c_str());
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

void FakeGpus::set(const std::string& name, const std::string& value) {
  setenv(name.c_str(), value.c_str(), 1);
  variables_.push_back(name);
}

std::string FakeGpus::violations(const std::string& expected) const {
  std::ifstream file(folder_ + "/violations");
  std::string text;
  for (std::string line; std::getline(file, line);)
    if (expected.empty() || line.rfind(expected, 0) != 0) text += line + "\n";
  return text;
}

std::unique_ptr<ProcessGroup> make_nccl_group(StoreClient& store, int rank, int size,
                                              const ProcessGroupOptions& options) {
  SelectOptions select;
  select.backend = "nccl";
  select.rank = rank;
  select.size = size;
  select.local_rank = rank;
  select.host = "here";
  select.group = options;
  if (real_gpus() > 0) {
    select.device = rank % real_gpus();
    if (size > real_gpus()) setenv("NCCL_HOSTID", ("muster-test-" + std::to_string(rank)).c_str(), 1);
  }
  const auto factory = make_group_factory(&store, select);
  auto group = make_world_group(factory, select);
  // As programs do: what the rank makes next is on the group's device.
  const nccl::Library& api = nccl::library();
  const int device = select.device >= 0 ? select.device : plugin::device_of(rank, plugin::count_devices(api));
  nccl::check(api, api.cuCtxSetCurrent(plugin::primary_context(api, device)), "choosing the group's device");
  return group;
}

/// Makes the context of the memory current on the calling thread, as long as it lives.
class DeviceMemory::Current {
 public:
  explicit Current(const DeviceMemory& owner) : api_(owner.api_) {
    check(api_, api_.cuCtxPushCurrent(owner.context_));
  }

  ~Current() {
    CUcontext context = nullptr;
    (void)api_.cuCtxPopCurrent(&context);
  }

  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  const nccl::Library& api_;
};

class DeviceMemory::Piece : public contract::Buffer {
 public:
  Piece(DeviceMemory& owner, std::size_t bytes, std::size_t shift)
      : owner_(owner), bytes_(bytes), before_(kGuard + shift) {
    const Current current(owner_);
    CUdeviceptr memory = 0;
    check(owner_.api_, owner_.api_.cuMemAlloc(&memory, before_ + bytes_ + kGuard));
    base_ = static_cast<std::byte*>(plugin::address_of(memory));
    owner_.write(base_, contract::Bytes(before_ + bytes_ + kGuard, kGuardByte));
  }

  ~Piece() override {
    const Current current(owner_);
    (void)owner_.api_.cuMemFree(plugin::number_of(base_));
  }

  Piece(const Piece&) = delete;
  Piece& operator=(const Piece&) = delete;

  std::byte* data() override { return base_ + before_; }

  void write(const contract::Bytes& bytes) override { owner_.write(data(), bytes); }

  contract::Bytes read() override { return owner_.read(data(), bytes_); }

  bool is_intact() override {
    return owner_.read(base_, before_) == contract::Bytes(before_, kGuardByte) &&
           owner_.read(data() + bytes_, kGuard) == contract::Bytes(kGuard, kGuardByte);
  }

 private:
  DeviceMemory& owner_;
  std::size_t bytes_;
  std::size_t before_;
  std::byte* base_ = nullptr;
};

DeviceMemory::DeviceMemory() : api_(nccl::library()) {
  check(api_, driver_function<CUresult (*)(CUcontext*)>("cuCtxGetCurrent")(&context_));
  check(api_, api_.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0));
}

DeviceMemory::~DeviceMemory() {
  const Current current(*this);
  (void)api_.cuStreamDestroy(stream_);
}

std::unique_ptr<contract::Buffer> DeviceMemory::make(std::size_t bytes, std::size_t shift) {
  return std::make_unique<Piece>(*this, bytes, shift);
}

void DeviceMemory::write(void* place, const contract::Bytes& bytes) {
  if (bytes.empty()) return;
  const Current current(*this);
  check(api_, api_.cuMemcpyHtoDAsync(plugin::number_of(place), bytes.data(), bytes.size(), stream_));
  check(api_, api_.cuStreamSynchronize(stream_));
}

contract::Bytes DeviceMemory::read(const void* place, std::size_t bytes) {
  contract::Bytes found(bytes);
  if (bytes == 0) return found;
  const Current current(*this);
  check(api_, api_.cuMemcpyDtoHAsync(found.data(), plugin::number_of(place), bytes, stream_));
  check(api_, api_.cuStreamSynchronize(stream_));
  return found;
}

}  // namespace muster::test
