// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/hierarchical/hierarchical_backend.hpp"

#include "rendezvous/base/text.hpp"
#include "worker_sdk/comm/reduce.hpp"
#include "worker_sdk/comm/shm/join.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>
#include <utility>

namespace muster::hierarchical {
namespace {

/// The time that a failed rank waits for the store to tell the group's first failure.
constexpr auto kAgreementTime = std::chrono::seconds(2);
/// The size in bytes up to which partial results travel with the leaders' fingerprints. The messages have
/// room for them in every call, because the size of the exchange that finds differences must not depend on
/// the call.
constexpr std::size_t kPackedBytes = 1024;

std::byte* bytes_of(void* data) {
  return static_cast<std::byte*>(data);
}

/// The plan of a part of the group, which is named so that messages about the part can be understood.
GroupPlan part_of(const GroupPlan& plan, const std::vector<int>& ranks, const std::string& what) {
  constexpr std::size_t kShown = 16;
  GroupPlan part;
  part.options = plan.options;
  part.alarm = plan.alarm;
  part.options.name = plan.options.name + " (" + what + joined(ranks, ", ", kShown) + ")";
  part.size = static_cast<int>(ranks.size());
  part.rank = static_cast<int>(std::find(ranks.begin(), ranks.end(), plan.rank) - ranks.begin());
  for (const int rank : ranks) {
    part.members.push_back(plan.members.empty() ? rank : plan.members[static_cast<std::size_t>(rank)]);
    part.shown_ranks.push_back(plan.shown(rank));
  }
  return part;
}

plugin::Surroundings around(const plugin::Surroundings& all, const std::vector<int>& ranks) {
  plugin::Surroundings part = all;
  part.hosts.clear();
  for (const int rank : ranks) part.hosts.push_back(all.hosts[static_cast<std::size_t>(rank)]);
  return part;
}

}  // namespace

Hosts::Hosts(const std::vector<std::string>& names) {
  std::map<std::string, int> known;
  for (std::size_t rank = 0; rank < names.size(); ++rank) {
    const auto [place, is_new] = known.emplace(names[rank], static_cast<int>(ranks.size()));
    if (is_new) ranks.emplace_back();
    host_of.push_back(place->second);
    ranks[static_cast<std::size_t>(place->second)].push_back(static_cast<int>(rank));
  }
}

HierarchicalBackend::HierarchicalBackend(const GroupPlan& plan, Hosts hosts, Parts parts, std::string key,
                                         std::shared_ptr<plugin::FailureChannel> channel)
    : rank_(plan.rank),
      name_(plan.options.name),
      hosts_(std::move(hosts)),
      parts_(std::move(parts)),
      key_(std::move(key)),
      channel_(std::move(channel)) {
  channel_->join(key_, *this);
}

HierarchicalBackend::~HierarchicalBackend() {
  {
    std::unique_lock lock(mutex_);
    if (local_failure_) told_.wait_for(lock, kAgreementTime, [this] { return agreed_.has_value(); });
  }
  channel_->leave(key_);
}

/// Runs `body` and makes a failure of one part a failure of the group: all ranks are told, and throw the same
/// error.
template <typename Body>
void HierarchicalBackend::guarded(const Body& body) {
  bool failed = false;
  {
    const std::lock_guard lock(mutex_);
    failed = local_failure_.has_value();
  }
  if (failed) throw_failure();
  try {
    body();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::invalid_argument) throw;
    if (error.code() == ErrorCode::deadline) let_others_tell();
    abort(error.code(), error.what());
    throw_failure();
  }
}

/// Waits a little at a deadline. The deadlines of all ranks pass at about the same time, so a rank that knows
/// less about the cause lets the others tell theirs first.
void HierarchicalBackend::let_others_tell() {
  constexpr auto kStep = std::chrono::milliseconds(500);
  std::unique_lock lock(mutex_);
  told_.wait_for(lock, kStep * static_cast<int>(phase_), [this] { return agreed_.has_value(); });
}

