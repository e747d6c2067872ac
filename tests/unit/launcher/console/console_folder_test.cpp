// SPDX-License-Identifier: Apache-2.0
#include "launcher/console/console_folder.hpp"

#include "catch.hpp"
#include "folder.hpp"
#include "launcher/core/launch_error.hpp"
#include "launcher/inspect/core/ended_job.hpp"
#include "rendezvous/base/posix.hpp"
#include "rendezvous/base/process_stat.hpp"
#include "rendezvous/base/wall_clock.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>

using namespace muster::launcher;
using muster::test::Folder;

namespace {

constexpr std::int64_t kRecordDayMs = std::chrono::milliseconds(kEndedKeptFor).count();

JobCard card_of_process(const std::string& id, pid_t pid) {
  JobCard card;
  card.id = id;
  card.host = muster::host_name().substr(0, muster::host_name().find('.'));
  card.pid = pid;
  card.start_time = muster::start_time_of(pid);
  card.boot = muster::boot_id();
  card.pid_namespace = muster::own_pid_namespace();
  return card;
}

/// Makes the console of a job whose launcher is this process, or is gone.
void make_console(const std::string& base, const std::string& id, bool lives, const std::string& host = "") {
  const NewConsoleFolder folder(base, id, true);
  JobCard card = card_of_process(id, ::getpid());
  if (!lives) ++card.start_time;
  if (!host.empty()) card.host = host;
  write_console_card(folder.path(), card);
  muster::test::write_file(folder.path() + "/console.1.log", "1\t0\t0\tout\tx\n");
}

}  // namespace

TEST_CASE("The consoles of old jobs go, those of others stay") {
  const Folder folder;
  const std::string base = folder / "muster";
  make_console(base, "old", false);
  make_console(base, "running", true);
  make_console(base, "elsewhere", false, "another-host");
  const std::int64_t now = muster::wall_clock_ms();
  CHECK(find_consoles(base).size() == 2);
  CHECK(remove_old_consoles(base, now) == 0);
  CHECK(remove_old_consoles(base, now + kRecordDayMs + 60'000) == 1);
  CHECK_FALSE(std::filesystem::exists(base + "/old"));
  CHECK(std::filesystem::exists(base + "/running/console.1.log"));
  CHECK(std::filesystem::exists(base + "/elsewhere/console.1.log"));
}

TEST_CASE("What others could have put there is not looked at") {
  const Folder folder;
  const std::string base = folder / "muster";
  make_console(base, "a", false);
  REQUIRE(::chmod((base + "/a").c_str(), 0755) == 0);
  CHECK(find_consoles(base).empty());
  CHECK(remove_old_consoles(base, muster::wall_clock_ms() + 2 * kRecordDayMs) == 0);
  REQUIRE(::chmod((base + "/a").c_str(), 0700) == 0);
  CHECK(find_consoles(base).size() == 1);
  REQUIRE(::chmod(base.c_str(), 0755) == 0);
  CHECK(find_consoles(base).empty());
}

TEST_CASE("A folder that cannot be made leaves nothing, and says what to do") {
  const Folder folder;
  const std::string base = folder / "a/b/muster";
  {
    const NewConsoleFolder made(base, "job", true);

    struct stat status {};

    REQUIRE(::stat(made.path().c_str(), &status) == 0);
    CHECK((status.st_mode & 0777U) == 0700);
    made.remove();
  }
  CHECK_FALSE(std::filesystem::exists(folder / "a"));
  muster::test::write_file(folder / "file", "");
  CHECK_THROWS_AS(NewConsoleFolder(folder / "file/muster", "job", true), LaunchError);
  std::filesystem::create_directory(folder / "open");
  REQUIRE(::chmod((folder / "open").c_str(), 0755) == 0);
  CHECK_THROWS_AS(NewConsoleFolder(folder / "open", "job", true), LaunchError);
  CHECK_FALSE(std::filesystem::exists(folder / "open/job"));
  CHECK_NOTHROW(NewConsoleFolder(folder / "open", "job", false));
}
