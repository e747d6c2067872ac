// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/fault/fault_plan.hpp"

#include "muster/error.hpp"
#include "rendezvous/base/quiet_thread.hpp"
#include "rendezvous/base/text.hpp"

#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <optional>
#include <utility>

namespace muster::fault {
namespace {

constexpr std::uint64_t kMostMilliseconds = 24ULL * 3600 * 1000;

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw Error(ErrorCode::invalid_argument,
              "MUSTER_FAULT: '" + std::string(text) + "' " + why +
                  "; it is ACTION@RANK:OP[:K], for example 'kill@1:all_reduce:3', with the actions kill, "
                  "kill+MS, stop, stop+MS, delay:MS, error; unset it to run without faults");
}

std::optional<std::uint8_t> point_from(std::string_view name) {
  if (name == "agree") return point_of(Point::agree);
  if (name == "init") return point_of(Point::init);
  if (name == "split") return point_of(Point::split);
  if (name == "finalize") return point_of(Point::finalize);
  for (int i = 0; i <= static_cast<int>(Collective::allocate); ++i)
    if (name == name_of(static_cast<Collective>(i))) return static_cast<std::uint8_t>(i);
  return std::nullopt;
}

/// Reads an action: "kill", "kill+20", "delay:300".
void parse_action(std::string_view all, std::string_view text, Fault& fault) {
  const std::size_t mark = text.find_first_of("+:");
  const std::string_view name = text.substr(0, mark);
  const char separator = mark == std::string_view::npos ? '\0' : text[mark];
  if (name == "kill" || name == "stop") {
    fault.action = name == "kill" ? Action::kill : Action::stop;
    if (separator == ':') refuse(all, "gives a time with ':'; " + std::string(name) + "+MS is meant");
  } else if (name == "delay") {
    fault.action = Action::delay;
    if (separator != ':') refuse(all, "lacks the time of a delay (delay:MS)");
  } else if (name == "error") {
    fault.action = Action::error;
    if (separator != '\0') refuse(all, "gives a time to an error");
  } else {
    refuse(all, "has an unknown action '" + std::string(name) + "'");
  }
  if (separator == '\0') return;
  const auto time = parse_number<std::uint64_t>(text.substr(mark + 1));
  if (!time || *time > kMostMilliseconds)
    refuse(all, "has a time that is no number of milliseconds up to a day");
  fault.time = std::chrono::milliseconds(*time);
}

Fault parse_fault(std::string_view all, int size) {
  Fault fault;
  fault.text = std::string(all);
  const std::size_t at = all.find('@');
  if (at == std::string_view::npos) refuse(all, "has no '@'");
  parse_action(all, all.substr(0, at), fault);
  const std::string_view where = all.substr(at + 1);
  const std::size_t colon = where.find(':');
  const auto rank = parse_number<std::uint64_t>(where.substr(0, colon));
  if (!rank || *rank >= static_cast<std::uint64_t>(size))
    refuse(all, "names no rank of 0.." + std::to_string(size - 1));
  fault.rank = static_cast<int>(*rank);
  if (colon == std::string_view::npos) refuse(all, "names no operation");
  std::string_view operation = where.substr(colon + 1);
  if (const std::size_t second = operation.find(':'); second != std::string_view::npos) {
    const auto occurrence = parse_number<std::uint64_t>(operation.substr(second + 1));
    if (!occurrence || *occurrence == 0) refuse(all, "has an occurrence that is no number from 1");
    fault.occurrence = *occurrence;
    operation = operation.substr(0, second);
  }
  const auto point = point_from(operation);
  if (!point)
    refuse(all, "has an unknown operation '" + std::string(operation) +
                    "' (the collectives, agree, init, split and finalize are known)");
  fault.point = *point;
  return fault;
}

}  // namespace

std::vector<Fault> parse_faults(std::string_view text, int size) {
  std::vector<Fault> faults;
  while (!text.empty()) {
    const std::size_t comma = text.find(',');
    faults.push_back(parse_fault(text.substr(0, comma), size));
    if (comma == std::string_view::npos) break;
    text.remove_prefix(comma + 1);
    if (text.empty()) refuse(text, "after the last comma names no fault");
  }
  return faults;
}

Injector::Injector(std::vector<Fault> faults, int rank) : rank_(rank) {
  for (Fault& fault : faults)
    if (fault.rank == rank) armed_.push_back({std::move(fault), 0});
}

Injector::~Injector() {
  {
    const std::lock_guard lock(mutex_);
    end_ = true;
  }
  ended_.notify_all();
  for (std::thread& thread : later_) thread.join();
}

void Injector::at(std::uint8_t point) {
  std::vector<Fault> due;
  {
    const std::lock_guard lock(mutex_);
    for (Armed& armed : armed_)
      if (armed.fault.point == point && ++armed.seen == armed.fault.occurrence) due.push_back(armed.fault);
  }
  for (const Fault& fault : due) act(fault);
}

void Injector::act(const Fault& fault) {
  const std::string who = "muster: MUSTER_FAULT: rank " + std::to_string(rank_) + ": " + fault.text;
  std::fprintf(stderr, "%s\n", who.c_str());
  switch (fault.action) {
    case Action::kill:
    case Action::stop:
      signal_self(fault);
      return;
    case Action::delay:
      std::this_thread::sleep_for(fault.time);
      return;
    case Action::error:
      throw Error(ErrorCode::backend, "an error was injected on rank " + std::to_string(rank_) +
                                          " by MUSTER_FAULT=" + fault.text +
                                          "; unset it to run without faults");
  }
}

void Injector::signal_self(const Fault& fault) {
  const int signal = fault.action == Action::kill ? SIGKILL : SIGSTOP;
  if (fault.time.count() == 0) {
    ::kill(::getpid(), signal);
    return;
  }
  const std::lock_guard lock(mutex_);
  later_.push_back(quiet_thread([this, signal, time = fault.time] {
    std::unique_lock waiting(mutex_);
    if (!ended_.wait_for(waiting, time, [this] { return end_; })) ::kill(::getpid(), signal);
  }));
}

}  // namespace muster::fault
