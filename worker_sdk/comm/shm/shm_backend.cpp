// SPDX-License-Identifier: Apache-2.0
#include "worker_sdk/comm/shm/shm_backend.hpp"

#include "rendezvous/base/invariant.hpp"
#include "rendezvous/base/process_stat.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace muster::shm {
namespace {

/// The bytes that a rank would put into its line or slot if the call were a small one; the same on all ranks.
std::size_t small_bytes(const Operation& operation, int size) {
  const Call& call = operation.call;
  const std::size_t width = size_of(call.type);
  switch (call.collective) {
    case Collective::barrier:
      return 0;
    case Collective::scatter:
    case Collective::reduce_scatter:
    case Collective::all_to_all:
      return call.count * width * static_cast<std::size_t>(size);
    case Collective::all_gather_v:
      return *std::max_element(operation.counts, operation.counts + size) * width;
    default:
      return call.count * width;
  }
}

}  // namespace

ShmBackend::ShmBackend(std::shared_ptr<MemorySource> memory, Mapping control, const GroupPlan& plan)
    : memory_(std::move(memory)),
      control_(std::move(control)),
      layout_(control_.base(), plan.size),
      rank_(plan.rank),
      size_(plan.size),
      name_(plan.options.name),
      waiter_(layout_, plan),
      regions_(plan.rank),
      messages_(layout_, plan, waiter_, regions_) {
  layout_.block(rank_).identity.set(getpid(), start_time_of(getpid()), own_pid_namespace());
}

ShmBackend::~ShmBackend() {
  waiter_.leave();
}

void ShmBackend::run(std::span<const Operation> batch) {
  bool has_messages = false;
  for (const Operation& operation : batch) {
    if (is_point_to_point(operation.call.collective)) {
      has_messages = true;
    } else {
      run_collective(operation);
    }
  }
  if (has_messages) messages_.run(batch, {sequence_ + 1, step_ + 1});
}

void ShmBackend::run_collective(const Operation& operation) {
  const std::size_t bytes = small_bytes(operation, size_);
  MUSTER_ASSERT(operation.call.root >= 0 && operation.call.root < size_,
                "the root of a call is a rank of its group");
  prepare();
  if (bytes <= kSlotBytes) {
    run_small(operation, bytes);
  } else {
    run_large(operation);
  }
  layout_.block(rank_).completed.set(sequence_);
}

/// Waits until the line and the slot of the call's sequence may be written.
void ShmBackend::prepare() {
  waiter_.check();
  ++sequence_;
}

/// Runs the first step of a call, after which all ranks are in the call and agree on what it is.
void ShmBackend::enter(const Operation& operation) {
  line_of(rank_).print = fingerprint_of(operation.call);
  waiter_.begin(operation.call, sequence_);
  waiter_.enter(++step_);  // all ranks are in the call
  compare_calls(operation.call);
}

void ShmBackend::compare_calls(const Call& call) {
  const Line& mine = line_of(rank_);
  for (int peer = 0; peer < size_; ++peer) {
    const Line& other = line_of(peer);
    if (other.print != mine.print) fail_mismatch(call);
    if (!in_line_ && other.places.signature != mine.places.signature) fail_mismatch(call);
  }
}

/// Fails the call with the same text on all ranks, which names the first rank that differs from rank 0.
void ShmBackend::fail_mismatch(const Call& call) {
  const Line& first = line_of(0);
  int peer = 1;
  while (peer < size_ - 1 && line_of(peer).print == first.print &&
         (in_line_ || line_of(peer).places.signature == first.places.signature))
    ++peer;
  const Line& other = line_of(peer);
  const bool counts = other.print == first.print;
  waiter_.fail(ErrorCode::mismatch, "the ranks of the group '" + name_ +
                                        "' made different calls: " + waiter_.roster().name_of(0) + " is in " +
                                        waiter_.roster().describe(shm::call_of(first.print, call.sequence)) +
                                        ", " + waiter_.roster().name_of(peer) + " is in " +
                                        waiter_.roster().describe(shm::call_of(other.print, call.sequence)) +
                                        (counts ? " with other counts for the ranks" : "") +
                                        "; all ranks must make the same calls in the same order");
}

void ShmBackend::step() {
  waiter_.step(++step_);
}