void HierarchicalBackend::throw_failure() {
  std::unique_lock lock(mutex_);
  const bool told = told_.wait_for(lock, kAgreementTime, [this] { return agreed_.has_value(); });
  if (!told) agreed_ = local_failure_;
  const Failure failure = *agreed_;
  lock.unlock();
  // If the store does not answer, the other ranks of this host must not be kept waiting.
  if (!told) abort_parts(failure.code, failure.text);
  throw Error(failure.code, failure.text);
}

bool HierarchicalBackend::remember(ErrorCode code, const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (local_failure_) return false;
  local_failure_ = Failure{code, text};
  return true;
}

void HierarchicalBackend::abort(ErrorCode code, const std::string& text) noexcept {
  if (remember(code, text)) channel_->tell(key_, code, text);
}

/// Ends the waits of this rank's parts; each rank does this for itself.
void HierarchicalBackend::group_failed(ErrorCode code, const std::string& text) noexcept {
  remember(code, text);
  {
    const std::lock_guard lock(mutex_);
    agreed_ = Failure{code, text};
    told_.notify_all();
  }
  abort_parts(code, text);
}

void HierarchicalBackend::abort_parts(ErrorCode code, const std::string& text) noexcept {
  parts_.local->abort(code, text);
  if (parts_.leaders) parts_.leaders->abort(code, text);
  parts_.all->abort(code, text);
}

int HierarchicalBackend::place_on_host(int rank) const {
  const auto& ranks = hosts_.ranks[static_cast<std::size_t>(host_of(rank))];
  return static_cast<int>(std::find(ranks.begin(), ranks.end(), rank) - ranks.begin());
}

/// Runs one call of a part. `calls` counts the calls of that part.
void HierarchicalBackend::run_part(Backend& part, std::uint64_t& calls, Operation operation, ReduceOp op,
                                   int root) {
  operation.call.sequence = ++calls;
  operation.call.op = op;
  operation.call.root = root;
  try {
    part.run(std::span(&operation, 1));
  } catch (const Error& error) {
    throw Error(error.code(), std::string(error.what()) + " [it was part of " + describe(current_) + "]");
  }
}

void HierarchicalBackend::run_local(Collective collective, const void* in, void* out, std::size_t count,
                                    DataType type, ReduceOp op, int root) {
  run_part(*parts_.local, local_calls_, operation_of(collective, count, type, in, out), op, root);
}

void HierarchicalBackend::run_leaders(Collective collective, const void* in, void* out, std::size_t count,
                                      DataType type, ReduceOp op, int root) {
  phase_ = Phase::between_hosts;
  Operation operation = operation_of(collective, count, type, in, out);
  // An all_gather here compares the hosts' calls, so it must be the same whatever those calls are.
  if (collective != Collective::all_gather) operation.call.algorithm = current_.algorithm;
  run_part(*parts_.leaders, leader_calls_, operation, op, root);
  phase_ = Phase::back_on_host;
}

void HierarchicalBackend::run(std::span<const Operation> batch) {
  guarded([&] {
    std::vector<Operation> messages;
    for (const Operation& operation : batch) {
      if (is_point_to_point(operation.call.collective)) {
        messages.push_back(operation);
      } else {
        collective(operation);
      }
    }
    if (!messages.empty()) parts_.all->run(messages);
  });
}

void* HierarchicalBackend::allocate(const Call& call) {
  void* memory = nullptr;
  guarded([&] {
    current_ = call;
    phase_ = Phase::on_host;
    compare_on_host(call);
    compare_hosts(call);
    Call local = call;
    local.sequence = ++local_calls_;
    memory = parts_.local->allocate(local);
  });
  return memory;
}

Wire HierarchicalBackend::wire() const {
  Wire wire = parts_.all->wire();
  if (parts_.leaders) wire += parts_.leaders->wire();
  return wire;
}

