// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/core/membership.hpp"

#include "catch.hpp"

namespace membership_test {

using namespace muster::rendezvous;
using namespace std::chrono_literals;

namespace {

TimePoint at(Milliseconds time) {
  return TimePoint(time);
}

Member member(SessionId session, const std::string& name, std::uint64_t incarnation) {
  Member member;
  member.session = session;
  member.name = name;
  member.incarnation = incarnation;
  return member;
}

std::vector<NodeName> names(const std::vector<Member>& members) {
  std::vector<NodeName> names;
  for (const Member& member : members) names.push_back(member.name);
  return names;
}

/// Ticks every second up to `until`, with `alive` heard just before each; returns the last verdicts.
Membership::Verdicts run(Membership& members, Milliseconds from, Milliseconds until, SessionId alive = 0) {
  Membership::Verdicts last;
  for (Milliseconds time = from; time <= until; time += 1s) {
    if (alive != 0) members.find(alive)->last_seen = at(time);
    last = members.tick(at(time));
  }
  return last;
}

}  // namespace

TEST_CASE("A silent node is suspect at 3 s and dead at 5 s, not before") {
  Membership members({});
  CHECK_FALSE(members.next_tick().has_value());
  CHECK_FALSE(members.admit(member(1, "a", 11), at(0ms)).has_value());
  CHECK_FALSE(members.admit(member(2, "b", 12), at(0ms)).has_value());
  CHECK(members.next_tick() == at(1s));
  Membership::Verdicts verdicts = run(members, 1s, 2s, 2);
  CHECK(verdicts.suspect.empty());
  verdicts = run(members, 3s, 3s, 2);
  CHECK(names(verdicts.suspect) == std::vector<NodeName>{"a"});
  CHECK(verdicts.dead.empty());
  verdicts = run(members, 4s, 4s, 2);
  CHECK(verdicts.suspect.empty());
  CHECK(verdicts.dead.empty());
  verdicts = run(members, 5s, 5s, 2);
  REQUIRE(verdicts.dead.size() == 1);
  CHECK(verdicts.dead[0].name == "a");
}

TEST_CASE("Time in which the observer itself was stopped is held against nobody") {
  Membership members({});
  members.admit(member(1, "a", 11), at(0ms));
  members.tick(at(1s));
  const Membership::Verdicts verdicts = members.tick(at(60s));
  CHECK(verdicts.suspect.empty());
  CHECK(verdicts.dead.empty());
  CHECK(run(members, 61s, 66s).dead.size() == 1);
}

TEST_CASE("Silence is not judged where the limit is 0") {
  Membership members({kSuspectAfter, Milliseconds(0)});
  members.admit(member(1, "a", 11), at(0ms));
  CHECK_FALSE(members.next_tick().has_value());
  CHECK(run(members, 1s, 60s).dead.empty());
}

TEST_CASE("An incarnation that was declared dead may not come back, a new one may") {
  Membership members({});
  members.admit(member(1, "a", 11), at(0ms));
  members.remove(1, true);
  const auto refusal = members.admit(member(2, "a", 11), at(1s));
  REQUIRE(refusal.has_value());
  CHECK(refusal->code == Errc::job_over);
  CHECK_FALSE(members.admit(member(2, "a", 12), at(1s)).has_value());
}

TEST_CASE("The dead are remembered in bounded memory, the last of them for longest") {
  Membership members({});
  const auto lives_and_dies = [&members](std::size_t number) {
    const SessionId session = number + 1;
    members.admit(member(session, "n" + std::to_string(number), 11), at(0ms));
    members.remove(session, true);
  };
  const auto is_refused = [&members](std::size_t number) {
    const auto refusal = members.admit(member(1, "n" + std::to_string(number), 11), at(1s));
    members.remove(1, false);
    return refusal.has_value();
  };
  for (std::size_t i = 0; i < kMaxFenced; ++i) lives_and_dies(i);
  CHECK(is_refused(0));
  for (std::size_t i = kMaxFenced; i < 2 * kMaxFenced + 1; ++i) lives_and_dies(i);
  CHECK_FALSE(is_refused(0));
  CHECK(is_refused(kMaxFenced + 1));
  CHECK(is_refused(2 * kMaxFenced));
}

}  // namespace membership_test
