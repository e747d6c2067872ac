// SPDX-License-Identifier: Apache-2.0
#include "agent/flight_watch.hpp"

#include "agent/core/flight_paths.hpp"
#include "agent/process/output/helper_thread.hpp"

#include <sys/un.h>

#include <algorithm>
#include <cstdio>
#include <exception>
#include <string_view>
#include <system_error>
#include <utility>

namespace muster::agent {
namespace {

using Clock = std::chrono::steady_clock;

/// PyTorch's name for the socket of a program's control plane (torch.distributed.elastic.control_plane).
constexpr const char* kSocketVariable = "TORCH_WORKER_SERVER_SOCKET";
/// Says that the user wants that socket: PyTorch hangs in a server that is ended as soon as it has begun.
constexpr const char* kWantedVariable = "MUSTER_CONTROL_PLANE";
/// The name of a socket: its round and rank follow, and then what tells one that has been seen.
constexpr const char* kSocketPrefix = "/control_";
constexpr const char* kKeptSuffix = ".open";
constexpr std::chrono::milliseconds kAnswerLookedForEach{50};

/// Whether a path is one that this class has chosen, in a job around this one: several workers cannot share
/// it.
bool is_socket_of_outer_job(const std::string& path) {
  return path.find("/muster_stop_") != std::string::npos && path.find(kSocketPrefix) != std::string::npos;
}

}  // namespace

/// What the helper thread is to ask, and what it has found.
struct FlightWatch::Question : HelperState {
  std::vector<FlightSource> sources{};
  FlightAnswers answers{};

  bool goes_on() {
    const std::scoped_lock lock(mutex);
    return !stopping;
  }

