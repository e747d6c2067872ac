// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/message/message_group.hpp"

#include "rendezvous/base/text.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace muster::message {
namespace {

std::uint64_t mixed(std::uint64_t hash, std::uint64_t value) {
  hash = (hash ^ value) * 0x9E3779B97F4A7C15U;
  return hash ^ (hash >> 29);
}

std::string listed(const std::vector<int>& peers, const GroupInfo& info) {
  return joined_by(peers, [&info](int peer) { return info.peers[static_cast<std::size_t>(peer)]; });
}

}  // namespace

MessageGroup::MessageGroup(std::unique_ptr<Transport> transport, GroupInfo info)
    : transport_(std::move(transport)),
      info_(std::move(info)),
      control_(*transport_, info_, wire_),
      offers_(static_cast<std::size_t>(info_.size)),
      sent_(static_cast<std::size_t>(info_.size)),
      awaited_(std::make_unique<std::atomic<bool>[]>(static_cast<std::size_t>(info_.size))) {}

MessageGroup::~MessageGroup() = default;

void MessageGroup::run(std::span<const Operation> batch) {
  deadline_ = Clock::now() + std::clamp<std::chrono::milliseconds>(
                                 info_.timeout, std::chrono::milliseconds(0), std::chrono::hours(24 * 365));
  // The sends of the batch are offered before its collectives and completed after them, so that sends and
  // collectives do not wait for each other.
  const Call* current = &batch.front().call;
  try {
    begin_sends(batch);
    for (const Operation& operation : batch) {
      if (is_point_to_point(operation.call.collective)) continue;
      current = &operation.call;
      collective(operation);
    }
    finish_sends_and_receives(batch);
  } catch (const PeerLost& cause) {
    throw Error(ErrorCode::peer_lost, name_of(cause.peer) + " has died or left the group '" + info_.name +
                                          "' while " + name_of(info_.rank) + " was in " + describe(*current) +
                                          " (" + cause.what() +
                                          "); look at the output of that rank for the cause");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::backend) throw;
    throw Error(ErrorCode::backend, name_of(info_.rank) + " was in " + describe(*current) +
                                        " of the group '" + info_.name +
                                        "' when this failed: " + error.what());
  }
}

void MessageGroup::leave(std::chrono::milliseconds limit) noexcept {
  const Clock::time_point deadline = Clock::now() + limit;
  try {
    for (const int peer : peers()) control_.send(peer, {Control::Kind::leave, 0, 0, {}}, {});
    for (const int peer : peers()) {
      while (control_.wait_for(peer, deadline) && control_.current(peer).kind != Control::Kind::leave)
        control_.release(peer);
    }
    control_.flush(deadline);
  } catch (const std::exception&) {
    // A rank that is gone needs no goodbye.
  }
}

bool MessageGroup::give_up() {
  control_.give_up();
  return !transport_->retire();
}

std::vector<int> MessageGroup::peers() const {
  std::vector<int> list;
  for (int step = 1; step < info_.size; ++step) list.push_back((info_.rank + step) % info_.size);
  return list;
}

/// Tells all ranks which call this one makes; `give` may be null if no data goes along.
void MessageGroup::announce(const Operation& operation, const Give& give) {
  ++round_;
  for (const int peer : peers()) {
    awaited_[static_cast<std::size_t>(peer)].store(true, std::memory_order_relaxed);
    const Part part = give ? give(peer) : Part{};
    control_.send(peer, {Control::Kind::collective, 0, round_, operation.call}, {part.data, part.bytes});
  }
}

/// Returns when every rank has announced its call and all calls are the same. The messages, with the data in
/// them, stay until release_all().
void MessageGroup::agree(const Operation& operation) {
  const Call& mine = operation.call;
  for (const int peer : peers()) {
    for (next_message(peer, mine); control_.current(peer).kind != Control::Kind::collective;
         next_message(peer, mine))
      set_aside(peer);
  }
  const auto call_of = [&](int rank) { return rank == info_.rank ? mine : control_.current(rank).call; };
  const Call first = call_of(0);
  for (int rank = 1; rank < info_.size; ++rank)
    if (!same_call(first, call_of(rank))) differ(0, first, rank, call_of(rank));
  control_.flush(deadline_);
}

void MessageGroup::release_all() {
  for (const int peer : peers()) control_.release(peer);
}

/// Keeps a message about a send or a receive for later.
void MessageGroup::set_aside(int peer) {
  const Control& control = control_.current(peer);
  if (control.kind == Control::Kind::accept) {
    for (PendingSend& send : pending_)
      if (send.operation->call.root == peer && send.number == control.number) send.accepted = true;
  } else {
    const auto payload = control_.payload(peer);
    offers_[static_cast<std::size_t>(peer)].push_back({control, {payload.begin(), payload.end()}});
  }
  control_.release(peer);
}

