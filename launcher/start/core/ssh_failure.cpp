// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/core/ssh_failure.hpp"

#include "launcher/start/core/ssh_command.hpp"

#include <array>
#include <string_view>

namespace muster::launcher {
namespace {

/// The client's own exit code for "no session": OpenSSH and its kin.
constexpr int kNoSession = 255;
constexpr std::size_t kQuotedBytes = 300;
constexpr const char* kGiveItLonger = "give it longer by --login-timeout SECONDS";

/// A text that programs print, and what it means. "%t" is the target, "%p" "-p PORT " or nothing, "%s" the
/// seconds that ssh has for the connection. Texts are those of OpenSSH 7 to 9, glibc and the common shells,
/// found by making each of them fail.
struct Known {
  std::string_view text;
  std::string_view cause;
  std::string_view advice;
  bool busy = false;
};

/// What the client says before anything ran on the host. The first text that matches counts.
constexpr std::array kBeforeLogin = {
    Known{"Temporary failure in name resolution", "ssh: the name server does not answer",
          "check /etc/resolv.conf and the network here, or give the host's address"},
    Known{"Could not resolve hostname", "ssh: the name does not resolve",
          "check its spelling, or add it to DNS, /etc/hosts or ~/.ssh/config"},
    Known{"REMOTE HOST IDENTIFICATION HAS CHANGED", "ssh: the host key is not the one in known_hosts",
          "if the host was installed anew, run 'ssh-keygen -R %t' and accept the new key; otherwise somebody "
          "may be in between"},
    Known{"host key for", "ssh: the host key was refused", "check it by 'ssh %p%t'"},
    Known{"host key is known for", "ssh: the host key is not known",
          "run 'ssh %p%t' once and accept it, or allow it by --ssh-accept-new"},
    Known{"Host key verification failed", "ssh: the host key is not known or not the right one",
          "run 'ssh %p%t' once, or allow new keys by --ssh-accept-new"},
    Known{"Too many authentication failures", "ssh: login refused after too many keys were tried",
          "name the right one in ~/.ssh/config (IdentityFile, IdentitiesOnly yes)"},
    Known{"Permission denied (", "ssh: login refused; no key was accepted, and a password is not asked for",
          "set up a key ('ssh-copy-id %p%t') or load it into ssh-agent"},
    Known{"timed out during banner exchange",
          "ssh: something accepts connections, but no SSH server answered within %s s",
          "check host and port, and the load there"},
    Known{"Connection timed out", "ssh: no answer within %s s",
          "check that the host is up and that no firewall is in between"},
    Known{"Operation timed out", "ssh: no answer within %s s",
          "check that the host is up and that no firewall is in between"},
    Known{"Connection refused", "ssh: connection refused", "check that sshd runs there, and the port"},
    Known{"No route to host", "ssh: no route to the host", "check that the host is up, and its address"},
    Known{"Network is unreachable", "ssh: the network is unreachable",
          "check this host's network and the address"},
    Known{"Unable to negotiate", "ssh: client and server have no algorithm in common",
          "see 'ssh -v %p%t', and allow one in ~/.ssh/config"},
    Known{"Bad owner or permissions on", "ssh: its configuration file can be written by others",
          "run 'chmod 600 ~/.ssh/config'"},
    Known{"Bad configuration option", "ssh: its configuration has an unknown option", "check ~/.ssh/config"},
    Known{"Exceeded MaxStartups", "ssh: the server closed the connection before the login",
          "the server is too busy (MaxStartups) or blocks this host", true},
    Known{"kex_exchange_identification", "ssh: the server closed the connection before the login",
          "the server is too busy (MaxStartups), blocks this host, or is no SSH server", true},
    Known{"ssh_exchange_identification", "ssh: the server closed the connection before the login",
          "the server is too busy (MaxStartups), blocks this host, or is no SSH server", true},
    Known{"banner exchange: Connection", "ssh: the server closed the connection before the login",
          "the server is too busy (MaxStartups), blocks this host, or is no SSH server", true},
    Known{"Connection reset by", "ssh: the connection was reset before the login",
          "the server is too busy (MaxStartups), or blocks this host", true},
    Known{"Connection closed by", "ssh: the server closed the connection during the login",
          "see the log of sshd there (is the account locked?)", true},
};

/// What the host says when the agent could not be run.
constexpr std::array kOnHost = {
    Known{"Exec format error", "muster cannot run there: wrong architecture",
          "give one that is built for that host by --remote-muster"},
    Known{"exec format error", "muster cannot run there: wrong architecture",
          "give one that is built for that host by --remote-muster"},
    Known{"version `GLIBC", "muster cannot run there: the C library is too old",
          "give one that is built on that system by --remote-muster"},
    Known{"error while loading shared libraries", "muster cannot run there: a shared library is missing",
          "install it, or give another muster by --remote-muster"},
    Known{"required file not found", "muster cannot run there: its loader is missing",
          "give one that is built for that system by --remote-muster"},
    Known{"No space left on device", "the disk there is full", "make room there"},
    Known{"Disk quota exceeded", "the disk quota there is used up", "make room there"},
    Known{"Read-only file system", "the file system there cannot be written", "check the user's home there"},
    Known{"'agent' is not a command", "muster there is of an older version",
          "install the same version on all hosts, or use --push"},
    Known{"account is currently not available", "the account there has no shell",
          "use another user (user@host)"},
    Known{"could not chdir to home directory", "the home directory there cannot be entered",
          "check it there"},
};

std::string replace_all(std::string text, std::string_view what, const std::string& by) {
  for (std::size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

std::string filled(std::string_view text, const StartPlace& place) {
  const std::string port = place.port != 0 ? "-p " + std::to_string(place.port) + ' ' : "";
  const std::string limit = std::to_string(place.connect_timeout_s);
  return replace_all(replace_all(replace_all(std::string(text), "%s", limit), "%t", place.target), "%p",
                     port);
}

/// Returns the last line with anything in it.
std::string last_line(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = text.find_last_not_of(" \t\r\n");
    if (end == std::string_view::npos) break;
    text = text.substr(0, end + 1);
    const std::size_t begin = text.find_last_of("\r\n");
    const std::string_view line = begin == std::string_view::npos ? text : text.substr(begin + 1);
    return std::string(line.substr(0, kQuotedBytes));
  }
  return {};
}

std::string first_line(std::string_view text) {
  return std::string(text.substr(0, text.find_first_of("\r\n")).substr(0, kQuotedBytes));
}

/// Returns the first line that holds `text`, for causes that need the rest of it.
std::string line_with(std::string_view all, std::string_view text) {
  const std::size_t at = all.find(text);
  const std::size_t before = all.find_last_of("\r\n", at);
  const std::size_t begin = before == std::string_view::npos ? 0 : before + 1;
  return std::string(all.substr(begin, all.find_first_of("\r\n", at) - begin).substr(0, kQuotedBytes));
}

/// Fills `failure` from the first text of `table` that stands in `errors`. With `quote`, the cause ends with
/// the line in which it stands.
template <typename Table>
bool look_up(const Table& table, bool quote, const std::string& errors, const StartPlace& place,
             StartFailure& failure) {
  for (const Known& known : table) {
    if (errors.find(known.text) == std::string::npos) continue;
    failure.cause = filled(known.cause, place);
    failure.advice = filled(known.advice, place);
    failure.server_busy = known.busy;
    if (quote) failure.cause += " (" + line_with(errors, known.text) + ")";
    return true;
  }
  return false;
}

std::string said(const StartEnd& end) {
  const std::string line = last_line(end.errors);
  return line.empty() ? last_line(end.junk) : line;
}

/// Returns the rest of the line that our own remote command printed after `word`.
std::string said_by_start(const std::string& errors, const char* word) {
  const std::string mark = std::string(kStartMark) + word + ' ';
  const std::size_t at = errors.find(mark);
  if (at == std::string::npos) return {};
  const std::size_t begin = at + mark.size();
  return errors.substr(begin, errors.find_first_of("\r\n", begin) - begin);
}

StartFailure not_found(const StartEnd& end) {
  StartFailure failure;
  failure.cause = "muster was not found there";
  failure.advice = "install it there, name its place by --remote-muster, or have it copied by --push";
  if (const std::string path = said_by_start(end.errors, "missing"); !path.empty())
    failure.cause += " (neither " + path + " nor in PATH)";
  if (const std::string path = said_by_start(end.errors, "absent"); !path.empty()) {
    failure.cause = "muster was not found there (no " + path + ")";
    failure.advice = "give --remote-muster the path that it has there, or leave it out";
  }
  return failure;
}

}  // namespace

StartFailure explain_start(const StartEnd& end, const StartPlace& place) {
  StartFailure failure;
  const std::string by_hand = "try 'ssh " + filled("%p%t", place) + " muster --version' by hand";
  if (!end.version_there.empty()) {
    failure.cause = "muster " + end.version_there + " is installed there, here it is " + place.version_here;
    failure.advice = "install the same version on all hosts, or use --push";
    return failure;
  }
  if (end.too_much_junk) {
    failure.cause =
        "the login shell there prints too much before the agent starts: '" + first_line(end.junk) + "'";
    failure.advice = "let its start-up files print only in interactive shells";
    return failure;
  }
  if (end.timed_out) {
    failure.cause = "ssh: the agent did not answer in time";
    if (const std::string line = said(end); !line.empty()) failure.cause += " ('" + line + "')";
    failure.advice = "does the login shell there wait for something? " + by_hand +
                     ", and if it only is slow, " + kGiveItLonger;
    return failure;
  }
  const bool no_session = end.exit_code == kNoSession && end.signal == 0;
  if (no_session && look_up(kBeforeLogin, false, end.errors, place, failure)) return failure;
  if (look_up(kOnHost, true, end.errors, place, failure)) return failure;
  if (end.exit_code == 127) return not_found(end);
  failure.cause = place.client + end.client_end() + " before the agent answered";
  if (end.exit_code == 126) failure.cause = "muster cannot be executed there";
  if (const std::string line = said(end); !line.empty()) failure.cause += " ('" + line + "')";
  failure.advice = by_hand;
  return failure;
}

}  // namespace muster::launcher
