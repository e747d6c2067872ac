// SPDX-License-Identifier: Apache-2.0
// OpenSSL's objects with our settings, and the callbacks for the keys. No Asio.
#pragma once

#include "rendezvous/tls/hello_memory.hpp"
#include "rendezvous/tls/peer_identity.hpp"

#include <openssl/ssl.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace muster::rendezvous {

struct FreeSsl {
  void operator()(SSL* ssl) const { SSL_free(ssl); }

  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};

using SslHandle = std::unique_ptr<SSL, FreeSsl>;
using SslContext = std::unique_ptr<SSL_CTX, FreeSsl>;

/// What a client offers during its handshake; must live until that is over.
struct ClientKey {
  std::string identity;
  Secret key;
};

/// The client's end on a connected socket, before the handshake.
SslHandle new_client_ssl(int fd, ClientKey& key);

/// The server's end: knows the job secret and derives each client's key from it.
class ServerKeys {
 public:
  /// Without `job` the secret is one that opens many jobs, and each client's job says which secret is
  /// derived from it first. `others` may be empty.
  ServerKeys(Secret job_secret, std::optional<std::string> job, ClientResolver others);

  /// `identity` is filled in during the handshake, also for a key that then proves to be wrong; both it and
  /// this must live until the handshake is over.
  SslHandle new_server_ssl(int fd, std::optional<PeerIdentity>& identity);

  /// Whether the first message of a client, which proved a key, came for the first time. Remembers the
  /// message.
  bool is_first_time(SSL* ssl);

 private:
  static int look_at_hello(SSL* ssl, int* alert, void* keys);
  static int find_key(SSL* ssl, const unsigned char* identity, std::size_t size, SSL_SESSION** session);
  /// Fills `peer` in.
  Secret key_of(std::string_view identity, int fd, std::optional<PeerIdentity>& peer) const;

  Secret job_secret_;
  /// The key for identities that are nobody's: they fail exactly where and when a wrong key does.
  Secret decoy_secret_;
  std::optional<std::string> job_;
  ClientResolver others_;
  HelloMemory hellos_;
  SslContext context_;
};

/// The first line that a server without TLS said to our hello. Empty if the server speaks TLS.
std::string first_words(SSL* ssl);

/// Whether the handshake gave what we insist on: TLS 1.3 by the pre-shared key, and our protocol.
bool is_ours(SSL* ssl);

/// OpenSSL's last failure was that the peer closed the connection without a goodbye.
bool is_unannounced_end();

/// Takes from OpenSSL what it has to say about its last failure, for the log.
std::string take_ssl_error();

}  // namespace muster::rendezvous
