// SPDX-License-Identifier: Apache-2.0
// Makes the command line that starts an agent on another host. Nothing secret and nothing of the job is in
// it: those travel on its standard input. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace muster::launcher {

/// Where an agent is to be started, as the client is told.
struct SshTarget {
  std::string host;
  /// User and port; empty and 0: as the client's own configuration says.
  std::string user;
  int port = 0;
};

/// How the client is called.
struct SshClient {
  /// --ssh-command in words. A program called `ssh` gets all our options after these words; any other is
  /// called with these words, the host and the command, as rsh is.
  std::vector<std::string> words = {"ssh"};
  /// The file for ssh -F; empty: the user's own.
  std::string config_file;
  /// Whether keys of hosts that are not known yet are taken and kept. A key that has changed is always
  /// refused.
  bool accept_new_host_keys = false;
  /// Limit for the connection and the server's banner, in seconds.
  int connect_timeout_s = 8;
};

/// Which executable runs on the other host.
struct RemoteProgram {
  /// --remote-muster; may begin with "~/". Empty: `own_path` if there is such a file, else what PATH finds.
  std::string path;
  /// The path of this launcher's own executable on this host.
  std::string own_path;
  /// What muster is told: a command and its arguments, which can_be_named().
  std::vector<std::string> words = {"agent"};
  /// Whether the shell stays and makes an exit code of a signal that ends the agent. That is for a client
  /// that tells only codes: ssh ends with 255 for a signal as it does when it has lost its session, and only
  /// the first means that all there is over.
  bool shell_stays = false;
  /// --push: a copy of this many bytes, kept in the user's cache directory under this name. 0: no copy.
  std::uint64_t push_bytes = 0;
  std::string push_name;
};

/// Whether a path can be written into the remote command: every login shell must read it as it is.
bool can_be_named(std::string_view path);

/// Returns the command that the remote login shell (any: sh, csh, fish) is told to run. It ends by becoming
/// muster with its words, or by running it. Problems are said on stderr in lines that begin with kStartMark.
/// Throws std::invalid_argument for a path or a word that cannot be named.
std::string remote_command(const RemoteProgram& program);

inline constexpr std::string_view kStartMark = "muster-start: ";

/// Returns the client with its options, the host and the remote command. Throws std::invalid_argument for a
/// host or user that the client would take for an option, or with control characters.
std::vector<std::string> ssh_arguments(const SshClient& client, const SshTarget& target,
                                       const std::string& command);

/// Whether a process with this text of /proc/PID/cmdline is a connection that OpenSSH keeps in the background
/// for others to share (ControlPersist): it calls itself "ssh: PATH [mux]".
bool is_shared_connection(std::string_view command_line);

/// Names the login server of a target: targets with the same text share its patience with strangers.
std::string server_of(const SshTarget& target);

}  // namespace muster::launcher
