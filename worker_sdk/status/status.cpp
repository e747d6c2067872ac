// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/status/status.hpp"

#include "worker_sdk/fault/fault_plan.hpp"
#include "worker_sdk/status/observed_groups.hpp"
#include "worker_sdk/status/peer_slots.hpp"
#include "worker_sdk/status/status_file.hpp"
#include "worker_sdk/status/status_writer.hpp"

#include <cstdlib>
#include <utility>

namespace muster::status {
namespace {

/// Takes the agent's file. Null if there is none for this process: another process of the worker has it, a
/// container hides the agent, or the variable was inherited from elsewhere.
std::unique_ptr<StatusWriter> claim_agents_file(const Writer& writer) {
  const char* const text = std::getenv("MUSTER_STATUS");
  const auto address = text != nullptr ? Address::from_text(text) : std::nullopt;
  if (!address) return nullptr;
  try {
    return StatusWriter::claim(StatusFile::open(*address, true), writer);
  } catch (const Error&) {
    return nullptr;
  }
}

std::unique_ptr<StatusWriter> claim_own_file(const Writer& writer) {
  try {
    return StatusWriter::claim(StatusFile::create(), writer);
  } catch (const Error&) {
    return nullptr;
  }
}

}  // namespace

Status::Status(StatusOptions options)
    : options_(std::move(options)), watchers_(std::make_shared<Watchers>()) {
  const char* const faults = std::getenv("MUSTER_FAULT");
  if (faults != nullptr && *faults != '\0')
    watchers_->injector =
        std::make_unique<fault::Injector>(fault::parse_faults(faults, options_.size), options_.rank);
  const Writer writer{options_.rank, options_.size, options_.round};
  watchers_->writer = claim_agents_file(writer);
  watchers_->has_agent = watchers_->writer != nullptr;
  if (!watchers_->has_agent) watchers_->writer = claim_own_file(writer);
}

Status::~Status() = default;

std::shared_ptr<GroupFactory> Status::observe(std::shared_ptr<GroupFactory> inner) {
  return std::make_shared<ObservedFactory>(std::move(inner), watchers_);
}

void Status::at(Phase phase) {
  if (!watchers_->injector) return;
  watchers_->injector->at(phase == Phase::barrier ? fault::point_of(Collective::barrier)
                          : phase == Phase::agree ? fault::point_of(fault::Point::agree)
                                                  : fault::point_of(fault::Point::finalize));
}

void Status::set_step(std::uint64_t step) {
  if (watchers_->writer) watchers_->writer->set_step(step);
}

bool Status::has_agent() const {
  return watchers_->has_agent;
}

void Status::watch_peers(StoreClient& store) {
  if (watchers_->has_agent || !watchers_->writer || options_.size < 2) return;
  auto slots = exchange_slots(store, *watchers_->writer, options_);
  peers_ = std::make_unique<PeerSlots>(watchers_, std::move(slots), options_);
}

}  // namespace muster::status
