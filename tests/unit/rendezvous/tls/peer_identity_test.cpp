// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/peer_identity.hpp"

#include "tests/support/catch.hpp"

namespace peer_identity_test {

using namespace muster::rendezvous;
using Role = PeerIdentity::Role;

namespace {

PeerIdentity identity(Role role, const std::string& job, const std::string& node, std::uint64_t incarnation) {
  PeerIdentity result;
  result.role = role;
  result.job = job;
  result.node = node;
  result.incarnation = incarnation;
  return result;
}

}  // namespace

TEST_CASE("an identity is its text and back") {
  CHECK(identity(Role::agent, "j1", "n07", 3).text() == "v1/agent/j1/n07/3");
  CHECK(identity(Role::launcher, "a/b c%", "n\n0", 0).text() == "v1/launcher/a%2Fb%20c%25/n%0A0/0");
  for (const PeerIdentity& each :
       {identity(Role::agent, "", "", 0), identity(Role::launcher, "a/b c%", "n\n0", 18446744073709551615U),
        identity(Role::agent, "j\xc3\xbc", std::string("\0x", 2), 7)})
    CHECK(PeerIdentity::parse(each.text()) == each);
}

TEST_CASE("there is one text for each identity, and nothing else is one") {
  for (const char* text :
       {"", "v1", "v1/agent/j/n", "v2/agent/j/n/1", "v1/server/j/n/1", "v1/Agent/j/n/1", "v1/agent/j/n/",
        "v1/agent/j/n/01", "v1/agent/j/n/+1", "v1/agent/j/n/-1", "v1/agent/j/n/1/", "v1/agent/j/n/1x",
        "v1/agent/j/n/18446744073709551616", "v1/agent/%6a/n/1", "v1/agent/%2f/n/1", "v1/agent/%2/n/1",
        "v1/agent/%/n/1", "v1/agent/j k/n/1", " v1/agent/j/n/1"})
    CHECK_FALSE(PeerIdentity::parse(text).has_value());
  CHECK_FALSE(PeerIdentity::parse("v1/agent/" + std::string(kMaxIdentityBytes, 'j') + "/n/1").has_value());
}

TEST_CASE("the key is HKDF-SHA256 of the secret with the identity as info") {
  const Secret secret = Secret::from_hex("0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20");
  // Computed with Python's hmac module.
  CHECK(derive_key(secret, identity(Role::agent, "j1", "n07", 3)).hex() ==
        "9d39d2e85eef115f0dafdd9a8eba55a9c50cf24499aa705cbb9f156b011169e0");
}

TEST_CASE("each part of the identity changes the key") {
  const Secret secret = Secret::random();
  const std::string key = derive_key(secret, identity(Role::agent, "j", "n", 0)).hex();
  CHECK(derive_key(secret, identity(Role::agent, "j", "n", 0)).hex() == key);
  CHECK(derive_key(secret, identity(Role::launcher, "j", "n", 0)).hex() != key);
  CHECK(derive_key(secret, identity(Role::agent, "k", "n", 0)).hex() != key);
  CHECK(derive_key(secret, identity(Role::agent, "j", "m", 0)).hex() != key);
  CHECK(derive_key(secret, identity(Role::agent, "j", "n", 1)).hex() != key);
  CHECK(derive_key(Secret::random(), identity(Role::agent, "j", "n", 0)).hex() != key);
}

}  // namespace peer_identity_test
