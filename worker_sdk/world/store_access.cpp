// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/world/store_access.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/deadline.hpp"
#include "worker_sdk/store/tcp_store.hpp"
#include "worker_sdk/world/mpi_meeting.hpp"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace muster {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// The key that names the job, round and process that the store belongs to. The rank that serves the store
/// sets it.
constexpr const char* kOwnerKey = "muster/owner";
/// The first delay between attempts to connect, and the longest one: a rank that starts together with rank 0
/// tries often at first.
constexpr milliseconds kFirstDelay{10};
constexpr milliseconds kLongestDelay{1000};
/// The time for connecting to the address in a file. It may be the address of a store that has just ended;
/// then the file is read again.
constexpr milliseconds kFileAttempt{2000};
constexpr const char* kLoopback = "127.0.0.1";
/// The interval, at the end, of looks whether all ranks have left.
constexpr milliseconds kLook{5};
/// How long a name is waited for of which a name server says that there is none; as agents wait.
constexpr milliseconds kNoSuchNameAtMost{30'000};
/// The interval of look-ups of a name that appears late.
constexpr milliseconds kLookUpAgain{200};

std::string job_of(const StoreRequest& request) {
  return request.place.run_id + " " + std::to_string(request.place.restart_count);
}

bool on_one_host(const Place& place) {
  return place.launcher == Launcher::slurm ? place.nodes == 1 : place.local_size == place.size;
}

[[noreturn]] void throw_no_store(const Place& place) {
  const bool several_hosts = !place.step.empty();
  throw Error(
      ErrorCode::invalid_argument,
      "rank " + std::to_string(place.rank) + " of " + std::to_string(place.size) + " (" +
          name_of(place.launcher) + (several_hosts ? ", several hosts" : "") +
          ") was told no store; give init_url tcp://HOST:PORT with an address of rank 0's host, or set "
          "MASTER_ADDR and MASTER_PORT to the same, or MUSTER_STORE to a store that runs already");
}

[[noreturn]] void refuse_other_host(const MeetingNote& note, const ProcessIdentity& self,
                                    const std::string& path) {
  throw Error(
      ErrorCode::unsupported,
      "rank 0 serves the store on the loopback address of host " + note.writer.host + " (file '" + path +
          "'), which host " + self.host +
          " cannot reach; for ranks on several hosts set MUSTER_STORE_ALLOW to the addresses of the job's "
          "hosts (10.0.0.1,10.0.0.2 or 10.0.0.0/24), rank 0's among them, the same on all ranks, or give "
          "init_url tcp://HOST:PORT");
}

/// Waits until the name of this host can be looked up: it may appear late, as that of a service whose pods
/// have just started. The ranks that connect wait for it, too.
void await_name(const std::string& host, int port, Clock::time_point deadline) {
  const auto began = Clock::now();
  for (;;) {
    try {
      (void)rendezvous::resolve(host, port);
      return;
    } catch (const rendezvous::NameError& error) {
      const auto end = error.no_such_name() ? std::min(deadline, began + kNoSuchNameAtMost) : deadline;
      if (Clock::now() + kLookUpAgain >= end)
        throw Error(ErrorCode::io, std::string("rank 0 cannot serve the store: ") + error.what());
    }
    ::poll(nullptr, 0, static_cast<int>(kLookUpAgain.count()));
  }
}

bool serves_store(StoreClient& store, const ProcessIdentity& process) {
  return store.check({kOwnerKey}) && store.get(kOwnerKey).ends_with(" " + process.to_text());
}

/// The addresses of this host, first the one that the launcher knows.
std::vector<std::string> own_addresses(const StoreRequest& request) {
  std::vector<std::string> addresses = host_addresses(request.interface_name);
  if (request.local_address.empty()) return addresses;
  if (!rendezvous::Cidr::parse(request.local_address) || request.local_address.find('/') != std::string::npos)
    throw Error(ErrorCode::invalid_argument,
                "MUSTER_LOCAL_ADDR is '" + request.local_address + "'; give a numeric address of this host");
  addresses.insert(addresses.begin(), request.local_address);
  return addresses;
}

}  // namespace

