// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/nccl/board.hpp"

#include <algorithm>
#include <utility>

namespace muster::nccl {
namespace {

/// The number of links in a post, which make 3 KB. Few are needed, because the rank that is ahead compares
/// itself with one that is behind.
constexpr std::size_t kPostedLinks = 64;

std::string key_of(int rank) {
  return "calls/" + std::to_string(rank);
}

/// The key of the chain of messages from one rank to another, as the sender or the receiver made them.
std::string message_key(int from, int to, bool by_sender) {
  return "messages/" + std::to_string(from) + "-" + std::to_string(to) + (by_sender ? "/sent" : "/received");
}

}  // namespace

Board::Board(const plugin::Host& host, int rank, int size) : host_(host), rank_(rank) {
  chains_.push_back({key_of(rank), {}, 0});
  if (size < 2) return;
  watches_.push_back({&chains_.front(), (rank + 1) % size, key_of((rank + 1) % size), 0});
  if (size > 2)
    watches_.push_back({&chains_.front(), (rank + size - 1) % size, key_of((rank + size - 1) % size), 0});
}

Board::PostedChain& Board::chain_to(int peer, bool sends) {
  PostedChain*& own = messages_[{peer, sends}];
  if (own != nullptr) return *own;
  const int from = sends ? rank_ : peer;
  const int to = sends ? peer : rank_;
  chains_.push_back({message_key(from, to, sends), {}, 0});
  own = &chains_.back();
  watches_.push_back({own, peer, message_key(from, to, !sends), 0});
  return *own;
}

void Board::record(const Call& call) {
  const std::lock_guard lock(mutex_);
  if (is_point_to_point(call.collective))
    chain_to(call.root, call.collective == Collective::send).chain.append(call);
  else
    chains_.front().chain.append(call);
}

std::uint64_t Board::count() {
  const std::lock_guard lock(mutex_);
  return chains_.front().chain.count();
}

bool Board::is_settled() {
  const std::lock_guard lock(mutex_);
  for (const PostedChain& own : chains_)
    if (own.posted < own.chain.count()) return false;
  for (const Watch& watch : watches_)
    if (watch.equal < watch.own->chain.count()) return false;
  return true;
}

void Board::post() {
  std::vector<std::pair<PostedChain*, Record>> news;
  {
    const std::lock_guard lock(mutex_);
    for (PostedChain& own : chains_)
      if (own.posted < own.chain.count()) news.emplace_back(&own, own.chain.record(kPostedLinks));
  }
  for (const auto& [own, record] : news) {
    host_.post(own->key, record.encode());
    const std::lock_guard lock(mutex_);
    own->posted = record.count;
  }
}

std::optional<Board::Finding> Board::compare(Watch& watch, const Record& record) {
  const std::lock_guard lock(mutex_);
  const Chain& chain = watch.own->chain;
  std::optional<Difference> difference;
  watch.equal = std::max(watch.equal, chain.compare(record, difference));
  if (difference) return Finding{watch.peer, difference->mine, difference->theirs};
  if (!record.left || record.count >= chain.count()) return std::nullopt;
  const Record mine = chain.record(chain.count() - record.count);
  return Finding{watch.peer, mine.links.front().call, std::nullopt};
}

std::optional<Board::Finding> Board::exchange() {
  post();
  std::vector<Watch*> open;
  {
    const std::lock_guard lock(mutex_);
    for (Watch& watch : watches_)
      if (watch.equal < watch.own->chain.count()) open.push_back(&watch);
  }
  for (Watch* const watch : open) {
    const auto text = host_.peek(watch->key);
    if (!text) continue;
    const auto record = Record::decode(*text);
    if (!record) continue;
    if (auto finding = compare(*watch, *record)) return finding;
  }
  return std::nullopt;
}

void Board::leave() {
  post();
  Record record = chains_.front().chain.record(kPostedLinks);
  record.left = true;
  host_.post(chains_.front().key, record.encode());
}

std::optional<Record> Board::read(int peer) const {
  const auto text = host_.peek(key_of(peer));
  return text ? Record::decode(*text) : std::nullopt;
}

}  // namespace muster::nccl
