// SPDX-License-Identifier: Apache-2.0
#include "catch.hpp"
#include "rendezvous/protocol/limits.hpp"
#include "rendezvous/server/store/opened_store.hpp"

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
