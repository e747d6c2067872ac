// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect/core/ended_job.hpp"

#include "catch.hpp"
#include "launcher/inspect/ended_folder.hpp"
#include "launcher/inspect/job_folder.hpp"
#include "tests/support/folder.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <time.h>

#include <chrono>
#include <filesystem>
#include <stdexcept>

using namespace muster;
using namespace muster::launcher;

namespace {

EndedJob ended(const std::string& id, std::int64_t at_ms) {
  EndedJob job;
  job.card.id = id;
  job.card.pid = 7;
  job.exit_code = 3;
  job.cause = "rank 0 on n0: exit code 3\nmore";
  job.ended_at_ms = at_ms;
  return job;
}

std::int64_t present_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

/// Makes a file as old as that.
void age(const std::string& path, std::chrono::seconds time) {
  const time_t then = ::time(nullptr) - time.count();
  const timespec times[2] = {{then, 0}, {then, 0}};
  REQUIRE(::utimensat(AT_FDCWD, path.c_str(), times, 0) == 0);
}

}  // namespace

TEST_CASE("The record of a job survives the way through JSON; what is none is refused") {
  EndedJob job = ended("train-0123ab", 5000);
  job.report = "/r.json";
  job.cpu_ms = 7;
  job.memory_peak = std::uint64_t{5} << 33;
  job.card.arguments = {"\xff\n"};
  const std::string text = to_json(job);
  CHECK(text.find('\n') == std::string::npos);
  const EndedJob read = ended_job_from_json(text);
  CHECK(to_json(read) == text);
  CHECK(read.exit_code == 3);
  CHECK(read.cause == "rank 0 on n0: exit code 3");
  CHECK(read.memory_peak == job.memory_peak);
  CHECK(status_json(job).find("\"ended\":{") != std::string::npos);
  job.cause.assign(100'000, '\xff');
  job.card.arguments.assign(64, std::string(kCardBytesMax / 40, 'x'));
  CHECK(to_json(job).size() <= kEndedBytesMax);
  for (const char* wrong : {"", "{}", "[]", R"({"id":"a-1","pid":7})", R"({"id":"a-1","pid":7,"ended":{}})",
                            R"({"id":"a-1","pid":7,"ended":{"exit_code":"3"}})"})
    CHECK_THROWS_AS(ended_job_from_json(wrong), std::invalid_argument);
}

TEST_CASE("Of several ended jobs of a name the last is meant, but of a beginning none") {
  std::vector<EndedJob> jobs{ended("a-1", 10), ended("a-2", 30), ended("b-1", 20)};
  for (EndedJob& job : jobs) job.card.name = "same";
  CHECK(ended_job_named(jobs, "same")->card.id == "a-2");
  CHECK(ended_job_named(jobs, "a-1")->card.id == "a-1");
  CHECK(ended_job_named(jobs, "b")->card.id == "b-1");
  CHECK_FALSE(ended_job_named(jobs, "a-"));
  CHECK_FALSE(ended_job_named(jobs, "c"));
  CHECK_FALSE(ended_job_named({}, "a"));
}

TEST_CASE("Records are kept for a day, a hundred at most, for nobody else") {
  const test::Folder top;
  const std::string base = top / "jobs";
  const std::int64_t now = present_ms();
  CHECK(find_ended(base, now).empty());
  keep_ended(base, ended("old-1", now), now);
  keep_ended(base, ended("late-1", now), now);
  keep_ended(base, ended("young-1", now - 1), now);

  struct stat status {};

  REQUIRE(::stat((base + "/ended").c_str(), &status) == 0);
  CHECK((status.st_mode & 07777U) == 0700);
  REQUIRE(::stat((base + "/ended/late-1").c_str(), &status) == 0);
  CHECK((status.st_mode & 07777U) == 0600);
  age(base + "/ended/old-1", kEndedKeptFor + std::chrono::seconds(60));
  auto jobs = find_ended(base, now);
  REQUIRE(jobs.size() == 2);
  CHECK(jobs[0].card.id == "young-1");
  age(base + "/ended/late-1", std::chrono::seconds(60));
  for (std::size_t i = 1; i <= kEndedMost; ++i)
    keep_ended(base, ended("more-" + std::to_string(i), now + 1), now);
  jobs = find_ended(base, now);
  REQUIRE(jobs.size() == kEndedMost);
  CHECK(jobs.front().card.id == "more-1");
  // What a file system's clock gives one time is in order of its names.
  for (std::size_t i = 1; i <= kEndedMost; ++i)
    age(base + "/ended/more-" + std::to_string(i), std::chrono::seconds(30));
  // Files go when there are some more.
  for (std::size_t i = 1; i <= kEndedMost; ++i)
    keep_ended(base, ended("last-" + std::to_string(i), now + 2), now);
  CHECK_FALSE(std::filesystem::exists(base + "/ended/old-1"));
  CHECK_FALSE(std::filesystem::exists(base + "/ended/late-1"));
  CHECK(find_ended(base, now).front().card.id == "last-1");
  // The folder of a running job stays beside them, and they are no running jobs.
  std::string trouble;
  CHECK(find_jobs(base, trouble).empty());
  CHECK(trouble.empty());
  const std::size_t removed = remove_ended(base);
  CHECK(removed >= kEndedMost);
  CHECK(removed < 2 * kEndedMost);
  CHECK_FALSE(std::filesystem::exists(base));
  CHECK(remove_ended(base) == 0);
}

TEST_CASE(
    "A folder of records that is a link or open to others is not used, and garbage in it is no record") {
  const test::Folder top;
  const std::string base = top / "jobs";
  const std::int64_t now = present_ms();
  keep_ended(base, ended("good-1", now), now);
  test::write_file(base + "/ended/garbage", "{\"id\":");
  std::filesystem::create_symlink(base + "/ended/good-1", base + "/ended/link");
  REQUIRE(::mkfifo((base + "/ended/pipe").c_str(), 0600) == 0);
  CHECK(find_ended(base, now).size() == 1);
  REQUIRE(::chmod((base + "/ended").c_str(), 0755) == 0);
  CHECK(find_ended(base, now).empty());
  CHECK(remove_ended(base) == 0);
  REQUIRE(::chmod((base + "/ended").c_str(), 0700) == 0);
  const std::string other = top / "other";
  std::filesystem::create_directory(other);
  REQUIRE(::chmod(other.c_str(), 0700) == 0);
  std::filesystem::create_directory_symlink(base + "/ended", other + "/ended");
  keep_ended(other, ended("stray-1", now), now);
  CHECK(find_ended(other, now).empty());
  CHECK_FALSE(std::filesystem::exists(base + "/ended/stray-1"));
}
