// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/server/store/opened_store.hpp"

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

using namespace muster::rendezvous;

TEST_CASE("the stores of a daemon take half of a small machine's memory, and 256 MiB each of a large one's") {
  CHECK(hosted_store_bytes(8 * kGiB) == 64 * kMiB);
  CHECK(hosted_store_bytes(32 * kGiB) == 256 * kMiB);
  CHECK(hosted_store_bytes(2048 * kGiB) == 256 * kMiB);
  const StoreServerOptions options = hosted_store(resolve("127.0.0.1", 29400).front());
  CHECK(options.max_store_bytes == hosted_store_bytes());
  CHECK(options.max_store_bytes <= 256 * kMiB);
  CHECK(options.max_connections < kMaxConnections + 1);
  CHECK(options.max_bytes_under_way == 256 * kMiB);
}

TEST_CASE("the narrowest cgroup counts, and none is no limit") {
  std::string pattern = (std::filesystem::temp_directory_path() / "cgroup-XXXXXX").string();
  REQUIRE(::mkdtemp(pattern.data()) != nullptr);
  std::filesystem::create_directories(pattern + "/a/b");
  CHECK(cgroup_memory(pattern, "/a/b", 9000) == 9000);
  std::ofstream(pattern + "/a/b/memory.max") << "max\n";
  std::ofstream(pattern + "/a/memory.max") << "5000\n";
  CHECK(cgroup_memory(pattern, "/a/b", 9000) == 5000);
  std::ofstream(pattern + "/memory.max") << "3000\n";
  CHECK(cgroup_memory(pattern, "/a/b", 9000) == 3000);
  CHECK(cgroup_memory(pattern, "", 9000) == 3000);
  std::filesystem::remove_all(pattern);
}
