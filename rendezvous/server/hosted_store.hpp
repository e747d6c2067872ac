// SPDX-License-Identifier: Apache-2.0
// What one of a daemon's many stores may take. Includes Asio.
#pragma once

#include "rendezvous/net/address.hpp"
#include "rendezvous/server/opened_store.hpp"

#include <cstddef>
#include <cstdint>
#include <string>

namespace muster::rendezvous {

/// A 64th (kMaxHostedJobs) of kMaxHostedStoresBytes or of half of `memory` bytes, whatever is less.
std::size_t hosted_store_bytes(std::uint64_t memory);

/// The same for this machine's memory, or for the least that a cgroup leaves to this process. Looked up once.
std::size_t hosted_store_bytes();

/// The smallest memory.max of a cgroup and those around it, which are the folders of `path` below `root`;
/// `none` if there is none.
std::uint64_t cgroup_memory(const std::string& root, std::string path, std::uint64_t none);

/// The options of a store whose clients come through the ControlPort at `address`.
StoreServerOptions hosted_store(const SocketAddress& address);

}  // namespace muster::rendezvous
