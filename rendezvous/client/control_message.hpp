// SPDX-License-Identifier: Apache-2.0
// Control messages as a session carries them; used by both sides. Includes Asio.
#pragma once

#include "rendezvous/protocol/message.hpp"
#include "rendezvous/wire/wire_session.hpp"

#include <string>
#include <string_view>
#include <variant>

namespace muster::rendezvous {

inline void send_message(WireSession& session, const Message& message) {
  if (is_numbered(message))
    session.send(to_json(message));
  else
    session.send_aside(to_json(message));
}

/// Sends a message on a connection that carries no session yet.
inline void send_message(Connection& connection, const Message& message) {
  connection.send(encode_frame(to_json(message)));
}

/// Reads what the peer opened a channel for. Throws CoordinatorError if `payload` is no channel_open.
inline ChannelOpen channel_open_from(std::string_view payload, int peer_version) {
  const Message message = message_from_json(payload, peer_version);
  if (const auto* open = std::get_if<ChannelOpen>(&message)) return *open;
  throw CoordinatorError(Errc::mend, "a channel was opened by '" + std::string(type_name(message)) + "'");
}

}  // namespace muster::rendezvous
