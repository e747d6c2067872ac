// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/core/hang_watch.hpp"

#include "rendezvous/core/rank_text.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace muster::rendezvous {

void HangWatch::begin(int world_size) {
  ranks_.assign(static_cast<std::size_t>(world_size), RankView{});
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) ranks_[rank].health.rank = static_cast<int>(rank);
  still_ = 0;
  last_moved_ = TimePoint::min();
  verdict_ = {};
  said_.clear();
  said_at_.reset();
  asked_at_.reset();
  key_told_ = key_said_ = false;
  hosts_.clear();
  host_told_ = host_said_ = false;
  flights_.clear();
  flight_memory_ = 0;
  flights_left_out_.clear();
  flight_told_ = flight_said_ = false;
  moved_.reset();
  changed_ = false;
}

void HangWatch::tell_host(const std::string& host, const std::string& text, TimePoint now) {
  if (text.empty())
    hosts_.erase(host);
  else
    hosts_[host] = text;
  host_told_ = !hosts_.empty();
  if (!all_stand_still()) return;
  told_at_ = now;
  changed_ = true;
}

void HangWatch::tell_flight(const FlightRank& record, TimePoint now) {
  if (record.rank < 0 || static_cast<std::size_t>(record.rank) >= ranks_.size()) return;
  // What a rank had noted that moves or has ended meanwhile is over.
  const Activity activity = ranks_[static_cast<std::size_t>(record.rank)].health.activity;
  if (activity == Activity::moves || activity == Activity::ended) return;
  forget_flight(record.rank);
  const std::size_t memory = memory_of(record);
  if (flight_memory_ + memory > flight_memory_max_) {
    flights_left_out_.insert(record.rank);
    return;
  }
  flight_memory_ += memory;
  flights_[record.rank] = record;
  flight_told_ = true;
  if (!all_stand_still()) return;
  told_at_ = now;
  changed_ = true;
}

void HangWatch::forget_flight(int rank) {
  flights_left_out_.erase(rank);
  const auto known = flights_.find(rank);
  if (known == flights_.end()) return;
  flight_memory_ -= memory_of(known->second);
  flights_.erase(known);
}

/// In which collectives the ranks do not match, as far as their flight records tell.
std::vector<FlightMismatch> HangWatch::mismatches() const {
  std::vector<const FlightRank*> records;
  for (const auto& [rank, record] : flights_) records.push_back(&record);
  std::vector<FlightMismatch> found = find_flight_mismatches(records);
  std::erase_if(found, [](const FlightMismatch& mismatch) { return mismatch.unknown; });
  return found;
}

/// "; on n1 the file system of /scratch is full".
std::string HangWatch::hosts_text() const {
  constexpr std::size_t kHostsInText = 3;
  std::string text;
  std::size_t count = 0;
  for (const auto& [host, news] : hosts_)
    if (++count <= kHostsInText) text += "; on " + host + " " + news;
  if (count > kHostsInText) text += "; the like on " + std::to_string(count - kHostsInText) + " more hosts";
  return text;
}

/// "; the flight records of ranks 5, 6 are left out: all together are larger than 64 MiB".
std::string HangWatch::left_out_text() const {
  if (flights_left_out_.empty()) return "";
  const std::vector<int> ranks(flights_left_out_.begin(), flights_left_out_.end());
  return std::string(ranks.size() == 1 ? "; the flight record of " : "; the flight records of ") +
         ranks_text(ranks) + (ranks.size() == 1 ? " is" : " are") +
         " left out: all together are larger than " + std::to_string(flight_memory_max_ >> 20U) + " MiB";
}

void HangWatch::tell(const RankHealth& health, const std::string& host, TimePoint now) {
  if (health.rank < 0 || static_cast<std::size_t>(health.rank) >= ranks_.size()) return;
  RankView& rank = ranks_[static_cast<std::size_t>(health.rank)];
  const bool stood = rank.health.activity != Activity::moves;
  const bool stands = health.activity != Activity::moves;
  still_ += stands ? 1 : 0;
  still_ -= stood ? 1 : 0;
  // An end is a movement, too.
  const bool ends = health.activity == Activity::ended && rank.health.activity != Activity::ended;
  if (stood && (!stands || ends) && !said_.empty()) moved_ = health.rank;
  if (health.activity == Activity::moves || health.activity == Activity::ended) forget_flight(health.rank);
  key_told_ = key_told_ || !health.key.empty();
  rank.health = health;
  rank.host = host;
  rank.moved_at = now - health.still;
  rank.since = now - health.lasted;
  last_moved_ = std::max(last_moved_, rank.moved_at);
  told_at_ = now;
  changed_ = true;
}

