// SPDX-License-Identifier: Apache-2.0
// The library that is loaded is the fake one beside this program: see CMakeLists.txt.
#include "agent/gpu_events.hpp"

#include "catch.hpp"
#include "rendezvous/log/log.hpp"

#include <pthread.h>

#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

using namespace muster::agent;
using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

std::vector<GpuError> first_errors(const GpuEvents& events) {
  const auto deadline = Clock::now() + 20s;
  while (events.errors().empty() && Clock::now() < deadline) std::this_thread::sleep_for(1ms);
  return events.errors();
}

}  // namespace

TEST_CASE("A critical error is told with its GPU") {
  ::setenv("MUSTER_FAKE_GPUS", "3", 1);
  ::setenv("MUSTER_FAKE_XID", "79", 1);
  ::unsetenv("MUSTER_FAKE_NVML_ERROR");
  {
    const GpuEvents events(std::nullopt);
    const auto errors = first_errors(events);
    REQUIRE(errors.size() == 1);
    CHECK(errors[0].gpu == 2);
    CHECK(errors[0].address == "ffff:3d:00.0");
    CHECK(errors[0].xid == 79);
  }
  // Of GPUs that no worker sees nothing is told.
  const GpuEvents of_one("1");
  const auto errors = first_errors(of_one);
  REQUIRE(errors.size() == 1);
  CHECK(errors[0].gpu == 1);
  ::unsetenv("MUSTER_FAKE_XID");
}

TEST_CASE("Without GPUs, or a driver that answers, nothing is told and nothing is waited for") {
  ::setenv("MUSTER_FAKE_GPUS", "0", 1);
  CHECK(GpuEvents(std::nullopt).errors().empty());
  ::setenv("MUSTER_FAKE_GPUS", "3", 1);
  ::setenv("MUSTER_FAKE_NVML_ERROR", "9", 1);
  CHECK(GpuEvents(std::nullopt).errors().empty());
  ::unsetenv("MUSTER_FAKE_NVML_ERROR");
  CHECK(GpuEvents("").errors().empty());
}

TEST_CASE("Where no thread can be had, a warning says that errors of GPUs are not watched for") {
  ::setenv("MUSTER_FAKE_GPUS", "3", 1);
  ::setenv("MUSTER_FAKE_XID", "79", 1);
  std::string warned;
  muster::set_log_handler([&warned](muster::LogLevel, std::string_view text) { warned = text; });
  pthread_attr_t usual{};
  pthread_attr_t larger{};
  REQUIRE(::pthread_getattr_default_np(&usual) == 0);
  REQUIRE(::pthread_getattr_default_np(&larger) == 0);
  // A stack that no address space has room for.
  REQUIRE(::pthread_attr_setstacksize(&larger, std::size_t{1} << 62) == 0);
  REQUIRE(::pthread_setattr_default_np(&larger) == 0);
  {
    const GpuEvents events(std::nullopt);
    CHECK(events.errors().empty());
  }
  CHECK(::pthread_setattr_default_np(&usual) == 0);
  muster::set_log_handler({});
  ::unsetenv("MUSTER_FAKE_XID");
  CHECK(warned.starts_with(
      "errors of GPUs (Xid) are not watched for on this host: no thread can be started ("));
}

TEST_CASE("A driver that does not come back holds nobody up") {
  ::setenv("MUSTER_FAKE_GPUS", "1", 1);
  ::setenv("MUSTER_FAKE_XID", "48", 1);
  ::setenv("MUSTER_FAKE_NVML_STUCK", "1", 1);
  std::optional<GpuEvents> events(std::in_place, std::nullopt);
  REQUIRE(first_errors(*events).size() == 1);
  const auto begin = Clock::now();
  events.reset();
  // The driver never comes back.
  CHECK(Clock::now() - begin < 20s);
}
