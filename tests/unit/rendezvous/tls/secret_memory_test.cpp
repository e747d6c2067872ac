// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/secret.hpp"
#include "tests/support/catch.hpp"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

using namespace muster::rendezvous;

namespace {

/// The kernel's flags of the mapping that `address` is in: "dd" left out of core dumps, "lo" locked.
std::set<std::string> mapping_flags(const void* address) {
  const auto wanted = reinterpret_cast<std::uintptr_t>(address);
  std::ifstream file("/proc/self/smaps");
  std::string line;
  bool inside = false;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    const auto dash = word.find('-');
    if (dash != std::string::npos && word.find(':') == std::string::npos)
      inside = std::stoull(word.substr(0, dash), nullptr, 16) <= wanted &&
               wanted < std::stoull(word.substr(dash + 1), nullptr, 16);
    if (!inside || word != "VmFlags:") continue;
    std::set<std::string> flags;
    while (words >> word) flags.insert(word);
    return flags;
  }
  return {};
}

/// Whether `body` holds in a child.
bool in_child(const std::function<bool()>& body) {
  const pid_t pid = ::fork();
  if (pid == 0) ::_exit(body() ? 0 : 1);
  int status = -1;
  ::waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

bool leaves_core_dumps() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_CORE, &limit) != 0 || limit.rlim_cur != 0;
}

}  // namespace

TEST_CASE("A key lies in memory that no core dump has") {
  const Secret secret = Secret::random();
  const auto flags = mapping_flags(secret.bytes().data());
  REQUIRE(!flags.empty());
  CHECK(flags.count("dd") == 1);
}

#ifndef MUSTER_SANITIZED  // sanitizers take mlock away
namespace {

bool may_lock() {
  rlimit limit{};
  return ::getrlimit(RLIMIT_MEMLOCK, &limit) == 0 && limit.rlim_cur >= 65536;
}

}  // namespace

TEST_CASE("A key is not swapped out, in a forked process that is guarded neither") {
  if (!may_lock()) return;
  const Secret secret = Secret::random();
  CHECK(mapping_flags(secret.bytes().data()).count("lo") == 1);
  CHECK(in_child([&secret] {
    const bool before = mapping_flags(secret.bytes().data()).count("lo") == 1;
    guard_process(ProcessFiles::shared);
    return !before && mapping_flags(secret.bytes().data()).count("lo") == 1;
  }));
}
#endif

TEST_CASE("A place is overwritten when it is given back, and used again") {
  unsigned char* const place = take_secret_place();
  std::fill(place, place + kSecretBytes, 0xa5);
  give_back_secret_place(place);
  CHECK(std::all_of(place, place + kSecretBytes, [](unsigned char byte) { return byte == 0; }));
  unsigned char* const again = take_secret_place();
  CHECK(again == place);
  give_back_secret_place(again);
}

TEST_CASE("There is place for any number of keys") {
  std::vector<Secret> keys;
  std::set<const unsigned char*> places;
  for (int i = 0; i < 1000; ++i) keys.push_back(Secret::random());
  for (const Secret& key : keys) places.insert(key.bytes().data());
  CHECK(places.size() == keys.size());
}

TEST_CASE("A guarded process leaves no core dump, and lets nobody in unless it shares its files") {
  CHECK(in_child([] {
    rlimit limit{};
    ::getrlimit(RLIMIT_CORE, &limit);
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_CORE, &limit);
    guard_process(ProcessFiles::closed);
    const bool closed = ::prctl(PR_GET_DUMPABLE) == 0 && !leaves_core_dumps();
    rlimit after{};
    ::getrlimit(RLIMIT_CORE, &after);
    guard_process(ProcessFiles::shared);
    return closed && ::prctl(PR_GET_DUMPABLE) == 1 && !leaves_core_dumps() &&
           after.rlim_max == limit.rlim_max;
  }));
}
