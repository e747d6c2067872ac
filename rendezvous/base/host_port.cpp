// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/base/host_port.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <cstdint>

namespace muster {

std::optional<HostPortText> split_host_port(std::string_view text) {
  HostPortText parts;
  const std::size_t close = text.starts_with('[') ? text.find(']') : std::string_view::npos;
  parts.bracketed = close != std::string_view::npos;
  const std::size_t end = parts.bracketed ? close + 1 : std::min(text.rfind(':'), text.size());
  parts.host = parts.bracketed ? text.substr(1, close - 1) : text.substr(0, end);
  const bool several_colons = !parts.bracketed && parts.host.find(':') != std::string::npos;
  if (parts.host.empty() || several_colons || (end < text.size() && text[end] != ':')) return std::nullopt;
  if (end < text.size()) parts.port = text.substr(end + 1);
  return parts;
}

std::optional<HostPort> parse_host_port(std::string_view text) {
  const auto parts = split_host_port(text);
  const auto port = parts && parts->port ? parse_number<std::uint16_t>(*parts->port) : std::nullopt;
  return port ? std::optional(HostPort{parts->host, *port}) : std::nullopt;
}

}  // namespace muster
