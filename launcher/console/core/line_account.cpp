// SPDX-License-Identifier: Apache-2.0
#include "launcher/console/core/line_account.hpp"

#include <algorithm>
#include <utility>

namespace muster::launcher {

LineAccount::Verdict LineAccount::offer(std::size_t size, TimePoint now) {
  if (queued_ == 0) moved_at_ = now;
  if (queued_ + size <= kQueueBytes) {
    queued_ += size;
    return Verdict::take;
  }
  if (now - moved_at_ < kSilentAfter) return Verdict::wait;
  ++lost_;
  return Verdict::drop;
}

void LineAccount::written(std::size_t size, TimePoint now) {
  queued_ -= std::min(size, queued_);
  moved_at_ = now;
}

std::int64_t LineAccount::take_lost() {
  return std::exchange(lost_, 0);
}

}  // namespace muster::launcher
