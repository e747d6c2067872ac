// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_spec/resolve_program.hpp"

#include "catch.hpp"
#include "launcher/cli/parse_options.hpp"
#include "launcher/core/launch_error.hpp"
#include "tests/unit/launcher/job_spec/fake_system.hpp"

namespace resolve_program_test {

using namespace muster::launcher;

namespace {

using Arguments = std::vector<std::string>;

FakeSystem machine() {
  FakeSystem system;
  system.files["/opt/python"] = FileKind::executable;
  system.files["./tool"] = FileKind::executable;
  system.files["tool"] = FileKind::executable;
  system.files["./script"] = FileKind::readable;
  system.files["script"] = FileKind::readable;
  system.files["secret.py"] = FileKind::unreadable;
  system.files["exec.py"] = FileKind::executable;
  system.files["package"] = FileKind::directory;
  system.files["package/__main__.py"] = FileKind::readable;
  system.files["folder"] = FileKind::directory;
  system.files["/bin/flat"] = FileKind::readable;
  system.files["./broken"] = FileKind::executable;
  system.program_heads["./broken"] = "#!/usr/bin/nosuch -x\n";
  return system;
}

ProgramCommand command_of(const Arguments& arguments, const FakeSystem& system = machine(),
                          bool runs_here = true) {
  return resolve_program(parse_run_options(arguments, [](const std::string&) { return std::nullopt; }),
                         system, "", runs_here);
}

/// Exit code and message of the refusal.
std::pair<int, std::string> refusal(const Arguments& arguments, const FakeSystem& system = machine()) {
  try {
    command_of(arguments, system);
  } catch (const LaunchError& error) {
    return {error.exit_code(), error.what()};
  }
  return {0, ""};
}

}  // namespace

TEST_CASE("How a program is run") {
  struct Row {
    Arguments arguments;
    Arguments command;
    std::size_t first_argument;
  };

  const Row rows[] = {
      {{"train.py", "-x"}, {"python3", "-u", "train.py", "-x"}, 3},
      {{"exec.py"}, {"python3", "-u", "exec.py"}, 3},
      {{"./script", "a"}, {"python3", "-u", "./script", "a"}, 3},
      {{"script"}, {"python3", "-u", "script"}, 3},
      {{"package"}, {"python3", "-u", "package"}, 3},
      {{"./tool", "a"}, {"./tool", "a"}, 1},
      {{"tool"}, {"./tool"}, 1},
      {{"true", "a"}, {"true", "a"}, 1},
      {{"--no-python", "true", "b"}, {"true", "b"}, 1},
      {{"--no-python", "/bin/true"}, {"/bin/true"}, 1},
      {{"-m", "pkg.main", "a"}, {"python3", "-u", "-m", "pkg.main", "a"}, 4},
  };
  for (const Row& row : rows) {
    CAPTURE(row.arguments);
    const ProgramCommand program = command_of(row.arguments);
    CHECK(program.command == row.command);
    CHECK(program.first_script_argument == row.first_argument);
  }
}

TEST_CASE("run-path goes through runpy and beats --no-python") {
  const ProgramCommand program = command_of({"--run-path", "--no-python", "train.py", "a"});
  REQUIRE(program.command.size() == 6);
  CHECK(program.command[2] == "-c");
  CHECK(program.command[3].find("runpy.run_path") != std::string::npos);
  CHECK(program.command[4] == "train.py");
  CHECK(program.first_script_argument == 5);
}

TEST_CASE("Python is that of the virtual environment of muster") {
  FakeSystem system = machine();
  system.own_python = "/venv/bin/python3";
  system.files["/venv/bin/python3"] = FileKind::executable;
  CHECK(command_of({"train.py"}, system).command.front() == "/venv/bin/python3");
  CHECK(command_of({"-H", "n0,n1", "train.py"}, system, false).command.front() == "/venv/bin/python3");
  CHECK(command_of({"-H", "n0,n1", "--push", "train.py"}, system, false).command.front() == "python3");
  CHECK(command_of({"-H", "n0,n1", "--remote-muster", "/opt/muster", "train.py"}, system, false)
            .command.front() == "python3");
  system.variables["PYTHON_EXEC"] = "/opt/python";
  CHECK(command_of({"train.py"}, system).command.front() == "/opt/python");
}

TEST_CASE("PYTHON_EXEC replaces the interpreter") {
  FakeSystem system = machine();
  system.variables["PYTHON_EXEC"] = "/opt/python";
  CHECK(command_of({"train.py"}, system).command.front() == "/opt/python");
  system.variables["PYTHON_EXEC"] = "/opt/none";
  CHECK(refusal({"train.py"}, system).first == 127);
  CHECK(refusal({"train.py"}, system).second ==
        "program '/opt/none' does not exist; correct the variable PYTHON_EXEC");
}

TEST_CASE("What cannot run is refused before anything starts") {
  CHECK(refusal({}).first == 2);
  CHECK(refusal({""}).first == 2);
  CHECK(refusal({"--no-python", "-m", "x"}).first == 2);
  CHECK(refusal({"none.py"}) ==
        std::pair<int, std::string>(
            127, "program 'none.py' does not exist; check the path, or use --module for a Python module"));
  CHECK(refusal({"./none"}).first == 127);
  CHECK(refusal({"--no-python", "none"}).second == "program 'none' does not exist in PATH; check the name");
  CHECK(refusal({"--no-python", "none"}).first == 127);
  CHECK(refusal({"--no-python", "flat"}).first == 126);
  CHECK(refusal({"--no-python", "./script"}).first == 126);
  CHECK(refusal({"secret.py"}).first == 126);
  CHECK(refusal({"folder"}).first == 126);
  CHECK(refusal({"--run-path", "none.py"}).first == 127);
  const auto broken = refusal({"./broken"});
  CHECK(broken.first == 127);
  CHECK(broken.second.find("/usr/bin/nosuch") != std::string::npos);
  FakeSystem dos = machine();
  dos.files["/bin/sh"] = dos.files["/usr/bin/env"] = FileKind::executable;
  dos.program_heads["./tool"] = "#!/bin/sh\r\necho\r\n";
  CHECK(refusal({"./tool"}, dos) ==
        std::pair<int, std::string>(127,
                                    "program './tool': its interpreter '/bin/sh\\r' does not exist: the file "
                                    "has CRLF line ends; run dos2unix on it"));
  dos.program_heads["./tool"] = "#!/usr/bin/env bash\r\n";
  CHECK(refusal({"./tool"}, dos).second.find("its interpreter 'bash\\r' does not exist") !=
        std::string::npos);
  dos.program_heads["./tool"] = "#!/usr/bin/env bash\n";
  CHECK(refusal({"./tool"}, dos).first == 0);
  FakeSystem bare = machine();
  bare.files.erase("/usr/bin/python3");
  CHECK(refusal({"train.py"}, bare).first == 127);
  CHECK(refusal({"-m", "x"}, bare).second.find("PYTHON_EXEC") != std::string::npos);
  CHECK(refusal({"./tool"}, bare).first == 0);
}

}  // namespace resolve_program_test
