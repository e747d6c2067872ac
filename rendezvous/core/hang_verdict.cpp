// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/core/hang_verdict.hpp"

#include "rendezvous/base/text.hpp"
#include "rendezvous/core/rank_text.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace muster::rendezvous {
namespace {

using Views = std::vector<const RankView*>;

/// What a rank waits for, so that two that wait for the same meet: its call, or the key where it is in none.
std::string goal_of(const RankHealth& health) {
  const std::string call = health.operation + '\n' + health.group + '\n' + std::to_string(health.sequence);
  if (!health.operation.empty()) return call;
  if (!health.key.empty()) return "key\n" + health.key;
  return call + place_text(health.place);
}

/// The same, for ranks that wait in the same call: the line where they do.
std::string goal_and_place_of(const RankHealth& health) {
  return goal_of(health) + '\n' + place_text(health.place);
}

/// The ranks that are in another group than more than half of them; empty if all are in one group. nullopt:
/// no group has a majority.
template <typename Key>
std::optional<Views> minority(const Views& ranks, const Key& key) {
  std::map<std::string, std::size_t> sizes;
  for (const RankView* rank : ranks) ++sizes[key(rank->health)];
  const auto largest = std::max_element(sizes.begin(), sizes.end(), [](const auto& one, const auto& other) {
    return one.second < other.second;
  });
  if (largest->second * 2 <= ranks.size()) return std::nullopt;
  Views others;
  for (const RankView* rank : ranks)
    if (key(rank->health) != largest->first) others.push_back(rank);
  return others;
}

template <typename Test>
Views only(const Views& ranks, const Test& test) {
  Views found;
  std::copy_if(ranks.begin(), ranks.end(), std::back_inserter(found), test);
  return found;
}

/// The ranks that are in an earlier call of a group than another rank.
Views behind(const Views& ranks) {
  std::map<std::string, std::uint64_t> last;
  for (const RankView* rank : ranks) {
    std::uint64_t& sequence = last[rank->health.group];
    sequence = std::max(sequence, rank->health.sequence);
  }
  return only(ranks, [&last](const RankView* rank) {
    return rank->health.sequence > 0 && rank->health.sequence < last[rank->health.group];
  });
}

/// Whether a call passes a message between two ranks; the others are made by all ranks of a group.
bool is_message(const std::string& operation) {
  static const std::set<std::string> kMessages{
      "send", "recv", "isend", "irecv", "send_object_list", "recv_object_list", "batch_isend_irecv"};
  return kMessages.count(operation) > 0;
}

bool passes_message(const RankView* rank) {
  return is_message(rank->health.operation);
}

/// Where `few` wait in a call for a key that another member of a smaller group sets there: those of the other
/// ranks that are not where most of these are. nullopt: `few` wait for something else, or nobody stands out.
std::optional<Views> absent_member(const Views& ranks, const Views& few) {
  const auto waits_in_call = [](const RankView* rank) {
    return rank->health.wait == WaitKind::store_key && !rank->health.operation.empty();
  };
  if (!std::all_of(few.begin(), few.end(), waits_in_call)) return std::nullopt;
  const Views rest = only(
      ranks, [&few](const RankView* rank) { return std::find(few.begin(), few.end(), rank) == few.end(); });
  const auto elsewhere = minority(rest, goal_and_place_of);
  return elsewhere && !elsewhere->empty() ? elsewhere : std::nullopt;
}

/// The cause among ranks that all wait for others: see judge_hang(). Empty: they agree.
Views odd_waiters(const Views& ranks) {
  if (ranks.size() == 1) return ranks;
  if (auto few = minority(ranks, goal_of)) {
    if (!few->empty()) return absent_member(ranks, *few).value_or(*few);
    // They are in the same call: perhaps not in the same line, as far as the lines are known.
    if (const auto elsewhere = minority(ranks, goal_and_place_of)) return *elsewhere;
    const bool known = std::all_of(ranks.begin(), ranks.end(),
                                   [](const RankView* rank) { return rank->health.place.known(); });
    return known ? ranks : Views{};
  }
  if (Views early = behind(ranks); !early.empty()) return early;
  // The others wait in a collective for those whose messages do not match.
  if (Views apart = only(ranks, passes_message); apart.size() > 1 && apart.size() < ranks.size())
    return apart;
  // Who waits for a key outside of a collective is not where the others are.
  Views outside = only(ranks, [](const RankView* rank) {
    return rank->health.wait == WaitKind::store_key && rank->health.operation.empty();
  });
  return outside.empty() ? ranks : outside;
}

bool is_stopped(const RankView* rank) {
  return rank->health.activity == Activity::waits && rank->health.wait == WaitKind::stopped;
}

/// Whether a rank that stands still does so for good.
bool for_good(const RankHealth& health) {
  if (health.activity == Activity::ended) return true;
  if (health.activity != Activity::waits) return false;
  switch (health.wait) {
    case WaitKind::communication:
    case WaitKind::store_key:
    case WaitKind::stopped:
      return true;
    case WaitKind::lock:
    case WaitKind::sleep:
    case WaitKind::helpers:
      return !health.stirs;
    case WaitKind::unknown:
    case WaitKind::terminal:
    case WaitKind::events:
    case WaitKind::file:
      break;
  }
  return false;
}

/// Groups ranks about which the same is to be said, the group of the lowest rank first.
template <typename Key>
std::vector<Views> grouped(const Views& ranks, const Key& key) {
  std::vector<Views> groups;
  std::map<std::string, std::size_t> places;
  for (const RankView* rank : ranks) {
    const auto [found, is_new] = places.try_emplace(key(*rank), groups.size());
    if (is_new) groups.emplace_back();
    groups[found->second].push_back(rank);
  }
  return groups;
}

/// What is said of a rank as the cause. The line of a rank that computes changes all the time.
std::string cause_key(const RankView& rank) {
  const RankHealth& health = rank.health;
  const std::string place = health.activity == Activity::busy ? "" : place_text(health.place);
  return rank.host + '\n' + place + '\n' + deed_text(health, false) + '\n' + health.nearest;
}

std::string waiting_key(const RankView& rank) {
  return rank.health.in_communication() ? goal_of(rank.health) : deed_text(rank.health, false);
}

std::vector<int> numbers_of(const Views& ranks) {
  std::vector<int> numbers;
  for (const RankView* rank : ranks) numbers.push_back(rank->health.rank);
  return numbers;
}

TimePoint earliest(const Views& ranks) {
  TimePoint first = TimePoint::max();
  for (const RankView* rank : ranks) first = std::min(first, rank->since);
  return first;
}

/// "rank 3 on n1 (train.py:41 in load)".
std::string described_rank(const Views& group) {
  const RankView& one = *group.front();
  std::string text = ranks_text(numbers_of(group));
  if (!one.host.empty()) text += " on " + one.host;
  if (one.health.place.known()) text += " (" + place_text(one.health.place) + ")";
  return text;
}

/// "rank 3 on n1 (train.py:41 in load) is hung: it waits for a lock since 70 s".
std::string cause_text(const Views& group, HangLevel level, TimePoint now) {
  const RankView& one = *group.front();
  const bool many = group.size() > 1;
  std::string text = described_rank(group);
  if (one.health.activity == Activity::ended)
    return text + (many ? " have ended, the first " : " has ended ") + seconds_text(now - earliest(group)) +
           " ago";
  text += level == HangLevel::may_be ? " may be hung" : many ? " are hung" : " is hung";
  text += std::string(many ? ": they " : ": it ") + deed_text(one.health, many, now - earliest(group));
  if (one.health.wait == WaitKind::store_key && one.health.activity == Activity::waits)
    text += one.health.nearest.empty() ? ", which nobody has set"
                                       : ", which nobody has set; '" + one.health.nearest + "' exists";
  return text;
}

/// "ranks 0-2, 4-7 wait for all_reduce since 61 s".
std::string waiting_text(const Views& group, TimePoint now) {
  return ranks_text(numbers_of(group)) + " " +
         deed_text(group.front()->health, group.size() > 1, now - earliest(group));
}

/// Groups of ranks that one line describes; the ranks of further ones are only counted.
constexpr std::size_t kGroupsInText = 4;

template <typename TextOf>
std::string described(const std::vector<Views>& groups, const TextOf& text_of) {
  std::string text;
  std::size_t left_out = 0;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (i < kGroupsInText)
      text += (i == 0 ? "" : "; ") + text_of(groups[i]);
    else
      left_out += groups[i].size();
  }
  if (left_out > 0) text += "; " + std::to_string(left_out) + " more ranks stand elsewhere";
  return text;
}

