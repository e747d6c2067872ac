// SPDX-License-Identifier: Apache-2.0
#include "agent/flight_dumps.hpp"

#include "agent/core/flight_paths.hpp"
#include "agent/process/output/helper_thread.hpp"
#include "rendezvous/base/posix.hpp"

#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <sys/stat.h>

#include <ctime>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace muster::agent {
namespace {

constexpr std::size_t kFileBytesMax = std::size_t{64} << 20U;
constexpr std::chrono::milliseconds kPollEach{5};

/// Whether a regular file was written since then. Times of files may be a tick of the kernel's clock early.
bool is_of(const std::string& path, std::time_t began) {
  struct stat file {};

  return ::stat(path.c_str(), &file) == 0 && S_ISREG(file.st_mode) && file.st_mtime >= began - 1;
}

}  // namespace

struct FlightDumps::State : HelperState {
  std::vector<File> files{};
  std::time_t began = 0;
  std::vector<FlightRank> records{};

  bool goes_on() {
    const std::scoped_lock lock(mutex);
    return !stopping;
  }
};

void FlightDumps::prepare(Environment& environment, const AgentSpec& spec, rendezvous::RoundNumber round,
                          const std::vector<int>& ranks, const std::string& folder) {
  files_.clear();
  began_ = std::chrono::system_clock::now();
  std::erase_if(environment,
                [](const auto& variable) { return is_of_outer_job(variable.first, variable.second); });
  const std::string* set = nullptr;
  // What is given by --export goes before what is inherited.
  for (const Environment* one : {&spec.environment, &std::as_const(environment)})
    for (const char* name : kFlightFileVariables)
      if (set == nullptr) set = find_variable(*one, name);
  std::string stem = set == nullptr ? "" : *set;
  if (set == nullptr && has_gpus_ && !spec.output.log_dir.empty()) {
    stem = flight_file(spec.output.log_dir, round);
    environment.emplace_back(kFlightFileVariables[0], stem);
  }
  if (stem.empty()) return;
  const bool is_set = find_variable(spec.environment, kFlightPipeVariable) != nullptr ||
                      find_variable(environment, kFlightPipeVariable) != nullptr;
  if (has_gpus_ && !is_set && !folder.empty() && spec.limits.hang_timeout.count() > 0)
    environment.emplace_back(kFlightPipeVariable, flight_pipe(folder, round));
  for (const int rank : ranks) files_.push_back({rank, stem + std::to_string(rank)});
}

void FlightDumps::read_files(State& state) {
  for (const File& file : state.files) {
    if (!state.goes_on()) return;
    if (!is_of(file.path, state.began)) continue;
    const auto bytes = read_file(file.path, kFileBytesMax);
    if (!bytes) continue;
    try {
      FlightRank record = read_flight_record(*bytes, file.rank, [&state] { return state.goes_on(); });
      const std::scoped_lock lock(state.mutex);
      state.records.push_back(std::move(record));
    } catch (const std::invalid_argument&) {
      // Another version, or not whole, as of a worker that was killed while it wrote: nothing is known then.
    }
  }
}

boost::asio::awaitable<std::vector<FlightRank>> FlightDumps::read() {
  if (files_.empty()) co_return std::vector<FlightRank>();
  const auto state = std::make_shared<State>();
  state->files = files_;
  state->began = std::chrono::system_clock::to_time_t(began_);
  std::thread thread;
  try {
    thread = start_helper_thread("muster:flights", [state] {
      read_files(*state);
      const std::scoped_lock lock(state->mutex);
      state->ended = true;
    });
  } catch (const std::system_error&) {
    // No thread is to be had: nothing is known then.
  }
  if (!thread.joinable()) co_return std::vector<FlightRank>();
  const auto deadline = std::chrono::steady_clock::now() + kReadWithin;
  boost::asio::steady_timer timer(executor_);
  while (!helper_ended(thread, *state) && std::chrono::steady_clock::now() < deadline) {
    timer.expires_after(kPollEach);
    co_await timer.async_wait(boost::asio::use_awaitable);
  }
  const bool ended = helper_ended(thread, *state);
  std::vector<FlightRank> records;
  {
    const std::scoped_lock lock(state->mutex);
    state->stopping = true;
    records = state->records;
  }
  if (ended)
    thread.join();
  else
    thread.detach();
  co_return records;
}

}  // namespace muster::agent
