// SPDX-License-Identifier: Apache-2.0
// Makes OpenSSL's objects with our settings and with the callbacks for the keys. No Asio.
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

/// The identity and key that a client offers; it must live until the handshake is over.
struct ClientKey {
  std::string identity;
  Secret key;
};

/// Makes the client's end on a connected socket, before the handshake.
SslHandle new_client_ssl(int fd, ClientKey& key);

/// The keys of a server, which knows the job secret and derives each client's key from it.
class ServerKeys {
 public:
  /// `job`: the job of the secret; none: the secret is one for many jobs, from which the secret of the
  /// client's job is derived first. `others` may be empty.
  ServerKeys(Secret job_secret, std::optional<std::string> job, ClientResolver others);

  /// Makes the server's end. `identity` is filled in during the handshake, even for a key that then proves to
  /// be wrong; `identity` and this object must live until the handshake is over.
  SslHandle new_server_ssl(int fd, std::optional<PeerIdentity>& identity);

  /// Whether the first message of a client that proved a key is new, and not a recorded one. Remembers the
  /// message.
  bool is_first_time(SSL* ssl);

 private:
  static int look_at_hello(SSL* ssl, int* alert, void* keys);
  static int find_key(SSL* ssl, const unsigned char* identity, std::size_t size, SSL_SESSION** session);
  /// The key of a client's identity; fills `peer` in.
  Secret key_of(std::string_view identity, int fd, std::optional<PeerIdentity>& peer) const;

  Secret job_secret_;
  /// The secret behind the keys for unknown identities, which then fail exactly where and when a wrong key
  /// does.
  Secret decoy_secret_;
  std::optional<std::string> job_;
  ClientResolver others_;
  HelloMemory hellos_;
  SslContext context_;
};

/// The first line of a server's answer to our hello if the server does not speak TLS; empty if it does.
std::string first_words(SSL* ssl);

/// Whether the handshake gave what we require: TLS 1.3 by the pre-shared key, and our protocol.
bool is_ours(SSL* ssl);

/// Whether OpenSSL's last failure was that the peer closed the connection without a goodbye.
bool is_unannounced_end();

/// Takes OpenSSL's text about its last failure, for the log.
std::string take_ssl_error();

}  // namespace muster::rendezvous