/// Runs a small call in one step: every rank reads the data that it needs of all others. The line and the
/// slot of this call are written again two calls later, after all ranks have entered the call in between, and
/// so have read them.
void ShmBackend::run_small(const Operation& operation, std::size_t bytes) {
  const Call& call = operation.call;
  const bool gives = (call.collective != Collective::broadcast && call.collective != Collective::scatter) ||
                     call.root == rank_;
  in_line_ = bytes <= kInlineBytes && call.collective != Collective::all_gather_v;
  Line& mine = line_of(rank_);
  if (!in_line_) mine.places = Places{Places::kPrivate, Places::kPrivate, call.signature};
  const std::size_t own =
      call.collective == Collective::all_gather_v ? operation.counts[rank_] * size_of(call.type) : bytes;
  if (gives && own > 0) std::memcpy(in_line_ ? mine.data : layout_.slot(rank_, sequence_), operation.in, own);
  enter(operation);
  if (bytes > 0) take_small(operation, call.count * size_of(call.type));
}

void ShmBackend::run_large(const Operation& operation) {
  const Call& call = operation.call;
  const std::size_t share = call.count * size_of(call.type);
  const auto ranks = static_cast<std::size_t>(size_);
  in_line_ = false;
  Places& places = line_of(rank_).places;
  places = {Places::kPrivate, Places::kPrivate, call.signature};
  const bool takes_all = call.collective == Collective::reduce_scatter ||
                         call.collective == Collective::all_to_all || call.collective == Collective::scatter;
  const bool varies = call.collective == Collective::all_gather_v;
  const bool gives = (call.collective != Collective::broadcast && call.collective != Collective::scatter) ||
                     call.root == rank_;
  if (gives && !varies) places.in = regions_.place_of(operation.in, takes_all ? share * ranks : share);
  if (operation.out != nullptr && !varies) places.out = regions_.place_of(operation.out, share);
  enter(operation);
  switch (call.collective) {
    case Collective::broadcast:
      return broadcast_large(operation, share);
    case Collective::all_reduce:
    case Collective::reduce:
      return all_in_shared() && all_out_shared() ? reduce_shared(operation, share)
                                                 : reduce_staged(operation, share);
    case Collective::reduce_scatter:
      return reduce_scatter_large(operation, share);
    case Collective::scatter:
      return scatter_large(operation, share);
    case Collective::all_to_all:
      return all_to_all_large(operation, share);
    default:
      return all_gather_large(operation);
  }
}

bool ShmBackend::all_in_shared() const {
  for (int peer = 0; peer < size_; ++peer)
    if (line_of(peer).places.in == Places::kPrivate) return false;
  return true;
}

/// Whether all outputs lie in shared memory; for a reduce only the root's output counts.
bool ShmBackend::all_out_shared() const {
  const Call call = shm::call_of(line_of(rank_).print, sequence_);
  for (int peer = 0; peer < size_; ++peer)
    if (line_of(peer).places.out == Places::kPrivate &&
        (call.collective != Collective::reduce || peer == call.root))
      return false;
  return true;
}

bool ShmBackend::any_in_place() const {
  for (int peer = 0; peer < size_; ++peer)
    if (line_of(peer).places.in == line_of(peer).places.out) return true;
  return false;
}

void* ShmBackend::allocate(const Call& call) {
  const std::size_t bytes = call.count;
  if (Regions::is_too_large(bytes, size_))
    throw Error(ErrorCode::invalid_argument, "allocate: " + std::to_string(bytes) + " bytes are too many");
  Operation operation;
  operation.call = call;
  prepare();
  in_line_ = true;
  enter(operation);
  Mapping mapping;
  MemoryLocation& location = layout_.header().location;
  const std::size_t all = Regions::stride_for(bytes) * static_cast<std::size_t>(size_);
  try {
    if (rank_ == 0) mapping = memory_->create(all, location);
    step();  // the location is written
    if (rank_ != 0) mapping = memory_->open(location);
    step();  // all ranks have used the location
    if (rank_ == 0) memory_->close_location(location);
  } catch (const Error& error) {
    waiter_.fail(error.code(), error.what());
  }
  layout_.block(rank_).completed.set(sequence_);
  return regions_.add(std::move(mapping), bytes);
}

void ShmBackend::abort(ErrorCode code, const std::string& text) noexcept {
  waiter_.publish(code, text);
}

}  // namespace muster::shm
