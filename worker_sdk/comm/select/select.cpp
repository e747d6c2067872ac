// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/select/select.hpp"

#include "worker_sdk/comm/hierarchical/hierarchical_backend.hpp"
#include "worker_sdk/comm/plugin/device_and_host.hpp"
#include "worker_sdk/comm/plugin/failure_channel.hpp"
#include "worker_sdk/comm/plugin/loader.hpp"
#include "worker_sdk/comm/plugin/plugin_backend.hpp"
#include "worker_sdk/comm/select/agreement.hpp"
#include "worker_sdk/comm/shm/join.hpp"
#include "worker_sdk/comm/store_lease.hpp"

#include <strings.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace muster {
namespace {

/// The choice that all ranks agreed on.
struct Choice {
  std::string backend;
  std::string why;
  std::vector<std::string> hosts;
  bool has_gloo = false;       ///< whether Gloo carries memory of the host beside nccl; several hosts only
  bool may_fall_back = false;  ///< whether nccl was picked, not asked for
  bool surprises = false;      ///< whether a rank has a GPU that is not used, which may surprise its user
};

constexpr const char* kNotWanted = "not wanted";

/// The facts that one rank tells the others about itself.
struct Profile {
  std::string host;
  std::string wish;
  plugin::Usability nccl;

  std::string to_text() const { return host + "\n" + wish + "\n" + nccl.device + "\n" + nccl.reason_against; }

  static Profile from_text(const std::string& text) {
    std::vector<std::string> lines(4);
    std::size_t begin = 0;
    for (std::size_t i = 0; i < lines.size() && begin <= text.size(); ++i) {
      const auto end = i + 1 == lines.size() ? std::string::npos : text.find('\n', begin);
      lines[i] = text.substr(begin, end == std::string::npos ? end : end - begin);
      if (end == std::string::npos) break;
      begin = end + 1;
    }
    return {lines[0], lines[1], {lines[3], lines[2]}};
  }
};

std::string count_of(std::size_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
}

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

const char* environment(const char* name) {
  const char* const value = secure_getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

/// Whether LOGLEVEL asks for more than warnings, by the words of `muster run`.
bool wants_info() {
  const char* const level = environment("LOGLEVEL");
  return level != nullptr && (::strcasecmp(level, "info") == 0 || ::strcasecmp(level, "debug") == 0);
}

const char* backend_for_hosts(std::size_t hosts) {
  return hosts == 1 ? "shm" : "hierarchical";
}

/// The number by which a rank finds its device: the option, or else the local rank.
int device_place(const SelectOptions& options) {
  return options.device >= 0 ? options.device : options.local_rank;
}

/// Whether "auto" may be nccl, which costs a context on the GPU. A lone rank has no other to exchange data
/// with; it wants a GPU only if it names one.
bool may_be_nccl(const SelectOptions& options) {
  return options.backend == "auto" && !options.host_memory && (options.size > 1 || options.device >= 0);
}

/// The reason against nccl; "" when every rank has a GPU of its own.
std::string against_nccl(const std::vector<Profile>& ranks) {
  if (ranks.size() == 1 && ranks.front().nccl.reason_against == kNotWanted)
    return "nobody to exchange data with";
  std::set<std::pair<std::string, std::string>> devices;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const Profile& profile = ranks[rank];
    if (profile.nccl.reason_against == kNotWanted)
      return "memory of the host on rank " + std::to_string(rank);
    if (!profile.nccl.reason_against.empty()) return "no GPU for NCCL on rank " + std::to_string(rank);
    if (!devices.emplace(profile.host, profile.nccl.device).second)
      return "rank " + std::to_string(rank) + " would share its GPU";
  }
  return "";
}

Choice choose(const std::vector<Profile>& ranks) {
  Choice choice;
  std::set<std::string> hosts;
  for (const Profile& profile : ranks) {
    choice.hosts.push_back(profile.host);
    hosts.insert(profile.host);
  }
  choice.why = count_of(ranks.size(), "rank") + " on " +
               (hosts.size() == 1 ? "one host" : count_of(hosts.size(), "host"));
  choice.backend = ranks.front().wish;
  if (choice.backend != "auto") {
    choice.why += ", as asked for";
    return choice;
  }
  const std::string against = against_nccl(ranks);
  choice.may_fall_back = against.empty();
  choice.surprises = !against.empty() && std::any_of(ranks.begin(), ranks.end(), [](const Profile& rank) {
    return rank.nccl.reason_against.empty();
  });
  choice.backend = against.empty() ? "nccl" : backend_for_hosts(hosts.size());
  choice.why += against.empty() ? ", a GPU for each" : ", " + against;
  return choice;
}

void check_wishes(const std::vector<Profile>& ranks) {
  static const std::set<std::string> known = {"auto", "shm", "gloo", "mpi", "nccl", "hierarchical"};
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    if (known.count(ranks[rank].wish) == 0)
      throw Error(ErrorCode::invalid_argument,
                  "rank " + std::to_string(rank) + " asks for the backend '" + ranks[rank].wish +
                      "'; known are auto, shm, gloo, mpi, nccl and hierarchical");
    if (ranks[rank].wish != ranks[0].wish)
      throw Error(ErrorCode::mismatch, "rank 0 asks for the backend '" + ranks[0].wish + "' and rank " +
                                           std::to_string(rank) + " for '" + ranks[rank].wish +
                                           "'; all ranks must name the same");
  }
}

