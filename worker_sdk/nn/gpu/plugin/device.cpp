// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/gpu/plugin/device.hpp"

#include "muster/error.hpp"
#include "worker_sdk/comm/plugin/border.hpp"
#include "worker_sdk/comm/plugin/loader.hpp"
#include "worker_sdk/comm/plugin/release.hpp"
#include "worker_sdk/nn/gpu/plugin/table.hpp"

#include <dlfcn.h>

#include <exception>
#include <utility>

namespace muster::nn::gpu {
namespace {

using muster::plugin::call_or_throw;

Error unusable(const std::string& plugin, const std::string& cause) {
  return Error(ErrorCode::unsupported, "training on a GPU is not possible here: libmuster_" + plugin +
                                           ".so cannot be used: " + cause);
}

const DeviceTable& load_table(const std::string& plugin) {
  std::string reason;
  void* const handle = muster::plugin::open_plugin(plugin, reason);
  if (handle == nullptr)
    throw unusable(plugin, reason +
                               "; build Muster where NVRTC of CUDA 12.8 and the headers of cuDNN 9 are, set "
                               "MUSTER_PLUGIN_PATH to its folder, or train on processors");
  void* const symbol = dlsym(handle, kTableEntry);
  if (symbol == nullptr) throw unusable(plugin, dlerror());
  const DeviceTable* const table = reinterpret_cast<TableEntry>(symbol)();
  if (table->version == kTableVersion && table->layout != table_layout())
    throw unusable(plugin, "it is of another build of Muster; both must come from one installation");
  if (table->version != kTableVersion)
    throw unusable(plugin,
                   muster::plugin::say_both_releases(handle, table->version, kTableVersion) +
                       "; install the same version of both, or set MUSTER_PLUGIN_PATH to the folder of its "
                       "own plug-ins");
  return *table;
}

/// Work that the plug-in calls back. Its exception waits here until the plug-in's frames are left.
class Work {
 public:
  explicit Work(std::function<void(void*)> work) : work_(std::move(work)) {}

  static std::int32_t run(void* context, void* stream) noexcept {
    auto& self = *static_cast<Work*>(context);
    try {
      self.work_(stream);
      return 0;
    } catch (...) {
      self.thrown_ = std::current_exception();
      return 1;
    }
  }

  template <typename Body>
  void during(const Body& body) {
    try {
      body();
    } catch (const Error&) {
      if (!thrown_) throw;
    }
    if (thrown_) std::rethrow_exception(thrown_);
  }

 private:
  std::function<void(void*)> work_;
  std::exception_ptr thrown_;
};

class PluginGraph final : public Graph {
 public:
  PluginGraph(const DeviceTable& table, void* graph) : table_(table), graph_(graph) {}

  ~PluginGraph() override { table_.free_graph(graph_); }

  PluginGraph(const PluginGraph&) = delete;
  PluginGraph& operator=(const PluginGraph&) = delete;

  void launch() override { call_or_throw(table_.launch, graph_); }

 private:
  const DeviceTable& table_;
  void* const graph_;
};

class PluginOps final : public Ops {
 public:
  PluginOps(const DeviceTable& table, int local_rank) : table_(table) {
    call_or_throw(table_.open, local_rank, &ops_);
  }

  ~PluginOps() override { table_.close(ops_); }

  PluginOps(const PluginOps&) = delete;
  PluginOps& operator=(const PluginOps&) = delete;

  void* allocate(std::size_t bytes, const char* what) override {
    void* memory = nullptr;
    call_or_throw(table_.allocate, ops_, bytes, what, &memory);
    return memory;
  }

  void clear(void* memory, std::size_t bytes) override { call_or_throw(table_.clear, ops_, memory, bytes); }

  void to_device(void* to, const void* from, std::size_t bytes) override {
    call_or_throw(table_.to_device, ops_, to, from, bytes);
  }

  void from_device(void* to, const void* from, std::size_t bytes) override {
    call_or_throw(table_.from_device, ops_, to, from, bytes);
  }

  void convolve(const ConvolutionCall& call) override { call_or_throw(table_.convolve, ops_, &call); }

  void multiply(const MultiplyCall& call) override { call_or_throw(table_.multiply, ops_, &call); }

  void launch(KernelNumber number, const void* kernel, const Grid& grid) override {
    call_or_throw(table_.run, ops_, static_cast<std::uint32_t>(number), kernel, &grid);
  }

  void on_side(const std::function<void(void*)>& work) override {
    Work calls(work);
    calls.during([&] { call_or_throw(table_.on_side, ops_, &Work::run, static_cast<void*>(&calls)); });
  }

  void join_side() override { call_or_throw(table_.join_side, ops_); }

  std::unique_ptr<Graph> capture(const std::function<void()>& work) override {
    Work calls([&work](void*) { work(); });
    void* graph = nullptr;
    calls.during(
        [&] { call_or_throw(table_.capture, ops_, &Work::run, static_cast<void*>(&calls), &graph); });
    return std::make_unique<PluginGraph>(table_, graph);
  }

  void synchronize() override { call_or_throw(table_.synchronize, ops_); }

  void require_working() override { call_or_throw(table_.require_working, ops_); }

  std::string take_note() override {
    char note[kNoteBytes] = "";
    call_or_throw(table_.take_note, ops_, static_cast<char*>(note));
    return note;
  }

  void mark(std::size_t number) override { call_or_throw(table_.mark, ops_, number); }

  std::chrono::nanoseconds between(std::size_t from, std::size_t to) override {
    std::int64_t nanoseconds = 0;
    call_or_throw(table_.between, ops_, from, to, &nanoseconds);
    return std::chrono::nanoseconds(nanoseconds);
  }

  void* stream() override { return table_.stream(ops_); }

  std::size_t allocated() const override { return table_.allocated(ops_); }

  std::size_t free_bytes() const override { return table_.free_bytes(ops_); }

 private:
  const DeviceTable& table_;
  void* ops_ = nullptr;
};

}  // namespace

DeviceUsability probe_device(const std::string& plugin, int local_rank) {
  try {
    char name[kDeviceNameBytes] = "";
    std::int32_t bf16 = 0;
    call_or_throw(load_table(plugin).probe, local_rank, static_cast<char*>(name), &bf16);
    return {"", name, bf16 != 0};
  } catch (const Error& error) {
    return {error.what(), "", false};
  }
}

std::unique_ptr<Ops> open_device(const std::string& plugin, int local_rank) {
  return std::make_unique<PluginOps>(load_table(plugin), local_rank);
}

}  // namespace muster::nn::gpu
