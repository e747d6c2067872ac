// SPDX-License-Identifier: Apache-2.0
#include "agent/process/stop_file.hpp"

#include "agent/process/temporary_directory.hpp"
#include "catch.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/process_stat.hpp"
#include "tests/support/folder.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

using namespace muster;
using namespace muster::agent;

namespace {

namespace fs = std::filesystem;

unsigned permissions_of(const std::string& path) {
  struct stat status {};

  return ::lstat(path.c_str(), &status) == 0 ? status.st_mode & 07777U : 0U;
}

}  // namespace

TEST_CASE("The folder goes with all that programs have made in it") {
  const test::Folder top;
  const std::string folder = top / "node";
  {
    StopFile file;
    CHECK(file.folder().empty());
    file.make(folder);
    REQUIRE(file.folder() == folder);
    REQUIRE(::mkfifo((folder + "/flight_round0_rank0.pipe").c_str(), 0600) == 0);
    test::write_file(folder + "/control_0_0.open", "");
    REQUIRE(::symlink(top.path().c_str(), (folder + "/link").c_str()) == 0);
  }
  CHECK_FALSE(fs::exists(folder));
  CHECK(fs::exists(top.path()));
}

TEST_CASE("The stop file appears whole, in a folder for this user alone, and goes with it") {
  const test::Folder top;
  const std::string folder = top / "node";
  {
    StopFile file;
    CHECK(file.path().empty());
    file.make(folder);
    CHECK(file.path() == folder + "/stop");
    CHECK(permissions_of(folder) == 0700);
    CHECK_FALSE(fs::exists(file.path()));
    file.appear("");
    CHECK_FALSE(fs::exists(file.path()));
    file.appear("first\n");
    CHECK(read_file(file.path(), 100) == "first\n");
    CHECK(permissions_of(file.path()) == 0600);
    file.appear("second\n");
    CHECK(read_file(file.path(), 100) == "first\n");
    file.vanish();
    CHECK_FALSE(fs::exists(file.path()));
    file.appear("third\n");
    CHECK(read_file(file.path(), 100) == "third\n");
    CHECK_FALSE(fs::exists(folder + "/stop.new"));
  }
  CHECK_FALSE(fs::exists(folder));
}

TEST_CASE("A folder that is there already is another's, and is left alone") {
  const test::Folder top;
  fs::create_directory(top / "node");
  top.write("node/stop", "of somebody");
  {
    StopFile file;
    file.make(top / "node");
    CHECK(file.path().empty());
    file.appear("text");
    file.vanish();
  }
  CHECK(read_file(top / "node/stop", 100) == "of somebody");
}

TEST_CASE("Nothing is written through what a worker has put in the way") {
  const test::Folder top;
  top.write("victim", "untouched");
  StopFile file;
  file.make(top / "node");
  fs::create_symlink(top / "victim", top / "node/stop.new");
  file.appear("text");
  CHECK(read_file(top / "victim", 100) == "untouched");
  CHECK_FALSE(fs::exists(file.path()));
}

TEST_CASE("The folders of processes that have ended are removed, and no others") {
  const test::Folder top;
  const std::string before = temporary_directory();
  setenv("TMPDIR", top.path().c_str(), 1);
  const std::string own = fs::path(new_stop_folder()).filename();
  const std::string here = own.substr(0, own.rfind('-', own.rfind('-') - 1) + 1);  // boot and namespace
  const std::string started = std::to_string(start_time_of(::getpid()));
  const std::string another_start =
      std::to_string(::getpid()) + "." + std::to_string(start_time_of(::getpid()) + 1);
  const std::string living = std::to_string(::getpid()) + "." + started;
  const std::string random = "-0123456789abcdef";
  const std::vector<std::string> kept = {own,
                                         here + living + random,
                                         here + "words" + random,
                                         "muster_stop_another0-1-" + another_start + random,
                                         "muster_stop_0123456789abcdef",
                                         "somebody_elses"};
  for (const std::string& name : kept) fs::create_directory(top / name);
  fs::create_directory(top / "target");
  fs::create_symlink(top / "target", top / (here + another_start + "-link"));
  const std::string left = here + another_start + random;
  fs::create_directory(top / left);
  top.write(left + "/stop", "");
  top.write(left + "/stop.new", "");

  const std::size_t removed = remove_left_stop_folders();
  setenv("TMPDIR", before.c_str(), 1);
  CHECK(removed == 1);
  CHECK_FALSE(fs::exists(top / left));
  for (const std::string& name : kept) CHECK(fs::exists(top / name));
  CHECK(fs::exists(top / "target"));
  CHECK(new_stop_folder() != new_stop_folder());
}