/// Lets all ranks try the plug-in that the choice needs; all fail if one of them cannot use it.
void require_plugin(select::Agreement& agreement, const Choice& choice, const SelectOptions& options) {
  if (choice.backend == "shm") return;
  const std::string name = choice.backend == "hierarchical" ? "gloo" : choice.backend;
  const auto answers =
      agreement.gather("plugin", plugin::probe_plugin(name, device_place(options)).reason_against);
  for (std::size_t rank = 0; rank < answers.size(); ++rank)
    if (!answers[rank].empty())
      throw Error(ErrorCode::unsupported, "rank " + std::to_string(rank) + " (host " + choice.hosts[rank] +
                                              ") cannot use the backend '" + choice.backend +
                                              "': " + answers[rank]);
}

/// Whether all ranks have Gloo, which carries memory of the host between hosts beside nccl.
bool have_gloo(select::Agreement& agreement, const Choice& choice, const SelectOptions& options) {
  if (std::set<std::string>(choice.hosts.begin(), choice.hosts.end()).size() == 1) return false;
  const auto answers =
      agreement.gather("gloo", plugin::probe_plugin("gloo", options.local_rank).reason_against);
  return std::all_of(answers.begin(), answers.end(), [](const std::string& each) { return each.empty(); });
}

/// The result of making a group over NCCL on a rank, from good to bad.
enum class Start : std::int32_t { good, refused, lost };

Start start_of(const std::optional<Error>& failure) {
  if (!failure) return Start::good;
  const ErrorCode code = failure->code();
  return code == ErrorCode::unsupported || code == ErrorCode::backend || code == ErrorCode::out_of_memory
             ? Start::refused
             : Start::lost;
}

/// The worst result of all ranks, which every rank learns over memory of the host.
Start worst_of(Backend& host, Start mine) {
  auto worst = static_cast<std::int32_t>(mine);
  Operation operation = operation_of(Collective::all_reduce, 1, DataType::i32, &worst, &worst);
  operation.call.op = ReduceOp::max;
  host.run(std::span(&operation, 1));
  return static_cast<Start>(worst);
}

