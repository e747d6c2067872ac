// SPDX-License-Identifier: Apache-2.0
#include "agent/core/watchdog_timers.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>

namespace muster::agent {
namespace {

using Json = nlohmann::json;

/// Longest time of a timer, whatever a program asks for: about three years, which the clock's type holds.
constexpr double kMaxSeconds = 1e8;
constexpr int kLastSignal = 64;
/// Most bytes of a name, because names are quoted in a sentence.
constexpr std::size_t kNameBytesMax = 160;

struct Request {
  int pid = 0;
  std::string name;
  double expires_s = 0;
  int signal = 0;
};

std::optional<int> whole(const Json& value, const char* field, int low, int high) {
  const auto found = value.find(field);
  if (found == value.end() || !found->is_number_integer()) return std::nullopt;
  const auto number = found->get<std::int64_t>();
  if (number < low || number > high) return std::nullopt;
  return static_cast<int>(number);
}

std::optional<Request> parse(const std::string& line) {
  const Json value = Json::parse(line, nullptr, false);
  if (!value.is_object()) return std::nullopt;
  const auto pid = whole(value, "pid", 2, INT32_MAX);
  const auto signal = whole(value, "signal", INT32_MIN, kLastSignal);
  const auto name = value.find("scope_id");
  const auto time = value.find("expiration_time");
  if (!pid || !signal || name == value.end() || !name->is_string() || time == value.end() ||
      !time->is_number())
    return std::nullopt;
  return Request{*pid, name->get<std::string>(), time->get<double>(), std::max(*signal, 0)};
}

std::string shortened(const std::string& name) {
  if (name.size() <= kNameBytesMax) return name;
  return "[...]" + name.substr(name.size() - kNameBytesMax);
}

}  // namespace

std::string WatchdogTimers::receive(std::string_view bytes, TimePoint now, double wall_s) {
  std::string complaint;
  const auto complain = [&complaint](std::string text) {
    if (complaint.empty()) complaint = std::move(text);
  };
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    const std::string_view part = bytes.substr(0, end);
    if (!skipping_ && line_.size() + part.size() > kLineBytesMax) {
      skipping_ = true;
      complain("a request of more than " + std::to_string(kLineBytesMax) + " bytes");
    }
    if (!skipping_) line_ += part;
    if (end == std::string_view::npos) break;
    bytes.remove_prefix(end + 1);
    if (!skipping_) complain(request(line_, now, wall_s));
    line_.clear();
    skipping_ = false;
  }
  if (skipping_) line_.clear();
  return complaint;
}

std::string WatchdogTimers::request(const std::string& line, TimePoint now, double wall_s) {
  if (line.empty()) return "";
  auto request = parse(line);
  if (!request) return "a request that cannot be read: " + line.substr(0, kNameBytesMax);
  const Key key{request->pid, std::move(request->name)};
  if (request->expires_s < 0) {
    timers_.erase(key);
    return "";
  }
  if (timers_.size() >= kTimersMax && !timers_.contains(key))
    return "a timer beyond " + std::to_string(kTimersMax) + " at the same time";
  const double left_s = std::clamp(request->expires_s - wall_s, 0.0, kMaxSeconds);
  const std::chrono::milliseconds limit(std::llround(left_s * 1000));
  timers_[key] = {now + limit, limit, request->signal};
  return "";
}

std::vector<ExpiredTimer> WatchdogTimers::take_expired(TimePoint now) {
  std::vector<std::pair<TimePoint, ExpiredTimer>> ended;
  for (auto timer = timers_.begin(); timer != timers_.end();) {
    if (timer->second.at > now) {
      ++timer;
      continue;
    }
    const auto& [pid, name] = timer->first;
    ended.push_back({timer->second.at, {pid, shortened(name), timer->second.limit, timer->second.signal}});
    timer = timers_.erase(timer);
  }
  // Timers with a signal come first, so that the first one of each process is the one to act on.
  std::stable_sort(ended.begin(), ended.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second.signal == 0, a.first) < std::pair(b.second.signal == 0, b.first);
  });
  std::vector<ExpiredTimer> result;
  for (auto& [at, timer] : ended) {
    const auto same = [pid = timer.pid](const ExpiredTimer& other) { return other.pid == pid; };
    if (std::any_of(result.begin(), result.end(), same)) continue;
    if (timer.signal != 0) forget(timer.pid);
    result.push_back(std::move(timer));
  }
  return result;
}

std::optional<WatchdogTimers::TimePoint> WatchdogTimers::next() const {
  std::optional<TimePoint> first;
  for (const auto& [key, timer] : timers_)
    if (!first || timer.at < *first) first = timer.at;
  return first;
}

void WatchdogTimers::forget(int pid) {
  std::erase_if(timers_, [pid](const auto& entry) { return entry.first.first == pid; });
}

std::string describe(const ExpiredTimer& timer, int rank, bool is_worker) {
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%.1f", static_cast<double>(timer.limit.count()) / 1000);
  return "the watchdog timer '" + timer.name + "' of rank " + std::to_string(rank) +
         (is_worker ? "" : " (its process " + std::to_string(timer.pid) + ")") + " expired after " + seconds +
         " s";
}

}  // namespace muster::agent
