// SPDX-License-Identifier: Apache-2.0
// TLS 1.3 with an external pre-shared key, as a ByteStream: psk_dhe_ke with X25519, TLS_AES_128_GCM_SHA256,
// no certificates, tickets or early data, ALPN "muster/1". Includes Asio; OpenSSL is not touched before the
// first use.
#pragma once

#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/protocol/errc.hpp"
#include "rendezvous/protocol/ids.hpp"
#include "rendezvous/tls/peer_identity.hpp"
#include "rendezvous/wire/byte_stream.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace muster::rendezvous {

class ServerKeys;

/// The error for a peer that took the connection and then said nothing or hung up: another program, or a
/// coordinator with too much to do.
class NoAnswerError : public CoordinatorError {
 public:
  using CoordinatorError::CoordinatorError;
};

/// The error for a program that answers as no coordinator does.
class StrangerError : public CoordinatorError {
 public:
  using CoordinatorError::CoordinatorError;
};

/// Looks the host up (off the event loop, kLookUpTimeout), tries its addresses one after the other, and
/// shakes hands. Throws CoordinatorError:
///   lost         nobody there, or it broke off: trying again may help
///   mend         the other side does not know this key, or is no muster (as StrangerError, if that is sure)
///   deadline     `deadline` passed; the text says in which step
///                (this and lost as NoAnswerError, if somebody took the connection)
///   environment  the name does not resolve
/// `identity_text`: said instead of identity.text(), for a server that knows how to read it; empty: that one.
/// `local_address`: the numeric address to come from; empty: the kernel's choice.
boost::asio::awaitable<std::unique_ptr<ByteStream>> connect_tls(boost::asio::any_io_executor executor,
                                                                Endpoint where, PeerIdentity identity,
                                                                Secret key, TimePoint deadline,
                                                                std::string local_address = "",
                                                                std::string identity_text = "");

/// The beginning of the plain text that a muster sends at a port where it takes no nodes.
inline constexpr std::string_view kPlainWordsStart = "muster: ";

/// A connection on the server's end whose client has proved who it is.
struct AcceptedTls {
  std::unique_ptr<ByteStream> stream;
  PeerIdentity peer;
};

/// Takes the connection from the event loop that accepted it (on that loop's thread) to another one (on the
/// other loop's thread).
void detach(AcceptedTls& accepted);
void attach(AcceptedTls& accepted, const boost::asio::any_io_executor& executor);

/// Accepts TLS connections; knows the job secret, and from it every client's key. One thread.
class TlsAcceptor {
 public:
  /// Clients of another job are refused exactly like a wrong key. Without `job` the secret is one for many
  /// jobs (derive_job_secret). `others`: finds clients that prove themselves in another way; may be empty.
  TlsAcceptor(Secret job_secret, std::optional<std::string> job, ClientResolver others = {});
  ~TlsAcceptor();
  TlsAcceptor(const TlsAcceptor&) = delete;
  TlsAcceptor& operator=(const TlsAcceptor&) = delete;

  /// Runs the handshake on an accepted, non-blocking TCP socket. Throws CoordinatorError as connect_tls does.
  /// The acceptor must live until it returns. `key_shown` is called when the client's first message proves to
  /// be made with its key and was not seen before; then only a message recorded elsewhere is still possible.
  /// If it returns false, the connection is refused.
  boost::asio::awaitable<AcceptedTls> accept(boost::asio::any_io_executor executor, UniqueFd fd,
                                             TimePoint deadline, std::function<bool()> key_shown = {});

 private:
  std::unique_ptr<ServerKeys> keys_;
};

}  // namespace muster::rendezvous