/// What ranks that wait for each other have not in common.
std::string difference_text(const Views& ranks) {
  if (std::all_of(ranks.begin(), ranks.end(), passes_message)) return "their messages do not match";
  const bool one_goal = std::all_of(ranks.begin(), ranks.end(), [&ranks](const RankView* rank) {
    return goal_of(rank->health) == goal_of(ranks.front()->health);
  });
  if (one_goal) return "they are in different lines";
  const bool collective = std::none_of(ranks.begin(), ranks.end(), passes_message);
  return collective ? "they are in different collectives" : "they are in different calls";
}

/// "ranks 0, 1 are hung: rank 0 on n1 (train.py:41 in main) waits for barrier since 61 s; rank 1 on n1 (...)
/// waits for all_reduce since 61 s: they are in different collectives".
std::string tie_text(const Views& ranks, TimePoint now) {
  const auto say = [now](const Views& group) {
    return described_rank(group) + " " +
           deed_text(group.front()->health, group.size() > 1, now - earliest(group));
  };
  return ranks_text(numbers_of(ranks)) + " are hung: " + described(grouped(ranks, cause_key), say) + ": " +
         difference_text(ranks);
}

/// All ranks are in the same call, in the same line.
std::string agreed_text(const Views& ranks, HangLevel level, TimePoint now) {
  const RankHealth& one = ranks.front()->health;
  const bool one_place = std::all_of(
      ranks.begin(), ranks.end(), [&one](const RankView* rank) { return rank->health.place == one.place; });
  const std::string hung = level == HangLevel::is_hung ? " ranks are hung: " : " ranks may be hung: ";
  std::string text = "all " + std::to_string(ranks.size()) + hung + waiting_text(ranks, now);
  if (one_place && one.place.known()) text += " (" + place_text(one.place) + ")";
  if (one.wait == WaitKind::store_key && one.operation.empty()) {
    text += ", which nobody has set";
    if (!one.nearest.empty()) text += "; '" + one.nearest + "' exists";
    return text;
  }
  return text + (is_message(one.operation) ? ": each waits for a message of another"
                                           : ", and no rank is missing: communication or hardware");
}

