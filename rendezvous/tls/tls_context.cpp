// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/tls_context.hpp"

#include "rendezvous/net/address.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace muster::rendezvous {
namespace {

/// The protocol's name in ALPN's form: a length, then the name with its version.
constexpr std::array<unsigned char, 9> kProtocol = {8, 'm', 'u', 's', 't', 'e', 'r', '/', '1'};
constexpr std::array<unsigned char, 2> kAes128GcmSha256 = {0x13, 0x01};

/// The number of the key exchange group X25519 in TLS.
constexpr std::size_t kX25519 = 0x001d;

struct FreeSession {
  void operator()(SSL_SESSION* session) const { SSL_SESSION_free(session); }
};

using SslSession = std::unique_ptr<SSL_SESSION, FreeSession>;

SslContext new_context(const SSL_METHOD* method) {
  SslContext context(SSL_CTX_new(method));
  if (!context) throw std::bad_alloc();
  SSL_CTX* raw = context.get();
  const bool good = SSL_CTX_set_min_proto_version(raw, TLS1_3_VERSION) == 1 &&
                    SSL_CTX_set_max_proto_version(raw, TLS1_3_VERSION) == 1 &&
                    SSL_CTX_set_ciphersuites(raw, "TLS_AES_128_GCM_SHA256") == 1 &&
                    SSL_CTX_set1_groups_list(raw, "X25519") == 1 && SSL_CTX_set_num_tickets(raw, 0) == 1;
  if (!good) throw std::runtime_error("this machine's OpenSSL cannot do TLS 1.3: " + take_ssl_error());
  SSL_CTX_set_options(raw, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);
  SSL_CTX_set_session_cache_mode(raw, SSL_SESS_CACHE_OFF);
  // OpenSSL gives buffers back between records, so that an idle connection costs little.
  SSL_CTX_set_mode(
      raw, SSL_MODE_RELEASE_BUFFERS | SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  SSL_CTX_set_read_ahead(raw, 1);
  return context;
}

/// A key in the form that OpenSSL takes.
SslSession session_with(SSL* ssl, const Secret& key) {
  SslSession session(SSL_SESSION_new());
  const SSL_CIPHER* cipher = SSL_CIPHER_find(ssl, kAes128GcmSha256.data());
  const bool good = session && cipher != nullptr &&
                    SSL_SESSION_set1_master_key(session.get(), key.bytes().data(), Secret::kBytes) == 1 &&
                    SSL_SESSION_set_cipher(session.get(), cipher) == 1 &&
                    SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) == 1;
  if (!good) session.reset();
  return session;
}

int offer_key(SSL* ssl, const EVP_MD* digest, const unsigned char** identity, std::size_t* size,
              SSL_SESSION** session) {
  *session = nullptr;
  if (digest != nullptr && EVP_MD_get_type(digest) != NID_sha256) return 1;
  const auto* key = static_cast<const ClientKey*>(SSL_get_app_data(ssl));
  const void* text = key->identity.data();
  *identity = static_cast<const unsigned char*>(text);
  *size = key->identity.size();
  *session = session_with(ssl, key->key).release();
  return *session != nullptr ? 1 : 0;
}

int choose_protocol(SSL*, const unsigned char** chosen, unsigned char* chosen_size,
                    const unsigned char* offered, unsigned offered_size, void*) {
  unsigned char* result = nullptr;
  if (SSL_select_next_proto(&result, chosen_size, kProtocol.data(), kProtocol.size(), offered,
                            offered_size) != OPENSSL_NPN_NEGOTIATED)
    return SSL_TLSEXT_ERR_ALERT_FATAL;
  *chosen = result;
  return SSL_TLSEXT_ERR_OK;
}

SslContext new_client_context() {
  SslContext context = new_context(TLS_client_method());
  SSL_CTX_set_psk_use_session_callback(context.get(), &offer_key);
  // A server that answers with a certificate instead of the key is refused, because no authority is known.
  SSL_CTX_set_verify(context.get(), SSL_VERIFY_PEER, nullptr);
  if (SSL_CTX_set_alpn_protos(context.get(), kProtocol.data(), kProtocol.size()) != 0) throw std::bad_alloc();
  return context;
}

// A BIO of our own, because OpenSSL's socket BIO writes with write(), which raises SIGPIPE in the program
// that links this.

/// The most bytes of a server without TLS that are quoted.
constexpr std::size_t kQuotedBytes = 60;

/// The socket that a BIO works on.
struct SocketEnd {
  int fd = -1;
  /// Whether this is a server's end, which looks at the client's first message: `known` bytes of its
  /// beginning are in `head`.
  bool is_server = false;
  std::size_t known = 0;
  std::array<unsigned char, 9> head{};
  /// The beginning of the server's answer, on a client's end.
  std::string said{};

