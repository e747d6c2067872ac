// SPDX-License-Identifier: Apache-2.0
// Looks names up without holding up the event loop. Includes Asio.
#pragma once

#include "rendezvous/net/address.hpp"
#include "rendezvous/protocol/errc.hpp"
#include "rendezvous/protocol/ids.hpp"

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

#include <string>
#include <vector>

namespace muster::rendezvous {

/// The error of a host name that does not resolve, or not in time.
class NoAddressError : public CoordinatorError {
 public:
  NoAddressError(Errc code, const std::string& text, bool no_such_name)
      : CoordinatorError(code, text), no_such_name_(no_such_name) {}

  /// Whether a name server has said that there is no such name. Otherwise no server could be asked, or none
  /// has answered, which may pass.
  bool no_such_name() const { return no_such_name_; }

 private:
  bool no_such_name_;
};

/// The longest wait for a resolver.
inline constexpr Milliseconds kLookUpTimeout{5000};

/// All addresses of `host`, IPv4 first, each with `port`. A numeric address is answered at once; a name is
/// looked up on a thread of its own, which is left behind if it does not return in time. Throws
/// CoordinatorError: environment if the name does not resolve, deadline after kLookUpTimeout or `deadline`.
boost::asio::awaitable<std::vector<SocketAddress>> look_up(boost::asio::any_io_executor executor,
                                                           std::string host, int port, TimePoint deadline);

}  // namespace muster::rendezvous
