// SPDX-License-Identifier: Apache-2.0
#include "agent/core/slot_evidence.hpp"

#include "catch.hpp"

namespace slot_evidence_test {

using namespace muster;
using namespace muster::agent;

namespace {

status::RankStatus in_call(Collective collective, std::uint64_t sequence) {
  status::GroupStatus group;
  group.name = "dp";
  group.state = status::GroupState::in_call;
  group.call.collective = collective;
  group.call.sequence = sequence;
  group.completed = sequence - 1;
  group.changed_ns = 1000;
  status::RankStatus status;
  status.phase = status::ProcessPhase::active;
  status.step = 40;
  status.groups = {group};
  return status;
}

WorkerSample sample_of(const status::RankStatus& status) {
  WorkerSample sample;
  add_slot(sample, status);
  return sample;
}

}  // namespace

TEST_CASE("A rank in a call waits for that call") {
  const WorkerSample sample = sample_of(in_call(Collective::all_gather, 12));
  CHECK(sample.operation == "all_gather");
  CHECK(sample.group == "dp");
  CHECK(sample.sequence == 12);
  CHECK(sample.slot_step == 40);
}

TEST_CASE("A rank that makes a group waits for the making of it, between calls for none") {
  status::RankStatus status = in_call(Collective::barrier, 3);
  status.groups[0].state = status::GroupState::joining;
  CHECK(sample_of(status).operation == "the making");
  status.groups[0].state = status::GroupState::idle;
  CHECK(sample_of(status).operation.empty());
  status.groups[0].state = status::GroupState::in_call;
  status.groups[0].torn = true;
  CHECK(sample_of(status).operation.empty());
  status.phase = status::ProcessPhase::unclaimed;
  CHECK(sample_of(status).slot_step == 0);
}

TEST_CASE("Each call changes a sample, and none that stands still does") {
  const WorkerSample before = sample_of(in_call(Collective::send, 12));
  CHECK_FALSE(has_moved(before, sample_of(in_call(Collective::send, 12))));
  CHECK(has_moved(before, sample_of(in_call(Collective::send, 13))));
  status::RankStatus status = in_call(Collective::send, 12);
  status.groups[0].changed_ns += 500;
  CHECK(has_moved(before, sample_of(status)));
  status = in_call(Collective::send, 12);
  ++status.step;
  CHECK(has_moved(before, sample_of(status)));
}

}  // namespace slot_evidence_test
