// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/world/world.hpp"

#include "worker_sdk/comm/select/select.hpp"
#include "worker_sdk/status/status.hpp"
#include "worker_sdk/store/prefix_store.hpp"
#include "worker_sdk/world/named_barrier.hpp"
#include "worker_sdk/world/roll_call.hpp"
#include "worker_sdk/world/stop_notice.hpp"
#include "worker_sdk/world/store_access.hpp"

#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <utility>

namespace muster {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

/// Fills in what the launcher did not tell, from the hosts of the ranks.
void place_on_hosts(WorldInfo& info, const Place& place, const std::vector<ProcessIdentity>& members) {
  std::map<std::string, int> node_of;  // node of each host, in the order of the hosts' first ranks
  std::vector<int> sizes;
  int local_rank = 0;
  int node = 0;
  for (int rank = 0; rank < info.size; ++rank) {
    const ProcessIdentity& member = members[static_cast<std::size_t>(rank)];
    const auto entry = node_of.try_emplace(member.host, static_cast<int>(sizes.size()));
    if (entry.second) sizes.push_back(0);
    int& count = sizes[static_cast<std::size_t>(entry.first->second)];
    if (rank == info.rank) {
      node = entry.first->second;
      local_rank = count;
    }
    ++count;
  }
  info.local_rank = place.local_rank >= 0 ? place.local_rank : local_rank;
  info.local_size = place.local_size >= 0 ? place.local_size : sizes[static_cast<std::size_t>(node)];
  info.node_rank = place.node_rank >= 0 ? place.node_rank : node;
  info.nodes = place.nodes >= 0 ? place.nodes : static_cast<int>(sizes.size());
}

class JoinedWorld final : public World {
 public:
  JoinedWorld(const WorldOptions& options, const StoreRequest& request, Algorithm algorithm)
      : process_(getpid()), timeout_(options.timeout), leave_timeout_(options.leave_timeout) {
    describe(request);
    status_ = open_status(options);
    try {
      join(request);
      place_on_hosts(info_, request.place, roll_.members);
      launchers_node_ = request.place.node_rank;
      barrier_.emplace(info_.rank, roll_.members, looks_);
      if (access_.client() != nullptr)
        group_store_ = std::make_unique<PrefixStore>(access_.client()->clone(), roll_.prefix);
      if (info_.size > 1 && !status_->has_agent()) status_->watch_peers(*group_store_);
      make_group(options, algorithm);
    } catch (...) {
      close();
      throw;
    }
  }

  ~JoinedWorld() override {
    if (process_ != getpid()) {
      abandon();
      return;
    }
    try {
      finalize();
    } catch (const Error&) {
      // This is an injected fault, which a destructor cannot report.
    }
    close();
  }

  const WorldInfo& info() const override { return info_; }

  ProcessGroup& group() override {
    require_own_process();
    return *group_;
  }

  StoreClient& store() override {
    require_own_process();
    if (user_store_ == nullptr) {
      if (deferred_) join_deferred();
      user_store_ = access_.client() == nullptr
                        ? make_local_store()
                        : std::make_unique<PrefixStore>(access_.client()->clone(), roll_.prefix + "user/");
      user_store_->set_timeout(timeout_);
    }
    return *user_store_;
  }

  void barrier(const std::string& name, milliseconds limit) override {
    require_own_process();
    if (limit < milliseconds(0))
      throw Error(ErrorCode::invalid_argument, "a barrier needs a limit of 0 ms or more");
    status_->at(status::Phase::barrier);
    if (access_.client() == nullptr) return;
    PrefixStore keys(*access_.client(), roll_.prefix);
    barrier_->wait(keys, name, limit);
  }

  void set_step(std::uint64_t step) override { status_->set_step(step); }

  bool should_stop() override { return stop_notice_.seen(); }

  void finalize() override {
    require_own_process();
    if (!std::exchange(ended_, true)) status_->at(status::Phase::finalize);
  }

  void prepare_to_leave(milliseconds limit, const std::string& why) override {
    leave_timeout_ = std::min(leave_timeout_, limit);
    farewell_ = why;
  }

 private:
  void describe(const StoreRequest& request) {
    info_.rank = request.place.rank;
    info_.size = request.place.size;
    info_.restart_count = request.place.restart_count;
    info_.run_id = request.place.run_id;
    info_.host = request.self.host;
    info_.launcher = request.place.launcher;
  }

