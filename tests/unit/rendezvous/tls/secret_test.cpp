// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/secret.hpp"

#include "tests/support/catch.hpp"

#include <sstream>
#include <stdexcept>
#include <type_traits>

using namespace muster::rendezvous;

namespace {

template <typename T>
concept Printable = requires(std::ostream& stream, const T& value) {
  stream << value;
};

static_assert(!Printable<Secret>);
static_assert(!std::is_convertible_v<Secret, std::string>);
static_assert(!std::is_copy_constructible_v<Secret>);

std::string some_hex() {
  return "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEEFF";
}

}  // namespace

TEST_CASE("a key goes to hex and back") {
  const Secret secret = Secret::from_hex(some_hex() + "\n");
  CHECK(secret.bytes()[1] == 0x11);
  CHECK(secret.bytes()[31] == 0xff);
  CHECK(secret.hex() == "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff");
}

TEST_CASE("two random keys differ") {
  CHECK(Secret::random().hex() != Secret::random().hex());
}

TEST_CASE("a key that moved away is overwritten") {
  Secret first = Secret::from_hex(some_hex());
  const Secret second = std::move(first);
  CHECK(second.bytes()[1] == 0x11);
  CHECK(first.hex() == std::string(64, '0'));  // NOLINT(bugprone-use-after-move)
}

TEST_CASE("a text that is no key is refused without being quoted") {
  const std::string short_text = "0011deadbeef";
  CHECK_THROWS_WITH(Secret::from_hex(short_text), Contains("64") && !Contains("deadbeef"));
  std::string wrong = some_hex();
  wrong[10] = 'x';
  CHECK_THROWS_WITH(Secret::from_hex(wrong), Contains("character 11") && !Contains("66778899"));
  CHECK_THROWS_WITH(Secret::from_bytes("abc"), Contains("32 bytes") && !Contains("abc"));
}
