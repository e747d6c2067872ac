// SPDX-License-Identifier: Apache-2.0
// Why an agent could not be started by ssh, in one line, from what the client and the host said. Pure.
#pragma once

#include <string>

namespace muster::launcher {

/// How a start ended before the agent's greeting was accepted.
struct StartEnd {
  /// We gave up waiting for the agent's greeting; the client was killed for it.
  bool timed_out = false;
  /// Of the client. `signal` != 0: killed by it. Of a guardian that is our own child: as a shell has both.
  int exit_code = 0;
  int signal = 0;
  /// What came on stderr, client and host mixed; and on stdout before a greeting.
  std::string errors;
  std::string junk;
  /// The host printed more than is read (GreetingReader::State::too_much).
  bool too_much_junk = false;
  /// Of the greeting, if there was one: the agent is of another version.
  std::string version_there;
};

/// What a client's end says of the guardian that it led to: nothing, since it was killed or lost its
/// session; or that it has ended.
inline bool way_was_lost(const StartEnd& end) {
  constexpr int kSessionLost = 255;
  return end.exit_code == kSessionLost || end.signal != 0;
}

/// What the text needs beside that.
struct StartPlace {
  /// As the user would type it: "ssh", and "user@n07".
  std::string client = "ssh";
  std::string target;
  int port = 0;
  std::string version_here;
  /// As SshClient has it.
  int connect_timeout_s = 8;
};

struct StartFailure {
  /// "ssh: connection refused".
  std::string cause;
  /// What to do: "check that sshd runs there".
  std::string advice;
  /// The server closed the connection before a login was tried, as a busy one does: worth another try.
  bool server_busy = false;

  /// "cause; advice".
  std::string text() const { return advice.empty() ? cause : cause + "; " + advice; }
};

StartFailure explain_start(const StartEnd& end, const StartPlace& place);

}  // namespace muster::launcher
