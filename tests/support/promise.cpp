// SPDX-License-Identifier: Apache-2.0
#include "promise.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <numeric>

namespace muster::test {
namespace {

// From promise_rule.json.
#ifdef MUSTER_SANITIZED
constexpr double kSlack = PROMISE_SLACK_SANITIZED;
#else
constexpr double kSlack = PROMISE_SLACK;
#endif
constexpr double kSpawnSeconds = PROMISE_SPAWN_S;
constexpr double kMostFactor = PROMISE_MOST_FACTOR;
constexpr double kTimesUsual = PROMISE_TIMES_USUAL;
constexpr double kOneTryTimes = PROMISE_ONE_TRY_TIMES;
constexpr double kOneTrySeconds = PROMISE_ONE_TRY_S;
constexpr int kSpawns = 20;

double spawn_seconds() {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  char name[] = "true";
  char* arguments[] = {name, nullptr};
  pid_t child = 0;
  if (posix_spawn(&child, "/bin/true", nullptr, nullptr, arguments, environ) != 0) return kSpawnSeconds;
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) continue;
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// How many times slower this machine is now than the reference, by how long a process takes that does
/// nothing.
double machine_factor() {
  std::vector<double> seconds(kSpawns);
  std::generate(seconds.begin(), seconds.end(), spawn_seconds);
  std::sort(seconds.begin(), seconds.end());
  seconds.resize(kSpawns * 9 / 10);
  const double usual =
      std::accumulate(seconds.begin(), seconds.end(), 0.0) / static_cast<double>(seconds.size());
  return std::clamp(usual / kSpawnSeconds, 1.0, kMostFactor);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

void write_down(const std::string& line) {
  const char* path = std::getenv("MUSTER_TEST_PROMISES");
  if (path == nullptr || *path == '\0') return;
  const int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
  if (file < 0) return;
  if (write(file, line.data(), line.size()) < 0) std::perror(path);
  close(file);
}

}  // namespace

std::string late(const std::string& name, double seconds, const std::vector<double>& took, double clock,
                 double usual) {
  const double middle = median(took);
  const double worst = *std::max_element(took.begin(), took.end());
  const double factor = machine_factor();
  const double may_take =
      factor * (usual > 0 ? std::min(kSlack * seconds, kTimesUsual * usual) : kSlack * seconds);
  const double bound = clock + may_take;
  const double limit = clock + std::max(kOneTryTimes * may_take, kOneTrySeconds);
  char line[512];
  std::snprintf(
      line, sizeof(line),
      R"({"suite": "%s", "name": "%s", "promise": %g, "median": %g, "tries": %zu, "bound": %g, "worst": %g, )"
      R"("limit": %g, "factor": %g})"
      "\n",
      program_invocation_short_name, name.c_str(), clock + seconds, middle, took.size(), bound, worst, limit,
      factor);
  write_down(line);
  if (middle <= bound && worst <= limit) return {};
  std::snprintf(line, sizeof(line),
                "too late: %s: %.3f s is the middle of %zu tries, %.3f s the worst; promised %g s, bound "
                "%.3f s, of one try %.3f s (machine %.2f times as slow as the reference)",
                name.c_str(), middle, took.size(), worst, clock + seconds, bound, limit, factor);
  return line;
}

std::string late_beside_others(const std::string& name, double seconds,
                               const std::function<std::vector<double>()>& measure, double clock,
                               double usual) {
  std::vector<double> took = measure();
  if (late(name, seconds, took, clock, usual).empty()) return {};
  for (int again = 0; again < 2; ++again) {
    const std::vector<double> more = measure();
    took.insert(took.end(), more.begin(), more.end());
  }
  took.erase(std::max_element(took.begin(), took.end()));
  return late(name, seconds, took, clock, usual);
}

}  // namespace muster::test
