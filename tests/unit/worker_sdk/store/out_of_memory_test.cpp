// SPDX-License-Identifier: Apache-2.0
// The client in a process whose memory ends in the middle of a reply.
#include "catch.hpp"
#include "muster/error.hpp"
#include "tests/unit/worker_sdk/store/scripted_peer.hpp"
#include "worker_sdk/store/tcp_store.hpp"

#include <cstdint>
#include <cstdlib>
#include <new>

namespace {

thread_local std::size_t largest_block = SIZE_MAX;

}  // namespace

// A limit of the process would stop all of its threads.
void* operator new(std::size_t bytes) {
  void* const memory = bytes > largest_block ? nullptr : std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}

void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace muster {
namespace {

using namespace std::string_literals;

TEST_CASE("a reply for which there is no memory closes the store") {
  const test::ScriptedPeer peer([](const test::PeerConnection& client) {
    client.shake_hands();
    client.read(19);
    client.write("\0"s);
    client.read(11);
    client.write("\0\0\1\0\0\0\0\0"s + std::string(65536, 'x'));
    client.read_until_closed();
  });
  const auto store = connect_store("127.0.0.1", peer.port());
  largest_block = 32768;
  CHECK_THROWS_AS(store->get("k"), std::bad_alloc);
  largest_block = SIZE_MAX;
  // What is left of the reply must not become the answer to this.
  CHECK_THROWS_WITH(store->num_keys(), Contains("closed earlier (out of memory)"));
}

}  // namespace
}  // namespace muster
