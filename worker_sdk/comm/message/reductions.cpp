// SPDX-License-Identifier: Apache-2.0
// Runs all_reduce, reduce and reduce_scatter directly: each rank gets a slice of the inputs of all others,
// combines them in rank order, and gives the result to the ranks that want it. The bytes on the wire are
// those of a ring; the steps are two, however many ranks there are.
#include "worker_sdk/comm/message/cut.hpp"
#include "worker_sdk/comm/message/message_group.hpp"
#include "worker_sdk/comm/reduce.hpp"

#include <cstring>
#include <utility>

namespace muster::message {
namespace {

/// The number of blocks whose inputs are under way at once.
constexpr std::size_t kWindow = 2;
/// The number of sends under way at once. Every rank goes through the others in turn, beginning after itself,
/// so each rank receives from few at a time: with more ranks than cores their memory stays in the cache, and
/// a transport's thread seldom waits for the sending one.
constexpr std::size_t kSendsUnderWay = 2;
/// The most bytes that a rank may receive when all ranks' small inputs go to all ranks.
constexpr std::size_t kInlineTotal = std::size_t{32} * 1024;

}  // namespace

void MessageGroup::reduce_all(const Operation& operation) {
  const Call& call = operation.call;
  const std::size_t bytes = call.count * size_of(call.type);
  const bool to_all = call.collective == Collective::all_reduce;
  const std::size_t received = to_all ? bytes * static_cast<std::size_t>(info_.size - 1) : bytes;
  // Every rank tells every other its call whatever the algorithm, so small data goes along at once.
  if (bytes <= kInlineBytes && received <= kInlineTotal) return reduce_inline(operation);
  if (call.algorithm == Algorithm::ring) return reduce_ring(operation);
  // A tree is not used for reduce_scatter, because it would carry the slices of all ranks to one.
  const bool scattered = call.collective == Collective::reduce_scatter;
  if (call.algorithm == Algorithm::tree && !scattered) return run_tree(operation);
  reduce_cut(operation);
}

void MessageGroup::reduce_inline(const Operation& operation) {
  const Call& call = operation.call;
  const std::size_t bytes = call.count * size_of(call.type);
  const bool scattered = call.collective == Collective::reduce_scatter;
  const bool wanted = call.collective != Collective::reduce || call.root == info_.rank;
  const auto* const in = static_cast<const std::byte*>(operation.in);
  const auto part_for = [&](int rank) {
    return in + (scattered ? static_cast<std::size_t>(rank) * bytes : 0);
  };
  announce(operation, [&](int peer) {
    const bool wants = call.collective != Collective::reduce || call.root == peer;
    return wants && bytes > 0 ? Part{part_for(peer), bytes} : Part{};
  });
  agree(operation);
  if (wanted && bytes > 0) {
    std::vector<const std::byte*> sources;
    for (int rank = 0; rank < info_.size; ++rank)
      sources.push_back(rank == info_.rank ? part_for(rank) : control_.payload(rank).data());
    auto* out = static_cast<std::byte*>(operation.out);
    // A result may be one of the sources, but must not overlap one otherwise.
    const bool shifted = scattered && out != part_for(info_.rank);
    std::byte* const result = shifted ? staging(bytes) : out;
    reduce(sources, std::span(&result, 1), call.count, call.type, call.op);
    if (shifted) std::memcpy(out, result, bytes);
  }
  release_all();
}

/// The blocks of one reduction that are under way.
class MessageGroup::Reduction {
 public:
  Reduction(MessageGroup& group, const Operation& operation)
      : group_(group),
        call_(operation.call),
        cut_(call_, group.info_.size),
        rank_(group.info_.rank),
        inputs_(group.data_key(call_, 0)),
        results_(group.data_key(call_, 1)),
        received_(cut_.blocks()) {
    const auto ranks = static_cast<std::size_t>(group.info_.size);
    const Slice own = cut_.slice(rank_);
    const bool scattered = call_.collective == Collective::reduce_scatter;
    in_ = static_cast<const std::byte*>(operation.in);
    if (scattered)
      in_ = group.settled_input(operation, own.bytes * ranks, own.bytes, operation.out == in_ + own.begin);
    out_ = static_cast<std::byte*>(operation.out);
    to_all_ = call_.collective == Collective::all_reduce;
    to_root_ = call_.collective == Collective::reduce;
    const std::size_t inputs = kWindow * (ranks - 1) * cut_.block_bytes();
    const bool scratch = to_root_ && call_.root != rank_;
    staging_ = group.staging(inputs + (scratch ? own.bytes : 0));
    // This is where this rank's slice of the result goes.
    result_ = scattered ? out_ : scratch ? staging_ + inputs : out_ + own.begin;
  }

