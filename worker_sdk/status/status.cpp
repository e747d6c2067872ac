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

using Lookup = std::function<std::optional<std::string>(const std::string&)>;

std::optional<std::string> from_process(const std::string& name) {
  const char* const value = std::getenv(name.c_str());
  if (value == nullptr) return std::nullopt;
  return std::string(value);
}

/// The agent's file. Null where there is none that is ours: another process of the worker has it, a container
/// hides the agent, or the variable was inherited from elsewhere.
std::unique_ptr<StatusWriter> claim_agents_file(const Lookup& lookup, const Writer& writer) {
  const auto text = lookup("MUSTER_STATUS");
  const auto address = text ? Address::from_text(*text) : std::nullopt;
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

class StatusOfWorld : public Status {
 public:
  explicit StatusOfWorld(const StatusOptions& options)
      : options_(options), watchers_(std::make_shared<Watchers>()) {
    const Lookup lookup = options.environment ? options.environment : Lookup(from_process);
    const std::string faults = lookup("MUSTER_FAULT").value_or("");
    if (!faults.empty())
      watchers_->injector =
          std::make_unique<fault::Injector>(fault::parse_faults(faults, options.size), options.rank);
    const Writer writer{options.rank, options.size, options.round};
    watchers_->writer = claim_agents_file(lookup, writer);
    watchers_->has_agent = watchers_->writer != nullptr;
    if (!watchers_->has_agent) watchers_->writer = claim_own_file(writer);
  }

  std::shared_ptr<GroupFactory> observe(std::shared_ptr<GroupFactory> inner) override {
    return std::make_shared<ObservedFactory>(std::move(inner), watchers_);
  }

  void at(Phase phase) override {
    if (!watchers_->injector) return;
    watchers_->injector->at(phase == Phase::barrier ? fault::point_of(Collective::barrier)
                            : phase == Phase::agree ? fault::point_of(fault::Point::agree)
                                                    : fault::point_of(fault::Point::finalize));
  }

  void set_step(std::uint64_t step) override {
    if (watchers_->writer) watchers_->writer->set_step(step);
  }

  bool has_agent() const override { return watchers_->has_agent; }

  void watch_peers(StoreClient& store) override {
    if (watchers_->has_agent || !watchers_->writer || options_.size < 2) return;
    const PeerOptions peers{options_.rank, options_.size, options_.round, options_.host,
                            options_.report_after};
    peers_ = std::make_unique<PeerSlots>(watchers_, exchange_slots(store, *watchers_->writer, peers), peers);
  }

 private:
  StatusOptions options_;
  std::shared_ptr<Watchers> watchers_;
  std::unique_ptr<PeerSlots> peers_;
};

}  // namespace

std::shared_ptr<Status> Status::open(const StatusOptions& options) {
  return std::make_shared<StatusOfWorld>(options);
}

}  // namespace muster::status
