// SPDX-License-Identifier: Apache-2.0
#include "agent/core/binding.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>

namespace muster::agent {
namespace {

using Core = Topology::Core;
using Cores = std::vector<Core>;

std::vector<int> cpus_of(const Cores& cores) {
  std::vector<int> cpus;
  for (const Core& core : cores) cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

template <typename Key>
Cores cores_where(const Cores& cores, Key key, int value) {
  Cores found;
  std::copy_if(cores.begin(), cores.end(), std::back_inserter(found),
               [&](const Core& core) { return key(core) == value; });
  return found;
}

/// Returns the distinct values of `key`, in the order of the cores.
template <typename Key>
std::vector<int> values(const Cores& cores, Key key) {
  std::vector<int> found;
  for (const Core& core : cores)
    if (std::find(found.begin(), found.end(), key(core)) == found.end()) found.push_back(key(core));
  return found;
}

int node_of(const Core& core) {
  return core.numa_node;
}

int socket_of(const Core& core) {
  return core.socket;
}

int complex_of(const Core& core) {
  return core.complex;
}

class Planner {
 public:
  Planner(const Topology& topology, const BindingWish& wish) : cores_(topology.cores), wish_(wish) {}

  BindingPlan run() {
    plan_.cpus.resize(static_cast<std::size_t>(wish_.workers));
    if (cores_.empty()) {
      fail("no CPU of this machine may be used; check the CPU set that the job runs in");
    } else if (!wish_.numa_binding.empty()) {
      by_gpu();
    } else if (wish_.bind_to == "core") {
      own_cores();
    } else if (wish_.bind_to == "numa") {
      whole(node_of);
    } else if (wish_.bind_to == "socket") {
      whole(socket_of);
    }
    if (!plan_.error.empty()) plan_.cpus.clear();
    return std::move(plan_);
  }

 private:
  /// Returns the NUMA node of the worker's GPU, if we may use CPUs of it; else -1.
  int gpu_node(int worker) const {
    const auto index = static_cast<std::size_t>(worker);
    const int node = index < wish_.gpu_nodes.size() ? wish_.gpu_nodes[index] : -1;
    const bool usable =
        std::any_of(cores_.begin(), cores_.end(), [node](const Core& core) { return node_of(core) == node; });
    return usable ? node : -1;
  }

  bool every_gpu_known() const {
    for (int worker = 0; worker < wish_.workers; ++worker)
      if (gpu_node(worker) < 0) return false;
    return true;
  }

  std::vector<int>& of(int worker) { return plan_.cpus[static_cast<std::size_t>(worker)]; }

  void fail(const std::string& text) {
    const std::string flag =
        wish_.numa_binding.empty() ? "--bind-to " + wish_.bind_to : "--numa-binding " + wish_.numa_binding;
    if (plan_.error.empty()) plan_.error = flag + ": " + text;
  }

  /// Returns the workers by the NUMA node of their GPU.
  std::map<int, std::vector<int>> workers_by_node() const {
    std::map<int, std::vector<int>> workers;
    for (int worker = 0; worker < wish_.workers; ++worker) workers[gpu_node(worker)].push_back(worker);
    return workers;
  }

  /// Gives whole cores to each of `workers`, in order: the same number to all (`even`), or as many as there
  /// are.
  void divide(const Cores& cores, const std::vector<int>& workers, std::size_t each, bool even) {
    std::size_t next = 0;
    const std::size_t rest = even ? 0 : cores.size() % workers.size();
    for (std::size_t i = 0; i < workers.size(); ++i) {
      const std::size_t count = each + (i < rest ? 1 : 0);
      const auto begin = cores.begin() + static_cast<std::ptrdiff_t>(next);
      of(workers[i]) = cpus_of(Cores(begin, begin + static_cast<std::ptrdiff_t>(count)));
      next += count;
    }
  }

  void too_few(std::size_t workers, std::size_t cores, const std::string& where) {
    fail(std::to_string(workers) + " workers but only " + std::to_string(cores) + " cores " + where +
         "; start fewer workers, or leave the flag out");
  }

  void own_cores() {
    std::map<int, std::vector<int>> groups;
    if (every_gpu_known())
      groups = workers_by_node();
    else
      for (int worker = 0; worker < wish_.workers; ++worker) groups[-1].push_back(worker);
    std::size_t each = cores_.size();
    for (const auto& [node, workers] : groups) {
      const std::size_t count = node < 0 ? cores_.size() : cores_where(cores_, node_of, node).size();
      if (count < workers.size())
        return too_few(workers.size(), count, node < 0 ? "here" : "in NUMA node " + std::to_string(node));
      each = std::min(each, count / workers.size());
    }
    for (const auto& [node, workers] : groups)
      divide(node < 0 ? cores_ : cores_where(cores_, node_of, node), workers, each, true);
  }

  /// Gives each worker all of one NUMA node or socket.
  void whole(int (*key)(const Core&)) {
    const std::vector<int> places = values(cores_, key);
    const bool by_gpu = every_gpu_known();
    for (int worker = 0; worker < wish_.workers; ++worker) {
      int place = 0;
      if (by_gpu) {
        place = key(cores_where(cores_, node_of, gpu_node(worker)).front());
      } else {
        const auto count = static_cast<long>(places.size());
        place = places[static_cast<std::size_t>(worker * count / std::max<long>(wish_.workers, 1))];
      }
      of(worker) = cpus_of(cores_where(cores_, key, place));
    }
  }

  void by_gpu() {
    if (!every_gpu_known()) {
      fail("the NUMA node of a worker's GPU is not known here; use --bind-to, which needs no GPU");
    } else if (wish_.numa_binding == "node") {
      whole(node_of);
    } else if (wish_.numa_binding == "socket") {
      whole(socket_of);
    } else {
      for (const auto& [node, workers] : workers_by_node()) {
        const Cores cores = cores_where(cores_, node_of, node);
        if (wish_.numa_binding == "exclusive")
          exclusive(cores, workers, node);
        else
          complexes(cores, workers);
      }
    }
  }

  void exclusive(const Cores& cores, const std::vector<int>& workers, int node) {
    if (cores.size() < workers.size())
      return too_few(workers.size(), cores.size(), "in NUMA node " + std::to_string(node));
    divide(cores, workers, cores.size() / workers.size(), false);
  }

  /// Gives each worker the cores of one cache, the largest caches first; more workers than caches share them
  /// in turn.
  void complexes(const Cores& cores, const std::vector<int>& workers) {
    std::vector<Cores> caches;
    for (const int cache : values(cores, complex_of)) caches.push_back(cores_where(cores, complex_of, cache));
    std::stable_sort(caches.begin(), caches.end(),
                     [](const Cores& a, const Cores& b) { return a.size() > b.size(); });
    for (std::size_t i = 0; i < workers.size(); ++i) of(workers[i]) = cpus_of(caches[i % caches.size()]);
  }

  const Cores& cores_;
  const BindingWish& wish_;
  BindingPlan plan_;
};

}  // namespace

BindingPlan plan_binding(const Topology& topology, const BindingWish& wish) {
  if (!wish.any() || wish.workers < 1) return {};
  return Planner(topology, wish).run();
}

}  // namespace muster::agent
