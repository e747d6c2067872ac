// SPDX-License-Identifier: Apache-2.0
// What one rank does, as the agent on its host finds out without a change to the program: the words in which
// agents, coordinator and people speak of it. Plain data; any thread.
#pragma once

#include "rendezvous/protocol/ids.hpp"

#include <cstdint>
#include <string>

namespace muster::rendezvous {

enum class Activity {
  moves,  ///< something goes forward: output, calls, steps, bytes, or the CPU time of its helpers
  busy,   ///< it computes, and nothing else goes forward
  waits,  ///< for what WaitKind says
  ended,  ///< its process has ended with success
};

/// What a rank waits for.
enum class WaitKind {
  unknown,        ///< nothing that could be told
  communication,  ///< other ranks, in a collective or a message; it may spin there
  store_key,      ///< a key of the store
  lock,           ///< another thread
  sleep,          ///< a time
  terminal,       ///< its user: a prompt, a debugger
  events,         ///< an event loop: a server, a notebook
  file,           ///< a file, a pipe or a socket
  helpers,        ///< processes that it has started: the workers of a data loader, a compiler
  stopped,        ///< SIGCONT
};

/// What is judged of a whole job whose ranks have told what they do.
enum class HangLevel {
  none,     ///< the job goes on, is idle, or has not stood still for long enough
  may_be,   ///< it stands still, and the rank that the others wait for may be at work
  is_hung,  ///< it stands still, and will not go on by itself
};

/// A line of a program.
struct CodePlace {
  std::string file{};
  int line = 0;
  std::string function{};

  bool known() const { return !file.empty(); }

  bool operator==(const CodePlace&) const = default;
};

/// What a rank does since when. A node tells it when it changes, and nothing as long as the rank moves.
/// Times are lengths, because the clocks of two nodes are never compared.
struct RankHealth {
  RoundNumber round = 0;
  /// The global rank.
  int rank = 0;
  Activity activity = Activity::moves;
  /// Only with Activity::waits.
  WaitKind wait = WaitKind::unknown;
  /// Whether a rank that waits wakes up now and then, or uses some CPU time meanwhile: it may be a poll, or
  /// ranks that still connect to each other, which ends by itself.
  bool stirs = false;
  /// The user's own line, as far as it is known.
  CodePlace place{};
  /// The call in which it waits for other ranks ("all_reduce", "new_group"), and as far as they are known the
  /// name of its group and the number of the call there, from 1; 0: not known.
  std::string operation{};
  std::string group{};
  std::uint64_t sequence = 0;
  /// The key of the store for which it waits, and the nearest one that the store has; empty: none is near.
  std::string key{};
  std::string nearest{};
  /// Only with WaitKind::file: the kernel function in which the rank has slept for a while so that no signal
  /// reaches it. Usually a disk or a file server does not answer. Empty: signals reach it.
  std::string held_in{};
  /// The time since anything of the rank has moved, and since it does what this says.
  Milliseconds still{0};
  Milliseconds lasted{0};

  /// Whether it waits for other ranks, directly or through the store.
  bool in_communication() const {
    return activity == Activity::waits && (wait == WaitKind::communication || wait == WaitKind::store_key);
  }

  bool operator==(const RankHealth&) const = default;
};

}  // namespace muster::rendezvous
