// SPDX-License-Identifier: Apache-2.0
// Rank 0's way to a store that it serves under a name. The resolver is the one below, in this program.
#include "worker_sdk/world/store_access.hpp"

#include "catch.hpp"
#include "muster/error.hpp"
#include "tests/support/error_of.hpp"

#include <dlfcn.h>
#include <netdb.h>

#include <atomic>
#include <string>

namespace {

/// How often the name "late.test" is still unknown, and how a look-up fails then.
std::atomic<int> failures_left{0};
std::atomic<int> failure{EAI_AGAIN};

}  // namespace

extern "C" int getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** result) {
  using Function = int (*)(const char*, const char*, const addrinfo*, addrinfo**);
  static const auto real = reinterpret_cast<Function>(::dlsym(RTLD_NEXT, "getaddrinfo"));
  if (node == nullptr || std::string(node) != "late.test") return real(node, service, hints, result);
  if (failures_left > 0) {
    --failures_left;
    return failure;
  }
  return real("127.0.0.1", service, hints, result);
}

namespace muster {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

StoreRequest request_of_first(milliseconds limit) {
  StoreRequest request;
  request.place.rank = 0;
  request.place.size = 2;
  request.self = {"here", "boot", 1, 1, 1};
  request.limit = limit;
  request.deadline = std::chrono::steady_clock::now() + limit;
  return request;
}

const StoreRoute kLateName{StoreRoute::Kind::served, "late.test", 0, ""};

TEST_CASE("Rank 0 waits for a name of its host that appears late") {
  for (const int how : {EAI_AGAIN, EAI_NONAME}) {
    failure = how;
    failures_left = 3;
    const StoreAccess access = StoreAccess::open(request_of_first(seconds(60)), kLateName);
    REQUIRE(access.client() != nullptr);
    CHECK(failures_left == 0);
    access.client()->set("key", "value");
    CHECK(access.client()->get("key") == "value");
  }
}

TEST_CASE("A name that does not appear ends the wait of rank 0 at its deadline") {
  failure = EAI_AGAIN;
  failures_left = 1'000'000;
  const std::string text = test::error_of(
      [] { (void)StoreAccess::open(request_of_first(milliseconds(500)), kLateName); }, ErrorCode::io);
  CHECK(text.find("late.test") != std::string::npos);
  CHECK(text.find("rank 0 cannot serve the store") != std::string::npos);
}

}  // namespace
}  // namespace muster
