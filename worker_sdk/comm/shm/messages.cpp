// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/shm/messages.hpp"

#include "rendezvous/base/invariant.hpp"

#include <algorithm>
#include <cstring>

namespace muster::shm {
namespace {

std::size_t bytes_of(const Operation& operation) {
  return operation.call.count * size_of(operation.call.type);
}

}  // namespace

Messages::Messages(Layout layout, const GroupPlan& plan, Waiter& waiter, const Regions& regions)
    : layout_(layout),
      rank_(plan.rank),
      name_(plan.options.name),
      chunk_(Layout::message_bytes(plan.size)),
      waiter_(waiter),
      regions_(regions),
      peers_(static_cast<std::size_t>(plan.size)) {}

void Messages::run(std::span<const Operation> batch, const Entry& next) {
  waiter_.check();
  const Operation* first = nullptr;
  busy_.clear();
  for (const Operation& operation : batch) {
    if (!is_point_to_point(operation.call.collective)) continue;
    if (first == nullptr) first = &operation;
    MUSTER_ASSERT(operation.call.root >= 0 && static_cast<std::size_t>(operation.call.root) < peers_.size(),
                  "a message goes to a rank of the group");
    Peer& peer = peers_[static_cast<std::size_t>(operation.call.root)];
    if (peer.is_done()) busy_.push_back(operation.call.root);
    if (operation.call.collective == Collective::send) {
      peer.queued.push_back({&operation, peer.next_id++, Offer::Way::data, 0});
    } else {
      peer.wanted.push_back({&operation, 0});
    }
  }
  waiter_.begin_messages(first->call, next);
  int idle = 0;
  for (;;) {
    const std::uint32_t rings = layout_.block(rank_).doorbell.rings();
    bool moved = false;
    for (const int rank : busy_) {
      Peer& peer = peers_[static_cast<std::size_t>(rank)];
      if (push(rank, peer)) moved = true;
      if (pull(rank, peer)) moved = true;
    }
    std::erase_if(busy_, [&](int rank) { return peers_[static_cast<std::size_t>(rank)].is_done(); });
    if (busy_.empty()) return;
    if (moved) {
      idle = 0;
    } else {
      waiter_.describe_as(peers_[static_cast<std::size_t>(busy_.front())].waiting()->call);
      const int elsewhere = waiter_.wait_for_message(rings, busy_, idle);
      if (elsewhere >= 0) fail_mismatch(elsewhere, next);
    }
  }
}

const Operation* Messages::Peer::waiting() const {
  if (!wanted.empty()) return wanted.front().operation;
  if (!offered.empty()) return offered.front().operation;
  if (!queued.empty()) return queued.front().operation;
  return flowing.empty() ? active.operation : flowing.front().operation;
}

/// Moves the sends of this rank to `rank` on. Returns whether any could be moved.
bool Messages::push(int rank, Peer& peer) {
  if (peer.queued.empty() && peer.offered.empty() && peer.flowing.empty()) return false;
  MessageRings& rings = layout_.rings(rank_, rank);
  bool moved = false;
  while (!peer.queued.empty() && peer.offers - rings.receiver.offers.seen() < MessageRings::kOffers) {
    offer(rings, rank, peer);
    moved = true;
  }
  if (take_accepted(rings, rank, peer)) moved = true;
  if (fill(rings, rank, peer)) moved = true;
  return moved;
}

void Messages::offer(MessageRings& rings, int rank, Peer& peer) {
  Sending sending = peer.queued.front();
  peer.queued.pop_front();
  const Call& call = sending.operation->call;
  Offer& offer = rings.offers[peer.offers % MessageRings::kOffers];
  offer.count = call.count;
  offer.id = sending.id;
  offer.tag = call.tag;
  offer.sequence = static_cast<std::uint32_t>(call.sequence);
  offer.type = call.type;
  const std::size_t bytes = bytes_of(*sending.operation);
  const std::int64_t place =
      bytes <= kInlineBytes ? Places::kPrivate : regions_.place_of(sending.operation->in, bytes);
  if (bytes <= kInlineBytes) {
    sending.way = Offer::Way::data;
    if (bytes > 0) std::memcpy(offer.data, sending.operation->in, bytes);
  } else if (place != Places::kPrivate) {
    sending.way = Offer::Way::place;
    std::memcpy(offer.data, &place, sizeof(place));
  } else {
    sending.way = Offer::Way::chunks;
  }
  offer.way = sending.way;
  rings.sender.offers.post(++peer.offers);
  waiter_.ring(rank);
  peer.offered.push_back(sending);
}

bool Messages::take_accepted(MessageRings& rings, int rank, Peer& peer) {
  const std::uint32_t accepted = rings.receiver.accepted.seen();
  if (accepted == peer.seen_accepted) return false;
  while (peer.seen_accepted != accepted) {
    const std::uint32_t id = rings.accepted[peer.seen_accepted++ % MessageRings::kOffers];
    const auto found = std::find_if(peer.offered.begin(), peer.offered.end(),
                                    [id](const Sending& sending) { return sending.id == id; });
    // Only a rank that breaks the protocol could accept a message that was not offered.
    if (found == peer.offered.end())
      waiter_.fail(ErrorCode::state, waiter_.roster().name_of(rank) + " accepted a message that rank " +
                                         std::to_string(waiter_.roster().shown(rank_)) +
                                         " did not send; run one version everywhere");
    if (found->way == Offer::Way::chunks) peer.flowing.push_back(*found);
    peer.offered.erase(found);
  }
  rings.sender.accepted.post(peer.seen_accepted);
  waiter_.ring(rank);
  return true;
}

bool Messages::fill(MessageRings& rings, int rank, Peer& peer) {
  bool moved = false;
  while (!peer.flowing.empty() && peer.filled - rings.receiver.chunks.seen() < MessageRings::kChunks) {
    Sending& sending = peer.flowing.front();
    const std::size_t all = bytes_of(*sending.operation);
    const std::size_t bytes = std::min(chunk_, all - sending.done);
    std::memcpy(layout_.message(rank_, rank, peer.filled),
                static_cast<const std::byte*>(sending.operation->in) + sending.done, bytes);
    sending.done += bytes;
    rings.sender.chunks.post(++peer.filled);
    waiter_.ring(rank);
    if (sending.done == all) peer.flowing.pop_front();
    moved = true;
  }
  return moved;
}

/// Moves the receives of this rank from `rank` on. Returns whether any could be moved.
bool Messages::pull(int rank, Peer& peer) {
  if (peer.wanted.empty() && peer.active.operation == nullptr) return false;
  MessageRings& rings = layout_.rings(rank, rank_);
  bool moved = false;
  const std::uint32_t offers = rings.sender.offers.seen();
  if (offers != peer.seen_offers) {
    while (peer.seen_offers != offers)
      peer.pending.push_back(rings.offers[peer.seen_offers++ % MessageRings::kOffers]);
    rings.receiver.offers.post(peer.seen_offers);
    waiter_.ring(rank);
    moved = true;
  }
  if (empty(rings, rank, peer)) moved = true;
  while (match(rings, rank, peer)) moved = true;
  return moved;
}

/// Accepts one offer that a receive asks for: the first offer of a tag, for the first receive of that tag.
bool Messages::match(MessageRings& rings, int rank, Peer& peer) {
  if (peer.active.operation != nullptr ||
      peer.accepted - rings.sender.accepted.seen() == MessageRings::kOffers)
    return false;
  for (auto wanted = peer.wanted.begin(); wanted != peer.wanted.end(); ++wanted) {
    const int tag = wanted->operation->call.tag;
    const auto found = std::find_if(peer.pending.begin(), peer.pending.end(),
                                    [tag](const Offer& offer) { return offer.tag == tag; });
    if (found == peer.pending.end()) continue;
    const Offer offer = *found;
    const Receiving receiving = *wanted;
    compare(rank, offer, *receiving.operation);
    peer.pending.erase(found);
    peer.wanted.erase(wanted);
    const std::size_t bytes = bytes_of(*receiving.operation);
    auto* const out = static_cast<std::byte*>(receiving.operation->out);
    if (offer.way == Offer::Way::chunks) {
      peer.active = receiving;
    } else if (offer.way == Offer::Way::place) {
      std::int64_t place = 0;
      std::memcpy(&place, offer.data, sizeof(place));
      std::memcpy(out, regions_.address_of(rank, place), bytes);
    } else if (bytes > 0) {
      std::memcpy(out, offer.data, bytes);
    }
    rings.accepted[peer.accepted % MessageRings::kOffers] = offer.id;
    rings.receiver.accepted.post(++peer.accepted);
    waiter_.ring(rank);
    return true;
  }
  return false;
}

bool Messages::empty(MessageRings& rings, int rank, Peer& peer) {
  bool moved = false;
  while (peer.active.operation != nullptr && rings.sender.chunks.seen() != peer.emptied) {
    const std::size_t all = bytes_of(*peer.active.operation);
    const std::size_t bytes = std::min(chunk_, all - peer.active.done);
    std::memcpy(static_cast<std::byte*>(peer.active.operation->out) + peer.active.done,
                layout_.message(rank, rank_, peer.emptied), bytes);
    peer.active.done += bytes;
    rings.receiver.chunks.post(++peer.emptied);
    waiter_.ring(rank);
    if (peer.active.done == all) peer.active = {};
    moved = true;
  }
  return moved;
}

/// Fails the group because `rank` waits in a collective for this rank, which waits for a send or receive of
/// `rank`.
void Messages::fail_mismatch(int rank, const Entry& next) {
  const Call& mine = peers_[static_cast<std::size_t>(rank)].waiting()->call;
  const Call theirs = call_of(layout_.line(rank, next.turn).print, mine.sequence + 1);
  waiter_.fail(ErrorCode::mismatch, "the ranks of the group '" + name_ +
                                        "' made different calls: " + waiter_.roster().name_of(rank) +
                                        " is in " + waiter_.roster().describe(theirs) + ", rank " +
                                        std::to_string(waiter_.roster().shown(rank_)) + " is in " +
                                        waiter_.roster().describe(mine) +
                                        "; every message needs its send and its receive before the next "
                                        "collective");
}

void Messages::compare(int rank, const Offer& offer, const Operation& operation) {
  const Call& mine = operation.call;
  if (offer.count == mine.count && offer.type == mine.type) return;
  Call sent = mine;
  sent.collective = Collective::send;
  sent.root = rank_;
  sent.count = offer.count;
  sent.type = offer.type;
  sent.sequence = offer.sequence;
  waiter_.fail(ErrorCode::mismatch,
               "two ranks of the group '" + name_ + "' disagree about a message: " +
                   waiter_.roster().name_of(rank) + " is in " + waiter_.roster().describe(sent) + ", rank " +
                   std::to_string(waiter_.roster().shown(rank_)) + " is in " +
                   waiter_.roster().describe(mine) + "; both must give the same type and count");
}

}  // namespace muster::shm
