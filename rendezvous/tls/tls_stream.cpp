// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/tls/tls_stream.hpp"

#include "rendezvous/base/deadline.hpp"
#include "rendezvous/log/terminal_text.hpp"
#include "rendezvous/net/name_lookup.hpp"
#include "rendezvous/protocol/errc.hpp"
#include "rendezvous/tls/tls_socket.hpp"

#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

namespace muster::rendezvous {
namespace {

namespace asio = boost::asio;

#ifndef IP_BIND_ADDRESS_NO_PORT
#define IP_BIND_ADDRESS_NO_PORT 24
#endif

/// Makes a non-blocking socket and begins to connect it to `target`; on failure `error` is the errno.
UniqueFd begin_to_connect(const SocketAddress& target, const std::string& local_address, int& error) {
  UniqueFd fd(::socket(target.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP));
  error = errno;
  if (!fd) return fd;
  set_tcp_options(fd.get());
  if (!local_address.empty()) {
    const int on = 1;
    // The kernel chooses the port only when the target is known, so that ports do not run out.
    ::setsockopt(fd.get(), IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof(on));
    const SocketAddress source = resolve(local_address, 0).front();
    if (source.family() != target.family() || ::bind(fd.get(), source.data(), source.size()) != 0) {
      error = source.family() != target.family() ? EAFNOSUPPORT : errno;
      return UniqueFd();
    }
  }
  if (::connect(fd.get(), target.data(), target.size()) == 0 || errno == EINPROGRESS) {
    error = 0;
    return fd;
  }
  error = errno;
  return UniqueFd();
}

CoordinatorError connect_error(const std::string& where, int error, const std::string& local_address) {
  const std::string text = "cannot connect to the coordinator at " + where +
                           (local_address.empty() ? "" : " from " + local_address) + ": " +
                           std::strerror(error);
  if (error == ECONNREFUSED)
    return {Errc::lost, text + "; nobody listens there: has the job on that host ended?"};
  if (error == EADDRNOTAVAIL)
    return {Errc::environment, text + "; choose an address of this host with --local-addr"};
  return {Errc::lost,
          text + "; is there a firewall between the hosts, or does --interface name another network?"};
}

asio::awaitable<std::unique_ptr<TlsSocket>> connect_tcp(asio::any_io_executor executor, SocketAddress target,
                                                        std::string local_address, std::string where,
                                                        TimePoint deadline) {
  int error = 0;
  UniqueFd fd = begin_to_connect(target, local_address, error);
  if (error != 0) throw connect_error(where, error, local_address);
  auto socket = std::make_unique<TlsSocket>(executor, std::move(fd), target.family());
  error = co_await socket->wait_connected(deadline);
  if (error != 0) throw connect_error(where, error, local_address);
  co_return socket;
}

CoordinatorError handshake_error(const std::string& where, const std::string& why) {
  return {Errc::mend,
          "the TLS handshake with the coordinator at " + where + " failed (" + why +
              "): the two sides do not have the same key for this job and node, or another program listens "
              "there; compare the key files and the job's id on both hosts"};
}

CoordinatorError stranger(const std::string& where, const std::string& said) {
  if (said.starts_with(kPlainWordsStart))
    return {Errc::mend, "the muster at " + where + " takes no nodes: " +
                            for_terminal(std::string_view(said).substr(kPlainWordsStart.size())) +
                            "; its own first lines say why"};
  return {Errc::mend, "what listens at " + where + " is no coordinator, it says '" + for_terminal(said) +
                          "': another program listens there; end that program, or choose another port"};
}

CoordinatorError no_answer(const std::string& where, TlsSocket::Outcome outcome, const std::string& why) {
  if (outcome == TlsSocket::Outcome::late)
    return {Errc::deadline, "the coordinator at " + where + " did not answer the TLS handshake in time"};
  return {Errc::lost, "the coordinator at " + where + " broke off the TLS handshake: " + why};
}

/// The kind of the peer when a connection attempt has failed.
enum class Trouble { other, no_answer, stranger };

[[noreturn]] void throw_as(Trouble trouble, const CoordinatorError& error) {
  if (trouble == Trouble::no_answer) throw NoAnswerError(error.code(), error.what());
  if (trouble == Trouble::stranger) throw StrangerError(error.code(), error.what());
  throw CoordinatorError(error);
}

/// The time that one of `left` addresses may take, so that the last one gets a try as well.
TimePoint share(TimePoint deadline, std::size_t left) {
  const TimePoint now = steady_now();
  return left <= 1 || deadline <= now ? deadline : now + (deadline - now) / static_cast<int>(left);
}

}  // namespace

asio::awaitable<std::unique_ptr<ByteStream>> connect_tls(asio::any_io_executor executor, Endpoint where,
                                                         PeerIdentity identity, Secret key,
                                                         TimePoint deadline, std::string local_address,
                                                         std::string identity_text) {
  const std::vector<SocketAddress> targets = co_await look_up(executor, where.host, where.port, deadline);
  ClientKey offered{identity_text.empty() ? identity.text() : std::move(identity_text), std::move(key)};
  std::optional<CoordinatorError> last;
  Trouble trouble = Trouble::other;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const TimePoint limit = share(deadline, targets.size() - i);
    std::string place = targets[i].text();
    if (targets[i].host() != where.host) place = where.host + " (" + place + ")";
    try {
      std::unique_ptr<TlsSocket> socket =
          co_await connect_tcp(executor, targets[i], local_address, place, limit);
      std::string why;
      SslHandle ssl = new_client_ssl(socket->fd(), offered);
      const TlsSocket::Outcome outcome = co_await socket->shake_hands(std::move(ssl), limit, why);
      if (outcome == TlsSocket::Outcome::done) co_return socket;
      trouble = outcome != TlsSocket::Outcome::refused ? Trouble::no_answer
                : socket->first_words().empty()        ? Trouble::other
                                                       : Trouble::stranger;
      last = trouble == Trouble::no_answer  ? no_answer(place, outcome, why)
             : trouble == Trouble::stranger ? stranger(place, socket->first_words())
                                            : handshake_error(place, why);
    } catch (const CoordinatorError& error) {
      last = error;
      trouble = Trouble::other;
    }
    // A server that refuses with a reason is the one that was meant, so no other address is tried.
    if (last->code() == Errc::mend) break;
  }
  if (!last) last.emplace(Errc::environment, "host '" + where.host + "' has no address");
  throw_as(trouble, *last);
}

