// SPDX-License-Identifier: Apache-2.0
// A send is offered in the control stream; small data travels with the offer, larger data once the receiver
// has accepted the offer. A send is complete when it was accepted, so a receive that differs is an error on
// both sides, and a rank that waits for a send or a receive sees when the other rank is in a collective.
#include "worker_sdk/comm/message/message_group.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace muster::message {
namespace {

std::size_t bytes_of(const Call& call) {
  return call.count * size_of(call.type);
}

/// The call that the other rank must make to match `call`.
Call counterpart(const Call& call, int rank) {
  Call other = call;
  other.collective = call.collective == Collective::send ? Collective::recv : Collective::send;
  other.root = rank;
  return other;
}

}  // namespace

void MessageGroup::begin_sends(std::span<const Operation> batch) {
  pending_.clear();
  for (const Operation& operation : batch) {
    const Call& call = operation.call;
    if (call.collective != Collective::send) continue;
    const std::size_t bytes = bytes_of(call);
    const bool small = bytes <= kInlineBytes;
    const std::uint64_t number = ++sent_[static_cast<std::size_t>(call.root)];
    control_.send(call.root, {Control::Kind::offer, 0, number, call},
                  {static_cast<const std::byte*>(operation.in), small ? bytes : 0});
    pending_.push_back({&operation, number, false});
  }
}

/// The oldest offer of the operation's peer with the operation's tag.
MessageGroup::Offer MessageGroup::next_offer(const Operation& operation) {
  const Call& call = operation.call;
  auto& waiting = offers_[static_cast<std::size_t>(call.root)];
  for (;;) {
    const auto found = std::find_if(waiting.begin(), waiting.end(), [&call](const Offer& offer) {
      return offer.control.call.tag == call.tag;
    });
    if (found != waiting.end()) {
      Offer offer = std::move(*found);
      waiting.erase(found);
      return offer;
    }
    next_message(call.root, call);
    const Control& control = control_.current(call.root);
    if (control.kind == Control::Kind::collective) differ(info_.rank, call, call.root, control.call);
    set_aside(call.root);
  }
}

void MessageGroup::receive_offer(const Operation& operation, Transfers& transfers) {
  const Call& call = operation.call;
  const Offer offer = next_offer(operation);
  const Call& theirs = offer.control.call;
  if (theirs.count != call.count || theirs.type != call.type) differ(info_.rank, call, call.root, theirs);
  const std::size_t bytes = bytes_of(call);
  if (bytes > kInlineBytes) {
    receive(transfers, call.root, {Key::Kind::direct, offer.control.number},
            static_cast<std::byte*>(operation.out), bytes);
  } else if (bytes > 0) {
    std::memcpy(operation.out, offer.payload.data(), std::min(bytes, offer.payload.size()));
  }
  control_.send(call.root, {Control::Kind::accept, 0, offer.control.number, counterpart(theirs, info_.rank)},
                {});
}

void MessageGroup::finish_sends_and_receives(std::span<const Operation> batch) {
  Transfers transfers;
  const Operation* last = nullptr;
  for (const Operation& operation : batch) {
    if (!is_point_to_point(operation.call.collective)) continue;
    last = &operation;
    if (operation.call.collective == Collective::recv) receive_offer(operation, transfers);
  }
  if (last == nullptr) return;
  for (PendingSend& send : pending_) {
    const Call& call = send.operation->call;
    while (!send.accepted) {
      next_message(call.root, call);
      const Control& control = control_.current(call.root);
      if (control.kind == Control::Kind::collective) differ(info_.rank, call, call.root, control.call);
      set_aside(call.root);
    }
    if (bytes_of(call) > kInlineBytes)
      this->send(transfers, call.root, {Key::Kind::direct, send.number},
                 static_cast<const std::byte*>(send.operation->in), bytes_of(call));
  }
  wait_all(transfers, last->call);
  control_.flush(deadline_);
  pending_.clear();
}

}  // namespace muster::message
