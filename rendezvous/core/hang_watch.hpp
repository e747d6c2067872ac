// SPDX-License-Identifier: Apache-2.0
// Keeps what the ranks of a round do, and chooses when something is said about it. Pure.
#pragma once

#include "rendezvous/core/hang_verdict.hpp"

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace muster::rendezvous {

/// The shortest time between two lines about the same hang.
inline constexpr Milliseconds kHangSaidEach = std::chrono::minutes(1);

/// The longest time between two questions to the store about who waits for which key.
inline constexpr Milliseconds kStoreAskedEach = std::chrono::seconds(10);

/// The time for the answers to such a question, before which no first line is said: usually some
/// milliseconds.
inline constexpr Milliseconds kStoreAnswersWithin{500};

/// The time between news that belong together, since nodes look at their ranks at about the same time, and
/// how long it is waited for the last of them.
inline constexpr Milliseconds kNewsBelongTogether{300};
inline constexpr Milliseconds kNewsWaitedFor{2000};

/// A look that comes so late after its time follows a pause of this process, and perhaps of all. For so long
/// then it is waited for news: nodes look every two seconds at least.
inline constexpr Milliseconds kLateLook{5000};
inline constexpr Milliseconds kNewsAfterPause{6000};

/// About the most memory for the flight records of all ranks. Those of 4,000 ranks with three groups of some
/// hundred members take half of it.
inline constexpr std::size_t kFlightMemoryMax = std::size_t{64} << 20;

/// One thread.
class HangWatch {
 public:
  /// `timeout`: how long no rank may move before the job counts as hung (--hang-timeout); 0: never.
  /// `flight_memory`: about the most memory for flight records.
  explicit HangWatch(Milliseconds timeout, std::size_t flight_memory = kFlightMemoryMax)
      : timeout_(timeout), flight_memory_max_(flight_memory) {}

  /// A round has begun: its ranks move until somebody tells something else.
  void begin(int world_size);

  /// The round is over; nothing is said of it any more.
  void end() { begin(0); }

  /// Takes what a node has told of one of its ranks. A rank that the round does not have is ignored.
  void tell(const RankHealth& health, const std::string& host, TimePoint now);

  /// `count` ranks from `first` on have ended with success.
  void ended(int first, int count, const std::string& host, TimePoint now);

  /// Takes what is wrong on a host that is no fault of the program; empty: nothing (any more). Each verdict
  /// says it.
  void tell_host(const std::string& host, const std::string& text, TimePoint now);

  /// Takes what the flight recorder of a rank that stands still has noted; it holds until the rank moves.
  /// Records for which there is no memory are left out, which is said with the next hang.
  void tell_flight(const FlightRank& record, TimePoint now);

  /// When look() may have something to say; none: not before another tell().
  std::optional<TimePoint> next_look() const;

  /// When ask_store() may be true; none: not before another tell().
  std::optional<TimePoint> next_question() const;

  /// Whether the store is to be asked now who waits for which key: all ranks have stood still for half of the
  /// time-out, and it was not asked lately.
  bool ask_store(TimePoint now);

  /// What is to be said now: a hang, another cause than the one said before, or that the job moves again. A
  /// hang waits for news that belong together and for the store's answers, and another cause for
  /// kHangSaidEach, except for the first key that a rank is found to wait for, the first flight record in
  /// which ranks do not match, and the first thing that is wrong on a host: these explain what was said.
  std::optional<std::string> look(TimePoint now);

  /// The verdict of the last look().
  const HangVerdict& verdict() const { return verdict_; }

  /// How long no rank has moved; 0 without a verdict.
  Milliseconds still_for(TimePoint now) const;

 private:
  std::string hosts_text() const;
  std::string left_out_text() const;
  bool explains() const;
  void forget_flight(int rank);
  std::vector<FlightMismatch> mismatches() const;

  bool all_stand_still() const { return timeout_.count() > 0 && !ranks_.empty() && still_ == ranks_.size(); }

  Milliseconds timeout_;
  std::vector<RankView> ranks_;
  /// What is wrong on hosts.
  std::map<std::string, std::string> hosts_;
  /// What flight recorders have noted of ranks that stand still.
  std::map<int, FlightRank> flights_;
  std::size_t flight_memory_max_;
  std::size_t flight_memory_ = 0;
  std::set<int> flights_left_out_;
  /// Ranks that do not move, and the time when the last of all ranks moved.
  std::size_t still_ = 0;
  TimePoint last_moved_ = TimePoint::min();
  HangVerdict verdict_;
  /// What was said last and has not been taken back.
  std::string said_;
  std::optional<TimePoint> said_at_;
  TimePoint told_at_ = TimePoint::min();
  std::optional<TimePoint> asked_at_;
  /// Whether a rank has told a key since the last look, and whether what was said since the last movement was
  /// about one.
  bool key_told_ = false;
  bool key_said_ = false;
  /// The same of what is wrong on a host.
  bool host_told_ = false;
  bool host_said_ = false;
  /// The same of flight records.
  bool flight_told_ = false;
  bool flight_said_ = false;
  /// The rank that has moved after a hang was said.
  std::optional<int> moved_;
  bool changed_ = false;
};

}  // namespace muster::rendezvous