  /// Whether the first bytes announce a message longer than a stranger may send: OpenSSL would take 128 KiB
  /// for it at once. A first record that does not hold the message's whole header counts as too long, because
  /// it hides the length.
  bool is_too_long(std::string_view more) {
    for (const char byte : more.substr(0, head.size() - known))
      head[known++] = static_cast<unsigned char>(byte);
    // A record begins with its type, version and length; a message begins with its type and length.
    const auto size = [this](std::size_t at) { return std::size_t{head[at]} << 8U | head[at + 1]; };
    if (known >= 5 && size(3) < head.size() - 5) return true;
    return known == head.size() && (head[6] != 0 || size(7) > kMaxHelloFrameBytes);
  }
};

SocketEnd& end_of(BIO* bio) {
  return *static_cast<SocketEnd*>(BIO_get_data(bio));
}

int bio_result(BIO* bio, ssize_t count, int again_flag) {
  BIO_clear_retry_flags(bio);
  if (count < 0 && (errno == EAGAIN || errno == EINTR))
    BIO_set_flags(bio, again_flag | BIO_FLAGS_SHOULD_RETRY);
  return static_cast<int>(count);
}

int bio_read(BIO* bio, char* data, int size) {
  SocketEnd& end = end_of(bio);
  const ssize_t count = ::recv(end.fd, data, static_cast<std::size_t>(size), MSG_DONTWAIT);
  if (count == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  if (count > 0 && !end.is_server && end.said.size() < kQuotedBytes)
    end.said.append(data, std::min(static_cast<std::size_t>(count), kQuotedBytes - end.said.size()));
  if (count > 0 && end.is_server && end.known < end.head.size() &&
      end.is_too_long({data, static_cast<std::size_t>(count)})) {
    errno = EMSGSIZE;
    BIO_clear_retry_flags(bio);
    return -1;
  }
  return bio_result(bio, count, BIO_FLAGS_READ);
}

int bio_write(BIO* bio, const char* data, int size) {
  // After the peer's end OpenSSL would send an alert; the reset that answers the alert would make the end of
  // a process look like a broken line.
  if (BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0) {
    errno = EPIPE;
    BIO_clear_retry_flags(bio);
    return -1;
  }
  const ssize_t count =
      ::send(end_of(bio).fd, data, static_cast<std::size_t>(size), MSG_DONTWAIT | MSG_NOSIGNAL);
  return bio_result(bio, count, BIO_FLAGS_WRITE);
}

long bio_control(BIO* bio, int command, long, void*) {
  if (command == BIO_CTRL_FLUSH) return 1;
  if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0 ? 1 : 0;
  return 0;
}

int bio_create(BIO* bio) {
  BIO_set_init(bio, 1);
  return 1;
}

int bio_destroy(BIO* bio) {
  delete static_cast<SocketEnd*>(BIO_get_data(bio));
  BIO_set_data(bio, nullptr);
  return 1;
}

std::string peer_host(int fd) {
  sockaddr_storage storage{};
  socklen_t size = sizeof(storage);
  void* address = &storage;
  if (::getpeername(fd, static_cast<sockaddr*>(address), &size) != 0) return "";
  return SocketAddress(static_cast<sockaddr*>(address), size).host();
}

/// Whether a hello brings a key share for X25519. A client without one would be asked for it, and might then
/// send a second hello of any length.
bool has_our_share(SSL* ssl) {
  const unsigned char* bytes = nullptr;
  std::size_t size = 0;
  if (SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_key_share, &bytes, &size) != 1) return false;
  const auto number = [bytes](std::size_t at) { return std::size_t{bytes[at]} << 8U | bytes[at + 1]; };
  // After the list's length each share has a group, a length, and that many bytes.
  for (std::size_t at = 2; at + 4 <= size; at += 4 + number(at + 2))
    if (number(at) == kX25519) return true;
  return false;
}

std::string_view random_of(const unsigned char* random, std::size_t size) {
  const void* bytes = random;
  return {static_cast<const char*>(bytes), size};
}

struct FreeMethod {
  void operator()(BIO_METHOD* method) const { BIO_meth_free(method); }
};

using BioMethod = std::unique_ptr<BIO_METHOD, FreeMethod>;

BioMethod new_socket_method() {
  BioMethod method(BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK | BIO_TYPE_DESCRIPTOR, "socket"));
  const bool good = method && BIO_meth_set_create(method.get(), &bio_create) == 1 &&
                    BIO_meth_set_destroy(method.get(), &bio_destroy) == 1 &&
                    BIO_meth_set_read(method.get(), &bio_read) == 1 &&
                    BIO_meth_set_write(method.get(), &bio_write) == 1 &&
                    BIO_meth_set_ctrl(method.get(), &bio_control) == 1;
  if (!good) throw std::bad_alloc();
  return method;
}

SslHandle new_ssl(SSL_CTX* context, int fd, bool is_server) {
  static const BioMethod kMethod = new_socket_method();
  SslHandle ssl(SSL_new(context));
  BIO* bio = ssl ? BIO_new(kMethod.get()) : nullptr;
  if (bio == nullptr) throw std::bad_alloc();
  BIO_set_data(bio, std::make_unique<SocketEnd>(SocketEnd{fd, is_server}).release());
  SSL_set_bio(ssl.get(), bio, bio);
  return ssl;
}

}  // namespace

