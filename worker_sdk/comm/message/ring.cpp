// SPDX-License-Identifier: Apache-2.0
// The algorithm ring: a rank receives from the rank before it and sends to the rank behind it, so a step
// costs one message whatever the number of ranks, and there are as many steps as ranks. The sum of a slice
// begins on the rank behind its owner and ends on the owner.
#include "worker_sdk/comm/message/cut.hpp"
#include "worker_sdk/comm/message/message_group.hpp"
#include "worker_sdk/comm/message/partial.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace muster::message {
namespace {

/// The number of receives of partial sums that are started ahead.
constexpr std::size_t kPartialsAhead = 3;

/// A rank of a group of `size` ranks from a number that may be below 0 or too large.
int wrapped(int rank, int size) {
  return (rank % size + size) % size;
}

}  // namespace

/// Passes parts round the ring: every rank gives its own part, then passes on the parts that it gets.
class MessageGroup::RingGather {
 public:
  /// `parts`: the part of each rank in `out`.
  RingGather(MessageGroup& group, const Call& call, std::byte* out, std::vector<Slice> parts,
             std::size_t block_bytes)
      : group_(group),
        call_(call),
        key_(group.data_key(call, 1)),
        out_(out),
        parts_(std::move(parts)),
        block_bytes_(block_bytes) {}

  /// Starts to receive. A part is written over this rank's input at the same place only after the input has
  /// been used, because the part could not be complete without it.
  void expect() {
    for_each_block([this](Slice block, bool) {
      group_.receive(arriving_, left(), key_, out_ + block.begin, block.bytes);
    });
  }

  /// Tells that a block of this rank's part is in its place; called in the order of the blocks.
  void give(Slice block) { group_.send(leaving_, right(), key_, out_ + block.begin, block.bytes); }

  void finish() {
    std::size_t next = 0;
    for_each_block([&](Slice block, bool goes_on) {
      auto& [peer, transfer] = arriving_[next++];
      group_.wait_one(peer, *transfer, call_);
      if (goes_on) give(block);
    });
    group_.wait_all(leaving_, call_);
  }

 private:
  int left() const { return wrapped(group_.info_.rank - 1, group_.info_.size); }

  int right() const { return wrapped(group_.info_.rank + 1, group_.info_.size); }

  /// Visits the blocks that come from the left, in their order. The blocks of the last part need not be
  /// passed on.
  template <typename Visit>
  void for_each_block(const Visit& visit) const {
    for (int step = 1; step < group_.info_.size; ++step) {
      const int owner = wrapped(group_.info_.rank - step, group_.info_.size);
      const Slice part = parts_[static_cast<std::size_t>(owner)];
      for (std::size_t begin = 0; begin < part.bytes; begin += block_bytes_)
        visit({part.begin + begin, std::min(block_bytes_, part.bytes - begin)}, step + 1 < group_.info_.size);
    }
  }

  MessageGroup& group_;
  const Call& call_;
  Key key_;
  std::byte* out_;
  std::vector<Slice> parts_;
  std::size_t block_bytes_;
  Transfers arriving_;
  Transfers leaving_;
};

void MessageGroup::all_gather_ring(const Operation& operation, const std::vector<std::size_t>& begins) {
  announce(operation, nullptr);
  agree(operation);
  release_all();
  std::vector<Slice> parts;
  for (std::size_t rank = 0; rank + 1 < begins.size(); ++rank)
    parts.push_back({begins[rank], begins[rank + 1] - begins[rank]});
  const Slice own = parts[static_cast<std::size_t>(info_.rank)];
  auto* const out = static_cast<std::byte*>(operation.out);
  if (own.bytes > 0 && operation.in != out + own.begin)
    std::memmove(out + own.begin, operation.in, own.bytes);
  RingGather gather(*this, operation.call, out, std::move(parts), kBlockBytes);
  gather.expect();
  for (std::size_t begin = 0; begin < own.bytes; begin += kBlockBytes)
    gather.give({own.begin + begin, std::min(kBlockBytes, own.bytes - begin)});
  gather.finish();
}

/// Combines the sums. Messages to the right are numbered from 0: first the blocks of the slice before this
/// rank's, as they are, then the results of combining the message from the left that is one slice earlier.
class MessageGroup::RingReduction {
 public:
  RingReduction(MessageGroup& group, const Operation& operation)
      : group_(group),
        call_(operation.call),
        cut_(call_, group.info_.size),
        sums_(call_, group.info_.size),
        rank_(group.info_.rank),
        size_(group.info_.size),
        key_(group.data_key(call_, 0)),
        blocks_(cut_.blocks()),
        received_(kPartialsAhead),
        sent_(blocks_) {
    const Slice own = cut_.slice(rank_);
    scattered_ = call_.collective == Collective::reduce_scatter;
    to_all_ = call_.collective == Collective::all_reduce;
    in_ = static_cast<const std::byte*>(operation.in);
    if (scattered_)
      in_ = group.settled_input(operation, own.bytes * static_cast<std::size_t>(size_), own.bytes,
                                operation.out == in_ + own.begin);
    out_ = static_cast<std::byte*>(operation.out);
    slot_bytes_ = sums_.wide(cut_.block_bytes());
    staging_ = group.staging((kPartialsAhead + blocks_) * slot_bytes_);
  }

