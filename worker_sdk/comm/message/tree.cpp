// SPDX-License-Identifier: Apache-2.0
// The algorithm tree: a binomial tree around the root, or around rank 0. Inputs are combined on their way up,
// the result goes down, and blocks follow one another in both directions. There are as many steps as the
// binary logarithm of the ranks; the root sends the whole buffer to that many ranks.
#include "worker_sdk/comm/message/cut.hpp"
#include "worker_sdk/comm/message/message_group.hpp"
#include "worker_sdk/comm/message/partial.hpp"

#include <bit>
#include <cstring>
#include <utility>

namespace muster::message {
namespace {

/// The number of receives of partial results, of each child, that are started ahead.
constexpr std::size_t kBlocksAhead = 2;

}  // namespace

class MessageGroup::Tree {
 public:
  Tree(MessageGroup& group, const Operation& operation)
      : group_(group),
        call_(operation.call),
        cut_(call_, 1),
        sums_(call_, group.info_.size),
        up_(group.data_key(call_, 0)),
        down_(group.data_key(call_, 1)),
        goes_up_(call_.collective != Collective::broadcast),
        goes_down_(call_.collective != Collective::reduce),
        in_(static_cast<const std::byte*>(operation.in)),
        out_(static_cast<std::byte*>(operation.out)),
        received_(kBlocksAhead),
        sent_(kBlocksAhead),
        results_(cut_.blocks()) {
    const int size = group.info_.size;
    const int root = has_root(call_.collective) ? call_.root : 0;
    const int place = (group.info_.rank - root + size) % size;
    const auto rank_at = [&](int other) { return (other + root) % size; };
    int distance = 1;
    for (; distance < size && (place & distance) == 0; distance *= 2)
      if (place + distance < size) children_.push_back(rank_at(place + distance));
    is_root_ = place == 0;
    if (!is_root_) parent_ = rank_at(place - distance);
    slot_bytes_ = sums_.wide(cut_.block_bytes());
    staging_ = group.staging(kBlocksAhead * (children_.size() + 1) * slot_bytes_);
  }

  /// Runs the call. Results follow the inputs so far behind that the ranks below have passed theirs on
  /// meanwhile. A block goes up before a later one does and before any rank waits for its result, so this
  /// always ends.
  void run() {
    if (goes_down_ && !is_root_) expect_results();
    if (goes_up_) {
      for (std::size_t block = 0; block < kBlocksAhead; ++block) expect(block);
    }
    const auto height =
        static_cast<std::size_t>(std::bit_width(static_cast<unsigned>(group_.info_.size - 1)));
    const std::size_t lag = goes_up_ ? 2 * height : 0;
    for (std::size_t tick = 0; tick < cut_.blocks() + lag; ++tick) {
      if (goes_up_ && tick < cut_.blocks()) up(tick);
      if (goes_down_ && tick >= lag) down(tick - lag);
    }
    for (Transfers& sent : sent_) group_.wait_all(sent, call_);
    group_.wait_all(passed_on_, call_);
    const bool spreads = !goes_up_ && is_root_;
    if (spreads && out_ != in_) std::memmove(out_, in_, cut_.slice(0).bytes);
  }

 private:
  /// The place for a child's block. Child number children_.size() is this rank itself.
  std::byte* slot(std::size_t block, std::size_t child) const {
    return staging_ + (block % kBlocksAhead * (children_.size() + 1) + child) * slot_bytes_;
  }

  void expect(std::size_t block) {
    if (block >= cut_.blocks()) return;
    for (std::size_t child = 0; child < children_.size(); ++child)
      group_.receive(received_[block % kBlocksAhead], children_[child], up_, slot(block, child),
                     sums_.wide(cut_.block(0, block).bytes));
  }

  void expect_results() {
    for (std::size_t number = 0; number < cut_.blocks(); ++number) {
      const Slice block = cut_.block(0, number);
      group_.receive(results_[number], parent_, down_, out_ + block.begin, block.bytes);
    }
  }

  void up(std::size_t number) {
    const Slice block = cut_.block(0, number);
    const std::byte* const own = in_ + block.begin;
    group_.wait_all(received_[number % kBlocksAhead], call_);
    std::vector<const std::byte*> partials;
    for (std::size_t child = 0; child < children_.size(); ++child) partials.push_back(slot(number, child));
    if (is_root_) {
      sums_.complete(own, partials, out_ + block.begin, block.bytes);
    } else {
      Transfers& sent = sent_[number % kBlocksAhead];
      group_.wait_all(sent, call_);
      std::byte* const mine = slot(number, children_.size());
      const bool as_it_is = children_.empty() && !sums_.is_wider();
      if (!as_it_is) sums_.add(own, partials, mine, block.bytes);
      group_.send(sent, parent_, up_, as_it_is ? own : mine, sums_.wide(block.bytes));
    }
    expect(number + kBlocksAhead);
  }

  void down(std::size_t number) {
    const Slice block = cut_.block(0, number);
    group_.wait_all(results_[number], call_);
    const std::byte* const result = (is_root_ && !goes_up_ ? in_ : out_) + block.begin;
    for (auto child = children_.rbegin(); child != children_.rend(); ++child)
      group_.send(passed_on_, *child, down_, result, block.bytes);
  }

  MessageGroup& group_;
  const Call& call_;
  Cut cut_;
  Partial sums_;
  Key up_;
  Key down_;
  bool goes_up_;
  bool goes_down_;
  const std::byte* in_;
  std::byte* out_;
  int parent_ = -1;
  std::vector<int> children_;  ///< ranks of the children, nearest first
  bool is_root_ = false;
  std::byte* staging_ = nullptr;
  std::size_t slot_bytes_ = 0;
  std::vector<Transfers> received_;  ///< transfers from the children, one entry per slot
  std::vector<Transfers> sent_;      ///< transfers to the parent, one entry per slot
  std::vector<Transfers> results_;   ///< transfers of results, one entry per block
  Transfers passed_on_;
};

void MessageGroup::run_tree(const Operation& operation) {
  announce(operation, nullptr);
  agree(operation);
  release_all();
  Tree(*this, operation).run();
}

}  // namespace muster::message
