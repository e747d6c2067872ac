// SPDX-License-Identifier: Apache-2.0
// How the bytes go from process to process, on the threads of the streams.
#include "tests/fakes/nccl/comm.hpp"
#include "tests/fakes/nccl/rules.hpp"

#include <algorithm>
#include <cstring>

namespace fake {
namespace {

std::size_t bytes_of(const Descriptor& call) {
  return static_cast<std::size_t>(call.count) * size_of(static_cast<ncclDataType_t>(call.type));
}

/// What this rank gives to a collective.
std::size_t input_bytes(const ncclComm& comm, const Descriptor& call) {
  const std::size_t part = bytes_of(call);
  const auto size = static_cast<std::size_t>(comm.size);
  switch (call.kind) {
    case Kind::broadcast:
      return comm.rank == call.root ? part : 0;
    case Kind::scatter:
      return comm.rank == call.root ? part * size : 0;
    case Kind::reduce_scatter:
    case Kind::all_to_all:
      return part * size;
    default:
      return part;
  }
}

void take(const ncclComm& comm, int from, std::size_t offset, std::byte* to, std::size_t bytes) {
  std::memcpy(to, comm.segment->area(from) + offset, bytes);
}

void fill_output(const ncclComm& comm, const Operation& operation) {
  const Descriptor& call = operation.call;
  const std::size_t part = bytes_of(call);
  const auto count = static_cast<std::size_t>(call.count);
  const auto own = static_cast<std::size_t>(comm.rank);
  std::byte* const out = view(operation.out);
  switch (call.kind) {
    case Kind::all_reduce:
      return reduce_areas(comm, call, 0, count, out);
    case Kind::reduce:
      if (comm.rank == call.root) reduce_areas(comm, call, 0, count, out);
      return;
    case Kind::reduce_scatter:
      return reduce_areas(comm, call, own * count, count, out);
    case Kind::broadcast:
      return take(comm, call.root, 0, out, part);
    case Kind::scatter:
      return take(comm, call.root, own * part, out, part);
    case Kind::gather:
      if (comm.rank != call.root) return;
      [[fallthrough]];
    case Kind::all_gather:
      for (int peer = 0; peer < comm.size; ++peer)
        take(comm, peer, 0, out + static_cast<std::size_t>(peer) * part, part);
      return;
    case Kind::all_to_all:
      for (int peer = 0; peer < comm.size; ++peer)
        take(comm, peer, own * part, out + static_cast<std::size_t>(peer) * part, part);
      return;
  }
}

/// As a GPU waits for a rank that will not come: until the communicator is cut.
bool hang(ncclComm& comm) {
  return comm.wait([] { return false; });
}

/// A message that is under way.
struct Transfer {
  Operation operation;
  std::size_t done = 0;
  bool begun = false;
  bool complete = false;
};

enum class Step { moved, waits, wrong };

Step send_some(ncclComm& comm, Transfer& transfer) {
  Mailbox& box = comm.segment->shared().mail[comm.rank][transfer.operation.peer];
  if (box.written.load() != box.read.load()) return Step::waits;
  if (transfer.begun && transfer.done == bytes_of(transfer.operation.call)) {
    transfer.complete = true;  // the receiver has taken the last chunk
    return Step::moved;
  }
  const std::size_t bytes = std::min(kChunkBytes, bytes_of(transfer.operation.call) - transfer.done);
  box.count = transfer.operation.call.count;
  box.type = transfer.operation.call.type;
  box.bytes = static_cast<std::uint32_t>(bytes);
  if (bytes > 0) std::memcpy(box.chunk, view(transfer.operation.in) + transfer.done, bytes);
  transfer.done += bytes;
  transfer.begun = true;
  box.written.fetch_add(1);
  return Step::moved;
}

Step receive_some(ncclComm& comm, Transfer& transfer) {
  Mailbox& box = comm.segment->shared().mail[transfer.operation.peer][comm.rank];
  if (box.written.load() == box.read.load()) return Step::waits;
  if (box.count != transfer.operation.call.count || box.type != transfer.operation.call.type) {
    violate(rules::kSameMessage, "rank " + std::to_string(comm.rank) + " receives " +
                                     std::to_string(transfer.operation.call.count) + " elements, rank " +
                                     std::to_string(transfer.operation.peer) + " sends " +
                                     std::to_string(box.count));
    return Step::wrong;
  }
  if (box.bytes > 0) std::memcpy(view(transfer.operation.out) + transfer.done, box.chunk, box.bytes);
  transfer.done += box.bytes;
  transfer.complete = transfer.done == bytes_of(transfer.operation.call);
  box.read.fetch_add(1);
  return Step::moved;
}

/// Messages of one direction between two ranks keep their order.
bool is_next(const std::vector<Transfer>& transfers, const Transfer& transfer) {
  for (const Transfer& other : transfers) {
    if (&other == &transfer) return true;
    if (!other.complete && other.operation.sends == transfer.operation.sends &&
        other.operation.peer == transfer.operation.peer)
      return false;
  }
  return true;
}

/// Two ranks that each wait in a send of its own NCCL group for the other to receive.
void look_for_crossed_sends(ncclComm& comm, const Operation& operation) {
  if (!operation.sends) return;
  comm.block(comm.rank).lone_send.store(operation.peer + 1);
  if (operation.peer != comm.rank && comm.block(operation.peer).lone_send.load() != comm.rank + 1) return;
  violate(rules::kMissingGroup, "ranks " + std::to_string(comm.rank) + " and " +
                                    std::to_string(operation.peer) + " both wait in a send");
  (void)hang(comm);
}

}  // namespace

bool run_collective(ncclComm& comm, const Operation& operation, std::uint64_t number) {
  RankBlock& own = comm.block(comm.rank);
  const std::size_t bytes = input_bytes(comm, operation.call);
  if (bytes > kAreaBytes) {
    violate("size", "the fake moves at most 64 MiB from each rank");
    return hang(comm);
  }
  if (bytes > 0) std::memcpy(comm.segment->area(comm.rank), view(operation.in), bytes);
  own.calls[number % 2] = operation.call;
  own.posted.store(number);
  for (int peer = 0; peer < comm.size; ++peer)
    if (!comm.wait([&] { return comm.block(peer).posted.load() >= number; })) return false;
  for (int peer = 0; peer < comm.size; ++peer) {
    if (comm.block(peer).calls[number % 2] == operation.call) continue;
    Descriptor theirs = comm.block(peer).calls[number % 2];
    theirs.captured = operation.call.captured;
    violate(theirs == operation.call ? rules::kSameGraph : rules::kSameCall,
            "ranks " + std::to_string(comm.rank) + " and " + std::to_string(peer) +
                " differ in their collective " + std::to_string(number));
    return hang(comm);
  }
  fill_output(comm, operation);
  own.finished.store(number);
  for (int peer = 0; peer < comm.size; ++peer)
    if (!comm.wait([&] { return comm.block(peer).finished.load() >= number; })) return false;
  return true;
}

bool run_messages(ncclComm& comm, std::vector<Operation> messages) {
  std::vector<Transfer> transfers;
  for (Operation& message : messages) transfers.push_back({message});
  const auto start = std::chrono::steady_clock::now();
  const bool is_alone = transfers.size() == 1;
  for (;;) {
    bool all = true;
    bool moved = false;
    for (Transfer& transfer : transfers) {
      if (transfer.complete) continue;
      all = false;
      if (!is_next(transfers, transfer)) continue;
      const Step step = transfer.operation.sends ? send_some(comm, transfer) : receive_some(comm, transfer);
      if (step == Step::wrong) return hang(comm);
      moved = moved || step == Step::moved;
    }
    if (all) break;
    if (comm.cut.load()) return false;
    if (moved) continue;
    if (is_alone && std::chrono::steady_clock::now() - start > std::chrono::milliseconds(100))
      look_for_crossed_sends(comm, transfers.front().operation);
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  comm.block(comm.rank).lone_send.store(0);
  return true;
}

}  // namespace fake
