// SPDX-License-Identifier: Apache-2.0
#include "launcher/cli/command_table.hpp"

#include "catch.hpp"

using namespace muster::launcher;

namespace {

std::string wrong(const std::vector<std::string>& arguments) {
  const UsageError error = unknown_command(arguments);
  CHECK(error.exit_code() == 2);
  return error.what();
}

}  // namespace

TEST_CASE("A mistyped command is told with the nearest one") {
  CHECK(wrong({"rn"}) == "'rn' is not a command; did you mean 'run'?");
  CHECK(wrong({"sttaus", "job"}) == "'sttaus' is not a command; did you mean 'status'?");
  CHECK(wrong({"versoin"}) == "'versoin' is not a command; did you mean 'version'?");
  // Nobody types that one.
  CHECK(wrong({"agen"}).find("'agent'") == std::string::npos);
}

TEST_CASE("A word near no command is told with all of them") {
  CHECK(wrong({"frobnicate", "2"}) ==
        "'frobnicate' is not a command; the commands are run, ps, status, stacks, logs, attach, kill, show, "
        "clean, doctor, rendezvous, install-shim, help, version; to run a program, write 'muster run "
        "frobnicate 2'");
}

TEST_CASE("A program or a flag where a command is to stand is told with 'muster run'") {
  CHECK(wrong({"train.py", "--lr", "1"}) ==
        "'train.py' is not a command; to run a program, write 'muster run train.py --lr 1'");
  CHECK(wrong({"./run"}) == "'./run' is not a command; to run a program, write 'muster run ./run'");
  CHECK(wrong({"--nproc-per-node", "2", "ok.py"}) ==
        "'--nproc-per-node' is not a command; flags go after one: 'muster run --nproc-per-node 2 ok.py'");
  CHECK(wrong({"-m", "pkg"}) == "'-m' is not a command; flags go after one: 'muster run -m pkg'");
  CHECK(wrong({"--hots", "n0"}) == "'--hots' is not a command; flags go after one: 'muster run --hots n0'");
  CHECK(wrong({"--versoin"}) == "'--versoin' is not a command; did you mean '--version'?");
  CHECK(wrong({"--hlep"}) == "'--hlep' is not a command; did you mean '--help'?");
}

TEST_CASE("The line to type can be typed, is short, and tells no secret") {
  CHECK(wrong({"--role", "a b", "$x", ""}).ends_with("'muster run --role \"a b\" \"\\$x\" \"\"'"));
  CHECK(wrong({"-x", "API_TOKEN=abc", "t.py"}).ends_with("'muster run -x API_TOKEN=... t.py'"));
  std::vector<std::string> many(100, "word");
  many[0] = "--tee";
  CHECK(wrong(many).ends_with(" word word ...'"));
  CHECK(wrong(many).size() < 200);
}

TEST_CASE("The usage text names every command on a line of its own") {
  const std::string text = usage_text();
  CHECK(text.starts_with("Usage: muster COMMAND [flags]\n\n  run          start"));
  for (const Command& command : command_table())
    CHECK(text.find("\n  " + std::string(command.name) + " ") != std::string::npos);
}
