// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace muster {

/// "HOST", "HOST:PORT", "[V6]" or "[V6]:PORT" in its parts, which are not looked at any further.
struct HostPortText {
  std::string host;
  /// Whether the host stood in brackets; `host` is without them.
  bool bracketed = false;
  std::optional<std::string> port{};
};

/// nullopt if there is no host, or an IPv6 address without brackets: which colon would be the port's?
std::optional<HostPortText> split_host_port(std::string_view text);

struct HostPort {
  std::string host;
  int port = 0;
};

/// "HOST:PORT", "[V6]:PORT"; nullopt if there is no valid port (0 to 65535) or no host.
std::optional<HostPort> parse_host_port(std::string_view text);

}  // namespace muster
