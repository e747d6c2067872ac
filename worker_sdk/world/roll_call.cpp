// SPDX-License-Identifier: Apache-2.0
// A rank answers the roll call in steps: it claims its place, checks that all ranks expect the same size of
// the world, counts itself as arrived, and waits for the verdict: that all have arrived, or the first
// failure.
#include "worker_sdk/world/roll_call.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/deadline.hpp"
#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <charconv>
#include <optional>

namespace muster {
namespace {

constexpr const char* kComplete = "complete";

std::string rank_text(int rank) {
  return "rank " + std::to_string(rank);
}

/// The text of a failure that one rank finds and all report: "<code> <text>".
std::string failure_text(const Error& error) {
  return std::to_string(static_cast<int>(error.code())) + " " + error.what();
}

[[noreturn]] void throw_failure(const std::string& text) {
  int code = static_cast<int>(ErrorCode::store);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), code);
  const auto used = static_cast<std::size_t>(end - text.data());
  throw Error(static_cast<ErrorCode>(code),
              error == std::errc() && used < text.size() ? text.substr(used + 1) : text);
}

class RollCall {
 public:
  RollCall(StoreClient& store, const ProcessIdentity& self, const RollCallOptions& options)
      : store_(store), self_(self), options_(options) {}

  Roll run() {
    claim_rank();
    try {
      agree_on_size();
    } catch (const Error& error) {
      tell(error);
      throw;
    }
    // The last rank to come tells all that the world is complete.
    if (store_.add(prefix_ + "arrived", 1) == options_.size)
      store_.compare_set(prefix_ + "verdict", "", kComplete);
    const std::string verdict = wait_for_verdict();
    if (verdict != kComplete) throw_failure(verdict);
    return {prefix_, members()};
  }

 private:
  WaitLimit what_is_left() const { return {left_until(options_.deadline), options_.limit}; }

  std::string key(const char* what, int rank) const { return prefix_ + what + std::to_string(rank); }

  /// Takes this rank's place in the first world of this job in which it is free. A world that this rank has
  /// left, or that this very process is in, or whose process has died, is an earlier one; a world that
  /// another living process is in means that two have the same rank.
  void claim_rank() {
    const std::string mine = self_.to_text();
    for (std::int64_t number = 1;; ++number) {
      prefix_ = options_.prefix + std::to_string(number) + "/";
      const std::string name = key("rank/", options_.rank);
      if (store_.add(key("claims/", options_.rank), 1) == 1) {
        store_.set(name, mine);
        if (!is_given_up()) return;
        continue;
      }
      const auto holder = ProcessIdentity::from_text(store_.get(name, what_is_left()));
      if (!holder || *holder == self_) continue;
      if (store_.check({key("left/", options_.rank)})) continue;
      const Liveness liveness = liveness_of(*holder);
      if (liveness == Liveness::dead) continue;
      const Error error(ErrorCode::invalid_argument, rank_text(options_.rank) + " is taken twice: by " +
                                                         holder->describe() + " and by " + self_.describe() +
                                                         "; give each process of the job a rank of its own" +
                                                         advice(*holder, liveness));
      tell(error);
      throw error;
    }
  }

  /// The advice for a store that outlives jobs, where a process that ended without leaving looks like one of
  /// this job.
  std::string advice(const ProcessIdentity& holder, Liveness liveness) const {
    if (liveness != Liveness::unknown || options_.run_id != "none") return "";
    return ". Whether " + holder.describe() +
           " still runs cannot be seen from here: if it is left from an earlier job over the same store, set "
           "MUSTER_RUN_ID to a name for this job on all of its ranks";
  }

  /// Whether the others have ended this attempt at their deadline, before this rank came. Failures of other
  /// kinds hold for every rank, whenever it comes.
  bool is_given_up() {
    if (!store_.check({prefix_ + "verdict"})) return false;
    return store_.get(prefix_ + "verdict")
        .starts_with(std::to_string(static_cast<int>(ErrorCode::deadline)) + " ");
  }

