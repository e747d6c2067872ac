// SPDX-License-Identifier: Apache-2.0
// The bodies of link messages that are more than a number: plain data and their JSON.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::agent {

/// Returns the line that `muster agent` writes before its first frame, after a newline of its own; what a
/// noisy shell printed before it is no part of the link.
std::string link_greeting(std::string_view version);
/// The number in the greeting, for what both ends say to each other. It grows when a kind of message or of
/// frame goes, or means something else.
inline constexpr int kLinkProtocol = 3;

/// What a node says of itself.
struct NodeHello {
  std::string version;
  std::string host;
  int pid = 0;
  /// Addresses at which other nodes may reach it, best first (the one that the SSH client connected to, if
  /// any).
  std::vector<std::string> addresses;
  /// Number of processors that the node may use.
  int cpus = 0;
  int gpus = 0;
};

struct LinkEndpoint {
  std::string host;
  int port = 0;
};

/// The longest grace period that an order may have, about three years.
inline constexpr std::chrono::milliseconds kGraceMost{100'000'000'000};

/// How workers are told to end, besides by which signal.
struct StopOrder {
  /// Why, for them; empty: the name of the signal says it.
  std::string reason{};
  /// What they have between the signal and KILL, in place of --shutdown-timeout.
  std::optional<std::chrono::milliseconds> grace{};
  bool operator==(const StopOrder&) const = default;
};

/// What reads JSON throws std::invalid_argument, naming what is wrong.
std::string to_json(const StopOrder& order);
StopOrder stop_order_from_json(const std::string& text);
std::string to_json(const NodeHello& hello);
NodeHello node_hello_from_json(const std::string& text);
std::string to_json(const LinkEndpoint& endpoint);
LinkEndpoint link_endpoint_from_json(const std::string& text);

}  // namespace muster::agent
