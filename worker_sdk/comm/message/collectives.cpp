// SPDX-License-Identifier: Apache-2.0
// The collectives that move data and combine nothing.
#include "worker_sdk/comm/message/cut.hpp"
#include "worker_sdk/comm/message/message_group.hpp"
#include "worker_sdk/comm/reduce.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace muster::message {
namespace {

const std::byte* bytes_of(const void* data) {
  return static_cast<const std::byte*>(data);
}

std::byte* bytes_of(void* data) {
  return static_cast<std::byte*>(data);
}

void copy(std::byte* out, const std::byte* in, std::size_t bytes) {
  if (out != in && bytes > 0) std::memmove(out, in, bytes);
}

}  // namespace

void MessageGroup::collective(const Operation& operation) {
  if (info_.size == 1) return alone(operation);
  switch (operation.call.collective) {
    case Collective::barrier:
    case Collective::allocate:
      return exchange(operation, nullptr, nullptr);
    case Collective::broadcast:
      return broadcast(operation);
    case Collective::all_reduce:
    case Collective::reduce:
    case Collective::reduce_scatter:
      return reduce_all(operation);
    case Collective::all_gather:
    case Collective::all_gather_v:
      return all_gather(operation);
    case Collective::gather:
      return gather(operation);
    case Collective::scatter:
      return scatter(operation);
    case Collective::all_to_all:
      return all_to_all(operation);
    case Collective::send:
    case Collective::recv:
      return;
  }
}

void MessageGroup::alone(const Operation& operation) {
  const Call& call = operation.call;
  if (call.collective == Collective::barrier || call.collective == Collective::allocate) return;
  std::byte* const out = bytes_of(operation.out);
  const std::byte* const in = bytes_of(operation.in);
  if (is_reduction(call.collective) && call.count > 0) {
    reduce(std::span(&in, 1), std::span(&out, 1), call.count, call.type, call.op);
  } else {
    copy(out, in, call.count * size_of(call.type));
  }
}

/// Runs one step, in which every rank gives data to each other rank and takes data from it; the sizes agree
/// on both sides because the calls do. All transfers are complete when it returns.
void MessageGroup::exchange(const Operation& operation, const Give& give, const Take& take) {
  std::size_t largest = 0;
  std::vector<Part> parts(static_cast<std::size_t>(info_.size));
  const Call& call = operation.call;
  if (call.collective == Collective::all_gather_v) {
    largest = *std::max_element(operation.counts, operation.counts + info_.size) * size_of(call.type);
  } else {
    largest = call.count * size_of(call.type);
  }
  if (!give || largest <= kInlineBytes) {
    announce(operation, give);
    agree(operation);
    for (const int peer : peers()) {
      const auto payload = control_.payload(peer);
      if (!payload.empty()) std::memcpy(take(peer), payload.data(), payload.size());
    }
    return release_all();
  }
  announce(operation, nullptr);
  agree(operation);
  release_all();
  Transfers transfers;
  const Key key = data_key(call, 0);
  for (const int peer : peers()) {
    std::byte* const place = take(peer);
    if (place == nullptr) continue;
    const std::size_t bytes =
        call.collective == Collective::all_gather_v ? operation.counts[peer] * size_of(call.type) : largest;
    receive(transfers, peer, key, place, bytes);
  }
  for (const int peer : peers()) {
    const Part part = give(peer);
    send(transfers, peer, key, part.data, part.bytes);
  }
  wait_all(transfers, call);
}

/// The input, or a copy of it if results would be written over it before it has been sent. `in_place`: this
/// rank's part lies where its result belongs, which needs no copy.
const std::byte* MessageGroup::settled_input(const Operation& operation, std::size_t in_bytes,
                                             std::size_t out_bytes, bool in_place) {
  const std::byte* const in = bytes_of(operation.in);
  const auto first = reinterpret_cast<std::uintptr_t>(in);
  const auto second = reinterpret_cast<std::uintptr_t>(operation.out);
  if (in_place || in_bytes == 0 || first + in_bytes <= second || second + out_bytes <= first) return in;
  settled_.assign(in, in + in_bytes);
  return settled_.data();
}

void MessageGroup::broadcast(const Operation& operation) {
  const Call& call = operation.call;
  const std::size_t bytes = call.count * size_of(call.type);
  const bool root = call.root == info_.rank;
  if (call.algorithm == Algorithm::tree && bytes > kInlineBytes) return run_tree(operation);
  // With two or three ranks the root sends the whole data to each, and no other rank sends; with more it
  // would send the data as often as there are ranks.
  if (info_.size > 3 && bytes > kCutFrom) return broadcast_cut(operation);
  exchange(
      operation,
      [&](int) {
        return root ? Part{bytes_of(operation.in), bytes} : Part{};
      },
      [&](int peer) { return peer == call.root ? bytes_of(operation.out) : nullptr; });
  if (root) copy(bytes_of(operation.out), bytes_of(operation.in), bytes);
}

