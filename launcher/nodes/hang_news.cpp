// SPDX-License-Identifier: Apache-2.0
#include "launcher/nodes/hang_news.hpp"

#include "agent/stacks/core/hang_stacks.hpp"

#include <utility>

namespace muster::launcher {

void HangNews::told(std::size_t node, agent::HangReport hang, std::size_t nodes) {
  if (hang_ && hang_->text != hang.text) flush();
  if (!hang_ && hang.text == said_ && tellers_.insert(node).second) return;
  if (hang_) {
    agent::merge_hang_stacks(hang_->stacks, hang.stacks);
  } else {
    hang_ = std::move(hang);
    tellers_.clear();
    timer_.expires_after(kOthersWithin);
    timer_.async_wait([this](const boost::system::error_code& error) {
      if (!error) flush();
    });
  }
  tellers_.insert(node);
  if (tellers_.size() >= nodes) flush();
}

void HangNews::flush() {
  timer_.cancel();
  if (!hang_) return;
  const agent::HangReport hang = std::move(*hang_);
  hang_.reset();
  said_ = hang.text;
  const std::size_t node = *tellers_.begin();
  say_(node, hang.text);
  for (const std::string& line : agent::hang_stack_lines(hang.stacks)) say_(node, "  " + line);
}

}  // namespace muster::launcher
