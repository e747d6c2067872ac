// SPDX-License-Identifier: Apache-2.0
#include "rendezvous/client/session_ledger.hpp"

#include "rendezvous/base/invariant.hpp"
#include "rendezvous/protocol/errc.hpp"
#include "rendezvous/protocol/limits.hpp"

#include <utility>

namespace muster::rendezvous {

void SessionLedger::sent(std::string frame) {
  kept_bytes_ += frame.size();
  kept_.push_back(std::move(frame));
}

void SessionLedger::acknowledged(std::uint64_t count) {
  if (count > acknowledged_ + kept_.size())
    throw CoordinatorError(Errc::mend, "the peer acknowledges message " + std::to_string(count) +
                                           " of the control session, but only " +
                                           std::to_string(acknowledged_ + kept_.size()) + " were sent");
  while (acknowledged_ < count) {
    kept_bytes_ -= kept_.front().size();
    kept_.pop_front();
    ++acknowledged_;
  }
  MUSTER_ASSERT(kept_.empty() == (kept_bytes_ == 0), "a session keeps the bytes of its frames");
}

std::string SessionLedger::to_send_again(std::uint64_t count) {
  if (count < acknowledged_)
    throw CoordinatorError(Errc::mend, "the peer asks for message " + std::to_string(count + 1) +
                                           " of the control session again, which it had acknowledged");
  acknowledged(count);
  std::string frames;
  frames.reserve(kept_bytes_);
  for (const std::string& frame : kept_) frames += frame;
  return frames;
}

void SessionLedger::received(std::size_t bytes) {
  ++received_;
  untold_bytes_ += bytes;
}

bool SessionLedger::ack_due() const {
  return untold_bytes_ >= kAckAfterBytes;
}

}  // namespace muster::rendezvous
