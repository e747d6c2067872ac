// SPDX-License-Identifier: Apache-2.0
// Clients that have the right key, but offer other cryptography than ours.
#include "tests/integration/tls/tls_fixture.hpp"
#include "tests/support/catch.hpp"

#include <openssl/ssl.h>

#include <array>
#include <thread>

namespace muster::rendezvous::tls_test::offers_test {
namespace {

struct Offer {
  std::string what;
  std::string suites = "TLS_AES_128_GCM_SHA256";
  /// The key's own, of that name.
  std::array<unsigned char, 2> suite = {0x13, 0x01};
  std::string groups = "X25519";
  /// ALPN's form.
  std::string protocol = "\x08muster/1";
};

struct Key {
  std::string identity;
  const Secret* secret = nullptr;
  std::array<unsigned char, 2> suite{};
};

int offer_key(SSL* ssl, const EVP_MD*, const unsigned char** identity, std::size_t* size,
              SSL_SESSION** session) {
  const auto* key = static_cast<const Key*>(SSL_get_app_data(ssl));
  *session = SSL_SESSION_new();
  SSL_SESSION_set1_master_key(*session, key->secret->bytes().data(), Secret::kBytes);
  SSL_SESSION_set_cipher(*session, SSL_CIPHER_find(ssl, key->suite.data()));
  SSL_SESSION_set_protocol_version(*session, TLS1_3_VERSION);
  const void* text = key->identity.data();
  *identity = static_cast<const unsigned char*>(text);
  *size = key->identity.size();
  return 1;
}

/// A whole handshake of a client of OpenSSL's own, over a blocking socket.
void shake_hands(int fd, const Offer& offer, Key key) {
  const std::unique_ptr<SSL_CTX, void (*)(SSL_CTX*)> context(SSL_CTX_new(TLS_client_method()), &SSL_CTX_free);
  SSL_CTX_set_min_proto_version(context.get(), TLS1_3_VERSION);
  SSL_CTX_set_ciphersuites(context.get(), offer.suites.c_str());
  SSL_CTX_set1_groups_list(context.get(), offer.groups.c_str());
  SSL_CTX_set_psk_use_session_callback(context.get(), &offer_key);
  const std::unique_ptr<SSL, void (*)(SSL*)> ssl(SSL_new(context.get()), &SSL_free);
  const void* protocol = offer.protocol.data();
  SSL_set_alpn_protos(ssl.get(), static_cast<const unsigned char*>(protocol),
                      static_cast<unsigned>(offer.protocol.size()));
  SSL_set_app_data(ssl.get(), &key);
  SSL_set_fd(ssl.get(), fd);
  // What comes of it is judged at the other end.
  SSL_connect(ssl.get());
}

bool lets_in(const Offer& offer) {
  TlsBench bench;
  const PeerIdentity identity = agent_identity();
  const Secret secret = derive_key(bench.secret, identity);
  const UniqueFd fd = bench.dial();
  std::thread client([&] { shake_hands(fd.get(), offer, {identity.text(), &secret, offer.suite}); });
  const auto accepting = bench.accept();
  bench.run_until([&] { return accepting->done; });
  const bool is_in = accepting->value.has_value() && accepting->value->stream != nullptr;
  if (!is_in) CHECK(accepting->code == Errc::mend);
  client.join();
  return is_in;
}

}  // namespace

TEST_CASE("a client with the right key and our suite, group and protocol is let in, whoever made it") {
  CHECK(lets_in({"ours"}));
  CHECK(lets_in({"ours among others",
                 "TLS_AES_128_GCM_SHA256:TLS_CHACHA20_POLY1305_SHA256",
                 {0x13, 0x01},
                 "X25519:P-256"}));
}

TEST_CASE("a client with the right key that offers only other cryptography is refused") {
  const Offer offer =
      GENERATE(Offer{"another cipher", "TLS_CHACHA20_POLY1305_SHA256", {0x13, 0x03}},
               Offer{"another cipher and hash", "TLS_AES_256_GCM_SHA384", {0x13, 0x02}},
               Offer{"another group", "TLS_AES_128_GCM_SHA256", {0x13, 0x01}, "P-256"},
               Offer{"its share for another group", "TLS_AES_128_GCM_SHA256", {0x13, 0x01}, "P-256:X25519"},
               Offer{"another protocol", "TLS_AES_128_GCM_SHA256", {0x13, 0x01}, "X25519", "\x02h2"});
  INFO(offer.what);
  CHECK_FALSE(lets_in(offer));
}

}  // namespace muster::rendezvous::tls_test::offers_test