  std::size_t blocks() const { return cut_.blocks(); }

  /// Starts the exchange of the inputs of a block. This needs no agreement before, because the inputs are
  /// received into memory of our own.
  void start(std::size_t block) {
    if (block >= blocks()) return;
    const Slice own = cut_.block(rank_, block);
    for (const int peer : group_.peers()) {
      group_.receive(received_[block], peer, inputs_, place(peer, block), own.bytes);
      const Slice theirs = cut_.block(peer, block);
      queue(peer, inputs_, in_ + theirs.begin, theirs.bytes);
    }
  }

  /// Starts to receive the results of the others. The inputs that are overwritten have been sent before,
  /// because their receiver answers with the result.
  void expect(std::size_t block) {
    if (block >= blocks() || !(to_all_ || (to_root_ && call_.root == rank_))) return;
    for (const int peer : group_.peers()) {
      const Slice theirs = cut_.block(peer, block);
      group_.receive(results_under_way_, peer, results_, out_ + theirs.begin, theirs.bytes);
    }
  }

  void combine(std::size_t block) {
    const Slice own = cut_.block(rank_, block);
    send_queued();
    if (own.bytes == 0) return;
    group_.wait_all(received_[block], call_);
    sources_.clear();
    for (int rank = 0; rank < group_.info_.size; ++rank)
      sources_.push_back(rank == rank_ ? in_ + own.begin : place(rank, block));
    std::byte* const result = result_ + block * cut_.block_bytes();
    reduce(sources_, std::span(&result, 1), own.bytes / size_of(call_.type), call_.type, call_.op);
    for (const int peer : group_.peers())
      if (to_all_ || (to_root_ && peer == call_.root)) queue(peer, results_, result, own.bytes);
  }

  void finish() {
    send_queued();
    group_.wait_all(results_under_way_, call_);
    group_.wait_all(sends_, call_);
  }

 private:
  struct Queued {
    int peer;
    Key key;
    const std::byte* data;
    std::size_t bytes;
  };

  /// Sends at once if that needs no waiting, because nothing may wait before all ranks agree on the call;
  /// otherwise keeps the message for send_queued().
  void queue(int peer, Key key, const std::byte* data, std::size_t bytes) {
    if (bytes == 0) return;
    if (queued_.empty() && sends_.size() < kSendsUnderWay) {
      group_.send(sends_, peer, key, data, bytes);
    } else {
      queued_.push_back({peer, key, data, bytes});
    }
  }

  /// Sends the kept messages. This always ends, because the other ranks have offered memory for all of them
  /// before they wait here for the same block.
  void send_queued() {
    for (const Queued& next : queued_) {
      group_.wait_first(sends_, call_);
      group_.send(sends_, next.peer, next.key, next.data, next.bytes);
    }
    queued_.clear();
  }

  std::byte* place(int peer, std::size_t block) const {
    const auto ranks = static_cast<std::size_t>(group_.info_.size);
    const auto step = static_cast<std::size_t>(peer + group_.info_.size - rank_ - 1) % ranks;
    return staging_ + (block % kWindow * (ranks - 1) + step) * cut_.block_bytes();
  }

  MessageGroup& group_;
  const Call& call_;
  Cut cut_;
  int rank_;
  Key inputs_;
  Key results_;
  std::vector<Transfers> received_;
  Transfers results_under_way_;
  Transfers sends_;
  std::vector<Queued> queued_;
  std::vector<const std::byte*> sources_;
  const std::byte* in_ = nullptr;
  std::byte* out_ = nullptr;
  std::byte* staging_ = nullptr;
  std::byte* result_ = nullptr;
  bool to_all_ = false;
  bool to_root_ = false;
};

void MessageGroup::reduce_cut(const Operation& operation) {
  announce(operation, nullptr);
  Reduction reduction(*this, operation);
  for (std::size_t block = 0; block < kWindow; ++block) reduction.start(block);
  agree(operation);
  release_all();
  for (std::size_t block = 0; block < kWindow; ++block) reduction.expect(block);
  for (std::size_t block = 0; block < reduction.blocks(); ++block) {
    reduction.combine(block);
    reduction.start(block + kWindow);
    reduction.expect(block + kWindow);
  }
  reduction.finish();
}

}  // namespace muster::message