  bool has_asker() {
    const std::scoped_lock lock(mutex);
    return !abandoned;
  }
};

FlightWatch::FlightWatch(const boost::asio::any_io_executor& executor, std::chrono::milliseconds ask_each,
                         Found found)
    : ask_each_(ask_each), found_(std::move(found)), timer_(executor) {}

FlightWatch::~FlightWatch() {
  if (question_) abandon_helper_thread(thread_, *question_);
}

void FlightWatch::forget_outer_job(Environment& environment) {
  std::erase_if(environment, [](const auto& variable) {
    return variable.first == kSocketVariable && is_socket_of_outer_job(variable.second);
  });
}

void FlightWatch::prepare(Environment& environment, const std::string& folder, rendezvous::RoundNumber round,
                          int rank) {
  Worker worker(ask_each_);
  worker.source.rank = rank;
  forget_outer_job(environment);
  if (const std::string* chosen = find_variable(environment, kSocketVariable)) {
    worker.source.socket = *chosen;
  } else if (!folder.empty() && variable_or(environment, kWantedVariable, "0") == "1") {
    std::string path = folder + kSocketPrefix + std::to_string(round) + "_" + std::to_string(rank);
    if (path.size() + std::string_view(kKeptSuffix).size() < sizeof(sockaddr_un::sun_path)) {
      worker.source.socket = path + kKeptSuffix;
      environment.emplace_back(kSocketVariable, path);
      worker.socket_at = std::move(path);
    }
  }
  const std::string* file = nullptr;
  for (const char* name : kFlightFileVariables)
    if (file == nullptr) file = find_variable(environment, name);
  const std::string* pipe = find_variable(environment, kFlightPipeVariable);
  if (file != nullptr && pipe != nullptr && !file->empty() && !pipe->empty()) {
    worker.source.file = *file + std::to_string(rank);
    worker.source.pipe = *pipe + std::to_string(rank) + ".pipe";
  }
  workers_.insert_or_assign(rank, std::move(worker));
}

void FlightWatch::keep_sockets() const {
  for (const auto& [rank, worker] : workers_)
    if (!worker.socket_at.empty())
      static_cast<void>(std::rename(worker.socket_at.c_str(), worker.source.socket.c_str()));
}

void FlightWatch::ask(const std::vector<Asked>& ranks) {
  const auto now = Clock::now();
  if (question_ || (asked_at_ && now - *asked_at_ < ask_each_)) return;
  auto question = std::make_shared<Question>();
  for (const Asked& asked : ranks) {
    const auto worker = workers_.find(asked.rank);
    if (worker == workers_.end()) continue;
    worker->second.moved = false;
    FlightSource source = worker->second.source;
    source.pids = asked.pids;
    if (!source.socket.empty() || !source.pipe.empty()) question->sources.push_back(std::move(source));
  }
  if (question->sources.empty()) return;
  asked_at_ = now;
  // Made here, since there may be no memory for it where it is needed.
  std::vector<int> everybody;
  for (const FlightSource& source : question->sources) everybody.push_back(source.rank);
  try {
    thread_ = start_helper_thread("muster:flights", [question, everybody = std::move(everybody)]() mutable {
      FlightAnswers answers;
      try {
        answers = ask_flight_recorders(question->sources, [&question] { return question->goes_on(); });
      } catch (const std::exception&) {
        // Out of memory: nothing is known then, not even who has answered.
        answers = {};
        answers.late.swap(everybody);
      }
      const std::scoped_lock lock(question->mutex);
      question->answers = std::move(answers);
      question->ended = true;
      question->changed.notify_all();
    });
  } catch (const std::system_error&) {
    return;  // no thread is to be had; the next time may be better
  }
  for (const FlightSource& source : question->sources) workers_.at(source.rank).work.ask();
  question_ = question;
  wait_for_answer();
}

void FlightWatch::wait_for_answer() {
  timer_.expires_after(kAnswerLookedForEach);
  timer_.async_wait([this, question = question_](const boost::system::error_code& error) {
    // A time that was over when the asker went is told all the same.
    if (error || !question->has_asker()) return;
    if (!helper_ended(thread_, *question)) return wait_for_answer();
    thread_.join();
    question_.reset();
    take(std::move(question->answers));
  });
}

/// All that is known of a worker's groups.
rendezvous::FlightRank FlightWatch::record_of(const Worker& worker) {
  rendezvous::FlightRank record;
  record.rank = worker.source.rank;
  for (const auto* known : {&worker.by_socket, &worker.by_pipe}) {
    if (!*known) continue;
    for (const rendezvous::FlightGroup& group : (*known)->groups)
      if (record.groups.size() < rendezvous::kFlightGroupsMax) record.groups.push_back(group);
  }
  return record;
}

void FlightWatch::take(FlightAnswers answers) {
  for (auto& [rank, worker] : workers_)
    worker.work.end_question(Clock::now(),
                             std::find(answers.late.begin(), answers.late.end(), rank) == answers.late.end());
  for (FlightAnswer& answer : answers.answers) {
    const auto found = workers_.find(answer.record.rank);
    if (found == workers_.end() || found->second.moved) continue;
    Worker& worker = found->second;
    std::optional<rendezvous::FlightRank>& known = answer.by_pipe ? worker.by_pipe : worker.by_socket;
    if (known == answer.record) continue;
    if (known) ++worker.changes;
    known = std::move(answer.record);
    found_(record_of(worker));
  }
}

bool FlightWatch::worked_after(int rank, Clock::time_point time) const {
  const auto worker = workers_.find(rank);
  return worker != workers_.end() && worker->second.work.may_have_worked_after(time);
}

void FlightWatch::forget(int rank) {
  const auto worker = workers_.find(rank);
  if (worker == workers_.end()) return;
  worker->second.by_socket.reset();
  worker->second.by_pipe.reset();
  worker->second.moved = true;
}

std::uint64_t FlightWatch::changes(int rank) const {
  const auto worker = workers_.find(rank);
  return worker == workers_.end() ? 0 : worker->second.changes;
}

std::vector<rendezvous::FlightRank> FlightWatch::records() const {
  std::vector<rendezvous::FlightRank> records;
  for (const auto& [rank, worker] : workers_)
    if (worker.by_socket || worker.by_pipe) records.push_back(record_of(worker));
  return records;
}

}  // namespace muster::agent
