// SPDX-License-Identifier: Apache-2.0
// Runs the calls that combine data, always in rank order. The rule at the top of collectives.cpp holds here
// as well.
#include "worker_sdk/comm/reduce.hpp"
#include "worker_sdk/comm/shm/pipeline.hpp"

#include <algorithm>

namespace muster::shm {

/// Reduces the data of a small all_reduce, reduce or reduce_scatter, after the call's step.
void ShmBackend::reduce_small(const Operation& operation, std::size_t share) {
  const Call& call = operation.call;
  if (call.collective == Collective::reduce && call.root != rank_) return;
  const std::size_t begin =
      call.collective == Collective::reduce_scatter ? static_cast<std::size_t>(rank_) * share : 0;
  sources_.clear();
  for (int peer = 0; peer < size_; ++peer) sources_.push_back(sent_by(peer) + begin);
  auto* const out = static_cast<std::byte*>(operation.out);
  reduce(sources_, std::span(&out, 1), call.count, call.type, call.op);
}

/// Runs all_reduce and reduce if all buffers are shared: each rank reduces its slice over all buffers and
/// writes the result to its places while it is in the cache.
void ShmBackend::reduce_shared(const Operation& operation, std::size_t bytes) {
  const Call& call = operation.call;
  const Slice slice = slice_of(bytes, rank_, size_);
  sources_.clear();
  results_.clear();
  for (int peer = 0; peer < size_; ++peer) {
    sources_.push_back(shared_in(peer) + slice.begin);
    if (call.collective == Collective::all_reduce || peer == call.root)
      results_.push_back(shared_out(peer) + slice.begin);
  }
  reduce(sources_, results_, slice.bytes / size_of(call.type), call.type, call.op);
  step();  // the others have read this rank's buffer, or written into it
}

/// Runs all_reduce and reduce as a pipeline of three stages over chunks: copy the input in, reduce the own
/// slice, copy the others' slices out. In one turn each stage works on another chunk, so one step per chunk
/// is enough. The own slice never goes through the staging.
void ShmBackend::reduce_staged(const Operation& operation, std::size_t bytes) {
  const auto* const in = static_cast<const std::byte*>(operation.in);
  auto* const out = static_cast<std::byte*>(operation.out);
  const bool takes = operation.call.collective == Collective::all_reduce || operation.call.root == rank_;
  const std::size_t chunks = turns_of(bytes, kChunkBytes);
  for (std::size_t turn = 0; turn < chunks + 2; ++turn) {
    if (turn < chunks) copy_in(in + turn * kChunkBytes, part_of(bytes, turn, kChunkBytes), turn);
    if (turn >= 1 && turn - 1 < chunks)
      reduce_own(operation, (turn - 1) * kChunkBytes, part_of(bytes, turn - 1, kChunkBytes), turn - 1);
    if (turn >= 2 && takes)
      copy_out(out + (turn - 2) * kChunkBytes, part_of(bytes, turn - 2, kChunkBytes), turn - 2);
    // The last results are not written again before the next call's first step.
    if (turn < chunks + 1) step();
  }
}

void ShmBackend::copy_in(const std::byte* data, std::size_t bytes, std::size_t turn) {
  const Slice own = slice_of(bytes, rank_, size_);
  const std::size_t own_end = own.begin + own.bytes;
  std::byte* const chunk = layout_.chunk(rank_, turn);
  copy_bytes(chunk, data, own.begin);
  copy_bytes(chunk + own_end, data + own_end, bytes - own_end);
}

void ShmBackend::reduce_own(const Operation& operation, std::size_t begin, std::size_t bytes,
                            std::size_t turn) {
  const Call& call = operation.call;
  const Slice own = slice_of(bytes, rank_, size_);
  const std::size_t place = begin + own.begin;
  sources_.clear();
  for (int peer = 0; peer < size_; ++peer)
    sources_.push_back(peer == rank_ ? static_cast<const std::byte*>(operation.in) + place
                                     : layout_.chunk(peer, turn) + own.begin);
  results_.assign({layout_.result(rank_, turn)});
  if (call.collective == Collective::all_reduce || call.root == rank_)
    results_.push_back(static_cast<std::byte*>(operation.out) + place);
  reduce(sources_, results_, own.bytes / size_of(call.type), call.type, call.op);
}

void ShmBackend::copy_out(std::byte* data, std::size_t bytes, std::size_t turn) {
  for (int peer = 0; peer < size_; ++peer) {
    if (peer == rank_) continue;
    const Slice slice = slice_of(bytes, peer, size_);
    copy_bytes(data + slice.begin, layout_.result(peer, turn), slice.bytes);
  }
}

void ShmBackend::reduce_scatter_large(const Operation& operation, std::size_t share) {
  const Call& call = operation.call;
  const auto* const in = static_cast<const std::byte*>(operation.in);
  auto* const out = static_cast<std::byte*>(operation.out);
  const std::size_t own = static_cast<std::size_t>(rank_) * share;
  const bool shared = all_in_shared();
  const std::size_t piece = piece_bytes();
  const auto reduce_turn = [&](std::size_t turn) {
    sources_.clear();
    for (int peer = 0; peer < size_; ++peer)
      sources_.push_back(peer == rank_ ? in + own + turn * piece
                         : shared      ? shared_in(peer) + own + turn * piece
                                       : layout_.chunk(peer, turn) + static_cast<std::size_t>(rank_) * piece);
    std::byte* const result = out + turn * piece;
    reduce(sources_, std::span(&result, 1), part_of(share, turn, piece) / size_of(call.type), call.type,
           call.op);
  };
  const std::size_t turns = turns_of(share, piece);
  if (shared) {
    for (std::size_t turn = 0; turn < turns; ++turn) reduce_turn(turn);
    step();  // the others have read their parts of this rank's input
    return;
  }
  pipeline(
      turns, [&](std::size_t turn) { deal(in, share, turn); }, reduce_turn);
}

}  // namespace muster::shm
