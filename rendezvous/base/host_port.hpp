// SPDX-License-Identifier: Apache-2.0
// Splits the texts of addresses that users write, "HOST:PORT".
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster {

/// The parts of "HOST", "HOST:PORT", "[V6]" or "[V6]:PORT"; the parts themselves are not checked.
struct HostPortText {
  std::string host;
  /// Whether the host stood in brackets, which `host` leaves out.
  bool bracketed = false;
  std::optional<std::string> port{};
};

/// Splits such a text. nullopt if there is no host, or an IPv6 address without brackets, whose port could not
/// be told from the address.
std::optional<HostPortText> split_host_port(std::string_view text);

struct HostPort {
  std::string host;
  int port = 0;
};

/// Reads "HOST:PORT" or "[V6]:PORT"; nullopt if there is no valid port (0 to 65535) or no host.
std::optional<HostPort> parse_host_port(std::string_view text);

}  // namespace muster