class WorldGroups final : public GroupFactory {
 public:
  WorldGroups(StoreClient* store, const SelectOptions& options) : options_(options) {
    if (options_.size < 1 || options_.rank < 0 || options_.rank >= options_.size)
      throw Error(ErrorCode::invalid_argument, "rank " + std::to_string(options_.rank) + " of a world of " +
                                                   std::to_string(options_.size) + " ranks");
    if (store == nullptr && options_.size > 1)
      throw Error(ErrorCode::invalid_argument, "a world of more than one rank needs a store");
    if (store == nullptr) local_store_ = make_local_store();
    store_ = store == nullptr ? local_store_.get() : store;
    agree();
  }

  std::unique_ptr<Backend> make(const GroupPlan& wanted) override {
    const StoreLease store(store_, store_mutex_, wanted);
    const GroupPlan& plan = store.plan();
    if (choice_.backend == "nccl") return make_nccl(plan, *store.get());
    return make_one(choice_.backend, plan, *store.get());
  }

 private:
  std::unique_ptr<Backend> make_one(const std::string& backend, const GroupPlan& plan, StoreClient& store) {
    if (backend == "shm") return shm::join_shm(&store, plan);
    if (backend != "hierarchical") return make_plugin(backend, plan, store);
    return hierarchical::join(plan, next_key(plan.options.name), surroundings(plan), store,
                              failure_channel(store));
  }

  std::unique_ptr<plugin::PluginBackend> make_plugin(const std::string& backend, const GroupPlan& plan,
                                                     StoreClient& store) {
    plugin::Surroundings around = surroundings(plan);
    if (backend == "mpi") around.counter = prefix_ + "numbers";
    return std::make_unique<plugin::PluginBackend>(backend, plan, next_key(plan.options.name), around, store,
                                                   failure_channel(store));
  }

  /// Makes NCCL's backend, and beside it a backend for memory of the host. The latter is made first: over it
  /// the ranks learn whether NCCL has started on all of them.
  std::unique_ptr<Backend> make_nccl(const GroupPlan& plan, StoreClient& store) {
    const std::string beside = backend_beside_nccl(plan);
    std::unique_ptr<Backend> host = beside.empty() ? nullptr : make_one(beside, plan, store);
    if (!host || !choice_.may_fall_back) {
      auto device = make_plugin("nccl", plan, store);
      if (!host) return device;
      return std::make_unique<DeviceAndHost>(std::move(device), std::move(host), plan);
    }
    std::unique_ptr<plugin::PluginBackend> device;
    std::optional<Error> failure;
    try {
      device = make_plugin("nccl", plan, store);
    } catch (const Error& error) {
      failure = error;
    }
    const Start worst = worst_of(*host, start_of(failure));
    // Later groups are made in the same way as this first one.
    choice_.may_fall_back = false;
    if (worst == Start::good)
      return std::make_unique<DeviceAndHost>(std::move(device), std::move(host), plan);
    if (worst == Start::lost)
      throw failure.value_or(Error(
          ErrorCode::aborted,
          "another rank could not make the group '" + plan.options.name + "' over NCCL; look at its output"));
    choice_.backend = beside;
    if (options_.rank == 0)
      std::fprintf(stderr, "muster: backend %s instead of nccl, which could not start: %s\n", beside.c_str(),
                   failure ? one_line(failure->what()).c_str() : "see the output of the other ranks");
    return host;
  }

  plugin::Surroundings surroundings(const GroupPlan& plan) const {
    plugin::Surroundings around;
    around.local_rank = options_.local_rank;
    around.device = options_.device;
    around.interface_name = options_.interface_name;
    // Under --store-proxy the address used to reach the store says nothing about the way to the other hosts.
    if (const char* address = environment("MUSTER_LOCAL_ADDR")) around.address = address;
    around.hosts = hosts_of(plan);
    return around;
  }

  /// The key of the next group with this name. Groups of one name may follow one another, and all their ranks
  /// count them alike.
  plugin::GroupKey next_key(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return {prefix_ + name + "#" + std::to_string(++made_[name])};
  }

