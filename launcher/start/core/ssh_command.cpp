// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/core/ssh_command.hpp"

#include <algorithm>
#include <stdexcept>

namespace muster::launcher {
namespace {

/// Whether a character is read alike by every shell inside single quotes, and by sh inside double quotes.
bool is_plain(char c) {
  constexpr std::string_view kOthers = "/._-+,=:@% ";
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         kOthers.find(c) != std::string_view::npos;
}

std::string quoted(std::string_view path) {
  if (!can_be_named(path))
    throw std::invalid_argument(
        "the path '" + std::string(path) +
        "' cannot be passed to a remote shell; use one of letters, digits, spaces and /._-+,=:@%");
  if (path.starts_with("~/")) return "\"$HOME/" + std::string(path.substr(2)) + '"';
  return '"' + std::string(path) + '"';
}

/// Returns the command that runs muster; a plain word needs no quotes.
std::string muster_command(const RemoteProgram& program) {
  std::string command = "\"$m\"";
  for (const std::string& word : program.words) {
    const bool is_plain_word =
        std::all_of(word.begin(), word.end(), [](char c) { return c >= 'a' && c <= 'z'; });
    command += " " + (is_plain_word && !word.empty() ? word : quoted(word));
  }
  return command;
}

/// Returns the script that runs it. The shell's own stderr goes to /dev/null: its word about a signal
/// ("Killed") would be taken for one of the agent.
std::string run_script(const RemoteProgram& program) {
  const std::string command = muster_command(program);
  if (!program.shell_stays) return "exec " + command;
  return "exec 3>&2 2>/dev/null; (exec " + command + " 2>&3 3>&-); exit $?";
}

/// The part of the script that ends the copy if it does not grow for 12 to 15 s: when the launcher's host has
/// vanished, sshd keeps the half open connection, and nothing else would end what reads from it. ssh gives up
/// after 15 s.
constexpr const char* kWatchCopy =
    "trap \"rm -f \\\"$t\\\"; exit 1\" TERM; (trap \"kill \\$p; exit\" TERM; n=; i=0; while [ $i -lt 4 ]; do "
    "s=$(wc -c <\"$t\"); if [ \"$s\" = \"$n\" ]; then i=$((i+1)); else i=0; fi; n=$s; sleep 3 & p=$!; wait "
    "$p; "
    "done; kill -s TERM 0) </dev/null >/dev/null 2>&1 & w=$!; ";

/// Returns the script that takes a copy of muster. The copy is complete and runs before it gets its name, so
/// nobody ever starts half of it.
std::string push_script(const RemoteProgram& program) {
  if (!can_be_named(program.push_name) || program.push_name.find('/') != std::string::npos)
    throw std::invalid_argument("'" + program.push_name + "' is no name for a copy of muster");
  const std::string size = std::to_string(program.push_bytes);
  return "d=\"${XDG_CACHE_HOME:-$HOME/.cache}/muster\"; m=\"$d/" + program.push_name +
         "\"; test -x \"$m\" || { umask 077; mkdir -p \"$d\" && t=$(mktemp \"$m.XXXXXX\") || { echo \"" +
         std::string(kStartMark) + "no place $d\" >&2; exit 1; }; " + kWatchCopy +
         "printf \"\\nmuster-push 1 " + size + "\\n\"; head -c " + size +
         " >\"$t\"; kill $w; trap - TERM; test $(wc -c <\"$t\") -eq " + size +
         " && chmod 700 \"$t\" && \"$t\" --version >/dev/null && mv -f \"$t\" \"$m\" || { rm -f \"$t\"; echo "
         "\"" +
         std::string(kStartMark) + "no copy $m\" >&2; exit 1; }; }; " + run_script(program);
}

std::string find_script(const RemoteProgram& program) {
  const bool given = !program.path.empty();
  const std::string& wanted = given ? program.path : program.own_path;
  const bool named = given || can_be_named(wanted);
  std::string script;
  if (named) script = "m=" + quoted(wanted) + "; test -x \"$m\" || ";
  if (!given) script += "m=$(command -v muster) || ";
  const std::string missing = named ? quoted(wanted).substr(1, quoted(wanted).size() - 2) : "muster";
  return script + "{ echo \"" + std::string(kStartMark) + (given ? "absent " : "missing ") + missing +
         "\" >&2; exit 127; }; " + run_script(program);
}

void check_word(const char* what, const std::string& word) {
  const bool control = std::any_of(word.begin(), word.end(),
                                   [](char c) { return static_cast<unsigned char>(c) < 32 || c == 127; });
  if (word.empty() || word.front() == '-' || control || word.find(' ') != std::string::npos)
    throw std::invalid_argument(std::string("'") + word + "' is no " + what + " that can be passed to ssh");
}

std::string_view file_name(std::string_view path) {
  return path.substr(path.find_last_of('/') + 1);
}

}  // namespace

bool can_be_named(std::string_view path) {
  if (path.starts_with("~/")) path.remove_prefix(1);
  return !path.empty() && std::all_of(path.begin(), path.end(), is_plain);
}

std::string remote_command(const RemoteProgram& program) {
  return "exec sh -c '" + (program.push_bytes > 0 ? push_script(program) : find_script(program)) + "'";
}

std::vector<std::string> ssh_arguments(const SshClient& client, const SshTarget& target,
                                       const std::string& command) {
  check_word("host", target.host);
  if (!target.user.empty()) check_word("user", target.user);
  std::vector<std::string> arguments = client.words;
  if (arguments.empty())
    throw std::invalid_argument("--ssh-command is empty; give a program, or leave it out");
  const bool is_ssh = file_name(arguments.front()) == "ssh";
  if (is_ssh) {
    if (!client.config_file.empty()) arguments.insert(arguments.end(), {"-F", client.config_file});
    arguments.insert(arguments.end(), {"-T", "-a", "-x"});
    const std::string keys = client.accept_new_host_keys ? "accept-new" : "yes";
    // After so many questions without an answer ssh waits for one more interval: 15 s in all.
    // The last lines undo what a user's configuration may say for interactive use.
    for (const std::string& option :
         {std::string("BatchMode=yes"), "StrictHostKeyChecking=" + keys,
          "ConnectTimeout=" + std::to_string(client.connect_timeout_s), std::string("ConnectionAttempts=1"),
          std::string("ServerAliveInterval=5"), std::string("ServerAliveCountMax=2"),
          std::string("EscapeChar=none"), std::string("ClearAllForwardings=yes"),
          std::string("LogLevel=INFO"), std::string("RemoteCommand=none"),
          // A connection that is shared already is used; one that began here would end with the job, and take
          // along whoever had joined it.
          std::string("ControlMaster=no")}) {
      arguments.emplace_back("-o");
      arguments.push_back(option);
    }
  }
  if (!target.user.empty()) arguments.insert(arguments.end(), {"-l", target.user});
  if (target.port != 0) arguments.insert(arguments.end(), {"-p", std::to_string(target.port)});
  if (is_ssh) arguments.emplace_back("--");
  arguments.insert(arguments.end(), {target.host, command});
  return arguments;
}

bool is_shared_connection(std::string_view command_line) {
  return command_line.starts_with("ssh: ") && command_line.find(" [mux]") != std::string_view::npos;
}

std::string server_of(const SshTarget& target) {
  return target.host + ' ' + std::to_string(target.port);
}

}  // namespace muster::launcher