/// Fills in what a verdict says, from its level and its cause; `rest` are the ranks that are not the cause.
void tell(HangVerdict& verdict, const Views& cause, const Views& rest, TimePoint now) {
  const bool is_hung = verdict.level == HangLevel::is_hung;
  verdict.matter = is_hung ? "is\n" : "may be\n";
  if (cause.empty()) {
    verdict.text = agreed_text(rest, verdict.level, now);
    verdict.matter += waiting_key(*rest.front());
    return;
  }
  const bool all_ended = std::all_of(cause.begin(), cause.end(), [](const RankView* rank) {
    return rank->health.activity == Activity::ended;
  });
  const auto others = grouped(rest, waiting_key);
  const auto causes = grouped(cause, cause_key);
  const auto say_cause = [&](const Views& group) { return cause_text(group, verdict.level, now); };
  const auto say_waiting = [&](const Views& group) {
    const std::string hung = group.size() > 1 ? " and are hung" : " and is hung";
    return waiting_text(group, now) + (all_ended ? hung : "");
  };
  const bool is_tie = rest.empty() && causes.size() > 1 && cause.front()->health.in_communication();
  verdict.text = is_tie ? tie_text(cause, now) : described(causes, say_cause);
  if (!others.empty()) verdict.text += "; " + described(others, say_waiting);
  for (const Views& group : causes)
    verdict.matter += rank_list(numbers_of(group)) + cause_key(*group.front()) + '\n';
  for (const Views& group : others)
    verdict.matter += rank_list(numbers_of(group)) + waiting_key(*group.front()) + '\n';
}

/// The ranks that are odd in a collective and wait in no other one, by the mismatches of flight records.
std::set<int> odd_and_free(const FlightMismatch& mismatch, const std::vector<FlightMismatch>& flights) {
  std::set<int> odd(mismatch.odd.begin(), mismatch.odd.end());
  for (const FlightMismatch& other : flights)
    if (&other != &mismatch && !other.odd.empty())
      for (const int rank : other.waiting) odd.erase(rank);
  return odd;
}