std::string serving_address(const std::vector<std::string>& addresses,
                            const std::vector<rendezvous::Cidr>& allow) {
  const auto is_in_list = [&allow](const rendezvous::SocketAddress& address) {
    return std::any_of(allow.begin(), allow.end(), [&](const auto& cidr) { return cidr.contains(address); });
  };
  for (const std::string& address : addresses) {
    const auto resolved = rendezvous::resolve(address, 0);
    if (std::any_of(resolved.begin(), resolved.end(), is_in_list)) return address;
  }
  return kLoopback;
}

std::string endpoint_text(const std::string& host, int port) {
  return (host.find(':') == std::string::npos ? host : "[" + host + "]") + ":" + std::to_string(port);
}

StoreRoute choose_route(const StoreRequest& request) {
  using Kind = StoreRoute::Kind;
  const Place& place = request.place;
  if (request.url.kind == InitUrl::Kind::tcp) return {Kind::served, request.url.host, request.url.port, ""};
  if (request.url.kind == InitUrl::Kind::file) return {Kind::file, "", 0, request.url.path};
  if (!place.store_host.empty())
    return {place.serves_store ? Kind::served : Kind::given, place.store_host, place.store_port, ""};
  if (place.size == 1) return {};
  const bool mpi = place.launcher == Launcher::mpirun;
  // On one host a file is enough, so that MPI need not be initialised in a program that may want to do that
  // itself.
  if (!place.step.empty() && on_one_host(place) && !(mpi && request.prefers_mpi))
    return {Kind::file, "", 0, request.folder + "/muster-" + std::to_string(::geteuid()) + "-" + place.step};
  if (mpi) return {Kind::mpi, "", 0, ""};
  throw_no_store(place);
}

StoreAccess StoreAccess::open(const StoreRequest& request, const StoreRoute& route) {
  StoreAccess access;
  const bool first = request.place.rank == 0;
  switch (route.kind) {
    case StoreRoute::Kind::none:
      break;
    case StoreRoute::Kind::given:
      access.connect(request, route.host, route.port);
      break;
    case StoreRoute::Kind::served:
      if (first) {
        access.serve(request, route);
      } else {
        access.connect_to_first(request, route);
      }
      break;
    case StoreRoute::Kind::file:
      if (first) {
        access.serve_through_file(request, route);
      } else {
        access.find_through_file(request, route);
      }
      break;
    case StoreRoute::Kind::mpi:
      access.meet_through_mpi(request);
  }
  return access;
}

void StoreAccess::connect(const StoreRequest& request, const std::string& host, int port,
                          std::optional<milliseconds> longest) {
  const milliseconds left = left_until(request.deadline);
  StoreOptions options;
  options.timeout = request.limit;
  options.connect_timeout = longest && *longest < left ? WaitLimit(*longest) : WaitLimit(left, request.limit);
  options.first_delay = kFirstDelay;
  options.longest_delay = kLongestDelay;
  client_ = connect_store(host, port, options);
  endpoint_ = endpoint_text(host, port);
}

void StoreAccess::connect_to_first(const StoreRequest& request, const StoreRoute& route) {
  try {
    connect(request, route.host, route.port);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::store) throw;
    throw Error(ErrorCode::store,
                std::string(error.what()) + ". Rank 0 of the job serves it; see whether that has started");
  }
}

/// Serves the store. The port may belong to an earlier world of this job whose store still runs; that store
/// then serves this world as well.
void StoreAccess::serve(const StoreRequest& request, const StoreRoute& route) {
  const std::string owner = job_of(request) + " " + request.self.to_text();
  await_name(route.host, route.port, request.deadline);
  try {
    server_ = std::make_unique<StoreThread>(route.host, route.port, request.allow);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::io) throw;
    try {
      connect(request, route.host, route.port, milliseconds(1000));
      if (client_->check({kOwnerKey}) && client_->get(kOwnerKey) == owner) return;
    } catch (const Error&) {
      // There is no store at that address.
    }
    client_.reset();
    throw;
  }
  connect(request, server_->host(), server_->port());
  client_->set(kOwnerKey, owner);
}

