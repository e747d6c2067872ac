// SPDX-License-Identifier: Apache-2.0
// Lets the ranks of a shared-memory group find one another: rank 0 makes the memory and announces it through
// the store, the others map it and report that; then all meet in the memory.
#include "worker_sdk/comm/shm/join.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/deadline.hpp"
#include "worker_sdk/comm/join_alarm.hpp"
#include "worker_sdk/comm/shm/shm_backend.hpp"
#include "worker_sdk/store/store_client.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <utility>

namespace muster::shm {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

constexpr const char* kMapped = "mapped";
constexpr const char* kNone = "none";
constexpr const char* kAccepted = "accepted";
constexpr const char* kOneHost =
    "; this group needs all ranks on one host, run by one user, and in containers one pid namespace or one "
    "/dev/shm "
    "(docker run --ipc=host)";

/// Joins the ranks through the store: all keys are below one prefix, and all waits have one deadline.
class Assembly {
 public:
  Assembly(StoreClient& store, const GroupPlan& plan)
      : store_(store),
        rank_(plan.rank),
        size_(plan.size),
        options_(plan.options),
        alarm_(plan.alarm.get()),
        plan_(plan),
        deadline_(Clock::now() + options_.join_limit()) {
    const std::string base = "muster/shm/" + std::to_string(options_.round) + "/" + options_.name + "/";
    // A group of the same name may be made again, so every rank counts the groups, and all ranks count alike.
    const std::int64_t instance = store_.add(base + "count/" + std::to_string(rank_), 1);
    prefix_ = base + std::to_string(instance) + "/";
    store_.set(key("joined", rank_), "1");
  }

  /// Offers memory on rank 0, and returns it if all other ranks could map it.
  std::optional<Mapping> offer(MemorySource& memory, const std::string& attempt, std::string& refusal) {
    MemoryLocation location;
    Mapping control;
    try {
      control = memory.create(Layout::bytes_for(size_), location);
    } catch (const Error& error) {
      refusal = name_of(0) + ": " + error.what();
      store_.set(prefix_ + attempt, kNone);
      return {};
    }
    Layout(control.base(), size_).construct();
    store_.set(prefix_ + attempt, location.to_text());
    refusal.clear();
    for (int peer = 1; peer < size_; ++peer) {
      const std::string answer = get(key(attempt, peer));
      if (answer != kMapped) refusal = name_of(peer) + ": " + answer;
    }
    memory.close_location(location);
    if (!refusal.empty()) return {};
    return control;
  }

  /// Maps the memory that rank 0 offers, on another rank, and reports the result.
  std::optional<Mapping> accept(MemorySource& memory, const std::string& attempt, std::string& refusal) {
    const std::string text = get(prefix_ + attempt);
    if (text == kNone) return {};
    try {
      const auto location = MemoryLocation::from_text(text);
      if (!location || location->bytes != Layout::bytes_for(size_))
        throw Error(ErrorCode::mismatch, name_of(0) + " runs another version or another world size");
      Mapping control = memory.open(*location);
      store_.set(key(attempt, rank_), kMapped);
      return control;
    } catch (const Error& error) {
      refusal = name_of(rank_) + ": " + error.what();
      store_.set(key(attempt, rank_), error.what());
      return {};
    }
  }

  void decide(const std::string& verdict, const std::string& text) { store_.set(prefix_ + verdict, text); }

  std::string verdict(const std::string& name) { return get(prefix_ + name); }

 private:
  std::string name_of(int rank) const { return "rank " + std::to_string(plan_.shown(rank)); }

  std::string key(const std::string& what, int rank) const {
    return prefix_ + what + "/" + std::to_string(rank);
  }

  std::string get(const std::string& name) {
    try {
      wait_for_key(store_, name, left_until(deadline_), alarm_);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::deadline || store_.is_silent()) throw;
      throw Error(ErrorCode::deadline, missing_text());
    }
    return store_.get(name);
  }

