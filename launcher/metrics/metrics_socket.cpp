// SPDX-License-Identifier: Apache-2.0
#include "launcher/metrics/metrics_socket.hpp"

#include "launcher/core/launch_error.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/net/address.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <system_error>
#include <utility>

namespace muster::launcher {
namespace {

constexpr int kWaitingMax = 16;

sockaddr_un address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) throw_errno("unix:" + path, ENAMETOOLONG);
  path.copy(address.sun_path, path.size());
  return address;
}

UniqueFd new_socket(int family) {
  return UniqueFd(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

/// Removes the socket of a launcher that was killed. Nothing else is removed.
void remove_left_socket(const std::string& path, const sockaddr_un& address) {
  struct stat status {};

  if (::lstat(path.c_str(), &status) != 0 || !S_ISSOCK(status.st_mode) || status.st_uid != ::geteuid())
    return;
  const UniqueFd probe = new_socket(AF_UNIX);
  const bool refused =
      probe && ::connect(probe.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 &&
      errno == ECONNREFUSED;
  if (refused) ::unlink(path.c_str());
}

/// Nobody else may connect between bind() and chmod(): a socket without listen() refuses everybody.
UniqueFd listen_at(const std::string& path) {
  const sockaddr_un address = address_of(path);
  remove_left_socket(path, address);
  UniqueFd fd = new_socket(AF_UNIX);
  if (!fd || ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    throw_errno("unix:" + path);
  if (::chmod(path.c_str(), 0600) != 0 || ::listen(fd.get(), kWaitingMax) != 0) {
    const int error = errno;
    ::unlink(path.c_str());
    throw_errno("unix:" + path, error);
  }
  return fd;
}

UniqueFd listen_at(const std::string& host, int port) {
  const bool v6 = host.find(':') != std::string::npos;
  sockaddr_in6 six{};
  six.sin6_family = AF_INET6;
  six.sin6_addr = in6addr_loopback;
  six.sin6_port = htons(static_cast<std::uint16_t>(port));
  sockaddr_in four{};
  four.sin_family = AF_INET;
  four.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  four.sin_port = six.sin6_port;
  UniqueFd fd = new_socket(v6 ? AF_INET6 : AF_INET);
  const int on = 1;
  if (fd) ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  const auto* const address =
      v6 ? reinterpret_cast<const sockaddr*>(&six) : reinterpret_cast<const sockaddr*>(&four);
  const auto size = static_cast<socklen_t>(v6 ? sizeof six : sizeof four);
  if (!fd || ::bind(fd.get(), address, size) != 0 || ::listen(fd.get(), kWaitingMax) != 0)
    throw_errno(host + " port " + std::to_string(port));
  return fd;
}

}  // namespace

MetricsSocket::MetricsSocket(const ListenPlace& place) {
  if (!place.given()) return;
  try {
    fd_ = place.path.empty() ? listen_at(place.host, place.port) : listen_at(place.path);
  } catch (const std::system_error& error) {
    throw UsageError(std::string("--metrics-listen: no metrics can be served at ") + error.what() +
                     "; give a place that is free, or 127.0.0.1:0 for any port");
  }
  path_ = place.path;
  is_unix_ = !path_.empty();
}

MetricsSocket::MetricsSocket(MetricsSocket&& other) noexcept
    : fd_(std::move(other.fd_)), is_unix_(other.is_unix_), path_(std::exchange(other.path_, {})) {}

MetricsSocket::~MetricsSocket() {
  remove();
}

void MetricsSocket::remove() {
  if (!path_.empty()) ::unlink(path_.c_str());
  path_.clear();
}

std::string MetricsSocket::where() const {
  if (is_unix()) return "unix:" + path_;
  return "http://" + rendezvous::local_end(fd_.get()).text() + "/metrics";
}

}  // namespace muster::launcher
