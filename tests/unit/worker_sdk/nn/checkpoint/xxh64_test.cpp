// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/nn/checkpoint/xxh64.hpp"

#include "catch.hpp"

#include <string>
#include <vector>

using muster::checkpoint::Xxh64;

namespace {

std::uint64_t xxh64_of(const std::string& text) {
  Xxh64 hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.digest();
}

/// 0, 1, 2 ... in bytes.
std::string counting(std::size_t length) {
  std::string text(length, '\0');
  for (std::size_t i = 0; i < length; ++i) text[i] = static_cast<char>(i);
  return text;
}

}  // namespace

// The values are those of xxHash's own library (its Python package, xxh64_intdigest).
TEST_CASE("XXH64 gives what the reference implementation gives") {
  CHECK(xxh64_of("") == 0xEF46DB3751D8E999U);
  CHECK(xxh64_of("a") == 0xD24EC4F1A98C6E5BU);
  CHECK(xxh64_of("abc") == 0x44BC2CF5AD770999U);
  CHECK(xxh64_of(counting(7)) == 0x14CC643F630C72D2U);
  CHECK(xxh64_of(counting(8)) == 0x884A173614B81B8DU);
  CHECK(xxh64_of(counting(12)) == 0x424AF23F1F08DCA5U);
  CHECK(xxh64_of(counting(31)) == 0xC346D2B59B4D8EE1U);
  CHECK(xxh64_of(counting(32)) == 0xCBF59C5116FF32B4U);
  CHECK(xxh64_of(counting(33)) == 0x0C535D1ACAFB8EADU);
  CHECK(xxh64_of(counting(63)) == 0xE26AA9E2A95F8E4FU);
  CHECK(xxh64_of(counting(64)) == 0xF7C67301DB6713F0U);
  CHECK(xxh64_of(counting(100)) == 0x6AC1E58032166597U);
  CHECK(xxh64_of(counting(1000)) == 0x6EF436B00EBA4078U);
}

TEST_CASE("XXH64 does not depend on how the bytes are cut") {
  const std::string text = counting(1000);
  for (std::size_t piece = 1; piece < 100; ++piece) {
    Xxh64 hash;
    for (std::size_t at = 0; at < text.size(); at += piece)
      hash.update(std::as_bytes(std::span(text).subspan(at, std::min(piece, text.size() - at))));
    CHECK(hash.digest() == xxh64_of(text));
  }
}