void MessageGroup::next_message(int peer, const Call& call) {
  auto& awaited = awaited_[static_cast<std::size_t>(peer)];
  awaited.store(true, std::memory_order_relaxed);
  if (!control_.wait_for(peer, deadline_)) late(call, absent_beside(peer), true);
  awaited.store(false, std::memory_order_relaxed);
  if (control_.current(peer).kind == Control::Kind::leave) throw PeerLost(peer, "it made no further call");
}

/// The ranks whose message has not come, once the deadline has passed. Takes no time, because it does not
/// wait.
std::vector<int> MessageGroup::absent_beside(int peer) {
  std::vector<int> absent{peer};
  for (const int other : peers()) {
    if (other == peer || !awaited_[static_cast<std::size_t>(other)].load(std::memory_order_relaxed)) continue;
    try {
      if (control_.wait_for(other, Clock::now())) continue;
    } catch (const std::exception&) {
      // A lost rank counts as absent.
    }
    absent.push_back(other);
  }
  return absent;
}

void MessageGroup::wait_all(Transfers& transfers, const Call& call) {
  for (auto& [peer, transfer] : transfers) wait_one(peer, *transfer, call);
  transfers.clear();
}

void MessageGroup::wait_one(int peer, Transfer& transfer, const Call& call) {
  awaited_[static_cast<std::size_t>(peer)].store(true, std::memory_order_relaxed);
  if (!transfer.wait(deadline_)) late(call, {peer}, false);
  awaited_[static_cast<std::size_t>(peer)].store(false, std::memory_order_relaxed);
}

/// Waits for the oldest transfer.
void MessageGroup::wait_first(Transfers& transfers, const Call& call) {
  wait_one(transfers.front().first, *transfers.front().second, call);
  transfers.erase(transfers.begin());
}

void MessageGroup::differ(int a, const Call& call_a, int b, const Call& call_b) {
  throw Error(ErrorCode::mismatch, "the ranks of the group '" + info_.name +
                                       "' made different calls: " + name_of(a) + " is in " +
                                       describe(call_a) + ", " + name_of(b) + " is in " + describe(call_b) +
                                       "; all ranks must make the same calls in the same order");
}

/// Throws the error of a passed deadline. `all_known`: all ranks but `absent` have come to the collective and
/// wait as well.
void MessageGroup::late(const Call& call, const std::vector<int>& absent, bool all_known) {
  std::vector<int> waiting;
  for (int rank = 0; rank < info_.size; ++rank)
    if (std::find(absent.begin(), absent.end(), rank) == absent.end()) waiting.push_back(rank);
  const bool with_others = all_known && waiting.size() > 1 && !is_point_to_point(call.collective);
  // In the ring and the tree data comes from neighbours, which may themselves wait for another rank.
  const bool by_neighbours = !all_known && call.algorithm != Algorithm::direct;
  throw Error(ErrorCode::deadline,
              name_of(info_.rank) + " waited " + std::to_string(info_.timeout.count()) +
                  " ms in the group '" + info_.name + "' (" + describe(call) + ") for " +
                  listed(absent, info_) +
                  (with_others ? "; these wait: " + listed(waiting, info_) : std::string()) +
                  (by_neighbours ? ", which may wait for another rank itself" : "") +
                  "; see what is wrong there, or raise the group's timeout");
}

std::string MessageGroup::missing() const {
  std::vector<int> list;
  for (int peer = 0; peer < info_.size; ++peer)
    if (awaited_[static_cast<std::size_t>(peer)].load(std::memory_order_relaxed)) list.push_back(peer);
  return listed(list, info_);
}

/// The key of the messages with data of one phase of the present collective; different calls have different
/// keys.
Key MessageGroup::data_key(const Call& call, std::uint64_t phase) const {
  std::uint64_t hash = mixed(round_, call.sequence);
  hash = mixed(hash, call.count);
  hash = mixed(hash, call.signature);
  hash = mixed(hash, static_cast<std::uint64_t>(call.root) << 32 |
                         static_cast<std::uint64_t>(call.algorithm) << 24 |
                         static_cast<std::uint64_t>(call.collective) << 16 |
                         static_cast<std::uint64_t>(call.type) << 8 | static_cast<std::uint64_t>(call.op));
  constexpr int kPhaseBits = 2;
  return {Key::Kind::data, hash << kPhaseBits | phase};
}

void MessageGroup::receive(Transfers& transfers, int peer, Key key, std::byte* data, std::size_t bytes) {
  if (bytes > 0) transfers.emplace_back(peer, transport_->receive(peer, key, data, bytes));
}

void MessageGroup::send(Transfers& transfers, int peer, Key key, const std::byte* data, std::size_t bytes) {
  if (bytes == 0) return;
  transfers.emplace_back(peer, transport_->send(peer, key, data, bytes));
  wire_.add_data(bytes);
}

std::byte* MessageGroup::staging(std::size_t bytes) {
  if (staging_.size() < bytes) staging_.resize(bytes);
  return staging_.data();
}

}  // namespace muster::message