  std::shared_ptr<status::Status> open_status(const WorldOptions& options) const {
    status::StatusOptions status;
    status.rank = info_.rank;
    status.size = info_.size;
    status.round = info_.restart_count;
    status.host = info_.host;
    status.report_after = options.report_after;
    return std::make_shared<status::Status>(status);
  }

  /// Reaches the store and calls the roll. The store that is found may be that of a world that is just
  /// ending, if rank 0 serves it; then this tries again, until the deadline.
  void join(const StoreRequest& request) {
    const StoreRoute route = choose_route(request);
    if (info_.size == 1 && request.url.kind == InitUrl::Kind::environment &&
        route.kind != StoreRoute::Kind::none) {
      deferred_ = request;
      info_.store = endpoint_text(route.host, route.port);
      roll_ = {"", {request.self}};
      return;
    }
    // A given store may be an old store of PyTorch's, under torchrun or by MUSTER_STORE, which does not
    // permit early ends of waits.
    looks_ = route.kind != StoreRoute::Kind::given || info_.launcher == Launcher::muster;
    reach(request, route);
  }

  /// Reaches the store when the program first asks for it. A lone rank needs no store to begin, so it does
  /// not wait for one that its environment names and that may be gone.
  void join_deferred() {
    StoreRequest request = *deferred_;
    request.deadline = Clock::now() + request.limit;
    reach(request, choose_route(request));
    deferred_.reset();
  }

  void reach(const StoreRequest& request, const StoreRoute& route) {
    const bool may_come_again =
        info_.rank != 0 && (route.kind == StoreRoute::Kind::served || route.kind == StoreRoute::Kind::file);
    while (true) {
      try {
        access_ = StoreAccess::open(request, route);
        // The address of a deferred store has been told already and stays the same.
        if (!deferred_) info_.store = access_.endpoint();
        call(request);
        return;
      } catch (const Error& error) {
        if (!may_come_again || error.code() != ErrorCode::store || Clock::now() >= request.deadline) throw;
        access_.close(milliseconds(0), [](StoreClient&) { return true; });
      }
      ::poll(nullptr, 0, kPauseBeforeRetry);
    }
  }

  void call(const StoreRequest& request) {
    if (access_.client() == nullptr) {
      roll_ = {"", {request.self}};
      return;
    }
    RollCallOptions call;
    call.rank = info_.rank;
    call.size = info_.size;
    call.prefix = "muster/" + info_.run_id + "/" + std::to_string(info_.restart_count) + "/";
    call.deadline = request.deadline;
    call.limit = request.limit;
    call.run_id = info_.run_id;
    roll_ = call_roll(*access_.client(), request.self, call);
  }

  void make_group(const WorldOptions& options, Algorithm algorithm) {
    status_->at(status::Phase::agree);
    SelectOptions select;
    select.backend = options.backend;
    select.rank = info_.rank;
    select.size = info_.size;
    select.local_rank = info_.local_rank;
    select.device = options.device;
    select.host_memory = options.host_memory;
    select.host = info_.host;
    select.node = launchers_node_;
    if (looks_ && info_.size > 1)
      select.look_for_lost = [this] {
        require_all_present(*access_.client(), roll_, info_.rank, "the ranks had agreed on a backend");
      };
    select.group.timeout = options.timeout;
    select.group.join_timeout = options.join_timeout;
    select.group.report_after = options.report_after;
    select.group.round = info_.restart_count;
    select.group.algorithm = algorithm;
    group_ = make_world_group(status_->observe(make_group_factory(group_store_.get(), select)), select);
  }

  void close() noexcept {
    group_.reset();
    group_store_.reset();
    user_store_.reset();
    try {
      if (access_.client() != nullptr && !roll_.prefix.empty()) {
        if (!farewell_.empty()) access_.client()->set(roll_.prefix + farewell_key(info_.rank), farewell_);
        leave_roll(*access_.client(), roll_, info_.rank);
      }
    } catch (const Error&) {
      // The store is gone, and with it all ranks that could read the farewell.
    }
    access_.close(leave_timeout_, [this](StoreClient& store) { return all_have_left(store, roll_); });
    status_.reset();
  }

