// SPDX-License-Identifier: Apache-2.0
// Runs the calls that move data. Between two steps a rank touches only: its own memory, data that others
// wrote before the last step, and places that no rank reads before the next one.
#include "worker_sdk/comm/shm/pipeline.hpp"

#include <algorithm>

namespace muster::shm {
namespace {

const std::byte* input_of(const Operation& operation) {
  return static_cast<const std::byte*>(operation.in);
}

std::byte* output_of(const Operation& operation) {
  return static_cast<std::byte*>(operation.out);
}

/// The bytes of `rank` in a gathering call.
std::size_t bytes_of(const Operation& operation, int rank) {
  const Call& call = operation.call;
  return (operation.counts == nullptr ? call.count : operation.counts[rank]) * size_of(call.type);
}

}  // namespace

/// Fills this rank's chunk of a turn with a piece for each other rank, of the `share` bytes at `in` for each.
void ShmBackend::deal(const std::byte* in, std::size_t share, std::size_t turn) {
  const std::size_t piece = piece_bytes();
  for (int peer = 0; peer < size_; ++peer) {
    const auto index = static_cast<std::size_t>(peer);
    if (peer != rank_)
      copy_bytes(layout_.chunk(rank_, turn) + index * piece, in + index * share + turn * piece,
                 part_of(share, turn, piece));
  }
}

/// Takes the data of a small call, after the call's step.
void ShmBackend::take_small(const Operation& operation, std::size_t share) {
  const Call& call = operation.call;
  std::byte* const out = output_of(operation);
  const auto own = static_cast<std::size_t>(rank_) * share;
  switch (call.collective) {
    case Collective::broadcast:
      if (rank_ != call.root || operation.in != operation.out)
        if (out != nullptr) copy_bytes(out, sent_by(call.root), share);
      break;
    case Collective::scatter:
      copy_bytes(out, sent_by(call.root) + own, share);
      break;
    case Collective::all_to_all:
      for (int peer = 0; peer < size_; ++peer)
        copy_bytes(out + static_cast<std::size_t>(peer) * share, sent_by(peer) + own, share);
      break;
    case Collective::all_gather:
    case Collective::all_gather_v:
      gather_small(operation);
      break;
    case Collective::gather:
      if (rank_ == call.root) gather_small(operation);
      break;
    default:
      reduce_small(operation, share);
  }
}

void ShmBackend::gather_small(const Operation& operation) {
  std::byte* out = output_of(operation);
  for (int peer = 0; peer < size_; ++peer) {
    copy_bytes(out, sent_by(peer), bytes_of(operation, peer));
    out += bytes_of(operation, peer);
  }
}

void ShmBackend::broadcast_large(const Operation& operation, std::size_t share) {
  const int root = operation.call.root;
  const std::byte* const in = input_of(operation);
  std::byte* const out = output_of(operation);
  if (rank_ == root && out != nullptr) copy_bytes(out, in, share);
  if (line_of(root).places.in != Places::kPrivate) {
    if (rank_ != root) copy_bytes(out, shared_in(root), share);
    step();  // the root may change its buffer
    return;
  }
  pipeline(
      turns_of(share, kChunkBytes),
      [&](std::size_t turn) {
        if (rank_ == root)
          copy_bytes(layout_.chunk(root, turn), in + turn * kChunkBytes, part_of(share, turn, kChunkBytes));
      },
      [&](std::size_t turn) {
        if (rank_ != root)
          copy_bytes(out + turn * kChunkBytes, layout_.chunk(root, turn), part_of(share, turn, kChunkBytes));
      });
}

/// Runs large calls of all_gather, all_gather_v and gather.
void ShmBackend::all_gather_large(const Operation& operation) {
  const bool takes = operation.call.collective != Collective::gather || operation.call.root == rank_;
  const std::byte* const in = input_of(operation);
  const std::size_t own = bytes_of(operation, rank_);
  std::vector<std::size_t> offsets;
  std::size_t offset = 0;
  std::size_t longest = 0;
  for (int peer = 0; peer < size_; ++peer) {
    offsets.push_back(offset);
    offset += bytes_of(operation, peer);
    longest = std::max(longest, bytes_of(operation, peer));
  }
  const auto place_of = [&](int peer) {
    return output_of(operation) + offsets[static_cast<std::size_t>(peer)];
  };
  if (takes) copy_bytes(place_of(rank_), in, own);
  if (all_in_shared()) {
    for (int offset_of_peer = 1; takes && offset_of_peer < size_; ++offset_of_peer) {
      const int peer = (rank_ + offset_of_peer) % size_;
      copy_bytes(place_of(peer), shared_in(peer), bytes_of(operation, peer));
    }
    step();  // the others have read this rank's part
    return;
  }
  pipeline(
      turns_of(longest, kChunkBytes),
      [&](std::size_t turn) {
        copy_bytes(layout_.chunk(rank_, turn), in + std::min(turn * kChunkBytes, own),
                   part_of(own, turn, kChunkBytes));
      },
      [&](std::size_t turn) {
        for (int peer = 0; takes && peer < size_; ++peer) {
          const std::size_t bytes = bytes_of(operation, peer);
          if (peer != rank_)
            copy_bytes(place_of(peer) + std::min(turn * kChunkBytes, bytes), layout_.chunk(peer, turn),
                       part_of(bytes, turn, kChunkBytes));
        }
      });
}

void ShmBackend::scatter_large(const Operation& operation, std::size_t share) {
  const int root = operation.call.root;
  const std::byte* const in = input_of(operation);
  std::byte* const out = output_of(operation);
  const std::size_t own = static_cast<std::size_t>(rank_) * share;
  if (rank_ == root) copy_bytes(out, in + own, share);
  if (line_of(root).places.in != Places::kPrivate) {
    if (rank_ != root) copy_bytes(out, shared_in(root) + own, share);
    step();  // the root may change what it scattered
    return;
  }
  const std::size_t piece = piece_bytes();
  pipeline(
      turns_of(share, piece),
      [&](std::size_t turn) {
        if (rank_ == root) deal(in, share, turn);
      },
      [&](std::size_t turn) {
        if (rank_ != root)
          copy_bytes(out + turn * piece, layout_.chunk(root, turn) + static_cast<std::size_t>(rank_) * piece,
                     part_of(share, turn, piece));
      });
}

/// Runs a large all_to_all. It works in place because a turn reads its part of every block before any block
/// of that turn is written.
void ShmBackend::all_to_all_large(const Operation& operation, std::size_t share) {
  const std::byte* const in = input_of(operation);
  std::byte* const out = output_of(operation);
  const std::size_t own = static_cast<std::size_t>(rank_) * share;
  copy_bytes(out + own, in + own, share);
  if (all_in_shared() && !any_in_place()) {
    for (int offset = 1; offset < size_; ++offset) {
      const int peer = (rank_ + offset) % size_;
      copy_bytes(out + static_cast<std::size_t>(peer) * share, shared_in(peer) + own, share);
    }
    step();  // the others have read their parts
    return;
  }
  const std::size_t piece = piece_bytes();
  pipeline(
      turns_of(share, piece), [&](std::size_t turn) { deal(in, share, turn); },
      [&](std::size_t turn) {
        for (int peer = 0; peer < size_; ++peer) {
          const auto index = static_cast<std::size_t>(peer);
          if (peer != rank_)
            copy_bytes(out + index * share + turn * piece,
                       layout_.chunk(peer, turn) + static_cast<std::size_t>(rank_) * piece,
                       part_of(share, turn, piece));
        }
      });
}

}  // namespace muster::shm