  void run() {
    std::vector<Slice> slices;
    for (int rank = 0; rank < size_; ++rank) slices.push_back(cut_.slice(rank));
    RingGather gather(group_, call_, out_, std::move(slices), cut_.block_bytes());
    if (to_all_) gather.expect();
    if (call_.collective == Collective::reduce) expect_at_root();
    for (std::size_t number = 0; number < kPartialsAhead; ++number) expect(number);
    for (std::size_t block = 0; block < blocks_; ++block) give_input(block);
    const std::size_t last_step = (static_cast<std::size_t>(size_) - 2) * blocks_;
    for (std::size_t number = 0; number < last_step; ++number) pass_on(number);
    for (std::size_t number = last_step; number < last_step + blocks_; ++number) complete(number, gather);
    if (to_all_) gather.finish();
    group_.wait_all(at_root_, call_);
    for (Transfers& sent : sent_) group_.wait_all(sent, call_);
  }

 private:
  int right() const { return wrapped(rank_ + 1, size_); }

  /// The block that message `number` from the left carries.
  Slice block_from_left(std::size_t number) const {
    const int step = static_cast<int>(number / blocks_);
    return cut_.block(wrapped(rank_ - 2 - step, size_), number % blocks_);
  }

  std::byte* arrived(std::size_t number) const { return staging_ + number % kPartialsAhead * slot_bytes_; }

  std::byte* leaving(std::size_t number) const {
    return staging_ + (kPartialsAhead + number % blocks_) * slot_bytes_;
  }

  void expect(std::size_t number) {
    if (number >= (static_cast<std::size_t>(size_) - 1) * blocks_) return;
    group_.receive(received_[number % kPartialsAhead], wrapped(rank_ - 1, size_), key_, arrived(number),
                   sums_.wide(block_from_left(number).bytes));
  }

  void give_input(std::size_t block) {
    const Slice slice = cut_.block(wrapped(rank_ - 1, size_), block);
    const std::byte* data = in_ + slice.begin;
    if (sums_.is_wider() && slice.bytes > 0) {
      sums_.begin(data, leaving(block), slice.bytes);
      data = leaving(block);
    }
    group_.send(sent_[block], right(), key_, data, sums_.wide(slice.bytes));
  }

  /// Combines a block and sends it on. The slot of the message that leaves was last used one slice earlier.
  void pass_on(std::size_t number) {
    const Slice block = block_from_left(number);
    group_.wait_all(received_[number % kPartialsAhead], call_);
    Transfers& sent = sent_[number % blocks_];
    group_.wait_all(sent, call_);
    if (block.bytes > 0) {
      const std::byte* const partial = arrived(number);
      sums_.add(in_ + block.begin, std::span(&partial, 1), leaving(number), block.bytes);
      group_.send(sent, right(), key_, leaving(number), sums_.wide(block.bytes));
    }
    expect(number + kPartialsAhead);
  }

  /// Completes a block of this rank's own slice, to which this rank is the last to add.
  void complete(std::size_t number, RingGather& gather) {
    const Slice block = block_from_left(number);
    group_.wait_all(received_[number % kPartialsAhead], call_);
    Transfers& sent = sent_[number % blocks_];
    const bool is_kept = to_all_ || scattered_ || call_.root == rank_;
    if (!is_kept) group_.wait_all(sent, call_);
    if (block.bytes > 0) {
      std::byte* const result = !is_kept     ? leaving(number)
                                : scattered_ ? out_ + block.begin - cut_.slice(rank_).begin
                                             : out_ + block.begin;
      const std::byte* const partial = arrived(number);
      sums_.complete(in_ + block.begin, std::span(&partial, 1), result, block.bytes);
      if (to_all_) gather.give(block);
      if (!is_kept) group_.send(sent, call_.root, group_.data_key(call_, 1), result, block.bytes);
    }
    expect(number + kPartialsAhead);
  }

  void expect_at_root() {
    if (call_.root != rank_) return;
    for (std::size_t block = 0; block < blocks_; ++block) {
      for (const int peer : group_.peers()) {
        const Slice slice = cut_.block(peer, block);
        group_.receive(at_root_, peer, group_.data_key(call_, 1), out_ + slice.begin, slice.bytes);
      }
    }
  }

  MessageGroup& group_;
  const Call& call_;
  Cut cut_;
  Partial sums_;
  int rank_;
  int size_;
  Key key_;
  std::size_t blocks_;
  std::vector<Transfers> received_;  ///< transfers from the left, one entry per slot
  std::vector<Transfers> sent_;
  Transfers at_root_;
  const std::byte* in_ = nullptr;
  std::byte* out_ = nullptr;
  std::byte* staging_ = nullptr;
  std::size_t slot_bytes_ = 0;
  bool to_all_ = false;
  bool scattered_ = false;
};

void MessageGroup::reduce_ring(const Operation& operation) {
  announce(operation, nullptr);
  agree(operation);
  release_all();
  RingReduction(*this, operation).run();
}

}  // namespace muster::message
