// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/nccl/chain.hpp"

#include <algorithm>
#include <cstring>

namespace muster::nccl {
namespace {

struct Head {
  std::uint64_t mark;
  std::uint64_t count;
  std::uint32_t links;
  std::uint32_t left;
};

static_assert(sizeof(Head) == 24);
/// Marks a record; the links follow as they lie in memory, because the hosts of a job have one build.
constexpr std::uint64_t kMark = 0x3243434E7374736DU;
constexpr std::size_t kMostLinks = 4096;

/// One step of splitmix64.
std::uint64_t mix(std::uint64_t state, std::uint64_t value) {
  std::uint64_t hash = state + 0x9E3779B97F4A7C15U + value * 0xD1B54A32D192ED03U;
  hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9U;
  hash = (hash ^ (hash >> 27)) * 0x94D049BB133111EBU;
  return hash ^ (hash >> 31);
}

std::uint64_t hash_of(std::uint64_t before, const Call& call) {
  std::uint64_t hash = mix(before, call.count);
  if (is_point_to_point(call.collective)) {
    hash = mix(hash, static_cast<std::uint32_t>(call.tag));
    return mix(hash, static_cast<std::uint64_t>(call.memory) << 8 | static_cast<std::uint64_t>(call.type));
  }
  hash = mix(hash, call.sequence);
  hash = mix(hash, call.signature);
  hash = mix(hash, static_cast<std::uint64_t>(static_cast<std::uint32_t>(call.root)) << 32 |
                       static_cast<std::uint32_t>(call.tag));
  return mix(hash, static_cast<std::uint64_t>(call.algorithm) << 32 |
                       static_cast<std::uint64_t>(call.memory) << 24 |
                       static_cast<std::uint64_t>(call.collective) << 16 |
                       static_cast<std::uint64_t>(call.type) << 8 | static_cast<std::uint64_t>(call.op));
}

}  // namespace

const Link* Record::at(std::uint64_t position) const {
  if (position == 0 || position > count || count - position >= links.size()) return nullptr;
  return &links[links.size() - 1 - (count - position)];
}

std::string Record::encode() const {
  const Head head{kMark, count, static_cast<std::uint32_t>(links.size()), left ? 1U : 0U};
  std::string text(sizeof(Head) + links.size() * sizeof(Link), '\0');
  std::memcpy(text.data(), &head, sizeof(head));
  if (!links.empty()) std::memcpy(text.data() + sizeof(head), links.data(), links.size() * sizeof(Link));
  return text;
}

std::optional<Record> Record::decode(std::string_view text) {
  Head head{};
  if (text.size() < sizeof(head)) return std::nullopt;
  std::memcpy(&head, text.data(), sizeof(head));
  if (head.mark != kMark || head.links > kMostLinks || head.links > head.count ||
      text.size() != sizeof(head) + head.links * sizeof(Link))
    return std::nullopt;
  Record record;
  record.count = head.count;
  record.left = head.left != 0;
  record.links.resize(head.links);
  if (head.links > 0)
    std::memcpy(record.links.data(), text.data() + sizeof(head), text.size() - sizeof(head));
  return record;
}

void Chain::append(const Call& call) {
  links_.push_back({call, hash_of(links_.empty() ? 0 : links_.back().hash, call)});
  if (links_.size() > kKept) links_.pop_front();
  ++count_;
}

const Link* Chain::at(std::uint64_t position) const {
  if (position == 0 || position > count_ || count_ - position >= links_.size()) return nullptr;
  return &links_[links_.size() - 1 - (count_ - position)];
}

Record Chain::record(std::size_t links) const {
  Record record;
  record.count = count_;
  const std::size_t wanted = std::min(links, links_.size());
  record.links.assign(links_.end() - static_cast<std::ptrdiff_t>(wanted), links_.end());
  return record;
}

std::uint64_t Chain::compare(const Record& other, std::optional<Difference>& difference) const {
  const std::uint64_t common = std::min(count_, other.count);
  const Link* const mine = at(common);
  const Link* const theirs = other.at(common);
  if (mine == nullptr || theirs == nullptr) return 0;
  if (mine->hash == theirs->hash) return common;
  std::uint64_t first = common;
  while (first > 1) {
    const Link* const a = at(first - 1);
    const Link* const b = other.at(first - 1);
    if (a == nullptr || b == nullptr || a->hash == b->hash) break;
    --first;
  }
  difference = Difference{at(first)->call, other.at(first)->call};
  return 0;
}

}  // namespace muster::nccl
