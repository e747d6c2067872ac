// SPDX-License-Identifier: Apache-2.0
// Judges whose a connection to the store is. The store's host asks this of the agent of the connection's
// host.
#pragma once

#include "rendezvous/protocol/message.hpp"
#include "rendezvous/server/socket_table.hpp"

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <unordered_set>
#include <vector>

namespace muster::agent {

struct VouchVerdict {
  bool allowed = false;
  /// Why the connection is not allowed, for people.
  std::string reason;
};

/// Knows the sockets of this host, and the processes below this one. Used from one thread.
class Voucher {
 public:
  /// Judges a connection by its end on this host (`peer_*`, numeric) and the store's end (`local_*`). It is
  /// allowed if it is an established socket of our user that a descendant of this process holds open. Reads
  /// /proc: the workers' descriptors first; what is found answers for all of a burst.
  VouchVerdict judge(const std::string& peer_host, int peer_port, const std::string& local_host,
                     int local_port);

  /// The coordinator's question about a connection, answered so.
  rendezvous::Vouched answer(const rendezvous::Vouch& question);

  /// Returns which of these processes, or whose descendant, holds the connection open; 0: none, or the kernel
  /// does not tell.
  pid_t holder(const std::string& peer_host, int peer_port, const std::string& local_host, int local_port,
               const std::vector<pid_t>& processes);

  /// Returns how often descriptors were read.
  std::uint64_t looks() const { return looks_; }

 private:
  bool held_by_descendant(unsigned long long inode);

  rendezvous::SocketTable sockets_;
  /// Sockets that descendants had open when they were looked at.
  std::unordered_set<unsigned long long> held_;
  std::chrono::steady_clock::time_point looked_at_{};
  std::uint64_t looks_ = 0;
};

}  // namespace muster::agent