/// Broadcasts a large buffer: the root gives a slice to each rank, and each rank passes its slice on to all.
void MessageGroup::broadcast_cut(const Operation& operation) {
  const Call& call = operation.call;
  const Cut cut(call, info_.size);
  const bool root = call.root == info_.rank;
  announce(operation, nullptr);
  agree(operation);
  release_all();
  std::byte* const out = bytes_of(operation.out);
  const std::byte* const source = root ? bytes_of(operation.in) : out;
  const Key key = data_key(call, 0);
  Transfers transfers;
  std::vector<Transfers> own(cut.blocks());
  for (std::size_t block = 0; block < cut.blocks() && !root; ++block) {
    const Slice mine = cut.block(info_.rank, block);
    receive(own[block], call.root, key, out + mine.begin, mine.bytes);
    for (const int peer : peers()) {
      const Slice slice = cut.block(peer, block);
      receive(transfers, peer, key, out + slice.begin, slice.bytes);
    }
  }
  for (std::size_t block = 0; block < cut.blocks(); ++block) {
    const Slice mine = cut.block(info_.rank, block);
    if (!root) wait_all(own[block], call);
    for (const int peer : peers()) {
      if (peer == call.root) continue;
      const Slice slice = cut.block(peer, block);
      if (root) send(transfers, peer, key, source + slice.begin, slice.bytes);
      send(transfers, peer, key, source + mine.begin, mine.bytes);
    }
  }
  wait_all(transfers, call);
  if (root) copy(out, bytes_of(operation.in), call.count * size_of(call.type));
}

void MessageGroup::all_gather(const Operation& operation) {
  const Call& call = operation.call;
  const std::size_t width = size_of(call.type);
  std::vector<std::size_t> begins(static_cast<std::size_t>(info_.size) + 1);
  for (std::size_t rank = 0; rank + 1 < begins.size(); ++rank) {
    const bool uneven = call.collective == Collective::all_gather_v;
    begins[rank + 1] = begins[rank] + (uneven ? operation.counts[rank] : call.count) * width;
  }
  std::size_t largest = 0;
  for (std::size_t rank = 0; rank + 1 < begins.size(); ++rank)
    largest = std::max(largest, begins[rank + 1] - begins[rank]);
  if (call.algorithm == Algorithm::ring && largest > kInlineBytes) return all_gather_ring(operation, begins);
  const auto self = static_cast<std::size_t>(info_.rank);
  const std::size_t bytes = begins[self + 1] - begins[self];
  std::byte* const out = bytes_of(operation.out);
  const std::byte* const in =
      settled_input(operation, bytes, begins.back(), operation.in == out + begins[self]);
  exchange(
      operation,
      [&](int) {
        return Part{in, bytes};
      },
      [&](int peer) { return out + begins[static_cast<std::size_t>(peer)]; });
  copy(out + begins[self], in, bytes);
}

void MessageGroup::gather(const Operation& operation) {
  const Call& call = operation.call;
  const std::size_t bytes = call.count * size_of(call.type);
  const bool root = call.root == info_.rank;
  const std::size_t own = static_cast<std::size_t>(info_.rank) * bytes;
  std::byte* const out = bytes_of(operation.out);
  const std::byte* const in =
      root ? settled_input(operation, bytes, bytes * static_cast<std::size_t>(info_.size),
                           operation.in == out + own)
           : bytes_of(operation.in);
  exchange(
      operation,
      [&](int peer) {
        return peer == call.root ? Part{in, bytes} : Part{};
      },
      [&](int peer) { return root ? out + static_cast<std::size_t>(peer) * bytes : nullptr; });
  if (root) copy(out + own, in, bytes);
}

void MessageGroup::scatter(const Operation& operation) {
  const Call& call = operation.call;
  const std::size_t bytes = call.count * size_of(call.type);
  const bool root = call.root == info_.rank;
  const std::byte* const in = bytes_of(operation.in);
  exchange(
      operation,
      [&](int peer) {
        return root ? Part{in + static_cast<std::size_t>(peer) * bytes, bytes} : Part{};
      },
      [&](int peer) { return peer == call.root ? bytes_of(operation.out) : nullptr; });
  // The root's own part is copied last, because its place may lie in another rank's part.
  if (root) copy(bytes_of(operation.out), in + static_cast<std::size_t>(info_.rank) * bytes, bytes);
}

void MessageGroup::all_to_all(const Operation& operation) {
  const Call& call = operation.call;
  const std::size_t bytes = call.count * size_of(call.type);
  const std::size_t all = bytes * static_cast<std::size_t>(info_.size);
  std::byte* const out = bytes_of(operation.out);
  const std::byte* const in = settled_input(operation, all, all, false);
  exchange(
      operation,
      [&](int peer) {
        return Part{in + static_cast<std::size_t>(peer) * bytes, bytes};
      },
      [&](int peer) { return out + static_cast<std::size_t>(peer) * bytes; });
  const std::size_t own = static_cast<std::size_t>(info_.rank) * bytes;
  copy(out + own, in + own, bytes);
}

}  // namespace muster::message