  std::shared_ptr<plugin::FailureChannel> failure_channel(StoreClient& store) {
    const std::lock_guard lock(mutex_);
    if (!channel_) channel_ = std::make_shared<plugin::FailureChannel>(store, prefix_ + "failures/");
    return channel_;
  }

  /// The hosts of the group's ranks.
  std::vector<std::string> hosts_of(const GroupPlan& plan) const {
    std::vector<std::string> hosts;
    for (int rank = 0; rank < plan.size; ++rank) {
      const int member = plan.members.empty() ? rank : plan.members[static_cast<std::size_t>(rank)];
      hosts.push_back(choice_.hosts[static_cast<std::size_t>(member)]);
    }
    return hosts;
  }

  /// The backend for memory of the host; "" if there is none, because it takes Gloo between hosts.
  std::string backend_beside_nccl(const GroupPlan& plan) const {
    const auto hosts = hosts_of(plan);
    const std::size_t count = std::set<std::string>(hosts.begin(), hosts.end()).size();
    return count == 1 || choice_.has_gloo ? backend_for_hosts(count) : "";
  }

  void agree() {
    if (options_.backend.empty()) options_.backend = "auto";
    if (options_.node >= 0) options_.host = "node " + std::to_string(options_.node);
    if (const char* host = environment("MUSTER_HOST_NAME")) options_.host = host;
    if (const char* name = environment("MUSTER_SOCKET_IFNAME");
        name != nullptr && options_.interface_name.empty())
      options_.interface_name = name;
    // Worlds may follow one another over one store, so every rank counts its worlds, and all ranks count
    // alike.
    const std::string base = "muster/world/" + std::to_string(options_.group.round) + "/";
    prefix_ = base + std::to_string(store_->add(base + "count/" + std::to_string(options_.rank), 1)) + "/";
    select::Agreement agreement(*store_, prefix_, options_.rank, options_.size, options_.group.join_limit(),
                                options_.look_for_lost);
    Profile mine{one_line(options_.host), one_line(options_.backend), {kNotWanted, ""}};
    if (may_be_nccl(options_)) {
      mine.nccl = plugin::probe_plugin("nccl", device_place(options_));
      mine.nccl.reason_against = one_line(mine.nccl.reason_against);
    }
    std::vector<Profile> ranks;
    for (const std::string& text : agreement.gather("profile", mine.to_text()))
      ranks.push_back(Profile::from_text(text));
    check_wishes(ranks);
    choice_ = choose(ranks);
    require_plugin(agreement, choice_, options_);
    if (choice_.backend == "nccl") choice_.has_gloo = have_gloo(agreement, choice_, options_);
    if (options_.rank == 0 && options_.size > 1 && (choice_.surprises || wants_info()))
      std::fprintf(stderr, "muster: backend %s: %s\n", choice_.backend.c_str(), choice_.why.c_str());
  }

  SelectOptions options_;
  std::unique_ptr<StoreClient> local_store_;
  StoreClient* store_ = nullptr;
  std::mutex store_mutex_;  ///< held while store_ is in use
  std::string prefix_;
  Choice choice_;
  std::mutex mutex_;  ///< protects the members that follow
  std::map<std::string, int> made_;
  std::shared_ptr<plugin::FailureChannel> channel_;
};

}  // namespace

std::shared_ptr<GroupFactory> make_group_factory(StoreClient* store, const SelectOptions& options) {
  return std::make_shared<WorldGroups>(store, options);
}

std::unique_ptr<ProcessGroup> make_world_group(const std::shared_ptr<GroupFactory>& factory,
                                               const SelectOptions& options) {
  GroupPlan plan{options.rank, options.size, {}, options.group};
  for (int rank = 0; rank < options.size; ++rank) plan.members.push_back(rank);
  auto backend = factory->make(plan);
  return std::make_unique<ProcessGroup>(std::move(backend), std::move(plan), factory);
}

}  // namespace muster