void StoreAccess::meet_through_mpi(const StoreRequest& request) {
  const Place& place = request.place;
  TextBroadcast broadcast;
  try {
    broadcast = mpi_broadcast(place.rank, place.size);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported) throw;
    throw Error(ErrorCode::unsupported,
                "mpirun told no store, and MPI cannot carry one's address: " + std::string(error.what()) +
                    ". Or set MASTER_ADDR to an address of rank 0's host and MASTER_PORT");
  }
  const ServingPlan plan = agree_on_serving(broadcast, place.rank, place.size,
                                            {request.self.boot, host_addresses(request.interface_name)});
  const std::string endpoint = share_endpoint(broadcast, place.rank, [&] {
    auto allow = request.allow;
    for (const std::string& address : plan.allow)
      if (const auto cidr = rendezvous::Cidr::parse(address)) allow.push_back(*cidr);
    server_ = std::make_unique<StoreThread>(plan.host, 0, std::move(allow));
    return server_->endpoint();
  });
  const HostPort store = parse_endpoint("the address that rank 0 sent", endpoint);
  connect(request, store.host, store.port);
}

void StoreAccess::serve_through_file(const StoreRequest& request, const StoreRoute& route) {
  if (const auto note = read_meeting_file(route.path); note && note->writer == request.self)
    return connect(request, note->host, note->port);
  std::string host = kLoopback;
  // The file of a step is for this host only.
  if (request.url.kind == InitUrl::Kind::file && !request.allow.empty())
    host = serving_address(own_addresses(request), request.allow);
  server_ = std::make_unique<StoreThread>(host, 0, request.allow);
  connect(request, server_->host(), server_->port());
  client_->set(kOwnerKey, job_of(request) + " " + request.self.to_text());
  file_ =
      std::make_unique<MeetingFile>(route.path, MeetingNote{server_->host(), server_->port(), request.self});
}

void StoreAccess::find_through_file(const StoreRequest& request, const StoreRoute& route) {
  std::string seen = "it is not there";
  for (milliseconds pause{1};; pause = std::min(pause * 2, milliseconds(50))) {
    const auto note = read_meeting_file(route.path);
    const bool is_elsewhere = note && note->host == kLoopback && note->writer.host != request.self.host;
    if (is_elsewhere && note->writer.boot != request.self.boot)
      refuse_other_host(*note, request.self, route.path);
    if (note && liveness_of(note->writer) == Liveness::dead) {
      seen = "it is left from " + note->writer.describe() + ", which has ended";
    } else if (note) {
      try {
        connect(request, note->host, note->port, kFileAttempt);
        if (serves_store(*client_, note->writer)) return;
        client_.reset();
        seen = "at the address in it is the store of another job";
      } catch (const Error& error) {
        if (error.code() != ErrorCode::store) throw;
        seen = error.what();
      }
      if (is_elsewhere) refuse_other_host(*note, request.self, route.path);
    }
    if (Clock::now() >= request.deadline)
      throw Error(ErrorCode::deadline, "rank " + std::to_string(request.place.rank) + " waited " +
                                           std::to_string(request.limit.count()) +
                                           " ms for rank 0 to write its address to '" + route.path + "' (" +
                                           seen + "); see whether rank 0 has started and uses the same file");
    ::poll(nullptr, 0, static_cast<int>(std::min(pause, left_until(request.deadline)).count()));
  }
}

void StoreAccess::close(milliseconds limit, const std::function<bool(StoreClient&)>& all_left) {
  // The file goes first, so that no rank finds a store that is about to end.
  file_.reset();
  if (server_ != nullptr && client_ != nullptr) {
    const auto deadline = Clock::now() + limit;
    try {
      while (!all_left(*client_) && !server_->wait_until_unused(1, std::min(kLook, left_until(deadline))) &&
             Clock::now() < deadline) {
      }
    } catch (const Error&) {
      // The store has failed, so no rank waits for it.
    }
  }
  client_.reset();
  server_.reset();
}

void StoreAccess::abandon() {
  static_cast<void>(file_.release());
  static_cast<void>(server_.release());
}

}  // namespace muster
