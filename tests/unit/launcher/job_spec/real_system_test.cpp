// SPDX-License-Identifier: Apache-2.0
#include "launcher/job_spec/real_system.hpp"

#include "catch.hpp"
#include "launcher/core/launch_error.hpp"
#include "launcher/job_spec/log_directory.hpp"
#include "launcher/job_spec/system.hpp"
#include "tests/support/folder.hpp"

#include <unistd.h>

#include <filesystem>
#include <iterator>

using namespace muster::launcher;
using muster::test::Folder;
namespace fs = std::filesystem;

TEST_CASE("Addresses of this machine are told from others") {
  const RealSystem system;
  CHECK(system.local_address("localhost") == "127.0.0.1");
  CHECK(system.local_address("127.0.0.1") == "127.0.0.1");
  CHECK(system.local_address("127.8.9.10") == "127.8.9.10");
  CHECK_FALSE(system.local_address("192.0.2.1"));  // documentation network: nobody's
  CHECK_FALSE(system.local_address("0.0.0.0"));
  CHECK_FALSE(system.local_address("::"));
}

TEST_CASE("Kinds of files and their interpreters") {
  const Folder directory;
  const RealSystem system;
  directory.write("tool", "#! /bin/sh -e\n", 0755);
  directory.write("text", "print(1)\n", 0644);
  directory.write("binary", std::string("\x7f\x45LF", 4), 0755);
  CHECK(system.file_kind(directory / "tool") == FileKind::executable);
  CHECK(system.file_kind(directory / "text") == FileKind::readable);
  CHECK(system.file_kind(directory / ".") == FileKind::directory);
  CHECK(system.file_kind(directory / "none") == FileKind::missing);
  CHECK(system.program_head(directory / "tool").starts_with("#!"));
  CHECK(system.program_head(directory / "tool").size() <= 256);
  CHECK(system.program_head(directory / "none").empty());
  CHECK(system.program_head(directory / ".").empty());
}

TEST_CASE("Whether a file can be written is tried, and leaves nothing") {
  const Folder directory;
  const RealSystem system;
  directory.write("old", "kept", 0644);
  CHECK(system.write_obstacle(directory / "new").empty());
  CHECK(system.write_obstacle(directory / "old").empty());
  CHECK(system.write_obstacle("/dev/null").empty());
  CHECK(system.write_obstacle(directory / "none/new") == "No such file or directory");
  CHECK(system.write_obstacle(directory / ".") == "Is a directory");
  CHECK(system.write_obstacle("/proc/report.json") == "No such file or directory");
  CHECK(system.write_obstacle(directory / std::string(300, 'x')) == "File name too long");
  CHECK(std::distance(fs::directory_iterator(directory / "."), fs::directory_iterator()) == 1);
}

TEST_CASE("Job ids are UUIDs and differ") {
  const RealSystem system;
  const std::string id = system.new_job_id();
  CHECK(id.size() == 36);
  CHECK(id[14] == '4');
  CHECK(id != system.new_job_id());
  CHECK(system.allowance().processors >= 1);
  CHECK(system.host_name().find('.') == std::string::npos);
}

TEST_CASE("The log directory is made with its parents, private and new each time") {
  const Folder base;
  const LogDirectory planned = plan_log_directory(base / "a/b", "", "job 1");
  const std::string first = create_log_directory(planned);
  const std::string second = create_log_directory(planned);
  CHECK(first != second);
  CHECK(first.find(base / "a/b/job_1_") == 0);
  CHECK((fs::status(first).permissions() & fs::perms::all) == fs::perms::owner_all);
  CHECK(create_log_directory({}).empty());
}

TEST_CASE("A log directory that cannot be made is exit code 125") {
  const Folder base;
  base.write("file", "", 0644);
  for (const std::string& bad : {base / "file", base / "file/below", std::string("/proc/logs")}) {
    CAPTURE(bad);
    try {
      create_log_directory(plan_log_directory(bad, "", "x"));
      FAIL("accepted");
    } catch (const LaunchError& error) {
      CHECK(error.exit_code() == 125);
      CHECK(std::string(error.what()).find(bad) != std::string::npos);
    }
  }
}

TEST_CASE("A host of a list that is this machine") {
  const RealSystem system;
  for (const char* here : {"localhost", "LOCALHOST", "127.0.0.1", "127.0.0.9"}) {
    CAPTURE(here);
    CHECK(system.is_this_machine(here));
  }
  CHECK(system.is_this_machine(system.host_name()));
  for (const char* elsewhere : {"192.0.2.1", "no-such-host.invalid", "0.0.0.0", "", "fe80::1%nowhere"}) {
    CAPTURE(elsewhere);
    CHECK_FALSE(system.is_this_machine(elsewhere));
  }
}

TEST_CASE("Files are read up to a limit, or the reason is said") {
  const RealSystem system;
  std::string reason;
  CHECK(system.file_text("/dev/zero", 5000, reason)->size() == 5001);
  CHECK(system.file_text("/proc/self/comm", 100, reason)->ends_with("\n"));
  CHECK_FALSE(system.file_text("/no/such/file", 100, reason));
  CHECK(reason == "No such file or directory");
  CHECK_FALSE(system.file_text("/", 100, reason));
  CHECK(reason == "Is a directory");
}

TEST_CASE("The environment and the directory are ours") {
  const RealSystem system;
  setenv("MUSTER_TEST_VARIABLE", "a=b", 1);
  bool found = false;
  for (const auto& [name, value] : system.environment())
    if (name == "MUSTER_TEST_VARIABLE") found = value == "a=b";
  CHECK(found);
  unsetenv("MUSTER_TEST_VARIABLE");
  const std::string here = system.current_directory();
  CHECK(system.file_kind(here) == FileKind::directory);
  const std::string before = system.variable("PWD").value_or("");
  setenv("PWD", "/proc", 1);  // not where we are
  CHECK(system.current_directory() != "/proc");
  setenv("PWD", before.c_str(), 1);
}

TEST_CASE("A current directory that was removed is none") {
  const Folder folder;
  const fs::path before = fs::current_path();
  fs::create_directory(folder / "gone");
  fs::current_path(folder / "gone");
  fs::remove(folder / "gone");
  const std::string here = RealSystem().current_directory();
  fs::current_path(before);
  CHECK(here.empty());
}
