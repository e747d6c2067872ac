// SPDX-License-Identifier: Apache-2.0
// A link over a channel of the control connection, for when ssh is cut.
#pragma once

#include "agent/byte_transport.hpp"
#include "rendezvous/client/channel.hpp"

#include <memory>

namespace muster::agent {

/// Call it in the turn of the event loop in which the channel came or was opened. Bytes beyond what the
/// channel takes now wait here; the link's own windows bound them.
std::unique_ptr<ByteTransport> make_channel_transport(const boost::asio::any_io_executor& executor,
                                                      std::shared_ptr<rendezvous::Channel> channel);

}  // namespace muster::agent