  /// Gives up the world in a forked child: its threads, memory and files belong to the process that made the
  /// world.
  void abandon() {
    static_cast<void>(group_.release());
    static_cast<void>(new std::shared_ptr<status::Status>(std::move(status_)));
    access_.abandon();
  }

  void require_own_process() const {
    if (process_ == getpid()) return;
    throw Error(ErrorCode::state,
                "process " + std::to_string(getpid()) + " was forked after World::init() in process " +
                    std::to_string(process_) + ", whose world it cannot use; make the world after the fork");
  }

  static constexpr int kPauseBeforeRetry = 20;  // milliseconds

  pid_t process_;
  milliseconds timeout_;
  milliseconds leave_timeout_;
  bool ended_ = false;    ///< whether finalize() was called
  std::string farewell_;  ///< why this rank leaves, for the ranks that wait for it
  bool looks_ = true;     ///< whether barriers look for ranks that are gone; see NamedBarrier
  WorldInfo info_;
  /// The number of this node from the launcher; -1: it gave none.
  int launchers_node_ = -1;
  std::shared_ptr<status::Status> status_;
  StopNotice stop_notice_{StopNotice::path_in_environment()};
  StoreAccess access_;
  std::optional<StoreRequest> deferred_;
  Roll roll_;
  std::optional<NamedBarrier> barrier_;
  std::unique_ptr<StoreClient> group_store_;
  std::unique_ptr<StoreClient> user_store_;
  std::unique_ptr<ProcessGroup> group_;
};

void check_options(const WorldOptions& options) {
  const auto require = [](const char* name, milliseconds value, milliseconds least) {
    if (value < least)
      throw Error(ErrorCode::invalid_argument, "the option '" + std::string(name) + "' must be at least " +
                                                   std::to_string(least.count()) + " ms");
  };
  require("join_timeout", options.join_timeout, milliseconds(1));
  require("timeout", options.timeout, milliseconds(1));
  require("leave_timeout", options.leave_timeout, milliseconds(0));
}

Algorithm read_algorithm(const Lookup& lookup) {
  const std::string name = lookup("MUSTER_ALGORITHM").value_or("direct");
  if (const auto algorithm = algorithm_named(name)) return *algorithm;
  throw Error(ErrorCode::invalid_argument,
              "MUSTER_ALGORITHM is '" + name + "'; set it to direct, ring or tree, alike on all ranks");
}

/// The folder for the files of steps; one that only this user can use, if there is such a folder.
std::string private_folder(const Lookup& lookup) {
  const std::string folder = lookup("XDG_RUNTIME_DIR").value_or("");

  struct stat status {};

  const bool good = folder.starts_with('/') && ::stat(folder.c_str(), &status) == 0 &&
                    S_ISDIR(status.st_mode) && status.st_uid == ::geteuid();
  return good ? folder : "/tmp";
}

StoreRequest make_request(const WorldOptions& options, const Lookup& lookup) {
  StoreRequest request;
  request.url =
      parse_init_url(options.init_url.empty() ? lookup("MUSTER_INIT_URL").value_or("") : options.init_url);
  const int rank = options.rank != -1 ? options.rank : request.url.rank;
  const int size = options.size != -1 ? options.size : request.url.size;
  request.place = find_place(lookup, rank, size);
  request.self = ProcessIdentity::here();
  request.allow = parse_allow_list("MUSTER_STORE_ALLOW", lookup("MUSTER_STORE_ALLOW").value_or(""));
  request.folder = private_folder(lookup);
  request.interface_name = lookup("MUSTER_SOCKET_IFNAME").value_or("");
  request.local_address = lookup("MUSTER_LOCAL_ADDR").value_or("");
  request.prefers_mpi = options.backend == "mpi";
  request.limit = options.join_timeout;
  request.deadline = Clock::now() + options.join_timeout;
  return request;
}

}  // namespace

std::unique_ptr<World> World::init(const WorldOptions& given) {
  check_options(given);
  const Lookup lookup = process_environment();
  WorldOptions options = given;
  if (options.backend.empty()) options.backend = lookup("MUSTER_BACKEND").value_or("auto");
  const Algorithm algorithm = read_algorithm(lookup);
  const StoreRequest request = make_request(options, lookup);
  return std::make_unique<JoinedWorld>(options, request, algorithm);
}

}  // namespace muster
