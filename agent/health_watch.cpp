// SPDX-License-Identifier: Apache-2.0
#include "agent/health_watch.hpp"

#include "agent/core/slot_evidence.hpp"

#include <algorithm>
#include <utility>

namespace muster::agent {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// The time between two looks: each costs some tens of microseconds a worker.
constexpr milliseconds kLookEach{2000};
constexpr milliseconds kLookAtLeast{100};
/// Looks that are further apart follow a pause of the agent, even on a machine that is overloaded.
constexpr milliseconds kGapAtLeast{3000};
/// A standstill that is shorter is told to nobody, unless the job counts as hung soon after.
constexpr milliseconds kToldAfter{10'000};
/// How long a worker counts as waiting for a key without being told so again. The store is asked each 10 s
/// while all ranks stand still (kStoreAskedEach).
constexpr milliseconds kKeyHolds{25'000};

/// Time for the stacks of all workers that stand still; it usually takes some milliseconds.
constexpr milliseconds kStacksAtMost{100};
/// Bytes of a worker's stacks, which are cut at the outermost calls of side threads first.
constexpr std::size_t kStackBytesMax = 256 << 10;

/// The time between two questions to NCCL while workers stand still whose reason does not show. Each is
/// passed on to all processes of the job.
constexpr milliseconds kNcclAskedAtLeast{1000};
constexpr milliseconds kNcclAskedAtMost{10'000};

/// Looks at a worker after which its wrappers are looked through again.
constexpr unsigned kLooksPerSearch = 4;

milliseconds tell_after(milliseconds timeout) {
  return std::min(kToldAfter, timeout / 2);
}

milliseconds interval(milliseconds timeout) {
  return std::clamp(timeout / 3, kLookAtLeast, kLookEach);
}

milliseconds nccl_interval(milliseconds timeout) {
  return std::clamp(timeout / 6, kNcclAskedAtLeast, kNcclAskedAtMost);
}

StackSummary summary_of(const ProcessStacks& stacks) {
  StackSummary summary;
  summary.library = stacks.library;
  for (const ThreadStack& thread : stacks.threads) {
    if (!thread.is_main && !thread.holds_gil) continue;
    Frames& frames = thread.is_main ? summary.main : summary.gil_holder;
    for (const Frame& frame : thread.frames) frames.push_back({frame.file, frame.line, frame.function});
    if (thread.is_main) summary.main_holds_gil = thread.holds_gil;
  }
  return summary;
}

}  // namespace

HealthWatch::HealthWatch(const boost::asio::any_io_executor& executor, milliseconds timeout,
                         const WorkerOutput& output, const CallWatch& calls,
                         std::function<void(const rendezvous::Message&)> tell)
    : timeout_(timeout),
      output_(output),
      calls_(calls),
      tell_(std::move(tell)),
      timer_(executor),
      nccl_(executor, nccl_interval(timeout)),
      flights_(executor, nccl_interval(timeout), [this](const rendezvous::FlightRank& record) {
        tell_(rendezvous::RankFlight{place_.round, record});
      }) {}

void HealthWatch::prepare(Environment& environment, const std::string& folder,
                          const rendezvous::RoundResult& place, int local_rank) {
  FlightWatch::forget_outer_job(environment);
  if (timeout_.count() <= 0 || !tell_) return;
  nccl_.prepare(environment);
  flights_.prepare(environment, folder, place.round, place.first_rank + local_rank);
}

void HealthWatch::started(const rendezvous::RoundResult& place, int local_rank, pid_t pid) {
  if (timeout_.count() <= 0 || !tell_) return;
  place_ = place;
  if (workers_.empty()) wait();
  workers_.push_back({local_rank, pid, pid, std::nullopt,
                      RankTracker(place.first_rank + local_rank, place.round, tell_after(timeout_),
                                  std::max(3 * interval(timeout_), kGapAtLeast)),
                      false});
}

void HealthWatch::ended(int local_rank, bool success) {
  const auto worker = std::find_if(workers_.begin(), workers_.end(),
                                   [local_rank](const Worker& one) { return one.local_rank == local_rank; });
  if (worker == workers_.end()) return;
  worker->has_ended = true;
  // A failure ends the round. A success is told with the next look, if others still work then.
  if (success) worker->tracker.end(Clock::now());
  if (std::all_of(workers_.begin(), workers_.end(), [](const Worker& one) { return one.has_ended; }))
    timer_.cancel();
}

std::optional<rendezvous::RankHealth> HealthWatch::health_of(int local_rank) const {
  const auto worker = std::find_if(workers_.begin(), workers_.end(),
                                   [local_rank](const Worker& one) { return one.local_rank == local_rank; });
  if (worker == workers_.end() || worker->has_ended) return std::nullopt;
  return worker->tracker.health(Clock::now());
}

std::vector<HangStack> HealthWatch::hang_stacks() const {
  std::vector<std::pair<int, std::vector<ProcessPicture>>> taken;
  for (const Worker& worker : workers_)
    if (!worker.has_ended && !worker.tracker.moves())
      taken.emplace_back(worker.tracker.health().rank, pictures_.of(worker.local_rank, true, kStackBytesMax));
  std::vector<RankPicture> pictures;
  for (const auto& [rank, processes] : taken)
    for (const ProcessPicture& process : processes) pictures.push_back({rank, &process});
  return agent::hang_stacks(pictures);
}

void HealthWatch::key_wait(const rendezvous::KeyWait& wait) {
  if (wait.round != place_.round) return;
  std::vector<pid_t> pids;
  for (const Worker& worker : workers_)
    if (!worker.has_ended) pids.push_back(worker.pid);
  const pid_t pid =
      connections_.holder(wait.peer_host, wait.peer_port, wait.local_host, wait.local_port, pids);
  for (Worker& worker : workers_) {
    if (worker.pid != pid || worker.has_ended) continue;
    worker.key = wait.key;
    worker.nearest = wait.nearest;
    worker.key_told_at = Clock::now();
    // The verdict does not wait for the next look.
    if (!worker.tracker.moves()) judge(worker);
    if (const auto news = worker.tracker.news()) tell_(*news);
  }
}

void HealthWatch::wait() {
  timer_.expires_after(interval(timeout_));
  timer_.async_wait([this](const boost::system::error_code& error) {
    if (error) return;
    look();
    wait();
  });
}

void HealthWatch::look() {
  std::vector<WorkerPictures::Worker> still;
  flights_.keep_sockets();
  for (Worker& worker : workers_)
    if (!worker.has_ended && look_at(worker)) still.push_back({worker.local_rank, worker.program, true});
  pictures_.forget();
  pictures_.take(still, kStacksAtMost);
  for (Worker& worker : workers_) {
    if (!worker.has_ended && !worker.tracker.moves()) judge(worker);
    if (const auto news = worker.tracker.news()) tell_(*news);
  }
  // Whoever waits for a GPU looks as if it computed, and so does whoever launches one collective after
  // another.
  if (suspects()) {
    nccl_.ask();
    ask_flights();
  }
}

/// Asks the flight recorders of those workers that have been told to stand still.
void HealthWatch::ask_flights() {
  std::vector<FlightWatch::Asked> asked;
  for (const Worker& worker : workers_)
    if (!worker.has_ended && worker.tracker.may_ask_recorder())
      asked.push_back({rank_of(worker), {worker.pid, worker.program}});
  flights_.ask(asked);
}

bool HealthWatch::suspects() const {
  return std::any_of(workers_.begin(), workers_.end(), [this](const Worker& worker) {
    return !worker.has_ended && worker.tracker.health().still >= tell_after(timeout_);
  });
}

void HealthWatch::look_into(Worker& worker, pid_t program) {
  worker.program = program;
  worker.evidence.emplace(program);
  worker.tracker.change_process();
}

/// Looks for the program below wrappers that wait for it.
void HealthWatch::follow(Worker& worker) {
  for (int wrappers = 0; wrappers < WorkerEvidence::kWrappersMax; ++wrappers) {
    const auto below = worker.evidence->wrapped_program();
    if (!below) return;
    look_into(worker, *below);
  }
}

/// Returns whether the worker stands still, so that its stack is worth reading.
bool HealthWatch::look_at(Worker& worker) {
  if (!worker.evidence) worker.evidence.emplace(worker.pid);
  if (worker.looks++ % kLooksPerSearch == 0) follow(worker);
  auto sample = worker.evidence->read(Clock::now());
  if (!sample) {
    // A wrapper may start another program; that the worker itself has ended is told by who reaps it.
    if (worker.program == worker.pid) return false;
    look_into(worker, worker.pid);
    worker.looks = 0;
    return false;
  }
  sample->output_bytes = output_.output_bytes(worker.local_rank);
  if (const auto slot = calls_.status_of(worker.local_rank)) add_slot(*sample, *slot);
  sample->nccl_launched = nccl_.launched_by(worker.program);
  if (!sample->nccl_launched) sample->nccl_launched = nccl_.launched_by(worker.pid);
  sample->flight_changes = flights_.changes(rank_of(worker));
  sample->recorder_worked = flights_.worked_after(rank_of(worker), worker.looked_at);
  const auto now = sample->at;
  worker.looked_at = now;
  if (!worker.tracker.add(std::move(*sample)) || now - worker.key_told_at > kKeyHolds) worker.key.clear();
  if (worker.tracker.moves()) flights_.forget(rank_of(worker));
  return !worker.tracker.moves();
}

void HealthWatch::judge(Worker& worker) {
  WorkerSample& sample = worker.tracker.last();
  sample.store_key = worker.key;
  sample.nearest_key = worker.nearest;
  if (worker.evidence) worker.evidence->look_closer(sample);
  add_nccl(worker);
  const auto pictures = pictures_.of(worker.local_rank, true, kStackBytesMax);
  worker.tracker.judge(pictures.empty() ? StackSummary{} : summary_of(pictures.front().stacks));
}

/// Only what NCCL has told since the worker stands still says anything about the standstill.
void HealthWatch::add_nccl(Worker& worker) const {
  WorkerSample& sample = worker.tracker.last();
  const auto since = sample.at - worker.tracker.health().still;
  auto wait = nccl_.wait_of(worker.program, since);
  if (!wait) wait = nccl_.wait_of(worker.pid, since);
  if (!wait) return;
  sample.nccl_operation = wait->operation;
  sample.nccl_communicator = wait->communicator;
  sample.nccl_sequence = wait->sequence;
}

}  // namespace muster::agent