SslHandle new_client_ssl(int fd, ClientKey& key) {
  // The client context of the process, made at the first connection and never changed.
  static const SslContext kContext = new_client_context();
  SslHandle ssl = new_ssl(kContext.get(), fd, false);
  SSL_set_app_data(ssl.get(), &key);
  SSL_set_connect_state(ssl.get());
  return ssl;
}

ServerKeys::ServerKeys(Secret job_secret, std::optional<std::string> job, ClientResolver others)
    : job_secret_(std::move(job_secret)),
      decoy_secret_(Secret::random()),
      job_(std::move(job)),
      others_(std::move(others)),
      context_(new_context(TLS_server_method())) {
  SSL_CTX_set_psk_find_session_callback(context_.get(), &ServerKeys::find_key);
  SSL_CTX_set_client_hello_cb(context_.get(), &ServerKeys::look_at_hello, this);
  SSL_CTX_set_alpn_select_cb(context_.get(), &choose_protocol, nullptr);
  SSL_CTX_set_app_data(context_.get(), this);
}

SslHandle ServerKeys::new_server_ssl(int fd, std::optional<PeerIdentity>& identity) {
  SslHandle ssl = new_ssl(context_.get(), fd, true);
  SSL_set_app_data(ssl.get(), &identity);
  SSL_set_accept_state(ssl.get());
  return ssl;
}

int ServerKeys::look_at_hello(SSL* ssl, int* alert, void* keys) {
  const unsigned char* random = nullptr;
  const std::size_t size = SSL_client_hello_get0_random(ssl, &random);
  // The hello is looked up first, before anything is computed for it.
  const bool seen = static_cast<const ServerKeys*>(keys)->hellos_.has(random_of(random, size));
  // An older TLS has no key shares; OpenSSL itself reports what is wrong with such a hello.
  const unsigned char* versions = nullptr;
  std::size_t ignored = 0;
  const bool modern =
      SSL_client_hello_get0_ext(ssl, TLSEXT_TYPE_supported_versions, &versions, &ignored) == 1;
  if (!seen && (!modern || has_our_share(ssl))) return SSL_CLIENT_HELLO_SUCCESS;
  *alert = SSL_AD_HANDSHAKE_FAILURE;
  return SSL_CLIENT_HELLO_ERROR;
}

bool ServerKeys::is_first_time(SSL* ssl) {
  std::array<unsigned char, 32> random{};
  const std::size_t size = SSL_get_client_random(ssl, random.data(), random.size());
  return hellos_.add(random_of(random.data(), size));
}

Secret ServerKeys::key_of(std::string_view identity, int fd, std::optional<PeerIdentity>& peer) const {
  peer = PeerIdentity::parse(identity);
  if (peer && !job_) return derive_key(derive_job_secret(job_secret_, peer->job), *peer);
  if (peer && peer->job == job_) return derive_key(job_secret_, *peer);
  auto other = others_ && !peer ? others_(identity, peer_host(fd)) : std::nullopt;
  if (other && other->peer.job == job_) {
    peer = std::move(other->peer);
    return std::move(other->key);
  }
  return derive_key(decoy_secret_, PeerIdentity{});
}

int ServerKeys::find_key(SSL* ssl, const unsigned char* identity, std::size_t size, SSL_SESSION** session) {
  const auto* keys = static_cast<const ServerKeys*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
  auto* peer = static_cast<std::optional<PeerIdentity>*>(SSL_get_app_data(ssl));
  // No exception may pass through OpenSSL.
  try {
    const void* text = identity;
    const Secret key =
        keys->key_of({static_cast<const char*>(text), size}, end_of(SSL_get_rbio(ssl)).fd, *peer);
    *session = session_with(ssl, key).release();
  } catch (const std::exception&) {
    *session = nullptr;
  }
  return *session != nullptr ? 1 : 0;
}

bool is_ours(SSL* ssl) {
  const unsigned char* protocol = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(ssl, &protocol, &size);
  const bool spoken = size == kProtocol.size() - 1 && std::memcmp(protocol, kProtocol.data() + 1, size) == 0;
  return spoken && SSL_version(ssl) == TLS1_3_VERSION && SSL_session_reused(ssl) == 1;
}

bool is_unannounced_end() {
  return ERR_GET_REASON(ERR_peek_error()) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
}

std::string first_words(SSL* ssl) {
  const std::string& said = end_of(SSL_get_rbio(ssl)).said;
  // Records of TLS begin with a type in this range.
  constexpr char kFirstType = 0x14;
  constexpr char kLastType = 0x18;
  if (said.empty() || (said.front() >= kFirstType && said.front() <= kLastType)) return "";
  return said.substr(0, said.find_first_of("\r\n"));
}

std::string take_ssl_error() {
  const unsigned long code = ERR_peek_error();
  const char* reason = ERR_reason_error_string(code);
  std::string text = reason != nullptr ? reason : "no reason given";
  ERR_clear_error();
  return text;
}

}  // namespace muster::rendezvous
