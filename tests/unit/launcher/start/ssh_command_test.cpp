// SPDX-License-Identifier: Apache-2.0
#include "launcher/start/core/ssh_command.hpp"

#include "catch.hpp"
#include "tests/support/folder.hpp"

#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

using namespace muster::launcher;
using Words = std::vector<std::string>;

namespace {

bool has(const Words& words, const std::string& word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

TEST_CASE("ssh gets every option that keeps it from asking, forwarding and waiting") {
  const Words words = ssh_arguments({}, {"n07", "", 0}, "run this");
  CHECK(words.front() == "ssh");
  for (const char* word :
       {"-T", "-a", "-x", "BatchMode=yes", "StrictHostKeyChecking=yes", "ConnectTimeout=8",
        "ServerAliveInterval=5", "ServerAliveCountMax=2", "EscapeChar=none", "ClearAllForwardings=yes"})
    CHECK(has(words, word));
  CHECK(Words(words.end() - 3, words.end()) == Words{"--", "n07", "run this"});
  CHECK_FALSE(has(words, "-l"));
  CHECK_FALSE(has(words, "-p"));
  // One that is shared already is found by what the user has configured.
  CHECK(has(words, "ControlMaster=no"));
  CHECK(std::none_of(words.begin(), words.end(),
                     [](const std::string& word) { return word.starts_with("ControlPath"); }));
}

TEST_CASE("A connection in the background is known by what it calls itself") {
  CHECK(is_shared_connection("ssh: /run/ssh/cm-n00 [mux]"));
  CHECK(is_shared_connection(std::string("ssh: /run/ssh/cm-n00 [mux]\0\0\0", 29)));
  CHECK_FALSE(is_shared_connection(std::string("ssh\0-T\0n00", 10)));
  CHECK_FALSE(is_shared_connection("/bin/ssh: [mux]"));
  CHECK_FALSE(is_shared_connection(""));
}

TEST_CASE("User and port are passed on") {
  const Words words = ssh_arguments({}, {"n07", "ada", 2222}, "x");
  CHECK(Words(words.end() - 7, words.end()) == Words{"-l", "ada", "-p", "2222", "--", "n07", "x"});
}

TEST_CASE("New host keys are taken on demand only, changed ones never") {
  CHECK(has(ssh_arguments({{"ssh"}, "", true}, {"n07", "", 0}, "x"), "StrictHostKeyChecking=accept-new"));
  CHECK_FALSE(has(ssh_arguments({{"ssh"}, "", true}, {"n07", "", 0}, "x"), "StrictHostKeyChecking=no"));
}

TEST_CASE("--ssh-command: an ssh keeps our options, anything else is called as rsh is") {
  const Words ssh = ssh_arguments({{"/opt/bin/ssh", "-F", "conf"}, "", false}, {"n07", "", 0}, "x");
  CHECK(Words(ssh.begin(), ssh.begin() + 3) == Words{"/opt/bin/ssh", "-F", "conf"});
  CHECK(has(ssh, "BatchMode=yes"));
  CHECK(ssh_arguments({{"fake", "-v"}, "", false}, {"n07", "", 0}, "x") == Words{"fake", "-v", "n07", "x"});
  CHECK(ssh_arguments({{"rsh"}, "", false}, {"n07", "ada", 0}, "x") == Words{"rsh", "-l", "ada", "n07", "x"});
}

TEST_CASE("Hosts and users that a client would take for something else are refused") {
  for (const char* host : {"-oProxyCommand=x", "", "a\nb", "a b", "a\x7f"})
    CHECK_THROWS_AS(ssh_arguments({}, {host, "", 0}, "x"), std::invalid_argument);
  CHECK_THROWS_AS(ssh_arguments({}, {"n07", "-l", 0}, "x"), std::invalid_argument);
  CHECK_THROWS_AS(ssh_arguments({{}, "", false}, {"n07", "", 0}, "x"), std::invalid_argument);
}

TEST_CASE("The remote command is constant but for the path, which every shell reads alike") {
  RemoteProgram program;
  program.own_path = "/opt/muster/bin/muster";
  const std::string command = remote_command(program);
  CHECK(command.starts_with("exec sh -c '"));
  CHECK(command.ends_with("exec \"$m\" agent'"));
  CHECK(command.find("m=\"/opt/muster/bin/muster\"") != std::string::npos);
  CHECK(command.find("command -v muster") != std::string::npos);
  CHECK(std::count(command.begin(), command.end(), '\'') == 2);
  CHECK(std::count(command.begin(), command.end(), '!') == 0);
  CHECK(std::count(command.begin(), command.end(), '\n') == 0);

  program.path = "~/my tools/muster";
  const std::string given = remote_command(program);
  CHECK(given.find("m=\"$HOME/my tools/muster\"") != std::string::npos);
  CHECK(given.find("command -v") == std::string::npos);
}

TEST_CASE("Muster can be told something else than to be an agent, in words that every shell reads alike") {
  RemoteProgram program;
  program.own_path = "/opt/muster";
  program.words = {"doctor", "--json", "--python", "/my venv/bin/python3"};
  CHECK(remote_command(program).ends_with(
      "exec \"$m\" doctor \"--json\" \"--python\" \"/my venv/bin/python3\"'"));
  program.words = {"doctor", "$(reboot)"};
  CHECK_THROWS_AS(remote_command(program), std::invalid_argument);
}

TEST_CASE("The shell that runs an agent for ssh makes an exit code of a signal, and says nothing of it") {
  const muster::test::Folder folder;
  RemoteProgram program;
  program.own_path = folder.write("muster", "#!/bin/sh\necho heard >&2\nkill -KILL $$\n", 0700);
  const std::string words = folder / "words";
  program.shell_stays = true;
  const int status = std::system((remote_command(program) + " 2>" + words).c_str());
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 128 + SIGKILL);
  CHECK(muster::test::bytes_of_file(words) == "heard\n");
}

TEST_CASE("A path that a shell would read differently is refused, and left out where nobody asked for it") {
  RemoteProgram program;
  for (const char* path :
       {"/a'b", "/a\"b", "/a$b", "/a`b", "/a\\b", "/a!b", "/a;b", "/a\nb", "~", "~ada/muster"}) {
    program.path = path;
    CHECK_THROWS_AS(remote_command(program), std::invalid_argument);
  }
  program.path.clear();
  program.own_path = "/home/a'b/muster";
  CHECK(remote_command(program).find("a'b") == std::string::npos);
  CHECK(remote_command(program).find("m=$(command -v muster)") != std::string::npos);
}

TEST_CASE("A copy gets its name only when it is whole and runs") {
  RemoteProgram program;
  program.push_bytes = 1234;
  program.push_name = "muster-0.1.0-89abcdef";
  const std::string command = remote_command(program);
  const auto at = [&command](const char* text) { return command.find(text); };
  // What watches the copy grow begins before it, and ends with it.
  CHECK(at("& w=$!") < at("head -c 1234"));
  CHECK(at("head -c 1234") < at("kill $w"));
  CHECK(at("kill $w") < at("test $(wc -c"));
  CHECK(at("head -c 1234") < at("--version"));
  CHECK(at("--version") < at("mv -f"));
  CHECK(at("mv -f") < at("exec \"$m\" agent"));
  program.push_name = "../muster";
  CHECK_THROWS_AS(remote_command(program), std::invalid_argument);
}

TEST_CASE("Targets on one login server are known as such") {
  CHECK(server_of({"gate", "ada", 0}) == server_of({"gate", "eve", 0}));
  CHECK(server_of({"gate", "", 0}) != server_of({"gate", "", 2222}));
}

TEST_CASE("No host gets at the user's ssh-agent, not even if --ssh-command lends it") {
  const Words words = ssh_arguments({{"ssh", "-A"}, "", false}, {"n07", "", 0}, "x");
  // The last one counts.
  const auto last = std::find_if(words.rbegin(), words.rend(),
                                 [](const std::string& word) { return word == "-A" || word == "-a"; });
  REQUIRE(last != words.rend());
  CHECK(*last == "-a");
}
