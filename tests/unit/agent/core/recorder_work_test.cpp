// SPDX-License-Identifier: Apache-2.0
#include "agent/core/recorder_work.hpp"

#include "catch.hpp"

using namespace muster::agent;
using namespace std::chrono_literals;

namespace {

constexpr RecorderWork::Time at(std::chrono::milliseconds time) {
  return RecorderWork::Time(1000s + time);
}

}  // namespace

TEST_CASE("A recorder works from the question until a moment after its answer") {
  RecorderWork work(5s);
  CHECK_FALSE(work.may_have_worked_after(at(0s)));
  work.ask();
  CHECK(work.may_have_worked_after(at(0s)));
  CHECK(work.may_have_worked_after(at(60s)));
  work.end_question(at(60s), true);
  CHECK(work.may_have_worked_after(at(59s)));
  CHECK(work.may_have_worked_after(at(60'999ms)));
  CHECK_FALSE(work.may_have_worked_after(at(61s)));
  // The next question begins anew.
  work.ask();
  CHECK(work.may_have_worked_after(at(61s)));
}

TEST_CASE("A recorder that has not answered in time gets half the time between two questions") {
  RecorderWork work(5s);
  work.ask();
  work.end_question(at(3s), false);
  CHECK(work.may_have_worked_after(at(5'499ms)));
  CHECK_FALSE(work.may_have_worked_after(at(5'500ms)));
}

TEST_CASE("The end of a question that a recorder was not asked says nothing of it") {
  RecorderWork work(5s);
  work.end_question(at(3s), false);
  CHECK_FALSE(work.may_have_worked_after(at(0s)));
  // Questions that follow each other closely leave less time.
  RecorderWork often(1s);
  often.ask();
  often.end_question(at(0s), true);
  CHECK_FALSE(often.may_have_worked_after(at(500ms)));
}
