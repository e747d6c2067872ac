// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/message/control.hpp"

#include "muster/error.hpp"

#include <cstring>
#include <utility>

namespace muster::message {

ControlStreams::ControlStreams(Transport& transport, const GroupInfo& info, WireCount& wire)
    : transport_(transport), info_(info), wire_(wire), streams_(static_cast<std::size_t>(info.size)) {
  for (int peer = 0; peer < info.size; ++peer) {
    if (peer == info.rank) continue;
    for (Slot& slot : streams_[static_cast<std::size_t>(peer)].slots) start(peer, slot);
  }
}

void ControlStreams::start(int peer, Slot& slot) {
  if (!slot.memory) slot.memory = std::make_unique<std::byte[]>(kSlotBytes);
  slot.transfer.reset();
  slot.transfer = transport_.receive(peer, {Key::Kind::control, 0}, slot.memory.get(), kSlotBytes);
}

void ControlStreams::send(int peer, Control control, std::span<const std::byte> payload) {
  Outgoing message;
  message.peer = peer;
  if (!spare_.empty()) {
    message.memory = std::move(spare_.back());
    spare_.pop_back();
  }
  control.payload = static_cast<std::uint32_t>(payload.size());
  message.memory.resize(sizeof(Control) + payload.size());
  std::memcpy(message.memory.data(), &control, sizeof(control));
  if (!payload.empty()) std::memcpy(message.memory.data() + sizeof(Control), payload.data(), payload.size());
  message.transfer =
      transport_.send(peer, {Key::Kind::control, 0}, message.memory.data(), message.memory.size());
  outgoing_.push_back(std::move(message));
  wire_.add_control(sizeof(Control), payload.size());
}

void ControlStreams::flush(Clock::time_point deadline) {
  for (Outgoing& message : outgoing_) {
    if (!message.transfer->wait(deadline))
      throw Error(ErrorCode::deadline, info_.peers[static_cast<std::size_t>(info_.rank)] + " waited " +
                                           std::to_string(info_.timeout.count()) + " ms in the group '" +
                                           info_.name + "' for " +
                                           info_.peers[static_cast<std::size_t>(message.peer)] +
                                           " to take a message; see what that rank is doing");
    spare_.push_back(std::move(message.memory));
  }
  outgoing_.clear();
}

bool ControlStreams::wait_for(int peer, Clock::time_point deadline) {
  Stream& stream = streams_[static_cast<std::size_t>(peer)];
  if (stream.has_current) return true;
  Slot& slot = stream.slots[stream.next];
  if (!slot.transfer->wait(deadline)) return false;
  std::memcpy(&stream.current, slot.memory.get(), sizeof(Control));
  if (stream.current.payload > kInlineBytes)
    throw Error(ErrorCode::mismatch, info_.peers[static_cast<std::size_t>(peer)] +
                                         " sends what this Muster does not understand; run one version of "
                                         "Muster on all hosts");
  stream.has_current = true;
  return true;
}

const Control& ControlStreams::current(int peer) const {
  return streams_[static_cast<std::size_t>(peer)].current;
}

std::span<const std::byte> ControlStreams::payload(int peer) const {
  const Stream& stream = streams_[static_cast<std::size_t>(peer)];
  return {stream.slots[stream.next].memory.get() + sizeof(Control), stream.current.payload};
}

void ControlStreams::release(int peer) {
  Stream& stream = streams_[static_cast<std::size_t>(peer)];
  start(peer, stream.slots[stream.next]);
  stream.next = (stream.next + 1) % kAhead;
  stream.has_current = false;
}

void ControlStreams::give_up() {
  for (Stream& stream : streams_)
    for (Slot& slot : stream.slots) slot.transfer.reset();
  for (Outgoing& message : outgoing_) message.transfer.reset();
}

}  // namespace muster::message
