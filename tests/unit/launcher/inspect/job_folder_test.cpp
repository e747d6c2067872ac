// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect/job_folder.hpp"

#include "catch.hpp"
#include "launcher/inspect/ended_folder.hpp"
#include "rendezvous/base/process_stat.hpp"
#include "tests/support/folder.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>
#include <thread>

using namespace muster;
using namespace muster::launcher;

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kNowMs = 1'700'000'000'000;

/// The card of a job whose launcher is this process.
JobCard own_card(const std::string& id) {
  JobCard card;
  card.id = id;
  card.pid = ::getpid();
  card.start_time = start_time_of(::getpid());
  card.boot = boot_id();
  card.pid_namespace = own_pid_namespace();
  return card;
}

std::optional<JobFolder> made(const std::string& base, const JobCard& card, std::string& trouble) {
  auto folder = JobFolder::make(base, card.id, trouble);
  if (folder && !folder->publish(card)) return std::nullopt;
  return folder;
}

unsigned mode_of(const std::string& path) {
  struct stat status {};

  return ::lstat(path.c_str(), &status) == 0 ? status.st_mode & 07777U : 0U;
}

}  // namespace

TEST_CASE("A job is found by its folder, which nobody else may enter and which goes with it") {
  const test::Folder top;
  const std::string base = top / "jobs";
  std::string trouble;
  CHECK(find_jobs(base, trouble).empty());
  JobCard first = own_card("a-2");
  first.started_at_ms = 5;
  {
    const auto one = made(base, first, trouble);
    const auto two = made(base, own_card("b-1"), trouble);
    REQUIRE(one);
    CHECK(mode_of(base) == 0700);
    CHECK(mode_of(base + "/a-2") == 0700);
    CHECK(mode_of(base + "/a-2/card") == 0600);
    const auto jobs = find_jobs(base, trouble);
    REQUIRE(jobs.size() == 2);
    CHECK(jobs[0].card.id == "b-1");
    CHECK(jobs[1].socket == base + "/a-2/socket");
    CHECK_FALSE(JobFolder::make(base, "a-2", trouble));
    CHECK(trouble.find("a-2 cannot be made") != std::string::npos);
  }
  CHECK_FALSE(fs::exists(base));
}

TEST_CASE("A job that begins, without a card, is not found and not removed") {
  const test::Folder top;
  const std::string base = top / "jobs";
  std::string trouble;
  const auto folder = JobFolder::make(base, "a-1", trouble);
  REQUIRE(folder);
  CHECK(find_jobs(base, trouble).empty());
  CHECK(fs::exists(base + "/a-1"));
  CHECK(trouble.empty());
}

TEST_CASE("What a killed launcher left is removed, also when another process has its number") {
  const test::Folder top;
  const std::string base = top / "jobs";
  std::string trouble;
  JobCard gone = own_card("gone-1");
  ++gone.start_time;
  const auto left = made(base, gone, trouble);
  JobCard elsewhere = own_card("elsewhere-1");
  ++elsewhere.pid_namespace;  // nobody listens there, but it is not ours to remove
  const auto other = made(base, elsewhere, trouble);
  const auto lives = made(base, own_card("lives-1"), trouble);
  const auto jobs = find_jobs(base, trouble);
  REQUIRE(jobs.size() == 1);
  CHECK(jobs[0].card.id == "lives-1");
  CHECK_FALSE(fs::exists(base + "/gone-1"));
  CHECK(fs::exists(base + "/elsewhere-1/card"));
  CHECK(trouble.empty());
}

TEST_CASE("A folder of jobs that is a link, a file, or open to others is refused") {
  const test::Folder top;
  std::string trouble;
  fs::create_directory(top / "theirs");
  fs::create_directory_symlink(top / "theirs", top / "link");
  CHECK_FALSE(JobFolder::make(top / "link", "a-1", trouble));
  CHECK(trouble.find("is no directory; remove it") != std::string::npos);
  CHECK(fs::is_empty(top / "theirs"));
  CHECK(find_jobs(top / "link", trouble = "").empty());
  CHECK(trouble.find("is no directory; remove it") != std::string::npos);
  top.write("file", "x");
  CHECK_FALSE(JobFolder::make(top / "file", "a-1", trouble));
  CHECK(trouble.find("is no directory") != std::string::npos);
  CHECK_FALSE(JobFolder::make(top / "absent/jobs", "a-1", trouble));
  CHECK(trouble.find("cannot be made") != std::string::npos);
  fs::create_directory(top / "open");
  REQUIRE(::chmod((top / "open").c_str(), 0710) == 0);
  CHECK_FALSE(JobFolder::make(top / "open", "a-1", trouble));
  CHECK(trouble.find("run 'chmod 700 ") != std::string::npos);
  if (::geteuid() == 0) {
    fs::create_directory(top / "another");
    REQUIRE(::chmod((top / "another").c_str(), 0700) == 0);
    REQUIRE(::chown((top / "another").c_str(), 12345, 12345) == 0);
    CHECK_FALSE(JobFolder::make(top / "another", "a-1", trouble));
    CHECK(trouble.find("belongs to user 12345") != std::string::npos);
  }
}

TEST_CASE("A card that is garbage, a link or a pipe is passed over") {
  const test::Folder top;
  const std::string base = top / "jobs";
  std::string trouble;
  const auto lives = made(base, own_card("lives-1"), trouble);
  for (const char* name : {"garbage", "link", "pipe"}) {
    fs::create_directory(base + "/" + name);
  }
  test::write_file(base + "/garbage/card", "{\"id\":");
  fs::create_symlink(base + "/lives-1/card", base + "/link/card");
  REQUIRE(::mkfifo((base + "/pipe/card").c_str(), 0600) == 0);
  const auto jobs = find_jobs(base, trouble);
  REQUIRE(jobs.size() == 1);
  CHECK(jobs[0].card.id == "lives-1");
  CHECK(trouble.find("remove that folder") != std::string::npos);
}

TEST_CASE("What is made in a folder is made again where the folder has gone") {
  const test::Folder top;
  const std::string base = top / "jobs";
  std::string trouble;
  int calls = 0;
  const auto make = [&] {
    if (++calls < 5) ::rmdir(base.c_str());
    return ::mkdir((base + "/a-1").c_str(), 0700) == 0;
  };
  CHECK(make_in_folder(base, trouble, make));
  CHECK(calls == 5);
  // Another reason is one for good.
  CHECK_FALSE(make_in_folder(base, trouble, make));
  CHECK(calls == 6);
}

TEST_CASE("A job has its folder and its record however often others remove an empty folder") {
  const test::Folder top;
  const std::string base = top / "jobs";
  std::atomic<bool> over{false};
  std::thread remover([&] {
    while (!over) {
      ::rmdir((base + "/ended").c_str());
      ::rmdir(base.c_str());
      ::usleep(100);  // as often as that, and not at each system call of the other
    }
  });
  int folders = 0;
  int records = 0;
  for (int i = 0; i < 300; ++i) {
    std::string trouble;
    folders += JobFolder::make(base, "a-1", trouble) ? 1 : 0;
    keep_ended(base, EndedJob{own_card("a-1"), 0, "", "", kNowMs, 0, 0}, kNowMs);
    records += static_cast<int>(remove_ended(base));
  }
  over = true;
  remover.join();
  CHECK(folders == 300);
  CHECK(records == 300);
}
