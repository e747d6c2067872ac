// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/core/ssh_failure.hpp"

#include "catch.hpp"

using namespace muster::launcher;

namespace {

StartFailure explain(StartEnd end) {
  return explain_start(end, {"ssh", "n07", 2222, "0.1.0"});
}

StartFailure no_session(const std::string& errors) {
  StartEnd end;
  end.exit_code = 255;
  end.errors = errors;
  return explain(end);
}

StartFailure on_host(int code, const std::string& errors) {
  StartEnd end;
  end.exit_code = code;
  end.errors = errors;
  return explain(end);
}

}  // namespace

TEST_CASE("What ssh says before a login becomes one cause") {
  CHECK(no_session("ssh: connect to host n07 port 22: Connection refused\r\n").cause ==
        "ssh: connection refused");
  CHECK(no_session("ssh: Could not resolve hostname n07: Name or service not known\r\n").cause ==
        "ssh: the name does not resolve");
  CHECK(no_session("ssh: Could not resolve hostname n07: Temporary failure in name resolution\r\n").cause ==
        "ssh: the name server does not answer");
  CHECK(no_session("ssh: connect to host n07 port 22: Connection timed out\r\n").cause ==
        "ssh: no answer within 8 s");
  CHECK(no_session("ssh: connect to host n07 port 22: No route to host\r\n").cause ==
        "ssh: no route to the host");
  CHECK(contains(
      no_session("Connection timed out during banner exchange\r\nConnection to n07 port 22 timed out\r\n")
          .cause,
      "no SSH server answered"));
}

TEST_CASE("Host keys: not known and changed are different things") {
  const StartFailure unknown = no_session(
      "No ED25519 host key is known for n07 and you have requested strict checking.\r\n"
      "Host key verification failed.\r\n");
  CHECK(unknown.cause == "ssh: the host key is not known");
  CHECK(contains(unknown.advice, "'ssh -p 2222 n07'"));
  CHECK(contains(unknown.advice, "--ssh-accept-new"));
  const StartFailure changed = no_session(
      "@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r\n"
      "Host key for n07 has changed and you have requested strict checking.\r\n"
      "Host key verification failed.\r\n");
  CHECK(changed.cause == "ssh: the host key is not the one in known_hosts");
  CHECK(contains(changed.advice, "ssh-keygen -R n07"));
}

TEST_CASE("A password that would be asked for is a refused login") {
  const StartFailure failure = no_session("ada@n07: Permission denied (publickey,password).\r\n");
  CHECK(contains(failure.cause, "login refused"));
  CHECK(contains(failure.advice, "ssh-copy-id"));
  CHECK_FALSE(failure.server_busy);
}

TEST_CASE("A busy server is worth another try, other failures are not") {
  CHECK(no_session("kex_exchange_identification: Connection closed by remote host\r\n"
                   "Connection closed by 10.0.0.7 port 22\r\n")
            .server_busy);
  CHECK(no_session("kex_exchange_identification: read: Connection reset by peer\r\n"
                   "Connection reset by 10.0.0.7 port 22\r\n")
            .server_busy);
  CHECK(no_session("Connection reset by 10.0.0.7 port 22\r\n").server_busy);
  CHECK_FALSE(no_session("ssh: connect to host n07 port 22: Connection refused\r\n").server_busy);
  CHECK_FALSE(no_session("something new\r\n").server_busy);
}

TEST_CASE("What a host says when muster is missing or does not run there") {
  const StartFailure missing = on_host(127, "muster-start: missing /opt/muster\n");
  CHECK(missing.cause == "muster was not found there (neither /opt/muster nor in PATH)");
  CHECK(contains(missing.advice, "--push"));
  CHECK(on_host(127, "muster-start: absent /opt/muster\n").cause ==
        "muster was not found there (no /opt/muster)");
  CHECK(contains(on_host(127, "bash: line 1: sh: command not found\n").cause, "not found there"));
  CHECK(contains(on_host(126, "sh: 1: exec: /opt/muster: Permission denied\n").cause,
                 "cannot be executed there"));
  CHECK(contains(on_host(126, "sh: /opt/muster: cannot execute binary file: Exec format error\n").cause,
                 "wrong architecture"));
  CHECK(contains(
      on_host(1, "/opt/muster: /lib/libc.so.6: version `GLIBC_2.38' not found (required by /opt/muster)\n")
          .cause,
      "C library is too old (/opt/muster: /lib/libc.so.6: version `GLIBC_2.38'"));
  CHECK(
      contains(on_host(127, "muster: error while loading shared libraries: libssl.so.3: cannot open\n").cause,
               "libssl.so.3"));
  CHECK(contains(on_host(1, "head: write error: No space left on device\nmuster-start: no copy /x\n").cause,
                 "the disk there is full"));
  CHECK(contains(on_host(2, "muster: error: 'agent' is not a command; use run\n").cause, "older version"));
}

TEST_CASE("Another version, a noisy shell, a shell that waits") {
  StartEnd end;
  end.version_there = "0.0.9";
  CHECK(explain(end).cause == "muster 0.0.9 is installed there, here it is 0.1.0");
  end = {};
  end.too_much_junk = true;
  end.junk = "Message of the day\nMessage of the d";
  CHECK(contains(explain(end).cause, "prints too much"));
  CHECK(contains(explain(end).cause, "'Message of the day'"));
  end = {};
  end.timed_out = true;
  end.signal = 9;
  end.junk = "Select a project: ";
  CHECK(contains(explain(end).cause, "did not answer in time ('Select a project:')"));
  CHECK(contains(explain(end).advice, "--login-timeout"));
}

TEST_CASE("A text that nobody has seen before is quoted by its last line alone") {
  CHECK(no_session("line 1\r\nthe end is near\r\n\r\n").cause ==
        "ssh ended with exit code 255 before the agent answered ('the end is near')");
  CHECK(contains(no_session(std::string(5000, 'x')).cause, "xxx"));
  CHECK(no_session(std::string(5000, 'x')).cause.size() < 400);
  StartEnd killed;
  killed.signal = 9;
  CHECK(contains(explain(killed).cause, "killed by signal 9"));
  StartEnd silent;
  CHECK(contains(explain(silent).cause, "exit code 0 before the agent answered"));
}