void HierarchicalBackend::collective(const Operation& operation) {
  current_ = operation.call;
  phase_ = Phase::on_host;
  compare_on_host(operation.call);
  switch (operation.call.collective) {
    case Collective::barrier:
      compare_hosts(operation.call);
      return run_local(Collective::barrier, nullptr, nullptr, 0);
    case Collective::broadcast:
      return broadcast(operation);
    case Collective::all_reduce:
    case Collective::reduce:
      return reduce(operation);
    default:
      return fall_back(operation);
  }
}

void HierarchicalBackend::require_same(const std::vector<Call>& calls, const std::vector<int>& ranks) {
  for (std::size_t i = 1; i < calls.size(); ++i)
    if (!same_call(calls[0], calls[i]))
      throw Error(ErrorCode::mismatch, "the ranks of the group '" + name_ + "' made different calls: rank " +
                                           std::to_string(ranks[0]) + " is in " + describe(calls[0]) +
                                           ", rank " + std::to_string(ranks[i]) + " is in " +
                                           describe(calls[i]) +
                                           "; all ranks must make the same calls in the same order");
}

void HierarchicalBackend::compare_on_host(const Call& call) {
  std::vector<Call> calls(own_host().size());
  run_local(Collective::all_gather, &call, calls.data(), sizeof(Call));
  require_same(calls, own_host());
}

/// Compares the calls of the hosts, on the leaders; the other ranks learn of a difference when the group
/// fails.
void HierarchicalBackend::compare_hosts(const Call& call) {
  if (is_leader()) combine_hosts(call, nullptr, 0, DataType::u8, ReduceOp::sum);
  phase_ = Phase::back_on_host;
}

/// Compares the calls of the hosts and reduces their partial results on every leader. Small partial results
/// travel with the fingerprints; for large ones the calls have been compared before.
void HierarchicalBackend::combine_hosts(const Call& call, std::byte* partial, std::size_t count,
                                        DataType type, ReduceOp op) {
  const std::size_t packed = count * size_of(type);
  if (packed > kPackedBytes) return run_leaders(Collective::all_reduce, partial, partial, count, type, op);
  constexpr std::size_t stride = sizeof(Call) + kPackedBytes;
  packed_.resize(stride * (hosts_.ranks.size() + 1));
  std::byte* const mine = packed_.data() + stride * hosts_.ranks.size();
  std::memcpy(mine, &call, sizeof(Call));
  if (packed > 0) std::memcpy(mine + sizeof(Call), partial, packed);
  run_leaders(Collective::all_gather, mine, packed_.data(), stride);
  std::vector<Call> calls(hosts_.ranks.size());
  std::vector<int> leaders;
  std::vector<const std::byte*> sources;
  for (std::size_t host = 0; host < hosts_.ranks.size(); ++host) {
    std::memcpy(&calls[host], packed_.data() + stride * host, sizeof(Call));
    leaders.push_back(hosts_.ranks[host].front());
    sources.push_back(packed_.data() + stride * host + sizeof(Call));
  }
  require_same(calls, leaders);
  if (packed > 0) muster::reduce(sources, std::span(&partial, 1), count, type, op);
}

void HierarchicalBackend::broadcast(const Operation& operation) {
  const Call& call = operation.call;
  const std::size_t bytes = call.count * size_of(call.type);
  compare_hosts(call);
  if (bytes == 0) return run_local(Collective::barrier, nullptr, nullptr, 0);
  const int root_host = host_of(call.root);
  const bool here = root_host == host_of(rank_);
  const void* const in = rank_ == call.root ? operation.in : operation.out;
  // The other ranks of the root's host must not get the data before their leader has compared the calls.
  if (here && place_on_host(call.root) != 0) run_local(Collective::barrier, nullptr, nullptr, 0);
  if (here)
    run_local(Collective::broadcast, in, operation.out, bytes, DataType::u8, ReduceOp::sum,
              place_on_host(call.root));
  if (is_leader())
    run_leaders(Collective::broadcast, operation.out, operation.out, bytes, DataType::u8, ReduceOp::sum,
                root_host);
  if (!here) run_local(Collective::broadcast, operation.out, operation.out, bytes);
}