  std::string missing_text() {
    std::string missing;
    for (int peer = 0; peer < size_; ++peer) {
      if (store_.check({key("joined", peer)})) continue;
      missing += (missing.empty() ? "" : ", ") + name_of(peer);
    }
    if (missing.empty()) missing = "another rank to map the shared memory";
    return name_of(rank_) + " waited " + std::to_string(options_.join_limit().count()) +
           " ms to join the group '" + options_.name + "' (" + std::to_string(size_) + " ranks) for " +
           missing + "; see whether these ranks have started and use the same store, group name and round";
  }

  StoreClient& store_;
  int rank_;
  int size_;
  const ProcessGroupOptions& options_;
  const JoinAlarm* alarm_;
  const GroupPlan& plan_;
  Clock::time_point deadline_;
  std::string prefix_;
};

/// Makes the group's memory: first without a name, and if that fails as a file in /dev/shm. `memory` is set
/// to the kind that works.
Mapping assemble(Assembly& assembly, int rank, std::span<const MemoryLocation::Kind> kinds,
                 std::shared_ptr<MemorySource>& memory) {
  std::string refusal;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    const std::string attempt = "memory" + std::to_string(i);
    const std::string verdict = "verdict" + std::to_string(i);
    memory = std::make_shared<ProcessMemory>(kinds[i]);
    std::optional<Mapping> control;
    if (rank == 0) {
      control = assembly.offer(*memory, attempt, refusal);
      assembly.decide(verdict, control ? kAccepted : refusal);
      if (control) return std::move(*control);
    } else {
      control = assembly.accept(*memory, attempt, refusal);
      const std::string decision = assembly.verdict(verdict);
      if (control && decision == kAccepted) return std::move(*control);
      if (decision != kAccepted) refusal = decision;
    }
  }
  throw Error(ErrorCode::unsupported, "the ranks cannot share memory (" + refusal + ")" + kOneHost);
}

void check_arguments(const StoreClient* store, int rank, int size, const ProcessGroupOptions& options) {
  if (size < 1 || size > kMaxRanks)
    throw Error(ErrorCode::invalid_argument, "a shared-memory group has 1 to " + std::to_string(kMaxRanks) +
                                                 " ranks, not " + std::to_string(size));
  if (rank < 0 || rank >= size)
    throw Error(ErrorCode::invalid_argument,
                "rank " + std::to_string(rank) + " is outside 0.." + std::to_string(size - 1));
  if (size > 1 && store == nullptr)
    throw Error(ErrorCode::invalid_argument, "a group of more than one rank needs a store");
  if (options.timeout <= milliseconds(0))
    throw Error(ErrorCode::invalid_argument, "the timeout of a group must be more than 0 ms");
}

}  // namespace

std::unique_ptr<Backend> join_shm(StoreClient* store, const GroupPlan& plan,
                                  std::span<const MemoryLocation::Kind> kinds) {
  check_arguments(store, plan.rank, plan.size, plan.options);
  if (plan.size == 1) {
    auto alone = std::make_shared<ThreadMemory>();
    MemoryLocation location;
    Mapping own = alone->create(Layout::bytes_for(1), location);
    Layout(own.base(), 1).construct();
    return std::make_unique<ShmBackend>(alone, alone->open(location), plan);
  }
  Assembly assembly(*store, plan);
  std::shared_ptr<MemorySource> memory;
  Mapping control = assemble(assembly, plan.rank, kinds, memory);
  return std::make_unique<ShmBackend>(std::move(memory), std::move(control), plan);
}

std::unique_ptr<Backend> join_shm(StoreClient* store, const GroupPlan& plan) {
  static constexpr MemoryLocation::Kind kKinds[] = {MemoryLocation::Kind::memfd, MemoryLocation::Kind::file};
  return join_shm(store, plan, kKinds);
}

}  // namespace muster::shm
