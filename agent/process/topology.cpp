// SPDX-License-Identifier: Apache-2.0
#include "agent/process/topology.hpp"

#include <dlfcn.h>
#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#ifdef MUSTER_HAVE_HWLOC
#include <hwloc.h>
#endif

namespace muster::agent {

#ifdef MUSTER_HAVE_HWLOC

namespace {

constexpr const char* kLibrary = "libhwloc.so.15";
constexpr unsigned kVersion2 = 0x00020000;
constexpr unsigned kVersion3 = 0x00030000;
/// More CPUs than any kernel is built for.
constexpr std::size_t kMaxCpus = 65'536;

/// The functions of hwloc that we use, by their own types.
struct Hwloc {
  decltype(&hwloc_get_api_version) get_api_version = nullptr;
  decltype(&hwloc_topology_init) topology_init = nullptr;
  decltype(&hwloc_topology_set_synthetic) topology_set_synthetic = nullptr;
  decltype(&hwloc_topology_load) topology_load = nullptr;
  decltype(&hwloc_topology_destroy) topology_destroy = nullptr;
  decltype(&hwloc_topology_is_thissystem) topology_is_thissystem = nullptr;
  decltype(&hwloc_get_type_depth) get_type_depth = nullptr;
  decltype(&hwloc_get_nbobjs_by_depth) get_nbobjs_by_depth = nullptr;
  decltype(&hwloc_get_obj_by_depth) get_obj_by_depth = nullptr;
  decltype(&hwloc_bitmap_next) bitmap_next = nullptr;
};

template <typename Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

bool find_all(void* library, Hwloc& hwloc) {
  return find(library, "hwloc_get_api_version", hwloc.get_api_version) &&
         find(library, "hwloc_topology_init", hwloc.topology_init) &&
         find(library, "hwloc_topology_set_synthetic", hwloc.topology_set_synthetic) &&
         find(library, "hwloc_topology_load", hwloc.topology_load) &&
         find(library, "hwloc_topology_destroy", hwloc.topology_destroy) &&
         find(library, "hwloc_topology_is_thissystem", hwloc.topology_is_thissystem) &&
         find(library, "hwloc_get_type_depth", hwloc.get_type_depth) &&
         find(library, "hwloc_get_nbobjs_by_depth", hwloc.get_nbobjs_by_depth) &&
         find(library, "hwloc_get_obj_by_depth", hwloc.get_obj_by_depth) &&
         find(library, "hwloc_bitmap_next", hwloc.bitmap_next);
}

TopologyResult failed(const std::string& what) {
  return {{}, what + "; install hwloc 2 (libhwloc15), or start without --bind-to and --numa-binding"};
}

/// Returns our own affinity mask; empty if it cannot be read.
std::vector<bool> own_cpus() {
  for (std::size_t cpus = 1024; cpus <= kMaxCpus; cpus *= 4) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(cpus),
                                                               [](cpu_set_t* s) { CPU_FREE(s); });
    const std::size_t bytes = CPU_ALLOC_SIZE(cpus);
    if (!set || sched_getaffinity(0, bytes, set.get()) != 0) continue;
    std::vector<bool> own(cpus);
    for (std::size_t i = 0; i < cpus; ++i) own[i] = CPU_ISSET_S(i, bytes, set.get()) != 0;
    return own;
  }
  return {};
}

class Reader {
 public:
  Reader(const Hwloc& hwloc, hwloc_topology_t topology) : hwloc_(hwloc), topology_(topology) {
    if (hwloc_.topology_is_thissystem(topology_) != 0) own_ = own_cpus();
  }

  Topology read() const {
    Topology result;
    int depth = hwloc_.get_type_depth(topology_, HWLOC_OBJ_CORE);
    if (depth < 0) depth = hwloc_.get_type_depth(topology_, HWLOC_OBJ_PU);  // some virtual machines
    const unsigned count = hwloc_.get_nbobjs_by_depth(topology_, depth);
    for (unsigned i = 0; i < count; ++i) {
      Topology::Core core = core_of(hwloc_.get_obj_by_depth(topology_, depth, i));
      if (!core.cpus.empty()) result.cores.push_back(std::move(core));
    }
    return result;
  }

 private:
  Topology::Core core_of(hwloc_obj_t object) const {
    Topology::Core core;
    for (int cpu = hwloc_.bitmap_next(object->cpuset, -1); cpu >= 0;
         cpu = hwloc_.bitmap_next(object->cpuset, cpu))
      if (own_.empty() ||
          (static_cast<std::size_t>(cpu) < own_.size() && own_[static_cast<std::size_t>(cpu)]))
        core.cpus.push_back(cpu);
    core.numa_node = object->nodeset != nullptr ? std::max(0, hwloc_.bitmap_next(object->nodeset, -1)) : 0;
    core.socket = ancestor(object, HWLOC_OBJ_PACKAGE, 0);
    // Without a shared cache a NUMA node stands for it; the offset keeps the two kinds of numbers apart.
    core.complex = ancestor(object, HWLOC_OBJ_L3CACHE, -1 - core.numa_node);
    return core;
  }

  static int ancestor(hwloc_obj_t object, hwloc_obj_type_t type, int otherwise) {
    for (hwloc_obj_t parent = object->parent; parent != nullptr; parent = parent->parent)
      if (parent->type == type) return static_cast<int>(parent->logical_index);
    return otherwise;
  }

  const Hwloc& hwloc_;
  hwloc_topology_t topology_;
  std::vector<bool> own_;
};

TopologyResult read_with(const char* synthetic) {
  const std::unique_ptr<void, int (*)(void*)> library(dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL), dlclose);
  if (!library) {
    const char* reason = dlerror();
    return failed(std::string("hwloc cannot be loaded (") + (reason != nullptr ? reason : kLibrary) + ")");
  }
  Hwloc hwloc;
  if (!find_all(library.get(), hwloc)) return failed(std::string(kLibrary) + " lacks a function of hwloc");
  const unsigned version = hwloc.get_api_version();
  if (version < kVersion2 || version >= kVersion3) return failed(std::string(kLibrary) + " is not hwloc 2");
  hwloc_topology_t topology = nullptr;
  if (hwloc.topology_init(&topology) != 0) return failed("hwloc cannot be started");
  const std::unique_ptr<hwloc_topology, void (*)(hwloc_topology_t)> owner(topology, hwloc.topology_destroy);
  if (synthetic != nullptr && hwloc.topology_set_synthetic(topology, synthetic) != 0)
    return {{}, std::string("'") + synthetic + "' describes no machine in hwloc's words"};
  if (hwloc.topology_load(topology) != 0) return failed("hwloc cannot read this machine");
  return {Reader(hwloc, topology).read(), ""};
}

}  // namespace

TopologyResult read_topology() {
  return read_with(nullptr);
}

TopologyResult synthetic_topology(const std::string& description) {
  return read_with(description.c_str());
}

#else

namespace {

TopologyResult built_without() {
  return {{},
          "this muster was built without hwloc's headers; install libhwloc-dev and build it again, or start "
          "without "
          "--bind-to and --numa-binding"};
}

}  // namespace

TopologyResult read_topology() {
  return built_without();
}

TopologyResult synthetic_topology(const std::string&) {
  return built_without();
}

#endif

}  // namespace muster::agent
