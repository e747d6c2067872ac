// SPDX-License-Identifier: Apache-2.0
#include "launcher/metrics/metrics_listener.hpp"

#include "launcher/metrics/core/http_request.hpp"
#include "rendezvous/base/unique_fd.hpp"
#include "rendezvous/net/address.hpp"
#include "rendezvous/server/admission.hpp"
#include "rendezvous/server/socket_table.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <utility>

namespace muster::launcher {
namespace {

namespace asio = boost::asio;
using Error = boost::system::error_code;
using Protocol = asio::generic::stream_protocol;
using rendezvous::SocketAddress;

/// Before the next client is taken where one could not be, as without free descriptors.
constexpr std::chrono::seconds kAcceptAgainAfter{1};

bool is_welcome_at_unix(int fd) {
  ucred peer{};
  socklen_t size = sizeof peer;
  return ::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
         (peer.uid == ::geteuid() || peer.uid == 0);
}

bool is_welcome_at_tcp(int fd, rendezvous::SocketTable& table) {
  sockaddr_storage storage{};
  socklen_t size = sizeof storage;
  if (::getpeername(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) return false;
  const SocketAddress peer(reinterpret_cast<const sockaddr*>(&storage), size);
  rendezvous::SocketEntry entry;
  const auto lookup = table.find(peer, rendezvous::local_end(fd), entry);
  std::string reason;
  const uid_t wanted = entry.uid == 0 ? 0 : ::geteuid();
  return rendezvous::AdmissionRules::judge(lookup, entry, true, wanted, reason) ==
         rendezvous::Admission::same_user;
}

}  // namespace

// Shared with the operations under way, which do nothing more once the listener has been closed.
struct MetricsListener::State : std::enable_shared_from_this<State> {
  struct Client {
    Client(const asio::any_io_executor& executor, int family, UniqueFd fd)
        : socket(executor, Protocol(family, 0), fd.release()), limit(executor) {}

    Protocol::socket socket;
    asio::steady_timer limit;
    std::string text;
  };

  using ClientPtr = std::shared_ptr<Client>;

  State(const asio::any_io_executor& given_executor, MetricsSocket given_socket, Ask question)
      : executor(given_executor),
        socket(std::move(given_socket)),
        listener(executor, socket.release().release()),
        again(executor),
        ask(std::move(question)) {}

  void wait() {
    listener.async_wait(asio::posix::descriptor_base::wait_read,
                        [self = shared_from_this()](const Error& error) {
                          if (!error && self->listener.is_open()) self->accept();
                        });
  }

  void accept() {
    UniqueFd fd(::accept4(listener.native_handle(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS))
      return accept_later();
    const bool over_tcp = !socket.is_unix();
    if (fd && clients < kClientsMax &&
        (over_tcp ? is_welcome_at_tcp(fd.get(), table) : is_welcome_at_unix(fd.get()))) {
      const int family = over_tcp ? rendezvous::local_end(fd.get()).family() : AF_UNIX;
      read(std::make_shared<Client>(executor, family, std::move(fd)));
    }
    wait();
  }

  void accept_later() {
    again.expires_after(kAcceptAgainAfter);
    again.async_wait([self = shared_from_this()](const Error& error) {
      if (!error && self->listener.is_open()) self->wait();
    });
  }

  void read(const ClientPtr& client) {
    ++clients;
    client->limit.expires_after(kClientAtMost);
    client->limit.async_wait([client](const Error& error) {
      Error ignored;
      if (!error) client->socket.close(ignored);
    });
    asio::async_read_until(client->socket, asio::dynamic_buffer(client->text, kHttpRequestMax), "\r\n\r\n",
                           [self = shared_from_this(), client](const Error& error, std::size_t size) {
                             if (error) return self->done(client);
                             client->text.resize(size);
                             self->take(client);
                           });
  }

  void take(const ClientPtr& client) {
    const int status = http_status(client->text, !socket.is_unix());
    if (!ask) return done(client);
    if (status != 200) return write(client, http_response(status, ""));
    ask([self = shared_from_this(), client](const std::string& text) {
      self->write(client, http_response(200, text));
    });
  }

  void write(const ClientPtr& client, std::string response) {
    client->text = std::move(response);
    asio::async_write(client->socket, asio::buffer(client->text),
                      [self = shared_from_this(), client](const Error&, std::size_t) { self->done(client); });
  }

  void done(const ClientPtr& client) {
    Error ignored;
    client->limit.cancel();
    client->socket.close(ignored);
    --clients;
  }

  asio::any_io_executor executor;
  MetricsSocket socket;
  asio::posix::stream_descriptor listener;
  asio::steady_timer again;
  Ask ask;
  rendezvous::SocketTable table;
  int clients = 0;
};

MetricsListener::MetricsListener(const asio::any_io_executor& executor, MetricsSocket socket, Ask ask)
    : state_(std::make_shared<State>(executor, std::move(socket), std::move(ask))) {
  state_->wait();
}

MetricsListener::~MetricsListener() {
  Error ignored;
  state_->listener.close(ignored);
  state_->again.cancel();
  state_->ask = nullptr;
  state_->socket.remove();
}

}  // namespace muster::launcher
