// SPDX-License-Identifier: Apache-2.0
#include "agent/job_health.hpp"

#include "agent/round_runner.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <numeric>
#include <utility>

namespace muster::agent {
namespace {

using Clock = std::chrono::steady_clock;

/// Looks at the host within the time-out of a hang, so that the verdict can name a cause there.
constexpr int kLooksPerTimeout = 6;
constexpr std::chrono::milliseconds kHostLookAtLeast{500};

std::chrono::milliseconds host_interval(std::chrono::milliseconds hang_timeout) {
  if (hang_timeout.count() <= 0) return HostWatch::kLookEach;
  return std::clamp<std::chrono::milliseconds>(hang_timeout / kLooksPerTimeout, kHostLookAtLeast,
                                               HostWatch::kLookEach);
}

/// Adds the records of ranks that `records` has none of.
void add_missing(std::vector<rendezvous::FlightRank>& records,
                 const std::vector<rendezvous::FlightRank>& more) {
  std::copy_if(more.begin(), more.end(), std::back_inserter(records), [&](const rendezvous::FlightRank& one) {
    return std::none_of(records.begin(), records.end(),
                        [&one](const rendezvous::FlightRank& known) { return known.rank == one.rank; });
  });
}

}  // namespace

JobHealth::JobHealth(const boost::asio::any_io_executor& executor, const AgentSpec& spec, JobNews& news,
                     Events events)
    : spec_(spec),
      news_(news),
      events_(std::move(events)),
      host_(executor, host_events()),
      flight_dumps_(executor) {}

HostWatch::Events JobHealth::host_events() {
  HostWatch::Events events;
  events.workers = [this] { return workers(); };
  events.suspects = [this] {
    RoundRunner* const runner = events_.runner();
    return runner != nullptr && runner->health().suspects();
  };
  events.changed = [this] { tell_host(); };
  return events;
}

std::vector<pid_t> JobHealth::workers() const {
  std::vector<pid_t> pids;
  const RoundRunner* const runner = events_.runner();
  for (int local_rank = 0; runner != nullptr && local_rank < spec_.workers; ++local_rank)
    if (const WorkerNow worker = runner->worker_now(local_rank); worker.lives) pids.push_back(worker.pid);
  return pids;
}

void JobHealth::start(const Environment& inherited) {
  std::optional<std::string> gpus;
  for (const Environment* environment : {&inherited, &spec_.environment})
    if (const std::string* visible = find_variable(*environment, "CUDA_VISIBLE_DEVICES")) gpus = *visible;
  std::vector<std::string> folders;
  if (!spec_.output.log_dir.empty()) folders.push_back(spec_.output.log_dir);
  if (const std::string* given = find_variable(spec_.environment, "TMPDIR")) folders.push_back(*given);
  host_.start(host_interval(spec_.limits.hang_timeout), std::move(folders), gpus);
}

void JobHealth::begin_round() {
  hang_.begin_round();
  slow_.clear();
  flights_of_hang_.clear();
  flights_at_end_.clear();
  at_end_.reset();
}

void JobHealth::prepare(Environment& environment, const rendezvous::RoundResult& place,
                        const std::string& folder) {
  told_.clear();
  std::vector<int> ranks(static_cast<std::size_t>(spec_.workers));
  std::iota(ranks.begin(), ranks.end(), place.first_rank);
  flight_dumps_.prepare(environment, spec_, place.round, ranks, folder);
}

boost::asio::awaitable<void> JobHealth::add_flight_records(NodeReport& report) {
  report.flight_records.clear();
  if (report.outcome == NodeOutcome::succeeded) co_return;
  report.flight_records = co_await flight_dumps_.read();
  if (hang_.report(Clock::now()).level == rendezvous::HangLevel::none) co_return;
  add_missing(report.flight_records, flights_at_end_);
  add_missing(report.flight_records, flights_of_hang_);
}

void JobHealth::tell_host() {
  const RoundRunner* const runner = events_.runner();
  std::string text = causes_text(host_.causes());
  if (runner == nullptr || at_end_ || text == told_) return;
  told_ = text;
  events_.tell({runner->place().round, std::move(text)});
}

void JobHealth::end() {
  hang_.end(Clock::now());
  if (at_end_) return;
  host_.look_at_disks();
  at_end_ = host_.causes();
  if (RoundRunner* const runner = events_.runner()) flights_at_end_ = runner->health().flight_records();
}

void JobHealth::key_wait(const rendezvous::KeyWait& wait) {
  if (RoundRunner* const runner = events_.runner()) runner->health().key_wait(wait);
}

void JobHealth::notice(const rendezvous::JobNotice& notice) {
  RoundRunner* const runner = events_.runner();
  std::vector<HangStack> stacks;
  if (notice.hang != rendezvous::HangLevel::none && runner != nullptr) {
    stacks = runner->health().hang_stacks();
    flights_of_hang_ = runner->health().flight_records();
  }
  hang_.notice(notice, stacks, Clock::now());
  news_.notice(notice, std::move(stacks));
}

void JobHealth::slow_ranks(const rendezvous::SlowRanks& slow) {
  slow_ = slow.slow ? slow.text : std::string();
  news_.say(slow.text);
}

void JobHealth::describe(NodeReport& report) const {
  report.hang = hang_.report(Clock::now());
  report.slow = slow_;
  report.host_causes = at_end_.value_or(std::vector<HostCause>{});
}

void JobHealth::describe(NodeStatus& status) const {
  status.hang = hang_.standing(Clock::now());
  if (at_end_) return;
  status.slow = slow_;
  status.host_causes = host_.causes();
}

}  // namespace muster::agent
