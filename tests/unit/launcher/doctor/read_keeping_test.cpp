// SPDX-License-Identifier: Apache-2.0
#include "launcher/doctor/read_keeping.hpp"

#include "catch.hpp"
#include "tests/support/folder.hpp"

#include <chrono>
#include <filesystem>

using namespace muster;
using namespace muster::launcher;

TEST_CASE("Folders that jobs have left long ago are found, but not new ones, nor what is no job's") {
  namespace fs = std::filesystem;
  const test::Folder top;
  const std::string jobs = top / "jobs";
  for (const char* name : {"", "/old", "/empty", "/new", "/other"}) {
    fs::create_directory(jobs + name);
    fs::permissions(jobs + name, fs::perms::owner_all);
  }
  top.write("jobs/old/socket", "");
  top.write("jobs/other/notes", "");
  for (const char* name : {"/old", "/empty", "/other"})
    fs::last_write_time(jobs + name, fs::file_time_type::clock::now() - std::chrono::hours(1));
  const KeepingFacts facts = read_keeping(jobs);
  CHECK(facts.folder_trouble.empty());
  CHECK(facts.old_folders == std::vector<std::string>{jobs + "/empty", jobs + "/old"});
  fs::permissions(jobs, fs::perms::all);
  CHECK(read_keeping(jobs).folder_trouble.find("chmod 700") != std::string::npos);
  CHECK(read_keeping(top / "none").old_folders.empty());
}