void HangWatch::ended(int first, int count, const std::string& host, TimePoint now) {
  for (int rank = first; rank < first + count; ++rank) {
    if (rank < 0 || static_cast<std::size_t>(rank) >= ranks_.size()) return;
    // What was told of it before is more exact.
    if (ranks_[static_cast<std::size_t>(rank)].health.activity == Activity::ended) continue;
    RankHealth health;
    health.rank = rank;
    health.activity = Activity::ended;
    tell(health, host, now);
  }
}

/// Whether something was told that explains what was said.
bool HangWatch::explains() const {
  return (key_told_ && !key_said_) || (host_told_ && !host_said_) || (flight_told_ && !flight_said_);
}

std::optional<TimePoint> HangWatch::next_look() const {
  if (moved_) return TimePoint{};
  if (!changed_ || !all_stand_still()) return std::nullopt;
  TimePoint due = last_moved_ + timeout_;
  if (said_at_ && !explains()) due = std::max(due, *said_at_ + kHangSaidEach);
  if (said_.empty() && asked_at_) due = std::max(due, *asked_at_ + kStoreAnswersWithin);
  // What one look has found out of several ranks comes in several messages.
  return std::max(due, std::min(told_at_ + kNewsBelongTogether, last_moved_ + timeout_ + kNewsWaitedFor));
}

std::optional<TimePoint> HangWatch::next_question() const {
  if (!all_stand_still()) return std::nullopt;
  const TimePoint due = last_moved_ + timeout_ / 2;
  return asked_at_ ? std::max(due, *asked_at_ + kStoreAskedEach) : due;
}

bool HangWatch::ask_store(TimePoint now) {
  const auto due = next_question();
  if (!due || now < *due) return false;
  asked_at_ = now;
  return true;
}

Milliseconds HangWatch::still_for(TimePoint now) const {
  if (verdict_.level == HangLevel::none || last_moved_ == TimePoint::min()) return Milliseconds(0);
  return std::chrono::duration_cast<Milliseconds>(now - last_moved_);
}

std::optional<std::string> HangWatch::look(TimePoint now) {
  if (moved_) {
    const RankView& rank = ranks_[static_cast<std::size_t>(*moved_)];
    std::string text = ranks_text({*moved_}) + (rank.host.empty() ? "" : " on " + rank.host);
    text += rank.health.activity == Activity::ended ? " has ended" : " moves again";
    moved_.reset();
    said_.clear();
    said_at_.reset();
    key_told_ = key_said_ = false;
    host_said_ = flight_said_ = false;
    verdict_ = {};
    return text;
  }
  const auto due = next_look();
  if (!due || now < *due) return std::nullopt;
  // Nobody has looked meanwhile (the host slept): what the ranks did before says nothing of what they do now.
  if (now - std::max(*due, told_at_) > kLateLook) {
    last_moved_ = now - timeout_ + kNewsAfterPause;
    told_at_ = now;
    return std::nullopt;
  }
  changed_ = false;
  key_told_ = flight_told_ = false;
  key_said_ = std::any_of(ranks_.begin(), ranks_.end(),
                          [](const RankView& rank) { return !rank.health.key.empty(); });
  const std::vector<FlightMismatch> flights = mismatches();
  flight_said_ = !flights.empty();
  verdict_ = judge_hang(ranks_, timeout_, now, flights);
  if (verdict_.level == HangLevel::none) return std::nullopt;
  const std::string hosts = hosts_text();
  host_said_ = !hosts.empty();
  verdict_.text += left_out_text() + hosts;
  verdict_.matter += hosts;
  if (verdict_.matter == said_) return std::nullopt;
  said_ = verdict_.matter;
  said_at_ = now;
  return verdict_.text;
}

}  // namespace muster::rendezvous
