// SPDX-License-Identifier: Apache-2.0
#include "agent/node_inspection.hpp"

#include "agent/core/exit_status.hpp"
#include "agent/core/node_traits.hpp"
#include "agent/process/evidence.hpp"
#include "agent/round_runner.hpp"
#include "agent/stacks/core/native_text.hpp"
#include "rendezvous/core/rank_text.hpp"
#include "worker_sdk/status/describe_wait.hpp"
#include "worker_sdk/status/status_writer.hpp"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster::agent {
namespace {

std::int64_t milliseconds_of(std::chrono::steady_clock::duration time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
}

std::string cut(std::string text, std::size_t most) {
  if (text.size() > most) text = text.substr(0, most - 3) + "...";
  return text;
}

std::string doing(const NodeLife& life) {
  switch (life.phase()) {
    case NodeLife::starting:
      return "starts";
    case NodeLife::connecting:
      return "dials the coordinator";
    case NodeLife::joining:
      return "waits for a round";
    case NodeLife::running:
      return life.goes_on() ? "works" : "stops its workers";
    case NodeLife::leaving:
      return "ends its round";
    case NodeLife::waiting:
      return "is done; other nodes work";
    case NodeLife::recalled:
      return "joins the next round";
    case NodeLife::reporting:
    case NodeLife::over:
      break;
  }
  return "ends";
}

/// Reads the counters of the program that a worker runs: its own process, or the one that a shell waits for.
std::optional<WorkerSample> read_program(pid_t worker) {
  WorkerEvidence evidence(worker);
  const auto now = std::chrono::steady_clock::now();
  auto sample = evidence.read(now);
  for (int wrappers = 0; sample && wrappers < WorkerEvidence::kWrappersMax; ++wrappers) {
    const auto below = evidence.wrapped_program();
    if (!below) break;
    evidence = WorkerEvidence(*below);
    auto of_program = evidence.read(now);
    if (!of_program) break;
    sample = std::move(of_program);
  }
  return sample;
}

std::string state_of(const WorkerNow& worker) {
  if (worker.lives) return "running";
  if (worker.status) return worker.pid > 0 ? "ended (" + describe(*worker.status) + ")" : "not started";
  return worker.pid > 0 ? "ended" : "not started";
}

/// Adds what the agent has seen of the rank from outside.
void add_health(WorkerStatus& status, const rendezvous::RankHealth& health) {
  status.does = deed_text(health, false, health.lasted);
  status.activity = health.activity;
  status.wait = health.wait;
  status.since_ms = health.lasted.count();
  status.still_ms = health.still.count();
  status.place = place_text(health.place);
  status.held_in = health.held_in;
}

WorkerStatus status_of(const WorkerNow& worker, int local_rank, int world_size) {
  WorkerStatus status;
  status.rank = worker.rank;
  status.local_rank = local_rank;
  status.pid = std::max(worker.pid, 0);
  status.state = state_of(worker);
  status.gpu = cut(worker.gpu, kStatusGpuMax);
  if (worker.last_output)
    status.output_ms = milliseconds_of(std::chrono::steady_clock::now() - *worker.last_output);
  if (worker.slot) status.step = worker.slot->step;
  if (!worker.lives) return status;
  if (worker.health) add_health(status, *worker.health);
  if (worker.slot) {
    status::RankView view;
    view.rank = worker.rank;
    view.world_size = world_size;
    view.pid = worker.slot->pid;
    view.status = *worker.slot;
    status.now = status::activity(view, status::monotonic_ns());
  }
  const auto sample = read_program(worker.pid);
  if (!sample) return status;
  status.cpu_ms = sample->cpu.count();
  status.memory = sample->memory;
  status.memory_peak = sample->memory_peak;
  if (sample->state == 'T' || sample->state == 't') status.state = "stopped by a signal or a debugger";
  if (sample->state == 'D') status.state = "in the kernel, where no signal reaches it";
  return status;
}

/// The rounds so far that another one has followed, and why.
std::vector<EndedRound> ended_rounds(const NodeVerdict& verdict) {
  static_assert(kDecisionsKept <= kEndedRoundsMax);
  std::vector<EndedRound> rounds;
  for (const RestartDecision& decision : verdict.decisions())
    if (decision.again)
      rounds.push_back(
          {decision.round, cut(decision.cause, kStatusTextMax), cut(decision.decision, kStatusTextMax)});
  return rounds;
}

/// What is shown of a process whose stacks could not be looked at.
ProcessPicture without_stacks(const ProcessStat& process) {
  ProcessPicture picture = read_process_words(process);
  picture.stacks.error = "the kernel still holds up an earlier look at a worker";
  return picture;
}

}  // namespace