void detach(AcceptedTls& accepted) {
  static_cast<TlsSocket&>(*accepted.stream).detach();
}

void attach(AcceptedTls& accepted, const asio::any_io_executor& executor) {
  static_cast<TlsSocket&>(*accepted.stream).attach(executor);
}

TlsAcceptor::TlsAcceptor(Secret job_secret, std::optional<std::string> job, ClientResolver others)
    : keys_(std::make_unique<ServerKeys>(std::move(job_secret), std::move(job), std::move(others))) {}

TlsAcceptor::~TlsAcceptor() = default;

asio::awaitable<AcceptedTls> TlsAcceptor::accept(asio::any_io_executor executor, UniqueFd fd,
                                                 TimePoint deadline, std::function<bool()> key_shown) {
  set_tcp_options(fd.get());
  int family = AF_INET;
  socklen_t size = sizeof(family);
  ::getsockopt(fd.get(), SOL_SOCKET, SO_DOMAIN, &family, &size);
  auto socket = std::make_unique<TlsSocket>(executor, std::move(fd), family);
  std::optional<PeerIdentity> identity;
  std::string why;
  SslHandle ssl = keys_->new_server_ssl(socket->fd(), identity);
  // A wrong key fails in the call that reads the client's first message, so a wait after that means a right
  // key.
  bool shown = false;
  const std::function<bool()> on_wait = [this, raw = ssl.get(), &identity, &key_shown, &shown] {
    if (!identity || std::exchange(shown, true)) return true;
    return keys_->is_first_time(raw) && (!key_shown || key_shown());
  };
  const TlsSocket::Outcome outcome = co_await socket->shake_hands(std::move(ssl), deadline, why, on_wait);
  if (outcome == TlsSocket::Outcome::late)
    throw CoordinatorError(Errc::deadline, "no TLS handshake within the time for it");
  if (outcome == TlsSocket::Outcome::ended)
    throw CoordinatorError(Errc::lost, "it broke off the TLS handshake: " + why);
  if (outcome == TlsSocket::Outcome::refused || !identity)
    throw CoordinatorError(Errc::mend, "it does not have the key of a node of this job (" + why + ")");
  AcceptedTls accepted;
  accepted.stream = std::move(socket);
  accepted.peer = *identity;
  co_return accepted;
}

}  // namespace muster::rendezvous
