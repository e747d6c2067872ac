// SPDX-License-Identifier: Apache-2.0
#include "launcher/inspect/core/job_card.hpp"

#include "catch.hpp"

#include <stdexcept>

using namespace muster::launcher;

namespace {

JobCard card_of_train() {
  JobCard card;
  card.id = "train-0123ab";
  card.name = "llama-7b";
  card.run_id = "nightly";
  card.program = "train.py";
  card.arguments = {"-n", "2", "train.py", "\xff\x1b"};
  card.pid = 41;
  card.start_time = 977;
  card.boot = "b1";
  card.pid_namespace = 5;
  card.workers = 2;
  return card;
}

}  // namespace

TEST_CASE("A card survives the way through JSON, and has a bound") {
  const JobCard card = card_of_train();
  const JobCard read = job_card_from_json(to_json(card));
  CHECK(to_json(read) == to_json(card));
  CHECK(read.start_time == 977);
  CHECK(read.arguments.size() == 4);
  CHECK(read.name == "llama-7b");
  JobCard large = card;
  large.arguments.assign(64, std::string(kCardBytesMax / 40, 'x'));
  large.arguments.front() = "first";
  const std::string text = to_json(large);
  CHECK(text.size() <= kCardBytesMax);
  CHECK(job_card_from_json(text).arguments.front() == "first");
}

TEST_CASE("What is no card is refused") {
  // What another version does not write has its default.
  CHECK(job_card_from_json(R"({"id": "a-1", "pid": 7})").workers == JobCard{}.workers);
  for (const char* text : {"", "{}", "[]", "{\"id\":1}", "{", R"({"id": "a-1"})", R"({"pid": 7})"})
    CHECK_THROWS_AS(job_card_from_json(text), std::invalid_argument);
}

TEST_CASE("The id of a job is made of its program's name") {
  CHECK(job_id("/home/me/train.py", 0x123456) == "train-654321");
  CHECK(job_id("pkg.mod", 0).starts_with("pkg-0"));
  CHECK(job_id("", 0) == "job-000000");
  CHECK(job_id("..", 0) == "_-000000");
  CHECK(job_id("-x y\n/../a b\x1b.sh", 0) == "a_b_-000000");
  CHECK(job_id(std::string(300, 'a'), 0).size() == 24 + 7);
  CHECK(job_id(".hidden", 0) == "_hidden-000000");
}

TEST_CASE("A job is named by its id, its name, its run id, or a beginning of its id or name") {
  const JobCard card = card_of_train();
  CHECK(named_by(card, "train-0123ab") == NamedBy::id);
  CHECK(named_by(card, "llama-7b") == NamedBy::name);
  CHECK(named_by(card, "nightly") == NamedBy::run_id);
  CHECK(named_by(card, "train-0") == NamedBy::beginning);
  CHECK(named_by(card, "lla") == NamedBy::beginning);
  JobCard other = card;
  other.name = "train-0123ab";  // another job's id
  CHECK(named_by(other, "train-0123ab") == NamedBy::id);
  other.id = "b-1";
  CHECK(named_by(other, "train-0123ab") == NamedBy::name);
  other.name = "";
  CHECK(named_by(other, "") == NamedBy::nothing);
  CHECK(named_by(card, "") == NamedBy::nothing);
  CHECK(named_by(card, "night") == NamedBy::nothing);
  CHECK(named_by(card, "train-0123abc") == NamedBy::nothing);
}

TEST_CASE("A process that has got the launcher's number is not the launcher") {
  const JobCard card = card_of_train();
  CHECK(launcher_life(card, {"b1", 5, 977}) == LauncherLife::there);
  CHECK(launcher_life(card, {"b1", 5, 978}) == LauncherLife::gone);
  CHECK(launcher_life(card, {"b1", 5, 0}) == LauncherLife::gone);
  CHECK(launcher_life(card, {"b2", 5, 977}) == LauncherLife::gone);
  CHECK(launcher_life(card, {"b1", 6, 0}) == LauncherLife::unknown);
  CHECK(launcher_life(card, {"", 5, 978}) == LauncherLife::unknown);  // a sandbox that does not tell its boot
  JobCard without = card;
  without.start_time = 0;
  CHECK(launcher_life(without, {"b1", 5, 0}) == LauncherLife::gone);
}