void NodeInspection::answer(const Node& node, const NodeQuery& query, const std::vector<int>& signalled,
                            std::function<void(const NodeStatus&)> done) {
  Asked asked{status(node, query), std::move(done)};
  for (WorkerStatus& worker : asked.status.workers)
    worker.signalled = std::find(signalled.begin(), signalled.end(), worker.rank) != signalled.end();
  if (query.stacks && query.native)
    look_at_native(std::move(asked));
  else
    asked.done(asked.status);
}

NodeStatus NodeInspection::status(const Node& node, const NodeQuery& query) {
  NodeStatus status;
  status.host = node.spec.host;
  if (NodeTraits(node.spec).networked) status.node = node.spec.node.name;
  status.pid = ::getpid();
  status.doing = doing(node.life);
  node.health.describe(status);
  status.ended_rounds = ended_rounds(node.verdict);
  if (node.runner == nullptr) return status;
  const RoundRunner& runner = *node.runner;
  const rendezvous::RoundResult& place = runner.place();
  status.round = place.round;
  status.node_rank = place.node_rank;
  status.restarts = place.restarts;
  for (int local_rank = 0; local_rank < node.spec.workers; ++local_rank) {
    const WorkerNow worker = runner.worker_now(local_rank);
    const bool wanted = query.ranks.empty() ||
                        std::find(query.ranks.begin(), query.ranks.end(), worker.rank) != query.ranks.end();
    if (wanted) status.workers.push_back(status_of(worker, local_rank, place.world_size));
  }
  if (query.stacks) add_stacks(status.workers, runner, query);
  return status;
}

void NodeInspection::add_stacks(std::vector<WorkerStatus>& workers, const RoundRunner& runner,
                                const NodeQuery& query) {
  std::vector<WorkerPictures::Worker> wanted;
  for (const WorkerStatus& worker : workers)
    if (runner.worker_now(worker.local_rank).lives)
      wanted.push_back({worker.local_rank, worker.pid, true, query.helpers, query.native});
  pictures_.forget();
  pictures_.take(wanted, WorkerPictures::kWhenAsked);
  const std::size_t share = share_of(kNodeStacksMax, workers.size());
  for (WorkerStatus& worker : workers) {
    worker.processes = pictures_.of(worker.local_rank, true, share);
    if (!worker.processes.empty() || !runner.worker_now(worker.local_rank).lives) continue;
    if (const auto process = read_process_stat(worker.pid))
      worker.processes.push_back(without_stacks(*process));
  }
  advise_where_late(workers);
}

/// Begins to read the machine code of the processes that are shown.
void NodeInspection::look_at_native(Asked asked) {
  std::vector<NativeLook::Process> processes;
  for (const WorkerStatus& worker : asked.status.workers)
    for (const ProcessPicture& picture : worker.processes)
      processes.push_back({picture.stacks.pid, start_time_of(picture.stacks.pid)});
  const bool begun =
      !native_asked_ && native_.begin(std::move(processes), std::chrono::steady_clock::now() + kNativeAtMost);
  if (begun) {
    native_asked_ = true;
    return wait_for_native(std::make_shared<Asked>(std::move(asked)));
  }
  for (WorkerStatus& worker : asked.status.workers)
    for (ProcessPicture& picture : worker.processes)
      picture.native.emplace().error =
          "an earlier look with --native has not ended; ask again in some seconds";
  asked.done(asked.status);
}

void NodeInspection::wait_for_native(std::shared_ptr<Asked> asked) {
  if (!native_.is_over()) {
    constexpr std::chrono::milliseconds kBetweenLooks{5};
    look_again_.expires_after(kBetweenLooks);
    look_again_.async_wait([this, asked](const boost::system::error_code& error) {
      if (!error) wait_for_native(asked);
    });
    return;
  }
  native_asked_ = false;
  std::map<pid_t, NativeStacks> found = native_.found();
  const std::size_t share = kNodeNativeMax / std::max<std::size_t>(asked->status.workers.size(), 1);
  for (WorkerStatus& worker : asked->status.workers)
    for (ProcessPicture& picture : worker.processes)
      picture.native = within(std::move(found[picture.stacks.pid]), share / worker.processes.size());
  advise_where_late(asked->status.workers);
  asked->done(asked->status);
}

}  // namespace muster::agent
