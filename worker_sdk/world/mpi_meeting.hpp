// SPDX-License-Identifier: Apache-2.0
// Lets the ranks of mpirun on several hosts learn where the store is: MPI carries rank 0's address.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace muster {

/// The note that one rank sends to the others. Plain data.
struct MpiNote {
  std::string boot;                    ///< boot id of the rank's kernel, which is equal for ranks of one host
  std::vector<std::string> addresses;  ///< addresses of the rank's host, without loopback

  std::string to_text() const;
  static MpiNote from_text(const std::string& text);
};

/// Sends `text` from rank `root` to all; a call that all ranks make alike.
using TextBroadcast = std::function<void(std::string& text, int root)>;

/// The broadcast of the MPI plug-in. Throws Error (unsupported) when there is none, and (mismatch) when MPI
/// has another rank or size for this process.
TextBroadcast mpi_broadcast(int rank, int size);

/// The addresses of this host, without loopback and link-local ones; only those of `interface_name` unless
/// that is "".
std::vector<std::string> host_addresses(const std::string& interface_name);

/// The address on which rank 0 is to serve, and the addresses that may connect.
struct ServingPlan {
  std::string host = "127.0.0.1";
  std::vector<std::string> allow;  ///< addresses that may connect; empty: this host only
};

/// Agrees on the plan: every rank gives its note, and all learn the plan. Pure except for `broadcast`. Throws
/// Error (unsupported) when the ranks are on several hosts and the host of rank 0 has no address at which it
/// can be reached.
ServingPlan agree_on_serving(const TextBroadcast& broadcast, int rank, int size, const MpiNote& own);

/// Sends rank 0's endpoint to all ranks, or its error: `serve` runs on rank 0 and may throw Error, which all
/// then throw.
std::string share_endpoint(const TextBroadcast& broadcast, int rank,
                           const std::function<std::string()>& serve);

}  // namespace muster
