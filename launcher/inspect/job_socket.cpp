// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect/job_socket.hpp"

#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/unique_fd.hpp"

#include <boost/asio/buffer.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <optional>
#include <stdexcept>
#include <utility>

namespace muster::launcher {
namespace {

namespace asio = boost::asio;
using Protocol = asio::local::stream_protocol;
using Error = boost::system::error_code;

constexpr int kWaitingMax = 16;
/// Before the next client is taken where one could not be, as without free descriptors.
constexpr std::chrono::seconds kAcceptAgainAfter{1};

/// Not by Asio, whose sockets are inherited by what this process starts.
UniqueFd listen_at(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) throw_errno(path, ENAMETOOLONG);
  path.copy(address.sun_path, path.size());
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(fd.get(), kWaitingMax) != 0)
    throw_errno(path);
  return fd;
}

/// Returns the process at the other end, if it is this user's, or root's.
std::optional<ucred> who_may_ask(Protocol::socket& socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (::getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return std::nullopt;
  return peer.uid == ::geteuid() || peer.uid == 0 ? std::optional(peer) : std::nullopt;
}

}  // namespace

// Shared with the operations under way, which do nothing more once the socket has been closed.
struct JobSocket::State : std::enable_shared_from_this<State> {
  struct Client {
    Client(Protocol::socket accepted, const ucred& other_end)
        : socket(std::move(accepted)), peer(other_end), limit(socket.get_executor()) {}

    Protocol::socket socket;
    ucred peer;
    asio::steady_timer limit;
    std::string text;
  };

  State(const asio::any_io_executor& executor, const std::string& path, Ask question)
      : acceptor(executor, Protocol(), listen_at(path).release()),
        again(executor),
        ask(std::move(question)) {}

  void accept() {
    acceptor.async_accept([self = shared_from_this()](const Error& error, Protocol::socket socket) {
      if (!self->acceptor.is_open()) return;
      if (error) return self->accept_later();
      ::fcntl(socket.native_handle(), F_SETFD, FD_CLOEXEC);
      const auto peer = who_may_ask(socket);
      if (self->clients < kClientsMax && peer) self->read(std::make_shared<Client>(std::move(socket), *peer));
      self->accept();
    });
  }

  void accept_later() {
    again.expires_after(kAcceptAgainAfter);
    again.async_wait([self = shared_from_this()](const Error& error) {
      if (!error && self->acceptor.is_open()) self->accept();
    });
  }

  void read(const std::shared_ptr<Client>& client) {
    ++clients;
    hang_up_later(client);
    asio::async_read_until(client->socket, asio::dynamic_buffer(client->text, agent::kNodeQueryMax), '\n',
                           [self = shared_from_this(), client](const Error& error, std::size_t size) {
                             if (error) return self->done(client);
                             client->text.resize(size);
                             self->take(client);
                           });
  }

  void take(const std::shared_ptr<Client>& client) {
    client->limit.cancel();
    if (!acceptor.is_open()) return done(client);
    try {
      const auto self = shared_from_this();
      ask({client->text, client->peer.uid, client->peer.pid,
           [self, client](std::string line) { self->write(client, std::move(line)); },
           [self, client] { return self->release(client); }});
    } catch (const std::invalid_argument&) {
      done(client);  // no muster asks so
    }
  }

  void write(const std::shared_ptr<Client>& client, std::string line) {
    client->text = std::move(line) + "\n";
    hang_up_later(client);
    asio::async_write(client->socket, asio::buffer(client->text),
                      [self = shared_from_this(), client](const Error&, std::size_t) { self->done(client); });
  }

  UniqueFd release(const std::shared_ptr<Client>& client) {
    Error error;
    UniqueFd fd(client->socket.release(error));
    --clients;
    return fd;
  }

  static void hang_up_later(const std::shared_ptr<Client>& client) {
    client->limit.expires_after(kClientAtMost);
    client->limit.async_wait([client](const Error& error) {
      Error ignored;
      if (!error) client->socket.close(ignored);
    });
  }

  void done(const std::shared_ptr<Client>& client) {
    Error ignored;
    client->limit.cancel();
    client->socket.close(ignored);
    --clients;
  }

  Protocol::acceptor acceptor;
  asio::steady_timer again;
  Ask ask;
  int clients = 0;
};

JobSocket::JobSocket(const asio::any_io_executor& executor, const std::string& path, Ask ask)
    : state_(std::make_shared<State>(executor, path, std::move(ask))) {
  state_->accept();
}

JobSocket::~JobSocket() {
  Error ignored;
  state_->acceptor.close(ignored);
  state_->again.cancel();
  state_->ask = nullptr;
}

}  // namespace muster::launcher
