// SPDX-License-Identifier: Apache-2.0
// Groups as a world makes them, of ranks that are processes.
#pragma once

#include "tests/contract/contract.hpp"
#include "tests/integration/comm/rank_processes.hpp"
#include "worker_sdk/comm/select/select.hpp"

#include <functional>
#include <string>

namespace muster::test {

inline SelectOptions world_of(const std::string& backend, int rank, int size,
                              const ProcessGroupOptions& group = {}) {
  SelectOptions options;
  options.backend = backend;
  options.rank = rank;
  options.size = size;
  options.local_rank = rank;
  options.host = "here";
  options.group = group;
  return options;
}

inline std::unique_ptr<ProcessGroup> make_world(StoreClient& store, const SelectOptions& options) {
  return make_world_group(make_group_factory(&store, options), options);
}

/// For the contract: the ranks in turn on as many hosts, which are hosts by name only.
inline contract::MakeGroup maker_of_hosts(const std::string& backend, int hosts) {
  return [backend, hosts](StoreClient& store, int rank, int size, const ProcessGroupOptions& group) {
    SelectOptions options = world_of(backend, rank, size, group);
    options.host = std::string(1, static_cast<char>('a' + rank * hosts / size));
    return make_world(store, options);
  };
}

/// For the contract: every rank on this host.
inline contract::MakeGroup maker_of(const std::string& backend) {
  return [backend](StoreClient& store, int rank, int size, const ProcessGroupOptions& group) {
    return make_world(store, world_of(backend, rank, size, group));
  };
}

}  // namespace muster::test
