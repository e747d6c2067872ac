// SPDX-License-Identifier: Apache-2.0
// The way of a rank to the job's store, which is given, served by rank 0, or found through a file.
#pragma once

#include "worker_sdk/env/place.hpp"
#include "worker_sdk/store/store_client.hpp"
#include "worker_sdk/world/init_url.hpp"
#include "worker_sdk/world/meeting_file.hpp"
#include "worker_sdk/world/process_identity.hpp"
#include "worker_sdk/world/store_thread.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace muster {

struct StoreRequest {
  Place place;
  InitUrl url;
  ProcessIdentity self;
  /// The peers that may connect to a store that rank 0 serves beyond this host (MUSTER_STORE_ALLOW).
  std::vector<rendezvous::Cidr> allow;
  /// The folder for the files of steps that name no store.
  std::string folder;
  /// The network interface on whose addresses rank 0 may serve when no address is named
  /// (MUSTER_SOCKET_IFNAME); "": any interface of this host.
  std::string interface_name;
  /// The address at which other hosts reach this one, if the launcher knows it (MUSTER_LOCAL_ADDR).
  std::string local_address;
  /// Whether MPI is used in any case, so that it may carry the store's address as well.
  bool prefers_mpi = false;
  std::chrono::steady_clock::time_point deadline;
  std::chrono::milliseconds limit{0};  ///< the time up to the deadline, for messages
};

/// The way by which a rank reaches its store.
struct StoreRoute {
  enum class Kind { none, given, served, file, mpi };
  Kind kind = Kind::none;
  std::string host;
  int port = 0;
  std::string path;
};

/// Chooses the way to the store. Throws Error (invalid_argument) that says what to set when there is none.
StoreRoute choose_route(const StoreRequest& request);

/// The address on which rank 0 serves a store that is found through a file: the first of `addresses` (of this
/// host, numeric) that is in `allow`, so that the peers in the list can connect; else loopback, for the ranks
/// of this host. Pure.
std::string serving_address(const std::vector<std::string>& addresses,
                            const std::vector<rendezvous::Cidr>& allow);

/// The address as "host:port", with brackets around an IPv6 address.
std::string endpoint_text(const std::string& host, int port);

/// A connection to the store, and on rank 0 the server of the store.
class StoreAccess {
 public:
  /// Opens the way to the store; Kind::none has no store. Throws Error: deadline or store when it is not
  /// there in time.
  static StoreAccess open(const StoreRequest& request, const StoreRoute& route);

  StoreClient* client() const { return client_.get(); }

  /// The address of the store as "host:port"; "" without a store.
  const std::string& endpoint() const { return endpoint_; }

  /// Closes the connection. If this process serves the store, waits up to `limit` until no other process uses
  /// it or `all_left` says that none needs it: a connected rank may already look for the next world there.
  void close(std::chrono::milliseconds limit, const std::function<bool(StoreClient&)>& all_left);

  /// Gives up the store in a forked child, which must touch neither the thread nor the file.
  void abandon();

 private:
  void serve(const StoreRequest& request, const StoreRoute& route);
  void connect_to_first(const StoreRequest& request, const StoreRoute& route);
  void meet_through_mpi(const StoreRequest& request);
  void serve_through_file(const StoreRequest& request, const StoreRoute& route);
  void find_through_file(const StoreRequest& request, const StoreRoute& route);
  /// Connects, for at most the time that is left until the request's deadline, and at most `longest`.
  void connect(const StoreRequest& request, const std::string& host, int port,
               std::optional<std::chrono::milliseconds> longest = std::nullopt);

  std::unique_ptr<StoreThread> server_;
  std::unique_ptr<MeetingFile> file_;
  std::unique_ptr<StoreClient> client_;
  std::string endpoint_;
};

}  // namespace muster