/// Runs all_reduce and reduce in three steps: each host's sum is made in shared memory, the leaders combine
/// the hosts' sums, and the result goes back to the ranks. 16-bit formats are f32 in between, and an average
/// is divided at the end, so each result is rounded once. No output is written before the hosts have compared
/// their calls: a buffer may be input and output, and ranks whose calls differ keep theirs.
void HierarchicalBackend::reduce(const Operation& operation) {
  const Call& call = operation.call;
  const DataType type = partial_type(call.type);
  const ReduceOp op = partial_op(call.op);
  const std::size_t bytes = call.count * size_of(type);
  const bool to_all = call.collective == Collective::all_reduce;
  const bool wanted = to_all || call.root == rank_;
  const bool as_it_is = type == call.type && op == call.op;
  const bool compares_first = bytes > kPackedBytes;
  const void* in = operation.in;
  std::byte* partial = bytes_of(operation.out);
  if (compares_first) compare_hosts(call);
  if (!as_it_is || !wanted || (is_leader() && !compares_first)) {
    partial_.resize(std::max<std::size_t>(bytes, 1));
    partial = partial_.data();
  }
  if (type != call.type) {
    const auto* const source = static_cast<const std::byte*>(operation.in);
    reduce_partly(std::span(&source, 1), partial, call.count, call.type, call.op);
    in = partial;
  }
  if (bytes > 0) run_local(Collective::reduce, in, partial, call.count, type, op, 0);
  if (is_leader()) combine_hosts(call, partial, call.count, type, op);
  phase_ = Phase::back_on_host;
  if (bytes == 0) return run_local(Collective::barrier, nullptr, nullptr, 0);
  if (to_all || host_of(call.root) == host_of(rank_))
    run_local(Collective::broadcast, partial, partial, bytes);
  if (!wanted || partial == operation.out) return;
  if (as_it_is) {
    std::memcpy(operation.out, partial, bytes);
  } else {
    finish(partial, bytes_of(operation.out), call.count, call.type, call.op,
           static_cast<int>(hosts_.host_of.size()));
  }
}

void HierarchicalBackend::fall_back(const Operation& operation) {
  compare_hosts(operation.call);
  parts_.all->run(std::span(&operation, 1));
}

std::unique_ptr<Backend> join(const GroupPlan& plan, const plugin::GroupKey& key,
                              const plugin::Surroundings& surroundings, StoreClient& store,
                              const std::shared_ptr<plugin::FailureChannel>& channel) {
  Hosts hosts(surroundings.hosts);
  if (hosts.ranks.size() == 1) return shm::join_shm(&store, plan);
  if (hosts.ranks.size() == static_cast<std::size_t>(plan.size))
    return std::make_unique<plugin::PluginBackend>("gloo", plan, key, surroundings, store, channel);
  const auto& own = hosts.ranks[static_cast<std::size_t>(hosts.host_of[static_cast<std::size_t>(plan.rank)])];
  std::vector<int> leaders;
  for (const auto& ranks : hosts.ranks) leaders.push_back(ranks.front());
  Parts parts;
  parts.local = shm::join_shm(
      &store,
      part_of(plan, own, "on host " + surroundings.hosts[static_cast<std::size_t>(plan.rank)] + ": ranks "));
  if (own.front() == plan.rank)
    parts.leaders = std::make_unique<plugin::PluginBackend>(
        "gloo", part_of(plan, leaders, "first of each host: ranks "), plugin::GroupKey{key.text + "/leaders"},
        around(surroundings, leaders), store, channel);
  parts.all = std::make_unique<plugin::PluginBackend>("gloo", plan, plugin::GroupKey{key.text + "/all"},
                                                      surroundings, store, channel);
  return std::make_unique<HierarchicalBackend>(plan, std::move(hosts), std::move(parts), key.text, channel);
}

}  // namespace muster::hierarchical
