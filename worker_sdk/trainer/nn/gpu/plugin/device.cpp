// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/trainer/nn/gpu/plugin/device.hpp"

#include "muster/error.hpp"
#include "worker_sdk/comm/plugin/loader.hpp"
#include "worker_sdk/trainer/nn/gpu/plugin/table.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <exception>
#include <utility>

namespace muster::nn::gpu {
namespace {

Error unusable(const std::string& plugin, const std::string& cause) {
  return Error(ErrorCode::unsupported, "training on a GPU is not possible here: libmuster_" + plugin +
                                           ".so cannot be used: " + cause);
}

void* open_object(const std::string& plugin) {
  std::string tried;
  for (const std::string& folder : muster::plugin::plugin_folders()) {
    const std::string path = folder + "/libmuster_" + plugin + ".so";
    if (access(path.c_str(), F_OK) != 0) {
      tried += (tried.empty() ? "" : ", ") + path;
      continue;
    }
    // Never closed: its libraries have threads.
    void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle == nullptr) throw unusable(plugin, dlerror());
    return handle;
  }
  throw unusable(plugin, "there is no " + tried +
                             "; build Muster where nvcc of CUDA 13 and the headers of cuDNN 9 are, set "
                             "MUSTER_PLUGIN_PATH to its folder, or train with --device cpu");
}

const DeviceTable& load_table(const std::string& plugin) {
  void* const symbol = dlsym(open_object(plugin), kTableEntry);
  if (symbol == nullptr) throw unusable(plugin, dlerror());
  const DeviceTable* const table = reinterpret_cast<TableEntry>(symbol)();
  if (table->version != kTableVersion || table->layout != table_layout())
    throw unusable(plugin, "it is of another build of Muster; both must come from one installation");
  return *table;
}

/// Calls the table and throws what it reports.
class Caller {
 public:
  template <typename Function, typename... Arguments>
  static void call(Function function, Arguments... arguments) {
    TableError error;
    error.code = 0;
    if (function(arguments..., &error) != 0) throw Error(static_cast<ErrorCode>(error.code), error.text);
  }
};

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

  void launch() override { Caller::call(table_.launch, graph_); }

 private:
  const DeviceTable& table_;
  void* const graph_;
};

class PluginOps final : public Ops {
 public:
  PluginOps(const DeviceTable& table, int local_rank) : table_(table) {
    Caller::call(table_.open, local_rank, &ops_);
  }

  ~PluginOps() override { table_.close(ops_); }

  PluginOps(const PluginOps&) = delete;
  PluginOps& operator=(const PluginOps&) = delete;

  void* allocate(std::size_t bytes, const char* what) override {
    void* memory = nullptr;
    Caller::call(table_.allocate, ops_, bytes, what, &memory);
    return memory;
  }

  void clear(void* memory, std::size_t bytes) override { Caller::call(table_.clear, ops_, memory, bytes); }

  void to_device(void* to, const void* from, std::size_t bytes) override {
    Caller::call(table_.to_device, ops_, to, from, bytes);
  }

  void from_device(void* to, const void* from, std::size_t bytes) override {
    Caller::call(table_.from_device, ops_, to, from, bytes);
  }

  void convolve(const ConvolutionCall& call) override { Caller::call(table_.convolve, ops_, &call); }

  void launch(KernelNumber number, const void* kernel, const Grid& grid) override {
    Caller::call(table_.run, ops_, static_cast<std::uint32_t>(number), kernel, &grid);
  }

  void on_side(const std::function<void(void*)>& work) override {
    Work calls(work);
    calls.during([&] { Caller::call(table_.on_side, ops_, &Work::run, static_cast<void*>(&calls)); });
  }

  void join_side() override { Caller::call(table_.join_side, ops_); }

  std::unique_ptr<Graph> capture(const std::function<void()>& work) override {
    Work calls([&work](void*) { work(); });
    void* graph = nullptr;
    calls.during([&] { Caller::call(table_.capture, ops_, &Work::run, static_cast<void*>(&calls), &graph); });
    return std::make_unique<PluginGraph>(table_, graph);
  }

  void synchronize() override { Caller::call(table_.synchronize, ops_); }

  void* stream() override { return table_.stream(ops_); }

  std::size_t allocated() const override { return table_.allocated(ops_); }

 private:
  const DeviceTable& table_;
  void* ops_ = nullptr;
};

}  // namespace

DeviceUsability probe_device(const std::string& plugin, int local_rank) {
  try {
    char name[kDeviceNameBytes] = "";
    std::int32_t bf16 = 0;
    Caller::call(load_table(plugin).probe, local_rank, static_cast<char*>(name), &bf16);
    return {"", name, bf16 != 0};
  } catch (const Error& error) {
    return {error.what(), "", false};
  }
}

std::unique_ptr<Ops> open_device(const std::string& plugin, int local_rank) {
  return std::make_unique<PluginOps>(load_table(plugin), local_rank);
}

}  // namespace muster::nn::gpu
