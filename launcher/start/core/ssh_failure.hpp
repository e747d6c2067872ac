// SPDX-License-Identifier: Apache-2.0
// Says why an agent could not be started by ssh, in one line, from what the client and the host said. Pure.
#pragma once

#include <string>

namespace muster::launcher {

/// How a start ended before the agent's greeting was accepted.
struct StartEnd {
  /// Whether we gave up waiting for the agent's greeting, for which the client was killed.
  bool timed_out = false;
  /// How the client ended: by this signal if `signal` is not 0, else with this exit code. Where the process
  /// is a guardian of this host, a signal has become an exit code, as in a shell (128 + signal).
  int exit_code = 0;
  int signal = 0;
  /// What came on stderr, client and host mixed, and what came on stdout before a greeting.
  std::string errors;
  std::string junk;
  /// Whether the host printed more than is read (GreetingReader::State::too_much).
  bool too_much_junk = false;
  /// The version in the greeting, if there was one: the agent is of another version than we are.
  std::string version_there;

  /// " was killed by signal 9" or " ended with exit code 1", to stand behind the client's name.
  std::string client_end() const {
    return signal != 0 ? " was killed by signal " + std::to_string(signal)
                       : " ended with exit code " + std::to_string(exit_code);
  }
};

/// Whether a client's end says nothing of the guardian that it led to, because the client was killed or lost
/// its session. Otherwise the guardian has ended.
inline bool way_was_lost(const StartEnd& end) {
  constexpr int kSessionLost = 255;
  return end.exit_code == kSessionLost || end.signal != 0;
}

/// The place of a start, for the text about its failure.
struct StartPlace {
  /// Client and target as the user would type them: "ssh", and "user@n07".
  std::string client = "ssh";
  std::string target;
  int port = 0;
  std::string version_here;
  /// The limit for the connection in seconds, which SshClient has, too.
  int connect_timeout_s = 8;
};

struct StartFailure {
  /// The cause in one line: "ssh: connection refused".
  std::string cause;
  /// What to do, such as "check that sshd runs there".
  std::string advice;
  /// Whether the server closed the connection before a login was tried, as a busy one does, so that another
  /// try is worth it.
  bool server_busy = false;
};

StartFailure explain_start(const StartEnd& end, const StartPlace& place);

}  // namespace muster::launcher
