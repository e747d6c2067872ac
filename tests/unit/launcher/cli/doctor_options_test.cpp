// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/doctor_options.hpp"

#include "catch.hpp"
#include "launcher/core/launch_error.hpp"

using namespace muster::launcher;

TEST_CASE("The flags of muster doctor") {
  const DoctorOptions none = parse_doctor_options({});
  CHECK(none.hosts.empty());
  CHECK_FALSE(none.json);
  CHECK_FALSE(none.no_all_reduce);
  CHECK(none.run_flags.empty());
  CHECK(none.remote.ssh_command == std::vector<std::string>{"ssh"});
  const DoctorOptions all =
      parse_doctor_options({"-H", "n[0-1]", "--json", "--python", "/p", "--towards=n1", "--remote-muster",
                            "/m", "--ssh-command", "ssh -v", "--ssh-config", "c", "--ssh-port", "2222",
                            "--ssh-accept-new", "--login-timeout", "1.5", "--no-all-reduce"});
  CHECK(all.no_all_reduce);
  CHECK(all.run_flags == std::vector<std::string>{"--remote-muster", "/m", "--ssh-command", "ssh -v",
                                                  "--ssh-config", "c", "--ssh-port", "2222",
                                                  "--login-timeout", "1.5", "--ssh-accept-new"});
  CHECK(all.hosts == "n[0-1]");
  CHECK(all.json);
  CHECK(all.python == "/p");
  CHECK(all.towards == "n1");
  CHECK(all.remote.remote_muster == "/m");
  CHECK(all.remote.ssh_command == std::vector<std::string>{"ssh", "-v"});
  CHECK(all.remote.ssh_config == "c");
  CHECK(all.remote.ssh_port == 2222);
  CHECK(all.remote.accept_new_host_keys);
  CHECK(all.remote.login_timeout == std::chrono::milliseconds(1500));
  CHECK(parse_doctor_options({"--help"}).help);
}

TEST_CASE("Wrong arguments of muster doctor are named") {
  using Words = std::vector<std::string>;
  for (const Words& words : {Words{"n0"}, Words{"--host", ""}, Words{"--python="}, Words{"--ssh-port", "0"},
                             Words{"--ssh-port", "x"}, Words{"--login-timeout", "0"}, Words{"--bogus"}})
    CHECK_THROWS_AS(parse_doctor_options(words), UsageError);
}

TEST_CASE("The help of muster doctor names every flag and the exit codes") {
  const std::string help = doctor_help();
  for (const char* word : {"--host", "--json", "--python", "--towards", "--remote-muster", "--ssh-command",
                           "--ssh-config", "--ssh-port", "--ssh-accept-new", "--login-timeout",
                           "--no-all-reduce", "Exit codes: 0 no problem; 1"}) {
    CAPTURE(word);
    CHECK(help.find(word) != std::string::npos);
  }
}
