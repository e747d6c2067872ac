// SPDX-License-Identifier: Apache-2.0
// How long a start may take. Pure.
#pragma once

#include <chrono>
#include <cstddef>

namespace muster::launcher {

/// A variable for every client. Without it a name server that does not answer takes 10 s, which ssh's
/// ConnectTimeout does not bound.
inline constexpr const char* kResolveSoon = "RES_OPTIONS=timeout:2 attempts:1";
/// Limit from the fork of a node on this host to its agent's greeting.
inline constexpr std::chrono::milliseconds kForkLateAfter{20'000};
/// Limit from one piece of a copy (--push) to the next, and from the last one to the greeting. The client and
/// the kernel hold some megabytes that are still to go over the wire.
inline constexpr std::chrono::milliseconds kCopyLateAfter{60'000};

/// Limit from the start of a client to the agent's greeting, in a job of so many nodes.
std::chrono::milliseconds greeting_limit(std::chrono::milliseconds login_timeout, std::size_t nodes);

/// The limit that ssh gets for the connection and the server's banner, in seconds. It gives up earlier than
/// we do, because it can say why.
int connect_timeout_s(std::chrono::milliseconds login_timeout);

}  // namespace muster::launcher