/// The ranks that are odd in the first collective in which ranks do not match by their flight records; empty:
/// none stands out there. Who is missing in one group because it waits in another comes after those for whom
/// it waits.
Views odd_in_flight(const Views& ranks, const std::vector<FlightMismatch>& flights) {
  for (const bool waiters_too : {false, true})
    for (const FlightMismatch& mismatch : flights) {
      const std::set<int> odd = waiters_too ? std::set<int>(mismatch.odd.begin(), mismatch.odd.end())
                                            : odd_and_free(mismatch, flights);
      Views found = only(ranks, [&odd](const RankView* rank) { return odd.count(rank->health.rank) > 0; });
      if (!found.empty() && found.size() < ranks.size()) return found;
    }
  return {};
}

/// The ranks that wait for others in a collective by their flight records, although nothing else shows it.
std::set<int> waiting_in_flight(const Views& ranks, const std::vector<FlightMismatch>& flights) {
  std::set<int> in_call;
  for (const FlightMismatch& mismatch : flights)
    if (!mismatch.odd.empty()) in_call.insert(mismatch.waiting.begin(), mismatch.waiting.end());
  std::set<int> found;
  for (const RankView* rank : ranks) {
    const RankHealth& health = rank->health;
    const bool shows_nothing = health.activity == Activity::busy ||
                               (health.activity == Activity::waits && health.wait == WaitKind::unknown);
    if (shows_nothing && in_call.count(health.rank) > 0) found.insert(health.rank);
  }
  return found;
}

/// The cause of a standstill of all these ranks; nullopt: none of them waits for others, so they are idle.
/// Empty: all of them wait for each other, and agree.
std::optional<Views> cause_of(const Views& all, const std::vector<FlightMismatch>& flights) {
  Views cause = only(all, is_stopped);
  if (!cause.empty()) return cause;
  const std::set<int> in_flight = waiting_in_flight(all, flights);
  const auto waits = [&in_flight](const RankView* rank) {
    return rank->health.in_communication() || in_flight.count(rank->health.rank) > 0;
  };
  const Views waiting = only(all, waits);
  if (waiting.empty()) return std::nullopt;
  cause = only(all, [&waits](const RankView* rank) { return !waits(rank); });
  if (cause.empty()) cause = odd_in_flight(waiting, flights);
  return cause.empty() ? odd_waiters(waiting) : cause;
}

/// Sentences of flight records that follow a verdict.
constexpr std::size_t kFlightsInText = 2;

std::string flights_text(const std::vector<FlightMismatch>& flights) {
  std::string text;
  for (std::size_t i = 0; i < std::min(flights.size(), kFlightsInText); ++i)
    text += (i == 0 ? "; by the flight recorder " : "; ") + flights[i].text;
  return text;
}

}  // namespace

HangVerdict judge_hang(const std::vector<RankView>& ranks, Milliseconds timeout, TimePoint now,
                       const std::vector<FlightMismatch>& flights) {
  Views all;
  for (const RankView& rank : ranks) {
    if (rank.health.activity == Activity::moves || now - rank.moved_at < timeout) return {};
    all.push_back(&rank);
  }
  if (timeout.count() <= 0) return {};
  const auto found = cause_of(all, flights);
  if (!found) return {};
  const Views& cause = *found;
  HangVerdict verdict;
  const bool at_work = std::any_of(ranks.begin(), ranks.end(), [](const RankView& rank) {
    return rank.health.activity == Activity::busy;
  });
  const bool lasts = cause.empty() ? std::none_of(all.begin(), all.end(),
                                                  [](const RankView* rank) { return rank->health.stirs; })
                                   : std::all_of(cause.begin(), cause.end(),
                                                 [](const RankView* rank) { return for_good(rank->health); });
  verdict.level = lasts && !at_work ? HangLevel::is_hung : HangLevel::may_be;
  verdict.culprits = numbers_of(cause);
  std::sort(verdict.culprits.begin(), verdict.culprits.end());
  const std::set<const RankView*> named(cause.begin(), cause.end());
  tell(verdict, cause, only(all, [&named](const RankView* rank) { return named.count(rank) == 0; }), now);
  const std::string in_flight = flights_text(flights);
  verdict.text += in_flight;
  verdict.matter += in_flight;
  return verdict;
}

}  // namespace muster::rendezvous
