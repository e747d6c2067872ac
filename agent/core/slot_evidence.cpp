// SPDX-License-Identifier: Apache-2.0
#include "agent/core/slot_evidence.hpp"

#include "worker_sdk/status/diagnosis.hpp"

namespace muster::agent {

void add_slot(WorkerSample& sample, const status::RankStatus& status) {
  if (status.phase == status::ProcessPhase::unclaimed) return;
  sample.slot_step = status.step;
  // Calls of few elements note no exact time, and sends and receives no number: each of the two rises in some
  // calls, and neither ever falls.
  for (const status::GroupStatus& group : status.groups)
    sample.slot_calls += group.changed_ns + group.call.sequence + group.completed;
  const status::GroupStatus* current = status::current_group(status);
  if (current == nullptr || current->torn) return;
  if (current->state == status::GroupState::joining) {
    sample.operation = "the making";
  } else if (current->state == status::GroupState::in_call) {
    sample.operation = name_of(current->call.collective);
    sample.sequence = current->call.sequence;
  } else {
    return;
  }
  sample.group = current->name;
}

}  // namespace muster::agent