  void agree_on_size() {
    const std::string mine = std::to_string(options_.size) + " ranks says " + rank_text(options_.rank) +
                             " (" + self_.describe() + ")";
    const std::string first = store_.compare_set(prefix_ + "size", "", mine);
    int size = 0;
    std::from_chars(first.data(), first.data() + first.size(), size);
    if (size == options_.size) return;
    throw Error(ErrorCode::mismatch, "the ranks do not agree on the size of the world: " + first + ", " +
                                         mine + "; give all of them the same world size");
  }

  /// Writes a failure as the verdict, and returns the first verdict, which counts.
  std::string tell(const Error& error) {
    return store_.compare_set(prefix_ + "verdict", "", failure_text(error));
  }

  std::string wait_for_verdict() {
    try {
      return store_.get(prefix_ + "verdict", what_is_left());
    } catch (const Error& error) {
      if (error.code() != ErrorCode::deadline || store_.is_silent()) throw;
    }
    std::vector<int> missing;
    for (int rank = 0; rank < options_.size; ++rank)
      if (!store_.check({key("rank/", rank)})) missing.push_back(rank);
    // The verdict is written, so that a rank that comes later does not take this one for present.
    return tell(
        Error(ErrorCode::deadline,
              rank_text(options_.rank) + " waited " + std::to_string(options_.limit.count()) +
                  " ms for the other ranks of the job (" + std::to_string(options_.size) + "); missing: " +
                  (missing.empty() ? "none any more, the last came too late" : list_ranks(missing, {})) +
                  "; see whether they have started and reach the same store"));
  }

  std::vector<ProcessIdentity> members() {
    constexpr std::size_t kAtOnce = 1024;
    std::vector<ProcessIdentity> result;
    std::vector<std::string> names;
    for (int rank = 0; rank < options_.size; ++rank) {
      names.push_back(key("rank/", rank));
      if (names.size() < kAtOnce && rank + 1 < options_.size) continue;
      for (const std::string& text : store_.multi_get(names))
        result.push_back(ProcessIdentity::from_text(text).value_or(ProcessIdentity()));
      names.clear();
    }
    return result;
  }

  StoreClient& store_;
  const ProcessIdentity& self_;
  const RollCallOptions& options_;
  std::string prefix_;
};

}  // namespace

Roll call_roll(StoreClient& store, const ProcessIdentity& self, const RollCallOptions& options) {
  return RollCall(store, self, options).run();
}

void leave_roll(StoreClient& store, const Roll& roll, int rank) {
  store.set(roll.prefix + "left/" + std::to_string(rank), "1");
  if (store.add(roll.prefix + "left", 1) == static_cast<std::int64_t>(roll.members.size()))
    store.set(roll.prefix + "all_left", "1");
}

void require_all_present(StoreClient& store, const Roll& roll, int rank, const std::string& what) {
  const bool some_left = store.check({roll.prefix + "left"});
  for (int other = 0; other < static_cast<int>(roll.members.size()); ++other) {
    const ProcessIdentity& member = roll.members[static_cast<std::size_t>(other)];
    const bool has_left = some_left && store.check({roll.prefix + "left/" + std::to_string(other)});
    if (!has_left && !has_died_near(member, roll.members[static_cast<std::size_t>(rank)])) continue;
    // A rank that finds a loss leaves as well, so the first loss that is written is the cause.
    throw Error(ErrorCode::peer_lost,
                store.compare_set(roll.prefix + "lost", "",
                                  rank_text(other) + " (" + member.describe() + ") has " +
                                      (has_left ? "left the world" : "died") + " before " + what +
                                      "; see why in its output"));
  }
}

bool all_have_left(StoreClient& store, const Roll& roll) {
  return !roll.members.empty() && store.check({roll.prefix + "all_left"});
}

std::string list_ranks(const std::vector<int>& ranks, const std::vector<ProcessIdentity>& members) {
  const auto text_of = [&members](int rank) {
    const auto place = static_cast<std::size_t>(rank);
    return rank_text(rank) + (place < members.size() ? " (" + members[place].describe() + ")" : "");
  };
  constexpr std::size_t kShown = 16;
  return joined_by(ranks, text_of, ", ", kShown);
}

}  // namespace muster
